"""Texts, counted over a vocabulary that was declared before anyone looked at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse

from countveil.counts.foreign import comes_from
from countveil.counts.inputs.arrays import LabelledCounts, SparseCounts
from countveil.counts.inputs.forms import (
    counts_its_own_way,
    finds_words_its_own_way,
    of_texts,
    prepares_texts_its_own_way,
)
from countveil.counts.inputs.frames import as_table
from countveil.counts.inputs.labels import (
    axis_labels,
    label_index,
    listed,
    must_declare,
    origin,
    read_labels,
    tell_of_unlabelled,
)
from countveil.counts.inputs.labels_of_tables import labels_of_rows
from countveil.counts.inputs.options import InputOptions
from countveil.privacy.guarantee import shown

#: Letters of a word that an error shows.
_LONGEST_QUOTED = 20


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
    rows = None if rows is None else listed(rows, "row")
    series: Any = texts
    table = as_table(series.to_frame()) if comes_from(texts, "pandas", "Series") else None
    found = None if table is None else labels_of_rows(table, rows)
    row_labels: Any = rows
    texts, places, n_rows = list(texts), None, 0
    if found is not None:  # a Series has labels: its rows are found by them, as those of a table
        along = label_index(rows, found, "row", "rows", public=options.public_labels, ordered=True)
        places, n_rows, row_labels = along.places(found), len(along), along.labels
        if rows is None:
            tell_of_unlabelled(places, "rows")
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
        vectorizer = import_module("sklearn.base").clone(vocabulary).set_params(dtype=np.int64)
        least, most = vectorizer.ngram_range
        if not all(isinstance(n, int | np.integer) for n in (least, most)) or not 1 <= least <= most:
            # scikit-learn takes others, of which nobody knows what they count.
            raise ValueError(
                "vocabulary: expected a CountVectorizer with an ngram_range of whole numbers (a, b), 1 <= a <= b, "
                f"got {shown(vectorizer.ngram_range)}"
            )
        if vectorizer.input != "content":
            raise ValueError(
                "vocabulary: expected a CountVectorizer that is given texts (input='content'), got one that would "
                "read files"
            )
        if counts_its_own_way(vectorizer):
            raise TypeError(
                "vocabulary: expected a CountVectorizer that counts as scikit-learn's does, got one with a "
                "transform of its own: how many counts one word moves is not known"
            )
        _check_words(vectorizer)
        return vectorizer
    words = axis_labels(vocabulary, "vocabulary").tolist()
    try:
        counter = import_module("sklearn.feature_extraction.text").CountVectorizer
    except ImportError as error:
        raise ImportError("privatizing texts needs scikit-learn: pip install scikit-learn") from error
    vectorizer = counter(vocabulary=words)
    _check_words(vectorizer)
    return vectorizer


def _check_words(vectorizer: Any) -> None:
    """Refuse words that scikit-learn's ways find in no text, not even in themselves: columns of noise alone."""
    if prepares_texts_its_own_way(vectorizer):
        return
    prepare, find = vectorizer.build_preprocessor(), vectorizer.build_analyzer()
    is_found_alone = not finds_words_its_own_way(vectorizer)
    # Pieces of words may begin or end with the space around them.
    around = "" if vectorizer.analyzer == "word" else "x"
    for word in vectorizer.get_feature_names_out():
        if prepare(str(word)) != word or (is_found_alone and word not in find(around + word + around)):
            # What is long may be a text that stands in their place.
            got = repr(str(word)) if len(word) <= _LONGEST_QUOTED else "one of many letters"
            raise ValueError(
                f"vocabulary: expected words as they are found in texts, got {got}, which never is: unless "
                "CountVectorizer(vocabulary=..., lowercase=..., token_pattern=..., ngram_range=...) says otherwise "
                "letters are lowered, and words are two letters or more without signs and spaces"
            )


def _count(vectorizer: Any, texts: list[str]) -> Any:
    try:
        return vectorizer.transform(texts)
    except Exception as error:
        failed = type(error).__name__
    # Raised out here so that a message that quotes a text does not travel along as context.
    raise ValueError(f"vocabulary: its vectorizer failed on the texts with {failed}")
