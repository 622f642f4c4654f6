"""The words by which a topic is shown, and how well they go together in documents."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from countveil.counts.inputs.arrays import read_true_counts, sparse_rows


def top_words(topic_weights: Any, n: int = 10) -> np.ndarray:
    """Column indices of the ``n`` heaviest words of each topic, heaviest first.

    Words of equal weight come in the order of their index, so the answer does not depend on the machine.

    Parameters
    ----------
    topic_weights
        Shape (..., topics, words); leading axes, e.g. of draws, are kept.
    n
        How many words, at most as many as there are.

    Examples
    --------
    >>> from countveil.evaluation import top_words
    >>> top_words([[0.1, 0.7, 0.2], [0.4, 0.2, 0.4]], n=2)
    array([[1, 2],
           [0, 2]])
    """
    weights = np.asarray(topic_weights)
    if weights.dtype.kind not in "iuf":
        raise TypeError(f"topic_weights: expected numbers, got {weights.dtype}")
    if weights.ndim < 2:
        raise ValueError(f"topic_weights: expected shape (..., topics, words), got {weights.shape}")
    if np.isnan(weights).any():
        raise ValueError("topic_weights: expected numbers, got NaN")
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or not 1 <= n <= weights.shape[-1]:
        raise ValueError(f"n: expected a whole number from 1 to {weights.shape[-1]}, got {n!r}")
    # Sorting the negative weights stably keeps ties in order of index.
    return np.argsort(-weights.astype(np.float64), axis=-1, kind="stable")[..., :n]


def npmi(top_words: Any, counts: Any) -> np.ndarray:
    """The mean over pairs of a topic's words of ``log(p_ij / (p_i * p_j)) / -log(p_ij)``.

    ``p_i`` is the share of documents in which word i occurs, ``p_ij`` that in which both do (Bouma, 2009; for
    topics Lau, Newman and Baldwin, 2014). A pair that never occurs together has -1, so a word that occurs in
    no document has -1 with every other; independent words have 0; words that only occur together have 1, also
    when they occur in every document (``p_ij = 1``). No constant is added to the frequencies, as some
    libraries do and disagree about.

    Parameters
    ----------
    top_words
        Column indices, shape (topics, n), n at least 2, as ``top_words`` gives them.
    counts
        The reference corpus: documents x words, an array or a scipy.sparse matrix. A word occurs where > 0.

    Returns
    -------
    One value from -1 to 1 for every topic.

    Examples
    --------
    >>> import numpy as np
    >>> from countveil.evaluation import npmi
    >>> counts = np.array([[2, 1, 0], [1, 3, 0], [0, 0, 1], [0, 0, 5]])
    >>> npmi([[0, 1], [0, 2]], counts)
    array([ 1., -1.])
    """
    found = _co_occurrence(top_words, counts)
    n = found.alone.shape[-1]
    first, second = np.triu_indices(n, k=1)
    both = found.together[..., first, second]
    log_total = np.log(found.n_documents)
    # Pairs without a value of their own get a harmless frequency here and their value below.
    usual = (both > 0) & (both < found.n_documents)
    log_both = np.log(np.where(usual, both, 1))
    log_apart = np.log(np.where(usual, found.alone[..., first], 1)) + np.log(
        np.where(usual, found.alone[..., second], 1)
    )
    below = np.where(usual, log_total - log_both, 1.0)
    value = np.where(usual, (log_both + log_total - log_apart) / below, np.where(both > 0, 1.0, -1.0))
    return value.mean(axis=-1)


def coherence(top_words: Any, counts: Any) -> np.ndarray:
    """The sum over pairs of a topic's words, m after l, of ``log((D(v_m, v_l) + 1) / D(v_l))``.

    ``D(v)`` is the number of documents in which word v occurs, ``D(v, w)`` that in which both do, and words
    come in order of weight (Mimno, Wallach, Talley, Leenders and McCallum, "Optimizing semantic coherence in
    topic models", EMNLP 2011, equation 1). It is a sum, so it depends on how many words are taken: compare
    only values of the same n. Higher is better.

    The formula has no value where ``D(v_l) = 0``: a topic found in noisy counts can be headed by a word that
    the true corpus does not contain. Leaving such a pair out, or taking D as 1, would give it 0, nearly the
    best value there is, and a topic of words that nobody wrote would win. Such a pair therefore counts as the
    lowest value a pair can take among N documents, ``log(1 / N)``. (``npmi`` likewise gives its lowest, -1.)

    Parameters
    ----------
    top_words
        Column indices, shape (topics, n), n at least 2, heaviest first, as ``top_words`` gives them.
    counts
        The reference corpus: documents x words, an array or a scipy.sparse matrix. A word occurs where > 0.

    Returns
    -------
    One value for every topic.

    Examples
    --------
    >>> import numpy as np
    >>> from countveil.evaluation import coherence
    >>> counts = np.array([[2, 1, 0], [1, 3, 0], [0, 1, 1], [0, 0, 5]])
    >>> coherence([[0, 1], [2, 0]], counts).round(4)  # log(3/2), log(1/2)
    array([ 0.4055, -0.6931])
    """
    found = _co_occurrence(top_words, counts)
    earlier, later = np.triu_indices(found.alone.shape[-1], k=1)
    together = found.together[..., earlier, later]
    alone = found.alone[..., earlier]
    value = np.log(np.where(alone > 0, together + 1, 1)) - np.log(
        np.where(alone > 0, alone, found.n_documents)
    )
    return value.sum(axis=-1)


class _CoOccurrence(NamedTuple):
    """Numbers of documents. ``alone`` (..., n) is of each word, ``together`` (..., n, n) of each two."""

    n_documents: int
    alone: np.ndarray
    together: np.ndarray


def _co_occurrence(top_words: Any, counts: Any) -> _CoOccurrence:
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
    return _CoOccurrence(
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
