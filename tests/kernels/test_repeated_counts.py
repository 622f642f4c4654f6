"""Counts released several times: draws and likelihood against brute force, over a grid with extremes."""

import itertools
import math

import mpmath
import numba
import numpy as np
import pytest
from scipy.special import gammaln

from countveil.kernels.given_release.geometric import log_marginal_clamped
from countveil.kernels.given_release.repeated import draw_count_repeated, log_marginal_repeated, repeated_mode
from countveil.kernels.philox import open_stream
from exact_laws import cdf_of_log_weights, count_given_release_cdf
from goodness_of_fit import FALSE_ALARM, SEED, discrete_pvalue, fits, rejects


@numba.njit
def many(seed, size, x, rho, mu):
    stream = open_stream(seed, 0, 0, 0, 0)
    out = np.empty(size, dtype=np.int64)
    for i in range(size):
        out[i], stream = draw_count_repeated(stream, x, rho, mu)
    return out


def draws(x, rho, mu, size, seed):
    return many(seed, size, np.array(x, dtype=np.int64), np.array(rho, dtype=float), mu)


def log_weights(y, x, rho, mu):
    total = y * np.log(mu) - gammaln(y + 1)
    for t, r in zip(x, rho, strict=True):
        total = total - r * np.abs(max(t, 0) - y)
    return total


def exact_cdf(x, rho, mu):
    """Over a window that holds all visible mass: from coarse to fine around the mode."""
    high = int(4e6)
    y = np.unique(np.rint(np.geomspace(1, high, 20_000)).astype(np.int64)) - 1
    y = np.union1d(y, [max(t, 0) for t in x])
    best = int(y[np.argmax(log_weights(y, x, rho, mu))])
    # Never wider than the Poisson law itself, whose spread is the root of its place.
    reach = int(60 * math.sqrt(best + 1) + 60) + best // 500
    first = max(best - reach, 0)
    return cdf_of_log_weights(log_weights(np.arange(first, best + reach), x, rho, mu), first)


RELEASES = [
    (-5, 0),
    (0, 3),
    (1, 1),
    (2, 14),
    (13, 12),
    (750, 800),
    (0, 10_000),
    (1_000_000, 999_000),
    (4, 0, 9),
]
RATES = [1e-3, 0.7, 5.0, 14.2, 800.0, 1e4, 1e6]
RHOS = [(1e-3, 0.1, 1.0), (1.0, 1.0, 1.0), (3.0, 0.3, 0.05), (20.0, 0.5, 2.0), (300.0, 700.0, 1.0)]


@pytest.mark.parametrize("rho", RHOS)
def test_draws_over_the_grid(rho):
    cells = list(itertools.product(RELEASES, RATES))
    for i, (x, mu) in enumerate(cells):
        y = draws(x, rho[: len(x)], mu, 10_000, SEED + i)
        pvalue = discrete_pvalue(y, exact_cdf(x, rho[: len(x)], mu))
        assert pvalue > FALSE_ALARM / len(cells), (x, mu, rho, pvalue)


POWER = [
    ((3, 6), (1.0, 0.5), 5.0),
    ((0, 2), (0.4, 0.4), 3.0),
    ((14, 20), (0.1, 0.2), 15.0),
    ((13, 40), (1.0, 0.7), 30.0),
    ((750, 700, 760), (0.05, 0.1, 0.02), 800.0),
]


@pytest.mark.parametrize(("x", "rho", "mu"), POWER)
def test_draws_have_power(x, rho, mu):
    y = draws(x, rho, mu, 300_000, SEED + 1)
    assert fits(discrete_pvalue(y, exact_cdf(x, rho, mu)))
    assert rejects(discrete_pvalue(y, exact_cdf(x, rho, 1.1 * mu)))
    assert rejects(discrete_pvalue(y, exact_cdf(x, (1.1 * rho[0], *rho[1:]), mu)))
    assert rejects(discrete_pvalue(y, exact_cdf((x[0] + 1, *x[1:]), rho, mu)))
    assert rejects(discrete_pvalue(y, count_given_release_cdf(x[0], mu, rho[0])))  # one release forgotten


def test_ends_of_the_range():
    for x in ((0, 0), (3, 0), (10**6, 7)):
        assert set(draws(x, (1.0, 2.0), 0.0, 50, SEED)) == {0}
    for x in ((1, 1), (12, 12), (10**6, 10**6)):  # exp(1600) overflows; the draw must not
        assert set(draws(x, (800.0, 800.0), 1e6, 50, SEED)) == {x[0]}


def test_clamping_leaves_the_very_draws_unchanged():
    for mu in (0.4, 5.0, 60.0):
        a, b = (draws((x, 7), (0.5, 1.0), mu, 3000, SEED) for x in (0, -900))
        assert (a == b).all()


def test_the_mode_is_the_largest_weight():
    for x, mu, rho in itertools.product(RELEASES, RATES[:-2], RHOS):
        rho = rho[: len(x)]
        mode = repeated_mode(np.array(x), np.array(rho), mu)
        near = np.arange(max(mode - 3, 0), mode + 4)
        weights = log_weights(near, x, rho, mu)
        assert weights[list(near).index(mode)] >= weights.max() - 1e-9, (x, mu, rho)


def exact_log_marginal(x, rho, mu):
    """The sum itself, at 40 digits, over all counts that matter."""
    with mpmath.workdps(40):
        mu, rho = mpmath.mpf(mu), [mpmath.mpf(r) for r in rho]
        start = int(repeated_mode(np.array(x), np.array([float(r) for r in rho]), float(mu)))

        def term(y):
            total = y * mpmath.log(mu) - mu - mpmath.loggamma(y + 1)
            for t, r in zip(x, rho, strict=True):
                alpha = mpmath.exp(-r)
                total += (
                    mpmath.log((1 - alpha) / (1 + alpha)) - r * abs(t - y)
                    if t > 0
                    else -mpmath.log(1 + alpha) - r * y
                )
            return mpmath.exp(total)

        total, y = mpmath.mpf(0), start
        while (now := term(y)) > mpmath.mpf(10) ** -25 * total:
            total, y = total + now, y + 1
        y = start - 1
        while y >= 0 and (now := term(y)) > mpmath.mpf(10) ** -25 * total:
            total, y = total + now, y - 1
        return mpmath.log(total)


def test_likelihood_against_the_sum():
    cases = itertools.product(
        [(0, 0), (0, 3), (1, 1), (2, 14), (300, 250), (4, 0, 9)], [1e-6, 0.7, 14.2, 200.0], RHOS
    )
    for x, mu, rho in cases:
        got = log_marginal_repeated(np.array(x), np.array(rho[: len(x)]), mu)
        expected = exact_log_marginal(x, rho[: len(x)], mu)
        assert abs((got - expected) / expected) < 1e-13, (x, mu, rho, got)


def test_likelihood_of_one_release_is_that_of_a_single_one():
    for x, mu, rho in itertools.product(
        [-3, 0, 1, 13, 10_000, 10**6], [0.0, 1e-8, 0.7, 100.0, 1e6], [1e-3, 1.0, 20.0, 800.0]
    ):
        one = log_marginal_repeated(np.array([x]), np.array([rho]), mu)
        assert one == pytest.approx(log_marginal_clamped(x, mu, rho), rel=1e-12), (x, mu, rho)


def test_likelihood_is_a_probability_law():
    rho = np.array([0.8, 1.5])
    total = math.fsum(
        math.exp(log_marginal_repeated(np.array([a, b]), rho, 2.5)) for a in range(80) for b in range(80)
    )
    assert total == pytest.approx(1, abs=1e-12)
