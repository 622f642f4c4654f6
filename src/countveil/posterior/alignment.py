"""Topics of all draws brought into one order.

Topics come in any order, and the order may differ between chains and change within one: averaging before
aligning averages different things. With r = sqrt(p) for a topic p, the affinity of two topics is r . r' =
sum_v sqrt(p_v p'_v) (Bhattacharyya: 1 for equal topics, 0 for topics without a common word). Every draw is put
into the order with the largest total affinity with the mean root of all draws, an optimal assignment, until no
order changes. Each step can only raise the affinity summed over all pairs of draws, so that this ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

#: Two or three are enough as a rule.
MOST_ROUNDS = 20


class Alignment(NamedTuple):
    """For every draw the topic of that draw that stands at each place, and how well it fits there."""

    order: np.ndarray  # int (draws, topics): place k of draw s is its topic order[s, k]
    agreement: np.ndarray  # (topics): mean affinity of a topic in two different draws; NaN for a single draw


def align(topics: np.ndarray) -> Alignment:
    """Align (draws, topics, words) weights; places are ordered by nothing in particular.

    >>> weights = np.array([[[8.0, 2.0], [0.0, 5.0]], [[0.0, 4.0], [8.0, 2.0]]])
    >>> align(weights)
    Alignment(order=array([[1, 0],
           [0, 1]]), agreement=array([1., 1.]))
    """
    # Roots are computed again in every round: all of them at once would double the memory of the draws.
    reference, order = _root(topics[-1]), np.zeros((0, 0), dtype=np.int64)
    for _ in range(MOST_ROUNDS):
        before, order = order, np.stack([_match(reference, _root(draw)) for draw in topics])
        if np.array_equal(before, order):
            break
        reference = np.zeros(reference.shape)
        for draw, places in zip(topics, order, strict=True):
            reference += _root(draw)[places] / len(topics)
    return Alignment(order, _agreement(topics, order))


def in_order(
    topics: np.ndarray, mass: np.ndarray, order: np.ndarray | None = None
) -> tuple[Alignment, np.ndarray]:
    """Aligned draws, and the mean share of every place in ``mass`` (draws, topics), the largest first.

    Where an ``order`` is given the draws stay in it.

    >>> weights = np.array([[[8.0, 2.0], [0.0, 5.0]], [[0.0, 4.0], [8.0, 2.0]]])
    >>> in_order(weights, np.array([[9.0, 1.0], [1.0, 9.0]]))[1]
    array([0.9, 0.1])
    """
    found = align(topics) if order is None else Alignment(order, _agreement(topics, order))
    share = shares_of(np.take_along_axis(mass, found.order, axis=1)).mean(axis=0)
    if order is not None:
        return found, share
    places = np.argsort(-share, kind="stable")
    return Alignment(found.order[:, places], found.agreement[places]), share[places]


def shares_of(mass: np.ndarray) -> np.ndarray:
    """Along the last axis, each over their sum."""
    return mass / np.maximum(mass.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)


def _root(draw: np.ndarray) -> np.ndarray:
    """Roots of the topics of one draw, each of length 1 (or 0, where all weights underflowed)."""
    weights = draw.astype(np.float64)
    return np.sqrt(weights / np.maximum(weights.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny))


def _match(reference: np.ndarray, root: np.ndarray) -> np.ndarray:
    """The draw's topic for each place of the reference."""
    # For a square matrix the places come back as 0, 1, 2, ...
    return linear_sum_assignment(reference @ root.T, maximize=True)[1]


def _agreement(topics: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Mean of r_s . r_t over draws s != t: (|sum_s r_s|^2 - sum_s |r_s|^2) / (S (S - 1))."""
    n_draws, n_topics, width = topics.shape
    if n_draws == 1:
        return np.full(n_topics, np.nan)
    total, lengths = np.zeros((n_topics, width)), np.zeros(n_topics)
    for draw, places in zip(topics, order, strict=True):
        root = _root(draw)[places]
        total += root
        lengths += (root**2).sum(axis=1)
    mean = ((total**2).sum(axis=1) - lengths) / (n_draws * (n_draws - 1))
    return np.clip(mean, 0.0, 1.0)
