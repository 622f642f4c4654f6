"""Is a cell left without noise, or its noise used twice? Asked where noise is so strong that neither is chance.

At rho = 1e-12 noise is some 10**12. A right mechanism leaves it below 10**5 once in ten million cells, and
gives two cells the same ``abs(tau)`` with chance rho/2. So a handful of cells among millions that have no noise,
or the noise of another cell, is seen, in whatever array, row or call. At rho = 1 nearly half of all noise is zero
anyway, and a raw cell in five hundred is lost among them.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from countveil.auditing.check import (
    MIN_EXPECTED,
    Check,
    Mechanism,
    check_pvalue,
    excess_pvalue,
    least_excess,
    noise_on,
)
from countveil.auditing.law import fit_pvalue, smallest_error
from countveil.auditing.trials import any_half, kinds, large_trials, small_trials, typed_trials
from countveil.privacy import Guarantee

STRONG = Guarantee(1, precision=10**12)
NEXT_TO_NONE = 1e-7  # noise up to 1e-7 / rho, which is 10**5 there, is next to none
SMALL_CALLS = 200


def check_strong_noise(mechanism: Mechanism, size: int, *, any_type: bool) -> list[Check]:
    """Some ``size`` mixed cells in large arrays, and two hundred small ones; of every type where that is served."""
    rng = np.random.default_rng()
    trials = [*large_trials(size, rng), *small_trials(SMALL_CALLS, rng, any_type)]
    of_a_type, rho, half = size // 20, STRONG.rho, any_half(rng)
    parts = [noise_on(mechanism, STRONG, counts).ravel() for counts in trials]
    laws: list[float] = []  # on counts of every type, and whatever they are
    for counts in typed_trials(of_a_type, rng) if any_type else ():
        parts.append(noise_on(mechanism, STRONG, counts).ravel())
        laws.append(fit_pvalue(parts[-1], rho))
        laws += [fit_pvalue(parts[-1][kind], rho) for kind in kinds(counts.ravel().astype(np.int64), half)]
    noise = np.concatenate(parts)
    laws.append(fit_pvalue(noise, rho))
    error = smallest_error(rho, of_a_type, len(laws))
    copies = len(noise) / least_excess(_copies_expected(len(noise), rho), 1)
    return [
        check_pvalue(
            "cells without noise",
            raw_pvalue(noise, rho),
            "none",
            "some",
            finds=f"one cell in {one_in(len(noise), rho):,}, of any array"
            + f"; of one type alone, one in {one_in(len(noise), rho) * of_a_type // len(noise):,}" * any_type,
        ),
        check_pvalue(
            "noise used twice",
            copied_pvalue(noise, rho),
            "never",
            "found",
            finds=f"one cell in {int(copies):,}",
        ),
        check_pvalue(
            "law of strong noise",
            min(laws) * len(laws),
            "fits",
            "is another one",
            finds=f"a rate that is off by {error:.1%} on counts of one type alone"
            if any_type and error
            else "",
        ),
        check_pvalue(
            "remainders of strong noise",
            remainders_pvalue(noise),
            "all as likely",
            "are not: something of the count shines through",
        ),
    ]


def remainders_pvalue(noise: np.ndarray) -> float:
    """Chi-square of the noise modulo 2, 3 and 256: at so small a rho all remainders are as likely, up to rho."""
    found = []
    for modulus in (2, 3, 256 if noise.size > 256 * MIN_EXPECTED else 16):
        observed = np.bincount(noise % modulus, minlength=modulus)
        expected = noise.size / modulus
        found.append(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), modulus - 1))
    return float(min(found) * len(found))


def raw_pvalue(noise: np.ndarray, rho: float) -> float:
    """Too many cells with next to no noise? P(abs(tau) <= m) < (2*m + 1) * rho/2."""
    found = int((np.abs(noise) <= NEXT_TO_NONE / rho).sum())
    return excess_pvalue(found, _raw_expected(noise.size, rho))


def copied_pvalue(noise: np.ndarray, rho: float) -> float:
    """Too many cells with the same noise as another, up to its sign? Two agree with chance below rho/2."""
    distinct = len(np.unique(np.abs(noise)))
    return excess_pvalue(noise.size - distinct, _copies_expected(noise.size, rho))


def one_in(size: int, rho: float, tests: int = 1) -> int:
    """One raw cell in so many is found by ``raw_pvalue``, one of so many tests, among ``size`` cells."""
    return int(size / least_excess(_raw_expected(size, rho), tests))


def _raw_expected(size: int, rho: float) -> float:
    return size * (NEXT_TO_NONE + rho / 2)


def _copies_expected(size: int, rho: float) -> float:
    return size * (size - 1) / 2 * rho / 2
