"""Small models of two views against independent samplers: emcee on the closed-form likelihood, and one view alone."""

import emcee
import numpy as np
import pytest
from scipy import stats

import countveil as cv
from countveil.distributions import release_given_rate
from goodness_of_fit import SEED
from inference.test_factorization_exact import SIGMAS, deviations, draws

PRIOR = {"shape": 1.5, "rate": 0.8}
WORDS = np.array([[5, 4, -1], [7, 2, 1]])
HIDDEN = np.array([[False, True, False], [False, False, False]])
AUTHORS = np.array([[3, 0], [6, 1]])
RHO = 0.8


def model(**options):
    return cv.SharedFactors(
        words=cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=1, **{**PRIOR, **options}),
        authors=cv.Factorization("dk,ka->da", names=["theta", "psi"], k=1, **{**PRIOR, **options}),
    )


def log_posterior(logs):
    """theta of two documents, phi of three words, psi of two authors; true counts of the words summed out."""
    entries = np.exp(logs)
    theta, phi, psi = np.split(entries, [2, 5])
    prior = stats.gamma.logpdf(entries, PRIOR["shape"], scale=1 / PRIOR["rate"]).sum() + logs.sum()
    released = release_given_rate.logpmf(WORDS, np.outer(theta, phi), RHO)[~HIDDEN].sum()
    return prior + released + stats.poisson.logpmf(AUTHORS, np.outer(theta, psi)).sum()


@pytest.mark.long
def test_two_views_agree_with_emcee():
    np.random.seed(SEED)  # noqa: NPY002 (emcee draws from numpy's global state)
    sampler = emcee.EnsembleSampler(24, 7, log_posterior)
    sampler.run_mcmc(np.random.default_rng(SEED).normal(size=(24, 7)) * 0.3, 4000)
    theirs = np.swapaxes(sampler.get_chain(discard=500), 0, 1)  # (walkers, steps, entries), logarithms

    def ours(**options):
        fitted = cv.fit(
            model(**options), {"words": cv.PrivateCounts(WORDS, rho=RHO, mask=HIDDEN), "authors": AUTHORS},
            sweeps=20_000, burn_in=1000, thin=4, seed=SEED, progress=False,
        )  # fmt: skip
        group = fitted.tree["posterior"]
        flat = [
            group[name].to_numpy().astype(float).reshape(2, fitted.n_draws // 2, -1)
            for name in ("theta", "phi", "psi")
        ]
        return np.log(np.concatenate(flat, axis=-1))

    found = ours()
    assert np.abs(deviations(found, theirs)).max() < SIGMAS
    for first, second in ((0, 2), (1, 5), (1, 6)):  # rates: theta with phi, theta with psi
        together = [x[..., [first]] + x[..., [second]] for x in (found, theirs)]
        assert np.abs(deviations(*together)).max() < SIGMAS
    above = [(x > 0) + 1e-9 * x for x in (found, theirs)]
    assert np.abs(deviations(*above)).max() < SIGMAS
    assert np.abs(deviations(ours(shape=1.3 * PRIOR["shape"]), theirs)).max() > SIGMAS


@pytest.mark.long
@pytest.mark.parametrize("method", ["exact", "bessel", "naive"])
def test_one_view_is_the_plain_factorization(method):
    counts = np.array([[12, 0, 3, 0, 1], [9, 1, 2, 0, 0], [0, 7, 0, 5, 0], [1, 9, 0, 6, 2]])
    release = cv.simulate_release(counts, alpha=np.exp(-1), seed=SEED).hide(([0, 3], [0, 1]))
    settings = {"sweeps": 12_000, "burn_in": 1000, "thin": 4, "method": method, "progress": False}

    def view(shape):
        return cv.Factorization("dk,kv->dv", k=2, shape=shape)

    alone = cv.fit(view(0.5), release, seed=SEED, **settings)
    shared = cv.fit(cv.SharedFactors(words=view(0.5)), {"words": release}, seed=SEED + 1, **settings)
    other = cv.fit(cv.SharedFactors(words=view(0.8)), {"words": release}, seed=SEED + 1, **settings)
    assert np.abs(deviations(np.log1p(draws(shared["words"])), np.log1p(draws(alone)))).max() < SIGMAS
    assert np.abs(deviations(np.log1p(draws(other["words"])), np.log1p(draws(alone)))).max() > SIGMAS
    for name in ("sampled_log_likelihood", "total_rate", "log_joint"):
        mine = name if name == "log_joint" else f"{name}_words"
        a, b = (np.asarray(p.tree["sample_stats"][n])[..., None] for p, n in ((shared, mine), (alone, name)))
        assert np.abs(deviations(a, b)).max() < SIGMAS, name


@pytest.mark.long
def test_exact_and_bessel_agree():
    rng = np.random.default_rng(SEED)
    words = cv.simulate_release(rng.poisson(3.0, (4, 5)), alpha=np.exp(-1), seed=SEED)
    views = {"words": words, "authors": rng.poisson(2.0, (4, 2))}
    two = cv.SharedFactors(
        words=cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2, shape=0.5),
        authors=cv.Factorization("dk,ka->da", names=["theta", "psi"], k=2, shape=0.5),
    )
    settings = {"sweeps": 12_000, "burn_in": 1000, "thin": 4, "progress": False}
    first, *others = (
        cv.fit(two, views, method=m, algorithm=a, seed=SEED + i, **settings)
        for i, (m, a) in enumerate((("exact", "auto"), ("exact", "cells"), ("bessel", "auto")))
    )
    for other in others:
        for view in views:
            assert (
                np.abs(deviations(np.log1p(draws(first[view])), np.log1p(draws(other[view])))).max() < SIGMAS
            )
