"""Sums from large counts, beside the same sums term after term in extended precision."""

import math
import time

import numpy as np
import pytest

from countveil.kernels.given_release.geometric import log_marginal
from countveil.kernels.given_release.repeated import log_marginal_repeated
from countveil.kernels.long_sum import sum_down, sum_up

exact = np.longdouble


def terms_up(y, step, n):
    return np.cumsum(np.log(exact(step) / (exact(y) + np.arange(1, n + 1, dtype=exact))))


def terms_down(y, step, n):
    return np.cumsum(np.log((exact(y) - np.arange(n, dtype=exact)) / exact(step)))


@pytest.mark.parametrize("y", [5, 3_000, 2**24 - 1, 2**24, 2**26 + 17, 2**31])
@pytest.mark.parametrize("off", [0, 0.01, 0.1, 1, 5, 30])
def test_sums(y, off):
    spread = math.sqrt(y)
    for n in (1, 100, 2047, 2048, 2049, 3000, int(0.3 * spread), int(2 * spread), 10**15):
        most = min(n, int(12 * spread) + 20)
        below = max(y - off * spread, 0.1)
        assert sum_up(y, below, n) == pytest.approx(float(np.exp(terms_up(y, below, most)).sum()), rel=2e-12)
        down = min(n, y)
        assert sum_down(y, y + off * spread, down) == pytest.approx(
            float(np.exp(terms_down(y, y + off * spread, min(most, y))).sum()), rel=2e-12
        )


def test_a_shift_of_the_series_would_show():
    """The first correction is of the size of the tolerance above times a hundred million."""
    y, n = 2**26, 10**15
    right = float(np.exp(terms_up(y, y, 12 * 2**13)).sum())
    assert sum_up(y, y * (1 + 1e-9), n) != pytest.approx(right, rel=2e-12)
    assert sum_up(y, y, n) - 0.5 != pytest.approx(right, rel=2e-12)


@pytest.mark.parametrize("rho", [1e-9, 1e-6, 1e-3, 1.0])
def test_likelihoods_of_huge_counts_are_quick(rho):
    """Single releases and repeated ones, which took seconds and hours; they agree where a look tells nothing."""
    x = 2**53
    log_marginal(5, 3.0, 1.0)
    log_marginal_repeated(np.array([5, 7]), np.array([1.0, 1.0]), 3.0)
    begin = time.perf_counter()
    one = log_marginal(x, float(x), rho)
    several = [
        log_marginal_repeated(np.array([x, x + apart]), np.array([rho, rho]), float(x))
        for apart in (0, 10**6, 10**8, 10**12)
    ]
    assert time.perf_counter() - begin < 1
    assert math.isfinite(one)
    assert np.isfinite(several).all()
    assert (np.diff(several) < 0).all()


@pytest.mark.parametrize("rho", [1e-7, 1e-4, 1e-3, 0.3])
def test_repeated_releases_of_large_counts(rho):
    """Beside the sum over all true counts that matter, in extended precision."""
    mu = 2.0**25
    x = np.array([2**25 - 9_000, 2**25 + 4_000, 2**25 + 30_000])
    y = np.arange(2**25 - 100_000, 2**25 + 100_000)
    logs = np.zeros(len(y), dtype=exact)
    logs[1:] = np.cumsum(np.log(exact(mu) / y[1:].astype(exact)))
    peak = int(np.argmin(np.abs(y - 2**25)))
    # Poisson(2**25; 2**25) by Stirling's series.
    at = -0.5 * np.log(2 * exact(np.pi) * mu) - exact(1) / (12 * exact(mu))
    logs += at - logs[peak]
    noise = np.zeros(len(y), dtype=exact)
    for each in x:
        noise += np.log(np.tanh(exact(rho) / 2)) - exact(rho) * np.abs(y - each)
    together = logs + noise
    expected = float(together.max() + np.log(np.exp(together - together.max()).sum()))
    assert log_marginal_repeated(x, np.full(3, rho), mu) == pytest.approx(expected, abs=1e-9)
