"""Topics of all draws brought into one order.

Topics come in any order, and the order may differ between chains and change within one: averaging before
aligning averages different things. Every draw is matched to a common reference by the permutation of topics
with the largest total affinity sum_v sqrt(p_v q_v) (Bhattacharyya), an optimal assignment; the reference is
first one draw, then the mean of the draws so aligned.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment


class Alignment(NamedTuple):
    """For every draw the topic of that draw that stands at each place, and how well it fits there."""

    order: np.ndarray  # int (draws, topics): place k of draw s is its topic order[s, k]
    agreement: np.ndarray  # (topics): mean affinity of the draws' topics with their consensus, 1 = identical


def align(topics: np.ndarray) -> Alignment:
    """Align (draws, topics, words) weights; places are ordered by nothing in particular."""
    roots = np.sqrt(topics / np.maximum(topics.sum(axis=-1, keepdims=True), np.finfo(np.float32).tiny))
    reference = roots[-1]
    for _ in range(2):
        order = np.stack([_match(reference, draw) for draw in roots])
        consensus = np.zeros(reference.shape)
        for draw, places in zip(roots, order, strict=True):
            consensus += draw[places].astype(np.float64) ** 2
        reference = np.sqrt(consensus / len(roots))
    affinity = [np.einsum("kv,kv->k", reference, d[o]) for d, o in zip(roots, order, strict=True)]
    return Alignment(order, np.minimum(np.mean(affinity, axis=0), 1.0))


def _match(reference: np.ndarray, draw: np.ndarray) -> np.ndarray:
    """The draw's topic for each place of the reference."""
    places, chosen = linear_sum_assignment(reference @ draw.T, maximize=True)
    order = np.empty(len(places), dtype=np.int64)
    order[places] = chosen
    return order
