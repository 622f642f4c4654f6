"""In how many documents words occur, alone and together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from countveil.counts.true_counts import read_true_counts
from countveil.counts.whole_numbers import sparse_rows


class CoOccurrence(NamedTuple):
    """Numbers of documents. ``alone`` (..., n) is of each word, ``together`` (..., n, n) of each two."""

    n_documents: int
    alone: np.ndarray
    together: np.ndarray


def co_occurrence(top_words: Any, counts: Any) -> CoOccurrence:
    """Document frequencies of the words of each topic; a word occurs where its count is positive."""
    shape = read_true_counts(counts).shape
    if len(shape) != 2:
        raise ValueError(f"counts: expected 2 axes, documents and words, got {len(shape)}")
    n_documents, n_words = shape
    topics = _checked(top_words, n_words)
    given = sparse_rows(counts, "counts") if sparse.issparse(counts) else np.asarray(counts)
    occurs = sparse.csc_array(given)
    # The words of all topics are few: their whole table of pairs is small.
    words, position = np.unique(topics, return_inverse=True)
    position = position.reshape(topics.shape)
    found = (occurs[:, words] > 0).astype(np.int64)
    table = (found.T @ found).toarray()
    return CoOccurrence(
        n_documents, table[position, position], table[position[..., :, None], position[..., None, :]]
    )


def _checked(top_words: Any, n_words: int) -> np.ndarray:
    topics = np.asarray(top_words)
    if topics.dtype.kind not in "iu":
        raise TypeError(f"top_words: expected column indices (whole numbers), got {topics.dtype}")
    if topics.ndim < 1 or topics.shape[-1] < 2:
        raise ValueError(f"top_words: expected shape (topics, n) with n of at least 2, got {topics.shape}")
    if topics.size and not (topics.min() >= 0 and topics.max() < n_words):
        raise ValueError(
            f"top_words: expected indices from 0 to {n_words - 1}, "
            f"got some from {topics.min()} to {topics.max()}"
        )
    in_order = np.sort(topics, axis=-1)
    if (in_order[..., 1:] == in_order[..., :-1]).any():
        raise ValueError("top_words: expected different words within a topic, got one twice")
    return topics
