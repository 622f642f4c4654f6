"""The paper's errata: each test holds for the right formula and fails for the printed one.

Schein, Wu, Schofield, Zhou and Wallach, "Locally private Bayesian inference for count models" (ICML 2019).
"""

import itertools

import numba
import numpy as np
import pytest
from scipy import stats

from compiled_loop import draw_many
from countveil.distributions import bessel, count_given_release, two_sided_geometric
from countveil.kernels.binomial import binomial
from countveil.kernels.gamma import gamma
from countveil.kernels.given_release.bessel import bessel as draw_bessel
from countveil.kernels.given_release.bessel import draw_count_by_bessel
from countveil.kernels.philox import open_stream
from countveil.privacy import Guarantee
from goodness_of_fit import SEED, discrete_pvalue, fits, rejects


def test_alpha_is_exp_of_minus_epsilon_over_n():
    """Case studies: the paper prints alpha = -exp(eps/N), which is not even a probability."""
    guarantee = Guarantee(epsilon=3, precision=2)
    assert guarantee.alpha == pytest.approx(np.exp(-3 / 2), rel=1e-15)
    assert 0 < guarantee.alpha < 1
    assert not 0 < -np.exp(3 / 2) < 1


def skellam_mixture(mean_of_rates, rng, size=400_000):
    plus, minus = rng.exponential(mean_of_rates, (2, size))
    return rng.poisson(plus) - rng.poisson(minus)


def test_theorem_2_has_rates_with_mean_alpha_over_one_minus_alpha():
    """Theorem 2: Exp(alpha/(1-alpha)) names the MEAN; the paper uses it below as a rate."""
    rho = 1.0
    alpha = np.exp(-rho)
    rng = np.random.default_rng(SEED)
    law = two_sided_geometric(rho).cdf
    assert fits(discrete_pvalue(skellam_mixture(alpha / (1 - alpha), rng), law))
    assert rejects(discrete_pvalue(skellam_mixture((1 - alpha) / alpha, rng), law))


def smaller_of_two_poissons(difference, p, q, k):
    """P(min = k | y1 - y2 = difference) from the two Poisson laws alone."""
    m = np.arange(200)
    y1, y2 = m + max(difference, 0), m + max(-difference, 0)
    joint = stats.poisson.pmf(y1, p) * stats.poisson.pmf(y2, q)
    return (joint / joint.sum())[k]


@pytest.mark.parametrize("difference", [-3, 0, 2])
def test_theorem_3_has_no_two_under_the_root(difference):
    p, q, k = 2.5, 0.8, np.arange(12)
    expected = smaller_of_two_poissons(difference, p, q, k)
    assert np.allclose(bessel.pmf(k, abs(difference), 2 * np.sqrt(p * q)), expected, rtol=1e-10)
    printed = bessel.pmf(k, abs(difference), 2 * np.sqrt(2 * p * q))
    assert not np.allclose(printed, expected, rtol=1e-2)


def test_the_larger_count_is_the_difference_plus_the_smaller():
    """After theorem 3 the paper prints y1 = tau - m; with tau = 1 and m = 2 that would be negative."""
    p, q, tau = 4.0, 3.0, 1
    m = draw_many(draw_bessel, tau, 2 * np.sqrt(p * q), size=100_000, seed=SEED)
    rng = np.random.default_rng(SEED)
    y1, y2 = rng.poisson(p, 2_000_000), rng.poisson(q, 2_000_000)
    given = y1[y1 - y2 == tau]

    def empirical(k):
        return np.searchsorted(np.sort(given), k, side="right") / len(given)

    # Two-sample comparison, both sides random: a Kolmogorov-Smirnov test over few values is conservative.
    assert fits(stats.ks_2samp(tau + m, given).pvalue)
    assert rejects(stats.ks_2samp(tau - m, given).pvalue)
    assert (tau - m < 0).any()
    assert abs(empirical(2) - np.mean(tau + m <= 2)) < 0.01


@numba.njit
def chain_with_rate(seed, x, mu, alpha, rate, steps, chains):
    """The paper's chain with any rate for lambda given the rest; the package's own has 1/alpha built in."""
    out = np.empty(chains, dtype=np.int64)
    for i in range(chains):
        stream = open_stream(seed, 0, 0, 0, i)
        plus = minus = alpha / (1 - alpha)
        y = np.int64(0)
        for _ in range(steps):
            m, stream = draw_bessel(stream, abs(x), 2 * np.sqrt((plus + mu) * minus))
            y_plus = m if x <= 0 else m + x
            g_minus = m - x if x <= 0 else m
            y, stream = binomial(stream, y_plus, mu / (mu + plus))
            plus, stream = gamma(stream, 1.0 + (y_plus - y), rate)
            minus, stream = gamma(stream, 1.0 + g_minus, rate)
        out[i] = y
    return out


@numba.njit
def our_chain(seed, x, mu, alpha, steps, chains):
    out = np.empty(chains, dtype=np.int64)
    for i in range(chains):
        stream = open_stream(seed, 0, 0, 0, i)
        plus = minus = alpha / (1 - alpha)
        y = np.int64(0)
        for _ in range(steps):
            y, plus, minus, stream = draw_count_by_bessel(stream, x, mu, alpha, plus, minus)
        out[i] = y
    return out


def test_lambda_given_the_rest_has_rate_one_over_alpha():
    """The paper prints Gamma(1+g, alpha/(1-alpha) + 1); that chain targets 1-alpha in place of alpha."""
    x, mu, rho = -1, 0.7, 1.0
    alpha = np.exp(-rho)
    law = count_given_release(x, mu, rho)
    assert law.pmf(0) == pytest.approx(0.773, abs=5e-4)
    ours = our_chain(SEED + 1, x, mu, alpha, 100, 40_000)
    assert fits(discrete_pvalue(ours, law.cdf))
    printed = chain_with_rate(SEED + 2, x, mu, alpha, alpha / (1 - alpha) + 1, 100, 40_000)
    assert rejects(discrete_pvalue(printed, law.cdf))
    # And what it targets instead is the law with 1 - alpha.
    other = count_given_release(x, mu, -np.log(1 - alpha))
    assert other.pmf(0) == pytest.approx(0.642, abs=5e-4)
    assert fits(discrete_pvalue(printed, other.cdf))


def test_bounded_vectors_lie_two_n_apart():
    """Definition of LPLP: ||y||_1 <= N for all y gives eps-local privacy for one count, 2*eps for vectors."""
    guarantee = Guarantee(epsilon=1, precision=2)
    n, rho = 2, 0.5

    def worst(dimensions):
        inside = [y for y in itertools.product(range(n + 1), repeat=dimensions) if sum(y) <= n]
        outputs = list(itertools.product(range(-3, n + 4), repeat=dimensions))
        log_p = np.array(
            [[sum(two_sided_geometric.logpmf(np.subtract(x, y), rho)) for x in outputs] for y in inside]
        )
        return max(float(np.max(a - b)) for a in log_p for b in log_p)

    assert worst(1) == pytest.approx(1.0)
    assert worst(2) == pytest.approx(2.0)
    assert float(guarantee.loss(n)) == 1.0
    assert float(guarantee.loss(2 * n)) == 2.0


def test_the_noise_vanishes_as_epsilon_grows():
    """Related work: "equal when eps -> 0" should read eps -> infinity."""
    assert two_sided_geometric.pmf(0, 40.0) == pytest.approx(1, abs=1e-15)
    assert two_sided_geometric.pmf(0, 1e-9) < 1e-9
