"""Does the noise have its exact law, on counts of every size, alone and mixed, in arrays of one to three axes?"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import stats

from countveil.auditing.check import (
    FALSE_ALARM,
    MIN_EXPECTED,
    POWER,
    Check,
    Mechanism,
    check_pvalue,
    noise_on,
)
from countveil.auditing.trials import CONSTANTS, any_half, kinds, large_trials
from countveil.privacy import Guarantee

OFF = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)  # relative errors of rho, one of which is named as found


def cdf(rho: float, k: np.ndarray) -> np.ndarray:
    """P(tau <= k) = 1 - a**(k+1)/(1+a) for k >= 0 and a**-k/(1+a) below, a = exp(-rho)."""
    tail = np.exp(-rho * np.where(k < 0, -k, k + 1.0)) / (1 + np.exp(-rho))
    return np.where(k < 0, tail, 1 - tail)


def chances(rho: float, edges: np.ndarray) -> np.ndarray:
    """Of the intervals (edge, edge], the open ones at both ends included."""
    return np.diff(np.concatenate([[0.0], cdf(rho, edges), [1.0]]))


def _chances_of_other(rho: float, other: float, edges: np.ndarray, clamped: bool) -> np.ndarray:
    if not clamped:
        return chances(other, edges)
    zero = np.zeros(1, np.int64)
    below = cdf(rho, edges) * (cdf(other, zero) / cdf(rho, zero))
    return np.diff(np.concatenate([[0.0], np.where(edges <= 0, below, cdf(other, edges)), [1.0]]))


def groups(rho: float, size: int) -> np.ndarray:
    """Edges of at most some 200 intervals, each expecting enough of ``size`` samples; none where noise is rare.

    Those of four binary digits of the size, rounded down: an audit asks for thousands of sizes, and some dozens do.
    """
    unit = 1 << max(int(size).bit_length() - 4, 0)
    return _groups(rho, size // unit * unit)


@cache
def _groups(rho: float, size: int) -> np.ndarray:
    reach = max(np.log(max(size / (2 * MIN_EXPECTED), 1)) / rho, 1.0)
    number = min(201, size // MIN_EXPECTED + 2)  # more would be deleted again, one by one
    edges = np.unique(np.round(np.linspace(-reach - 1, reach, number)).astype(np.int64))
    while len(edges):
        poor = np.flatnonzero(chances(rho, edges) * size < MIN_EXPECTED)
        if not len(poor):
            break
        edges = np.delete(edges, min(int(poor[0]), len(edges) - 1))
    edges.setflags(write=False)
    return edges


def fit_pvalue(noise: np.ndarray, rho: float) -> float:
    """Chi-square against the law with this rho; where noise is rare, an exact test of how rare it is."""
    noise = noise.ravel()
    edges = groups(rho, len(noise))
    if not len(edges):
        rare = 2 * np.exp(-rho) / (1 + np.exp(-rho))
        return float(stats.binomtest(np.count_nonzero(noise), len(noise), rare).pvalue) if len(noise) else 1.0
    expected = chances(rho, edges) * len(noise)
    observed = np.diff(np.concatenate([[0], _up_to(noise, edges), [len(noise)]]))
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(edges)))


def _up_to(noise: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """How many values are at most each edge."""
    low, high = int(edges[0]), int(edges[-1])
    if high - low < 2**16:  # a tally is much quicker than sorting
        tally = np.bincount(np.clip(noise, low, high + 1) - low, minlength=high - low + 2)
        return np.cumsum(tally)[edges - low]
    return np.searchsorted(np.sort(noise), edges, side="right")


def smallest_error(rho: float, size: int, tests: int, *, clamped: bool = False) -> float | None:
    """The relative error of rho that ``fit_pvalue``, one of so many tests, finds with POWER; None if above 10 %.

    By the noncentral chi-square, with noncentrality ``size * sum (p' - p)**2 / p``. In a release without negative
    values (``clamped``) of cells without a count, what is not positive was drawn anew, by the right rate.
    """
    edges = groups(rho, size)
    if not len(edges):
        return None
    right = chances(rho, edges)
    limit = stats.chi2.isf(FALSE_ALARM / tests, len(edges))
    for off in OFF:
        away = min(
            float(
                ((_chances_of_other(rho, rho * (1 + sign * off), edges, clamped) - right) ** 2 / right).sum()
            )
            for sign in (-1, 1)
        )
        if stats.ncx2.sf(limit, len(edges), size * away) >= POWER:
            return off
    return None


def extremes_pvalue(noise: np.ndarray, rho: float) -> float:
    """Whether the largest noise is of the size it should be: clipped noise protects nobody at the clip."""
    largest = float(np.abs(noise).max())
    # P(abs(tau) <= m) = 1 - 2 * a**(m+1) / (1+a)
    beyond, reached = (2 * np.exp(-rho * k) / (1 + np.exp(-rho)) for k in (largest + 1, largest))
    too_small = np.exp(-len(noise) * beyond)
    too_large = min(1.0, len(noise) * reached) if largest else 1.0
    return float(min(1.0, 2 * min(too_small, too_large)))


def check_law(mechanism: Mechanism, guarantee: Guarantee, size: int) -> list[Check]:
    """The law on constant and on mixed arrays; by what the count is (``kinds``), and of all together."""
    rho, rng = guarantee.rho, np.random.default_rng()
    parts = [
        noise_on(mechanism, guarantee, np.full(size // (2 * len(CONSTANTS)), count)) for count in CONSTANTS
    ]
    half = any_half(rng)
    by_kind: list[list[np.ndarray]] = [[] for _ in kinds(np.zeros(0, dtype=np.int64), half)]
    for counts in large_trials(size // 2, rng):
        noise = noise_on(mechanism, guarantee, counts)
        parts.append(noise.ravel())
        for collected, chosen in zip(by_kind, kinds(counts, half), strict=True):
            collected.append(noise[chosen])
    everything = np.concatenate(parts)
    parts += [np.concatenate(collected) for collected in by_kind] + [everything]
    positive, negative = int((everything > 0).sum()), int((everything < 0).sum())
    sign = stats.binomtest(positive, positive + negative).pvalue if positive + negative else 1.0
    error = smallest_error(rho, len(everything), len(parts))
    return [
        check_pvalue(
            "law of the noise",
            min(fit_pvalue(part, rho) for part in parts) * len(parts),
            "fits",
            "is another one",
            finds=f"a rate off by {error:.1%}" if error else "no rate off by 10 %: more samples are needed",
            weak=error is None,
        ),
        check_pvalue(
            "largest noise", extremes_pvalue(everything, rho), "as far out as it should be", "is not"
        ),
        check_pvalue("sign of the noise", float(sign), "positive as often as negative", "is biased"),
    ]
