"""The closed-form likelihood against high-precision arithmetic over a wide grid."""

import itertools
import math

import mpmath
import pytest

from countveil.kernels.given_release.geometric import log_marginal, log_marginal_clamped
from countveil.kernels.poisson import log_factorial_ratio, log_poisson

RHOS = [1e-6, 1e-3, 0.1, 1.0, 3.0, 20.0, 300.0, 800.0]
RATES = [1e-8, 1e-3, 0.3, 1.0, 7.5, 100.0, 1e4, 1e6]
RELEASES = [-1000, -1, 0, 1, 2, 13, 300, 10_000, 1_000_000]


def exact(x: int, mu: float, rho: float) -> mpmath.mpf:
    """log P(x | mu) by the incomplete-gamma identity at 60 digits (more where the exponents are huge)."""
    with mpmath.workdps(60):
        mu, rho = mpmath.mpf(mu), mpmath.mpf(rho)
        alpha = mpmath.exp(-rho)
        c = (1 - alpha) / (1 + alpha)
        if x <= 0:
            return mpmath.log(c) + x * rho - mu * (1 - alpha)
        return mpmath.log(c) + mpmath.log(_up_to(x, mu, alpha) + _beyond(x, mu, alpha))


def _up_to(t, mu, alpha):
    """sum_{y<=t} Poisson(y; mu) alpha**(t-y), downwards from t until the rest cannot matter."""
    z = mu / alpha
    if z <= t / 2:
        # Almost all of exp(z): alpha**t * exp(z - mu) * (1 - P(Poisson(z) > t)).
        term = mpmath.exp(-z + (t + 1) * mpmath.log(z) - mpmath.loggamma(t + 2))
        tail, y = mpmath.mpf(0), t + 1
        while term > mpmath.mpf(10) ** -55 * (tail + mpmath.mpf(10) ** -55):
            tail += term
            y += 1
            term *= z / y
        return alpha**t * mpmath.exp(z - mu) * (1 - tail)
    term = mpmath.exp(-mu + t * mpmath.log(mu) - mpmath.loggamma(t + 1))
    return _sum(term, lambda y: y / z, t, -1)


def _beyond(t, mu, alpha):
    """sum_{y>t} Poisson(y; mu) alpha**(y-t)."""
    w = mu * alpha
    if w >= 2 * (t + 1):
        term = mpmath.exp(-w + t * mpmath.log(w) - mpmath.loggamma(t + 1))
        return alpha**-t * mpmath.exp(w - mu) * (1 - _sum(term, lambda y: y / w, t, -1))
    term = mpmath.exp(-mu + (t + 1) * mpmath.log(mu) - mpmath.loggamma(t + 2)) * alpha
    return _sum(term, lambda y: w / (y + 1), t + 1, 1)


def _sum(term, ratio, y, direction):
    # A log-concave sequence: once it falls it keeps falling, so small terms end the sum.
    total, largest = mpmath.mpf(0), term
    while y >= 0 and (term >= largest or term > mpmath.mpf(10) ** -40 * total):
        total += term
        largest = max(largest, term)
        term *= ratio(y)
        y += direction
    return total


def test_log_marginal_over_the_grid():
    for rho, mu, x in itertools.product(RHOS, RATES, RELEASES):
        got, expected = log_marginal(x, mu, rho), exact(x, mu, rho)
        assert math.isfinite(got), (x, mu, rho)
        assert abs((got - expected) / expected) < 5e-15, (x, mu, rho, got)


def test_the_reference_is_the_sum_it_claims_to_be():
    for x, mu, rho in ((3, 2.0, 1.0), (1, 7.5, 0.1), (13, 0.3, 3.0)):
        with mpmath.workdps(40):
            mu, rho = mpmath.mpf(mu), mpmath.mpf(rho)
            terms = [mu**y / mpmath.factorial(y) * mpmath.exp(-rho * abs(x - y)) for y in range(200)]
            plain = mpmath.log(mpmath.tanh(rho / 2) * mpmath.exp(-mu) * mpmath.fsum(terms))
            assert abs(exact(x, mu, rho) - plain) < 1e-30


def test_log_marginal_is_a_probability_law():
    for mu, rho in ((0.7, 1.0), (20.0, 0.1), (1e-3, 3.0)):
        total = math.fsum(math.exp(log_marginal(x, mu, rho)) for x in range(-2000, 2500))
        assert total == pytest.approx(1, abs=1e-12)


def test_clamped_zero_is_the_sum_of_all_it_hides():
    for mu, rho in ((0.7, 1.0), (20.0, 0.1), (1e-3, 3.0)):
        hidden = math.fsum(math.exp(log_marginal(x, mu, rho)) for x in range(-5000, 1))
        assert math.exp(log_marginal_clamped(0, mu, rho)) == pytest.approx(hidden, rel=1e-12)
        assert log_marginal_clamped(4, mu, rho) == log_marginal(4, mu, rho)


def test_rate_zero_is_pure_noise():
    for x in (-3, 0, 5):
        assert log_marginal(x, 0.0, 1.0) == pytest.approx(math.log(math.tanh(0.5)) - abs(x), rel=1e-15)


@pytest.mark.parametrize("k", [0, 1, 15, 16, 700, 10**6, 10**9])
@pytest.mark.parametrize("mean", [1e-12, 0.3, 15.5, 700.0, 1e6, 1e9])
def test_log_poisson(k, mean):
    with mpmath.workdps(40):
        expected = k * mpmath.log(mean) - mpmath.mpf(mean) - mpmath.loggamma(k + 1)
    assert log_poisson(k, mean) == pytest.approx(float(expected), rel=3e-15)


def test_log_poisson_of_an_impossible_count():
    assert log_poisson(3, 0.0) == -math.inf
    assert log_poisson(0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("n", "m"), [(0, 0), (5, 0), (0, 5), (20, 3), (10**6, 10**6 - 1), (10**9, 10**9 + 5000)]
)
def test_log_factorial_ratio(n, m):
    with mpmath.workdps(40):
        expected = mpmath.loggamma(n + 1) - mpmath.loggamma(m + 1)
    assert log_factorial_ratio(n, m) == pytest.approx(float(expected), rel=1e-13, abs=0)
