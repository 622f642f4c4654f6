"""The methods that people expect of a scipy.stats distribution, mutually consistent."""

import numpy as np
import pytest
from scipy import stats

from countveil import distributions
from countveil.distributions import bessel, count_given_release, release_given_rate, two_sided_geometric
from goodness_of_fit import SEED, discrete_pvalue, fits, rejects

CASES = [
    (two_sided_geometric, (1.0,), (1.1,)),
    (two_sided_geometric, (0.01,), (0.011,)),
    (two_sided_geometric, (4.0,), (3.6,)),
    (release_given_rate, (0.7, 1.0), (0.77, 1.0)),
    (release_given_rate, (300.0, 0.1), (330.0, 0.1)),
    (count_given_release, (3, 5.0, 1.0), (3, 5.5, 1.0)),
    (count_given_release, (-2, 5.0, 1.0), (-2, 5.5, 1.0)),
    (count_given_release, (750, 800.0, 0.1), (750, 880.0, 0.1)),
    (bessel, (2, 6.0), (2, 6.6)),
    (bessel, (0, 300.0), (0, 330.0)),
]
NAMES = [f"{law.name}{parameters}" for law, parameters, _ in CASES]


@pytest.fixture(params=CASES, ids=NAMES)
def case(request):
    return request.param


def support(frozen):
    return np.arange(int(frozen.ppf(1e-15)) - 2, int(frozen.ppf(1 - 1e-15)) + 40)


def test_moments_are_those_of_the_probabilities(case):
    law, parameters, _ = case
    frozen = law(*parameters)
    k = support(frozen)
    p = frozen.pmf(k)
    mean, variance, skewness, kurtosis = (float(s) for s in frozen.stats(moments="mvsk"))
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert mean == pytest.approx((k * p).sum(), abs=1e-8)
    centred = k - mean
    assert variance == pytest.approx((centred**2 * p).sum(), rel=1e-8)
    assert skewness == pytest.approx((centred**3 * p).sum() / variance**1.5, abs=1e-6)
    assert kurtosis == pytest.approx((centred**4 * p).sum() / variance**2 - 3, abs=1e-5)
    assert frozen.std() == pytest.approx(variance**0.5)
    assert frozen.entropy() == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum(), rel=1e-6)


def test_cdf_sf_and_quantiles_agree(case):
    law, parameters, _ = case
    frozen = law(*parameters)
    k = support(frozen)
    assert np.allclose(frozen.cdf(k), np.cumsum(frozen.pmf(k)), atol=1e-12)
    assert np.allclose(frozen.cdf(k) + frozen.sf(k), 1, atol=1e-12)
    for q in (1e-6, 0.025, 0.5, 0.9, 1 - 1e-6):
        found = frozen.ppf(q)
        assert frozen.cdf(found) >= q
        assert frozen.cdf(found - 1) < q
    low, high = frozen.interval(0.9)
    assert low <= frozen.median() <= high
    assert np.allclose(np.exp(frozen.logpmf(k)), frozen.pmf(k), rtol=1e-9)


def test_draws_follow_the_law(case):
    law, parameters, wrong = case
    for random_state in (SEED + 1, np.random.default_rng(SEED + 2)):
        drawn = law.rvs(*parameters, size=200_000, random_state=random_state)
        assert drawn.dtype.kind == "i"
        assert fits(discrete_pvalue(drawn, law(*parameters).cdf))
        assert rejects(discrete_pvalue(drawn, law(*wrong).cdf))


def test_draws_repeat_with_their_seed(case):
    law, parameters, _ = case
    first, again = (law.rvs(*parameters, size=(3, 4), random_state=5) for _ in range(2))
    assert first.shape == (3, 4)
    assert (first == again).all()


def test_parameters_broadcast(case):
    law, parameters, wrong = case
    both = [np.array([a, b]) for a, b in zip(parameters, wrong, strict=True)]
    k = np.arange(4)[:, None]
    together = law.pmf(k, *both)
    assert together.shape == (4, 2)
    assert np.allclose(together[:, 0], law.pmf(k[:, 0], *parameters))
    assert np.allclose(together[:, 1], law.pmf(k[:, 0], *wrong))
    assert law.rvs(*both, size=(1000, 2), random_state=1).shape == (1000, 2)


def test_outside_their_domain_they_say_nan():
    assert np.isnan(two_sided_geometric.pmf(0, 0.0))
    assert np.isnan(two_sided_geometric.pmf(0, -1.0))
    assert np.isnan(release_given_rate.pmf(0, -1.0, 1.0))
    assert np.isnan(count_given_release.pmf(0, 1, 1.0, 0.0))
    assert np.isnan(count_given_release.pmf(0, 1.5, 1.0, 1.0))
    assert np.isnan(bessel.pmf(0, -1, 1.0))
    assert np.isnan(bessel.pmf(0, 1.5, 1.0))
    assert two_sided_geometric.pmf(0.5, 1.0) == 0
    assert count_given_release.pmf(-1, 1, 1.0, 1.0) == 0


def test_two_sided_geometric_is_scipys_discrete_laplace():
    k = np.arange(-30, 31)
    assert np.allclose(two_sided_geometric.pmf(k, 0.7), stats.dlaplace.pmf(k, 0.7), rtol=1e-13)
    assert np.allclose(two_sided_geometric.cdf(k, 0.7), stats.dlaplace.cdf(k, 0.7), rtol=1e-13)


def test_posterior_mean_of_a_count_by_the_ratio_of_likelihoods():
    # E[y | x, mu] = mu * P(x-1 | mu) / P(x | mu), an identity between two of the distributions.
    for x, mu, rho in ((-3, 2.0, 1.0), (0, 2.0, 0.5), (1, 0.3, 2.0), (40, 55.0, 0.2)):
        ratio = release_given_rate.pmf(x - 1, mu, rho) / release_given_rate.pmf(x, mu, rho)
        assert count_given_release.mean(x, mu, rho) == pytest.approx(mu * ratio, rel=1e-10)


def test_bayes_joins_the_three_laws():
    mu, rho = 3.0, 0.8
    y = np.arange(0, 80)
    for x in (-4, 0, 2, 9):
        joint = stats.poisson.pmf(y, mu) * two_sided_geometric.pmf(x - y, rho)
        assert joint.sum() == pytest.approx(release_given_rate.pmf(x, mu, rho), rel=1e-12)
        assert np.allclose(joint / joint.sum(), count_given_release.pmf(y, x, mu, rho), rtol=1e-9, atol=1e-30)


def test_the_folder_lists_what_it_offers():
    assert {getattr(distributions, name) for name in distributions.__all__} == {law for law, _, _ in CASES}
