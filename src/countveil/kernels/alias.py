"""Alias tables: one column of many in constant time.

Walker (1977) in the construction of Vose (1991). Slot i keeps itself with probability ``keep[i]`` and else
gives ``other[i]``; an entry of weight zero is never drawn.
"""

from __future__ import annotations

import numpy as np

from countveil.kernels.uniform import uniform
from countveil.runtime.compiled import compiled


@compiled
def build_alias(weights, keep, other, work):
    """Fill ``keep`` (float64) and ``other`` (int) for ``weights``; ``work`` is scratch of the same length.

    Returns the sum of the weights; if that is zero, all entries count as equal.
    """
    n = len(weights)
    total = 0.0
    heaviest = 0
    for i in range(n):
        total += weights[i]
        if weights[i] > weights[heaviest]:
            heaviest = i
    if total <= 0.0:
        for i in range(n):
            keep[i] = 1.0
            other[i] = i
        return 0.0
    # `work` holds the slots still to fill: too light ones from the front, too heavy ones from the back.
    light = 0
    heavy = n
    for i in range(n):
        keep[i] = weights[i] / total * n
        if keep[i] < 1.0:
            work[light] = i
            light += 1
        else:
            heavy -= 1
            work[heavy] = i
    while light > 0 and heavy < n:
        light -= 1
        i = work[light]
        j = work[heavy]
        other[i] = j
        keep[j] -= 1.0 - keep[i]
        if keep[j] < 1.0:
            heavy += 1
            work[light] = j
            light += 1
    # Rounding leaves a few slots unpaired, all of them full up to rounding; but one of weight zero must not
    # be drawn, so it hands everything on.
    while heavy < n:
        keep[work[heavy]] = 1.0
        other[work[heavy]] = work[heavy]
        heavy += 1
    while light > 0:
        light -= 1
        i = work[light]
        keep[i] = 1.0 if weights[i] > 0.0 else 0.0
        other[i] = i if weights[i] > 0.0 else heaviest
    return total


@compiled
def draw_alias(stream, keep, other):
    """``(i, stream)``, P(i) = weights[i] / sum(weights)."""
    u, stream = uniform(stream)
    u *= len(keep)
    i = np.int64(u)
    if i == len(keep):  # rounding
        i -= 1
    if u - i < keep[i]:
        return i, stream
    return np.int64(other[i]), stream
