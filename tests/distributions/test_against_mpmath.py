"""Probabilities of the distributions against high-precision arithmetic over the grid of extremes."""

import itertools

import mpmath
import numpy as np
import pytest

from countveil.distributions import bessel, count_given_release, release_given_rate, two_sided_geometric

RHOS = [1e-6, 1e-3, 0.1, 1.0, 3.0, 20.0, 300.0, 800.0]
RATES = [1e-8, 1e-3, 0.3, 1.0, 7.5, 100.0, 1e4]
RELEASES = [-1000, -1, 0, 1, 2, 13, 300, 10_000]


def close(got, expected, rel):
    """Equal up to ``rel``, or both below what a float64 can hold."""
    if expected < mpmath.mpf(10) ** -307:
        return got < 1e-306
    return abs(mpmath.mpf(float(got)) - expected) <= rel * abs(expected)


@pytest.mark.parametrize("rho", RHOS)
def test_two_sided_geometric(rho):
    with mpmath.workdps(50):
        alpha = mpmath.exp(-mpmath.mpf(rho))
        for k in (-1000, -3, -1, 0, 1, 7, 1000):
            pmf = (1 - alpha) / (1 + alpha) * alpha ** abs(k)
            tail = alpha ** max(-k, k + 1) / (1 + alpha)
            cdf, sf = (tail, 1 - tail) if k < 0 else (1 - tail, tail)
            assert close(two_sided_geometric.pmf(k, rho), pmf, 1e-14 * (1 + rho * abs(k)))
            assert close(two_sided_geometric.cdf(k, rho), cdf, 1e-14 * (1 + rho * abs(k)))
            assert close(two_sided_geometric.sf(k, rho), sf, 1e-14 * (1 + rho * abs(k)))


def exact_release(x, mu, rho):
    """P(x | mu) by the incomplete-gamma identity at the working precision."""
    alpha, mu = mpmath.exp(-mpmath.mpf(rho)), mpmath.mpf(mu)
    c = (1 - alpha) / (1 + alpha)
    if x <= 0:
        return c * alpha ** (-x) * mpmath.exp(-mu * (1 - alpha))
    z, w = mu / alpha, mu * alpha
    low = alpha**x * mpmath.exp(z - mu) * mpmath.gammainc(x + 1, z, regularized=True)
    high = alpha**-x * mpmath.exp(w - mu) * mpmath.gammainc(x + 1, 0, w, regularized=True)
    return c * (low + high)


@pytest.mark.parametrize("rho", [1e-3, 0.1, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("mu", [1e-3, 0.3, 7.5, 100.0])
def test_release_given_rate_cumulates_its_own_probabilities(mu, rho):
    # The closed forms of cdf and sf against sums of probabilities that mpmath vouches for.
    x = np.arange(-int(60 / rho) - 5, int(mu + 12 * mu**0.5 + 60 / rho) + 40)
    pmf = release_given_rate.pmf(x, mu, rho)
    assert np.allclose(release_given_rate.cdf(x, mu, rho), np.cumsum(pmf), rtol=1e-10, atol=1e-22)
    from_above = np.cumsum(pmf[::-1])[::-1]
    assert np.allclose(release_given_rate.sf(x - 1, mu, rho), from_above, rtol=1e-10, atol=1e-22)


@pytest.mark.parametrize("rho", [0.1, 1.0, 3.0])
def test_release_given_rate_against_incomplete_gammas(rho):
    with mpmath.workdps(80):
        for mu, x in itertools.product([1e-3, 0.3, 7.5, 100.0], [-5, 0, 1, 13, 90, 300]):
            assert close(release_given_rate.pmf(x, mu, rho), exact_release(x, mu, rho), 1e-12), (x, mu, rho)


@pytest.mark.parametrize(
    "rho", [pytest.param(rho, marks=[pytest.mark.long] if rho in (0.1, 3.0, 20.0) else []) for rho in RHOS]
)
def test_count_given_release(rho):
    with mpmath.workdps(60):
        for mu, x in itertools.product(RATES, RELEASES):
            law = count_given_release(x, mu, rho)
            centre = int(law.median())
            log_weight = {
                y: y * mpmath.log(mu) - mpmath.loggamma(y + 1) - mpmath.mpf(rho) * abs(x - y)
                for y in {max(centre + d, 0) for d in (-3, -1, 0, 1, 2, 9)}
            }
            # Ratios of probabilities need no normaliser; the normaliser is checked by the sum below.
            for y, weight in log_weight.items():
                ratio = float(law.logpmf(y) - law.logpmf(centre))
                expected = weight - log_weight[centre]
                assert abs(ratio - expected) <= 1e-12 * (1 + abs(expected)), (x, mu, rho, y)
            low, high = int(law.ppf(1e-13)), int(law.ppf(1 - 1e-13))
            assert law.pmf(np.arange(low, high + 1)).sum() == pytest.approx(1, abs=1e-11)


@pytest.mark.parametrize("v", [0, 1, 40, 1000, 1_000_000])
@pytest.mark.parametrize("a", [1e-3, 1.0, 30.0, 288.0, 3000.0, 1e6])
def test_bessel(v, a):
    law = bessel(v, a)
    mode = int(law.median())
    with mpmath.workdps(60):

        def log_weight(m):
            factorials = mpmath.loggamma(m + 1) + mpmath.loggamma(m + v + 1)
            return (2 * m + v) * mpmath.log(mpmath.mpf(a) / 2) - factorials

        for m in {max(mode + d, 0) for d in (-5, 0, 1, 8)}:
            ratio = float(law.logpmf(m) - law.logpmf(mode))
            assert abs(ratio - (log_weight(m) - log_weight(mode))) <= 1e-11 * (1 + abs(ratio)), m
            if v <= 1000 and a <= 3000:
                expected = log_weight(m) - mpmath.log(mpmath.besseli(v, a))
                assert abs(float(law.logpmf(m)) - expected) <= 2e-13 * (1 + abs(expected)), m
    low, high = int(law.ppf(1e-13)), int(law.ppf(1 - 1e-13))
    assert law.pmf(np.arange(low, high + 1)).sum() == pytest.approx(1, abs=1e-11)


def test_bessel_of_zero():
    assert bessel.pmf([0, 1, 2], 3, 0.0).tolist() == [1.0, 0.0, 0.0]
    assert bessel.mean(3, 0.0) == 0


def test_a_rate_of_zero_leaves_no_count():
    assert count_given_release.pmf([0, 1], 5, 0.0, 1.0).tolist() == [1.0, 0.0]
