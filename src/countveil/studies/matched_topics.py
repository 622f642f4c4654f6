"""Topics of several fits side by side: which of theirs is which of ours."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment


class MatchedTopics(NamedTuple):
    """For every reference topic the other fit's topic, and how alike the two are (1 = identical)."""

    order: np.ndarray
    affinity: np.ndarray


def match_topics(reference: Any, other: Any) -> MatchedTopics:
    """The one-to-one assignment with the largest total affinity sum_v sqrt(p_v q_v) (Bhattacharyya).

    Both are (topics, words) arrays of weights >= 0, as many topics in one as in the other.

    >>> match_topics([[1, 0, 0], [0, 1, 1]], [[0, 2, 2], [3, 0, 0]]).order
    array([1, 0])
    """
    ours, theirs = _roots(reference), _roots(other)
    if ours.shape != theirs.shape:
        raise ValueError(f"other: expected the shape of reference, {ours.shape}, got {theirs.shape}")
    affinity = ours @ theirs.T
    _, order = linear_sum_assignment(affinity, maximize=True)
    return MatchedTopics(order, np.minimum(affinity[np.arange(len(ours)), order], 1.0))


def _roots(weights: Any) -> np.ndarray:
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"topics: expected shape (topics, words), got {array.shape}")
    return np.sqrt(array / np.maximum(array.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))
