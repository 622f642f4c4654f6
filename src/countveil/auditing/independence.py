"""Is noise shared between cells, or between calls?"""

from __future__ import annotations

import numpy as np
from scipy import stats

from countveil.auditing.law import cdf
from countveil.auditing.mechanism import FALSE_ALARM, FEWEST, Mechanism, noise_on
from countveil.auditing.report import Check
from countveil.privacy import Guarantee

LAGS = (1, 2, 3, 1000)


def check_independence(mechanism: Mechanism, guarantee: Guarantee, size: int) -> list[Check]:
    """Pairs of cells, all distances between cells at once, and the same cell in two calls."""
    rho = guarantee.rho
    noise = noise_on(mechanism, guarantee, 0, size)
    again = noise_on(mechanism, guarantee, 0, size)
    near = min(pair_pvalue(*pairs(noise, lag), rho) for lag in LAGS) * len(LAGS)
    # Any distance: a block of noise used twice, a period of the generator. Signs and sizes apart.
    far = min(any_lag_pvalue(np.sign(noise)), any_lag_pvalue(np.abs(noise) > 0.7 / rho)) * 2
    calls = pair_pvalue(noise, again, rho)
    return [
        _check("neighbouring cells", near, "independent", "depend on each other"),
        _check("cells at any distance", far, "uncorrelated", "correlated"),
        _check("the same cell in two calls", calls, "independent", "depend on each other"),
    ]


def _check(name: str, pvalue: float, good: str, bad: str) -> Check:
    passed = pvalue > FALSE_ALARM
    return Check(name, passed, good if passed else bad, {"p-value": min(1.0, pvalue)})


def pairs(noise: np.ndarray, lag: int) -> tuple[np.ndarray, np.ndarray]:
    """Cells ``lag`` apart, each in one pair only: pairs that overlap would not be independent themselves."""
    blocks = noise[: len(noise) // (2 * lag) * (2 * lag)].reshape(-1, 2, lag)
    return blocks[:, 0].ravel(), blocks[:, 1].ravel()


def pair_pvalue(one: np.ndarray, other: np.ndarray, rho: float) -> float:
    """Chi-square of pairs, in up to 5 x 5 groups, against the product of the exact laws."""
    edges = max(1, round(1 / rho)) * np.array([-2, -1, 0, 1])
    chance = np.diff(np.concatenate([[0.0], cdf(rho, edges), [1.0]]))
    while len(edges) > 1 and (chance.min() ** 2) * len(one) < FEWEST:
        edges = np.delete(edges, min(int(chance.argmin()), len(edges) - 1))
        chance = np.diff(np.concatenate([[0.0], cdf(rho, edges), [1.0]]))
    if (chance.min() ** 2) * len(one) < FEWEST:
        return 1.0  # noise is so rare that pairs tell nothing
    both = chance.size * np.searchsorted(edges, one) + np.searchsorted(edges, other)
    observed = np.bincount(both, minlength=chance.size**2)
    expected = np.outer(chance, chance).ravel() * len(one)
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), chance.size**2 - 1))


def any_lag_pvalue(signal: np.ndarray) -> float:
    """The largest of all correlations of a series with itself, shifted around a circle."""
    n = 1 << min(20, int(np.log2(len(signal))))
    centred = signal[:n] - signal[:n].mean()
    spread = float((centred**2).sum())
    if spread**2 / n < 3000:  # so few coincidences that their number is far from normal
        return 1.0
    power = np.abs(np.fft.rfft(centred)) ** 2
    correlation = np.fft.irfft(power, n)[1 : n // 2] / spread
    return float(2 * stats.norm.sf(np.abs(correlation).max() * np.sqrt(n)) * (n // 2))
