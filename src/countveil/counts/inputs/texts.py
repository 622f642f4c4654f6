"""Texts, counted over a vocabulary that was declared before anyone looked at them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse

from countveil.counts.foreign import comes_from
from countveil.counts.inputs.arrays import LabelledCounts, SparseCounts
from countveil.counts.inputs.forms import of_texts
from countveil.counts.inputs.labels import axis_labels, label_index, must_declare, origin, read_labels
from countveil.counts.inputs.options import InputOptions
from countveil.counts.inputs.tables import as_table, labels_of_rows


def read_texts(texts: Any, options: InputOptions) -> LabelledCounts:
    """Count the words of the vocabulary in every text; all other words are left out."""
    options.expect("texts", "vocabulary")
    if options.columns is not None:
        raise ValueError("columns: expected none with texts, whose columns are the vocabulary")
    if options.vocabulary is None:
        raise must_declare("vocabulary")
    if not isinstance(texts, Iterable) or _is_something_else(texts):
        raise TypeError(f"counts: expected a list of texts, got {type(texts).__name__}")
    axes, (rows, others) = options.declared(2)
    if others is not None:
        raise ValueError("labels: expected None for the words, which the vocabulary declares, got labels")
    rows = list(rows) if isinstance(rows, Iterator) else rows
    series: Any = texts
    table = as_table(series.to_frame()) if comes_from(texts, "pandas", "Series") else None
    found = None if table is None else labels_of_rows(table, rows)
    texts, places, n_rows, row_labels = list(texts), None, 0, rows
    if found is not None:  # a Series has labels: its rows are found by them, as those of a table
        along = label_index(rows, found, "row", "rows", public=options.public_labels, ordered=True)
        places, n_rows, row_labels = along.places(found), len(along), along.labels
        texts = [text for text, place in zip(texts, places, strict=True) if place >= 0]
        places = places[places >= 0]
    if (not texts and places is None) or not all(isinstance(text, str) for text in texts):
        raise TypeError("counts: expected a list of texts, got none or something else among them")
    vectorizer = _vectorizer(options.vocabulary)
    words = [str(word) for word in vectorizer.get_feature_names_out()]
    counted = _count(vectorizer, texts) if texts else sparse.csr_array((0, len(words)), dtype=np.int64)
    if places is not None:  # texts of the same label add up
        ones = np.ones(len(places), np.int64)
        counted = sparse.csr_array((ones, (places, np.arange(len(places)))), (n_rows, len(places))) @ counted
    counts = SparseCounts(counted)
    names, labels = read_labels((row_labels, words), counts.shape, axes)
    said = str(of_texts(vectorizer))
    origins = (origin(rows, found=found is not None), "declared")
    rows_by = "" if table is None else table.rows_by
    return LabelledCounts(counts, names, labels, "texts", origins, said, rows_by)


def _is_something_else(texts: Any) -> bool:
    """What would be gone through by its keys, by names of columns, by nodes, or in an order of chance."""
    if isinstance(texts, str | bytes | Mapping | set | frozenset) or comes_from(texts, "networkx", "Graph"):
        return True
    return as_table(texts) is not None


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
