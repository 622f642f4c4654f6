"""Different ways to the same posterior agree: exact with bessel, and both with an independent sampler."""

import emcee
import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats

import countveil as cv
from countveil.distributions import release_given_rate
from goodness_of_fit import SEED

#: Largest deviation in Monte Carlo standard errors; 1e-6 two-sided is 4.9.
SIGMAS = 5.0


def rate_draws(posterior):
    """(chain, draw, row, column)."""
    group = posterior.tree["posterior"]
    theta, phi = group["theta"].to_numpy().astype(float), group["phi"].to_numpy().astype(float)
    return theta @ phi


def deviations(first, second):
    """Differences of means in units of their Monte Carlo standard error, for (chain, draw, ...) arrays."""
    found = []
    for index in np.ndindex(first.shape[2:]):
        a, b = (x[(slice(None), slice(None), *index)] for x in (first, second))
        error = np.hypot(array_stats.mcse(a), array_stats.mcse(b))
        found.append((a.mean() - b.mean()) / error)
    return np.array(found)


TRUE = np.array([[12, 0, 3, 0, 1], [9, 1, 2, 0, 0], [0, 7, 0, 5, 0], [1, 9, 0, 6, 2]])


#: The size at which the wrong models below are caught.
FULL = 22_000


@pytest.mark.parametrize(
    ("rho", "sweeps"),
    [(1.0, 2200), *(pytest.param(r, FULL, marks=pytest.mark.long) for r in (0.5, 3.0))],
)
def test_exact_and_bessel_reach_the_same_posterior(rho, sweeps):
    release = cv.simulate_release(TRUE, alpha=np.exp(-rho), seed=SEED)
    model = cv.TopicModel(2, shape=0.5, rate=1.0)
    settings = {
        "sweeps": sweeps,
        "burn_in": sweeps // 11,
        "thin": 4,
        "chains": 4,
        "progress": False,
        "threads": 1,
    }
    exact, bessel = (
        cv.fit(model, release, method=method, seed=SEED + i, **settings)
        for i, method in enumerate(("exact", "bessel"))
    )
    # Whole posterior: every rate, its logarithm's upper part through log1p, and whether it is small.
    for transform in (np.log1p, lambda r: (r > 0.5).astype(float) + 1e-9 * r):
        assert np.abs(deviations(transform(rate_draws(exact)), transform(rate_draws(bessel)))).max() < SIGMAS
    if sweeps < FULL:
        return
    wrong = cv.fit(cv.TopicModel(2, shape=0.6, rate=1.0), release, seed=SEED, **settings)
    other = cv.PrivateCounts(release.to_dense(), alpha=np.exp(-1.3 * rho))
    noisier = cv.fit(model, other, seed=SEED, **settings)
    largest = [
        np.abs(deviations(np.log1p(rate_draws(exact)), np.log1p(rate_draws(w)))).max()
        for w in (wrong, noisier)
    ]
    assert max(largest) > SIGMAS, "the comparison must be able to fail"


@pytest.mark.long
def test_agreement_with_emcee_on_the_closed_form_likelihood():
    steps, sweeps = 2500, 40_000
    # One topic, a 2 x 2 release: four positive parameters, the true counts summed out in closed form.
    values = np.array([[4, -1], [7, 2]])
    rho, shape, rate = 0.8, 1.5, 0.5

    def log_posterior(log_factors):
        factors = np.exp(log_factors)
        mu = np.outer(factors[:2], factors[2:])
        prior = stats.gamma.logpdf(factors, shape, scale=1 / rate).sum() + log_factors.sum()
        return prior + release_given_rate.logpmf(values, mu, rho).sum()

    rng = np.random.default_rng(SEED)
    np.random.seed(SEED)  # noqa: NPY002 (emcee draws from numpy's global state)
    sampler = emcee.EnsembleSampler(16, 4, log_posterior)
    sampler.run_mcmc(rng.normal(size=(16, 4)) * 0.3, steps)
    log_factors = sampler.get_chain(discard=steps // 5)  # (steps, walkers, 4)
    factors = np.exp(np.swapaxes(log_factors, 0, 1))
    theirs = factors[..., :2, None] * factors[..., None, 2:]

    release = cv.PrivateCounts(values, rho=rho)
    model = cv.TopicModel(1, shape=shape, rate=rate)
    fitted = cv.fit(model, release, sweeps=sweeps, burn_in=2000, thin=4, chains=2, seed=SEED, progress=False)
    ours = rate_draws(fitted)
    for transform in (np.log, lambda r: (r > 1.5) + 1e-9 * r):
        assert np.abs(deviations(transform(ours), transform(theirs))).max() < SIGMAS
    assert np.abs(deviations(np.log(1.1 * ours), np.log(theirs))).max() > SIGMAS
