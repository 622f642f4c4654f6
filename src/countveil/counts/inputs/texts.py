"""Texts, counted over a vocabulary that was declared before anyone looked at them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np

from countveil.counts.inputs.arrays import LabelledCounts, SparseCounts
from countveil.counts.inputs.forms import of_texts
from countveil.counts.inputs.labels import axis_labels, must_declare, origin, read_labels
from countveil.counts.inputs.options import InputOptions, comes_from


def read_texts(texts: Any, options: InputOptions) -> LabelledCounts:
    """Count the words of the vocabulary in every text; all other words are left out."""
    options.expect("texts", "vocabulary")
    if options.columns is not None:
        raise ValueError("columns: expected none with texts, whose columns are the vocabulary")
    if options.vocabulary is None:
        raise must_declare("vocabulary")
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise TypeError(f"counts: expected a list of texts, got {type(texts).__name__}")
    texts = list(texts)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise TypeError("counts: expected a list of texts, got none or something else among them")
    vectorizer = _vectorizer(options.vocabulary)
    words = [str(word) for word in vectorizer.get_feature_names_out()]
    counts = SparseCounts(_count(vectorizer, texts))
    axes, (rows, _) = options.declared(2)
    names, labels = read_labels((rows, words), counts.shape, axes)
    said = str(of_texts(vectorizer))
    return LabelledCounts(counts, names, labels, "texts", (origin(rows), "declared"), said)


def _vectorizer(vocabulary: Any) -> Any:
    if comes_from(vocabulary, "sklearn"):
        if not comes_from(vocabulary, "sklearn", "CountVectorizer") or hasattr(vocabulary, "use_idf"):
            kind = type(vocabulary).__name__
            raise TypeError(f"vocabulary: expected words or scikit-learn's CountVectorizer, got {kind}")
        if vocabulary.vocabulary is None:
            raise must_declare("vocabulary")  # this one would learn, or has learned, its words from texts
        # A copy without what it learned before, and with a type in which counts do not wrap around.
        return import_module("sklearn.base").clone(vocabulary).set_params(dtype=np.int64)
    words = axis_labels(vocabulary, "vocabulary").tolist()
    try:
        counter = import_module("sklearn.feature_extraction.text").CountVectorizer
    except ImportError as error:
        raise ImportError("privatizing texts needs scikit-learn: pip install scikit-learn") from error
    return counter(vocabulary=words)


def _count(vectorizer: Any, texts: list[str]) -> Any:
    try:
        return vectorizer.transform(texts)
    except Exception as error:
        failed = type(error).__name__
    # Raised out here so that a message that quotes a text does not travel along as context.
    raise ValueError(f"vocabulary: its vectorizer failed on the texts with {failed}")
