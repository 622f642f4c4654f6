"""How much do neighbouring inputs show? A lower bound on epsilon that holds whatever the mechanism is.

If y and y' lie ``precision`` apart, then P(x in E | y) <= exp(epsilon) * P(x in E | y') for every event E. One
half of the samples chooses the event E (a tail, or one value, either way round) that looks worst; on the other
half, log of the Clopper-Pearson lower bound of P(E|y) over the upper bound of P(E|y') bounds epsilon from below.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from countveil.auditing.check import FALSE_ALARM, Check, Mechanism, noise_on
from countveil.privacy import Guarantee

CONFIDENCE = 0.999
SHOWN = 0.9  # of epsilon: a bound below that says little
ENOUGH = 0.97  # of epsilon: what samples must be able to show before a lower bound counts as a fault


def check_epsilon(mechanism: Mechanism, guarantee: Guarantee, size: int) -> Check:
    """Compare 0 with ``precision`` in one cell: the furthest apart that epsilon covers."""
    near, far, each = 0, min(guarantee.precision, 2**40), size // 4  # 2**40: an array must hold it
    one, other = (
        [noise_on(mechanism, guarantee, np.full(each, count)) + count for _ in range(2)]
        for count in (near, far)
    )
    event = _worst_event(one[0], other[0])
    hits = [int(event(samples).sum()) for samples in (one[1], other[1])]
    more, less = max(hits), min(hits)
    shown = _bound(more, less, each, 1 - CONFIDENCE)
    sure = _bound(more, less, each, FALSE_ALARM)
    epsilon = float(guarantee.loss(far - near))
    numbers = {"epsilon": epsilon, "lower bound": shown}
    name = "epsilon from neighbours"
    if sure > epsilon:
        return Check(name, False, "they show more than was promised", numbers)
    likely = each / (1 + guarantee.alpha)  # how often a right mechanism gives x <= 0, from 0
    possible = _bound(int(likely), int(likely * np.exp(-epsilon)), each, 1 - CONFIDENCE)
    if shown < SHOWN * epsilon and possible > ENOUGH * epsilon:
        return Check(name, False, "they show much less than was promised: this is another mechanism", numbers)
    weak = shown < SHOWN * epsilon
    told = "they show no more than was promised"
    return Check(
        name, True, told + (", but samples are too few to show as much" if weak else ""), numbers, weak
    )


def _bound(more: int, less: int, size: int, alarm: float) -> float:
    """log of (lower bound of the larger chance / upper bound of the smaller), each wrong with alarm/2."""
    low = stats.beta.ppf(alarm / 2, more, size - more + 1) if more else 0.0
    high = stats.beta.ppf(1 - alarm / 2, less + 1, size - less) if less < size else 1.0
    return float(np.log(low / high)) if low > 0 else -np.inf


class _worst_event:  # noqa: N801 (a function that remembers its choice)
    """The event for which the first half of the samples gives the largest bound."""

    def __init__(self, one: np.ndarray, other: np.ndarray) -> None:
        size = len(one)
        places = np.unique(np.quantile(np.concatenate([one, other]), np.linspace(0, 1, 201)).astype(np.int64))
        ordered = np.sort(one), np.sort(other)
        best = -np.inf
        for kind in ("<=", ">", "=="):
            for place in places:
                hits = [self._count(samples, kind, int(place)) for samples in ordered]
                bound = _bound(max(hits), min(hits), size, FALSE_ALARM)  # strict: no rare event by luck
                if bound > best:
                    best, self.kind, self.place = bound, kind, int(place)
        if best == -np.inf:
            self.kind, self.place = "<=", 0

    @staticmethod
    def _count(ordered: np.ndarray, kind: str, place: int) -> int:
        below, through = np.searchsorted(ordered, [place, place + 1], side="left")
        return int({"<=": through, ">": len(ordered) - through, "==": through - below}[kind])

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        if self.kind == "==":
            return samples == self.place
        return samples <= self.place if self.kind == "<=" else samples > self.place
