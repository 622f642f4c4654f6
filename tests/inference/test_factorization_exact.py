"""Small factorizations against independent samplers: emcee on the closed-form likelihood, and each other."""

import emcee
import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import integrate, stats

import countveil as cv
from compiled_loop import draw_many
from countveil.distributions import release_given_rate
from countveil.models import CommunityModel, Factorization, TensorModel, TopicModel
from countveil.models.einsum.tied import quadratic_gamma
from goodness_of_fit import SEED, continuous_pvalue, fits, rejects

#: Largest deviation in Monte Carlo standard errors; 1e-6 two-sided is 4.9.
SIGMAS = 5.0
PRIOR = {"shape": 1.5, "rate": 0.8}


@pytest.mark.parametrize(
    ("shape", "rate", "square"), [(0.1, 1.0, 0.5), (1.5, 0.2, 3.0), (40.0, 1.0, 10.0), (3.0, 5.0, 1e-3)]
)
def test_quadratic_gamma(shape, rate, square):
    drawn = draw_many(quadratic_gamma, shape, rate, square, size=100_000, seed=SEED + 1, dtype=np.float64)

    def cdf_of(square):
        # On the log axis, where small shapes are no trouble.
        grid = np.linspace(np.log(1e-60 if shape < 1 else 1e-6), np.log(60.0), 60_001)
        height = shape * grid - rate * np.exp(grid) - square * np.exp(2 * grid)
        mass = integrate.cumulative_trapezoid(np.exp(height - height.max()), grid, initial=0)
        return lambda x: np.interp(np.log(x), grid, mass / mass[-1])

    assert fits(continuous_pvalue(drawn, cdf_of(square)))
    if square > 0.1:
        assert rejects(continuous_pvalue(drawn, cdf_of(1.6 * square)))


@pytest.mark.parametrize(
    "wrong", [(np.nan, 1.0, 1.0), (2.0, np.nan, 1.0), (2.0, 1.0, np.nan), (np.inf, 1.0, 1.0)]
)
def test_quadratic_gamma_of_numbers_that_are_none_ends(wrong):
    drawn = draw_many(quadratic_gamma, *wrong, size=100, seed=SEED, dtype=np.float64)
    assert not np.isfinite(drawn).any()


def deviations(first, second):
    """Differences of means in units of their Monte Carlo standard error, for (chain, draw, ...) arrays."""
    found = []
    for index in np.ndindex(first.shape[2:]):
        a, b = (x[(slice(None), slice(None), *index)] for x in (first, second))
        error = np.hypot(array_stats.mcse(a), array_stats.mcse(b))
        found.append((a.mean() - b.mean()) / error)
    return np.array(found)


def draws(posterior):
    """(chain, draw, cells): the rates of every kept draw."""
    rates = np.concatenate([block for _, block in posterior.iter_rate_draws()], axis=1)
    return rates.reshape(*posterior._kept.sizes, -1)


def by_emcee(log_posterior, size):
    rng = np.random.default_rng(SEED)
    np.random.seed(SEED)  # noqa: NPY002 (emcee draws from numpy's global state)
    sampler = emcee.EnsembleSampler(20, size, log_posterior)
    sampler.run_mcmc(rng.normal(size=(20, size)) * 0.3, 2500)
    return np.exp(np.swapaxes(sampler.get_chain(discard=500), 0, 1))  # (walkers, steps, size)


def log_posterior_of(rates, seen, rho):
    """Gamma priors on all entries, and the likelihood of the observed cells with their counts summed out."""
    values, observed = seen

    def log_posterior(logs):
        entries = np.exp(logs)
        prior = stats.gamma.logpdf(entries, PRIOR["shape"], scale=1 / PRIOR["rate"]).sum() + logs.sum()
        return prior + release_given_rate.logpmf(values, rates(entries), rho)[observed].sum()

    return log_posterior


VALUES = np.array([[5, 4, -1], [7, 2, 1], [0, 3, 6]])


def network_rates(entries):
    """One community: theta of three actors, pi."""
    return np.outer(entries[:3], entries[:3]) * entries[3]


NETWORKS = {
    "directed": (CommunityModel(1, **PRIOR), ~np.eye(3, dtype=bool)),
    "undirected": (CommunityModel(1, directed=False, **PRIOR), np.triu(np.ones((3, 3), bool), 1)),
    "self-loops": (CommunityModel(1, self_loops=True, **PRIOR), np.ones((3, 3), bool)),
    "undirected self-loops": (
        CommunityModel(1, directed=False, self_loops=True, **PRIOR),
        np.triu(np.ones((3, 3), bool)),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", NETWORKS)
def test_communities_agree_with_emcee(name):
    model, observed = NETWORKS[name]
    rho = 0.8
    theirs = by_emcee(log_posterior_of(network_rates, (VALUES, observed), rho), 4)
    fitted = cv.fit(
        model,
        cv.PrivateCounts(VALUES, rho=rho),
        sweeps=20_000,
        burn_in=1000,
        thin=4,
        seed=SEED,
        progress=False,
    )
    group = fitted.tree["posterior"]
    pi = group["pi"].to_numpy().astype(float)[..., 0, 0]
    ours = np.concatenate([group["theta"].to_numpy().astype(float)[..., 0], pi[..., None]], axis=-1)
    for change in (np.log, lambda f: (f > 1.0) + 1e-9 * f):
        assert np.abs(deviations(change(ours), change(theirs))).max() < SIGMAS
    rates = np.stack([network_rates(e)[observed] for e in theirs.reshape(-1, 4)]).reshape(
        *theirs.shape[:2], -1
    )
    fitted_rates = draws(fitted)
    outside = ~(observed | observed.T).reshape(-1)
    assert (fitted_rates[..., outside] == 0).all()  # such cells are not part of the network
    fitted_rates = fitted_rates[..., observed.reshape(-1)]
    assert np.abs(deviations(np.log(fitted_rates), np.log(rates))).max() < SIGMAS
    assert np.abs(deviations(np.log(1.3 * fitted_rates), np.log(rates))).max() > SIGMAS


@pytest.mark.long
def test_a_tensor_with_missing_cells_agrees_with_emcee():
    values = np.array([[[4, 0], [1, 2]], [[9, 3], [-1, 0]]])
    missing = np.zeros((2, 2, 2), dtype=bool)
    missing[0, 1, 1] = missing[1, 0, 0] = True
    rho = 1.2

    def rates(entries):
        return np.einsum("i,j,t->ijt", entries[:2], entries[2:4], entries[4:])

    theirs = by_emcee(log_posterior_of(rates, (values, ~missing), rho), 6)
    release = cv.PrivateCounts(values, rho=rho, mask=missing)
    fitted = cv.fit(
        TensorModel(rank=1, **PRIOR), release, sweeps=20_000, burn_in=1000, thin=4, seed=SEED, progress=False
    )
    group = fitted.tree["posterior"]
    ours = np.concatenate([group[f"factor{a}"].to_numpy().astype(float)[..., 0] for a in range(3)], axis=-1)
    assert np.abs(deviations(np.log(ours), np.log(theirs))).max() < SIGMAS
    assert np.abs(deviations(np.log(1.3 * ours), np.log(theirs))).max() > SIGMAS


TRUE = np.array([[12, 0, 3, 0, 1], [9, 1, 2, 0, 0], [0, 7, 0, 5, 0], [1, 9, 0, 6, 2]])


@pytest.mark.long
@pytest.mark.parametrize("method", ["exact", "bessel", "naive"])
def test_a_matrix_factorization_is_the_topic_model(method):
    release = cv.simulate_release(TRUE, alpha=np.exp(-1), seed=SEED).hide(([0, 3], [0, 1]))
    settings = {"sweeps": 12_000, "burn_in": 1000, "thin": 4, "method": method, "progress": False}
    # The same tokens on both sides: an algorithm that integrates cells out has another joint to watch.
    settings["algorithm"] = "tokens" if method == "exact" else "auto"
    topics = cv.fit(TopicModel(2, shape=0.5, rate=1.0), release, seed=SEED, **settings)
    ours = cv.fit(Factorization("dk,kv->dv", k=2, shape=0.5), release, seed=SEED + 1, **settings)
    other = cv.fit(Factorization("dk,kv->dv", k=2, shape=0.8), release, seed=SEED + 1, **settings)
    assert np.abs(deviations(np.log1p(draws(ours)), np.log1p(draws(topics)))).max() < SIGMAS
    assert np.abs(deviations(np.log1p(draws(other)), np.log1p(draws(topics)))).max() > SIGMAS
    for name in ("sampled_log_likelihood", "total_rate", "log_joint"):
        a, b = (np.asarray(p.tree["sample_stats"][name])[..., None] for p in (ours, topics))
        assert np.abs(deviations(a, b)).max() < SIGMAS, name


@pytest.mark.long
def test_exact_and_bessel_agree_on_a_network():
    counts = np.random.default_rng(SEED).poisson(3.0, (5, 5))
    release = cv.simulate_release(counts, alpha=np.exp(-1), seed=SEED)
    settings = {"sweeps": 12_000, "burn_in": 1000, "thin": 4, "progress": False}
    fits_ = [
        cv.fit(
            CommunityModel(2, shape=0.5, rate=1.0), release, method=m, algorithm=a, seed=SEED + i, **settings
        )
        for i, (m, a) in enumerate((("exact", "auto"), ("exact", "cells"), ("bessel", "auto")))
    ]
    ties = ~np.eye(5, dtype=bool).reshape(-1)
    first, *others = (np.log1p(draws(fitted)[..., ties]) for fitted in fits_)
    for other in others:
        assert np.abs(deviations(first, other)).max() < SIGMAS
    assert np.abs(deviations(first, others[0] + 0.1)).max() > SIGMAS
