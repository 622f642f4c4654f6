"""A small fit with inferred means against importance sampling: the prior's draws, weighted by the exact likelihood."""

import numpy as np
import pytest

import countveil as cv
from countveil.distributions import release_given_rate
from countveil.models import TopicModel
from countveil.models.einsum import prior
from goodness_of_fit import SEED

NARROW = prior.Hyper(level=3.0, log_shape=0.7, log_shape_sd=0.5, mean_shape=2.0)
X, RHO, SHAPE = np.array([[6, -1], [3, 0], [-2, 1]]), 1.0, 0.7


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr(prior, "HYPER", NARROW)


def drawn_from_the_prior(rng, n):
    """For n draws: rates (n, rows, columns), and the shapes of the words' law and the rows' first scale."""
    rows, columns, k = *X.shape, 2

    def law(size, level):
        s, t = np.exp(rng.normal(NARROW.log_shape, NARROW.log_shape_sd, (2, n, 1)))
        return s[:, 0], level * rng.gamma(t, 1 / t, (n, size)) / rng.gamma(s, 1 / s, (n, size))

    level = (rng.gamma(NARROW.level, size=n) / rng.gamma(NARROW.level, size=n))[:, None]
    _, r = law(rows, 1.0)
    upper, w = law(columns, level)
    b = NARROW.mean_shape / rng.gamma(NARROW.mean_shape, size=(n, k))
    theta = rng.gamma(SHAPE, 1 / SHAPE, (n, rows, k)) * r[:, :, None] * b[:, None, :]
    phi = rng.gamma(SHAPE, 1 / SHAPE, (n, columns, k)) * w[:, :, None]
    return np.einsum("ndk,nvk->ndv", theta, phi), upper, r[:, 0] / r[:, 1]


def quantities(rates, upper, ratio):
    total = rates.sum(axis=(1, 2))
    return {
        "first rate": np.log1p(rates[:, 0, 0]),
        "total": np.log1p(total),
        "share of the first row": rates[:, 0].sum(axis=1) / total,
        "upper shape": np.log(upper),
        "ratio of scales": np.log(ratio),
    }


def by_importance(n_batches=40, size=50_000):
    sums, batches = None, []
    for batch in range(n_batches):
        rates, upper, ratio = drawn_from_the_prior(np.random.default_rng(SEED + batch), size)
        logs = release_given_rate.logpmf(X, rates, RHO).sum(axis=(1, 2))
        weight = np.exp(logs)  # at most one, and not small: six cells
        found = quantities(rates, upper, ratio)
        batches.append([weight.sum(), *(np.sum(weight * values) for values in found.values())])
    sums = np.array(batches)
    estimate = sums[:, 1:].sum(axis=0) / sums[:, 0].sum()
    errors = (sums[:, 1:] - estimate * sums[:, :1]).std(axis=0) * np.sqrt(n_batches) / sums[:, 0].sum()
    return dict(zip(found, zip(estimate, errors, strict=True), strict=True))


def by_chains(shape, sweeps=6000, chains=4):
    fit = cv.fit(
        TopicModel(2, shape=shape), cv.PrivateCounts(X, rho=RHO),
        sweeps=sweeps, burn_in=500, thin=1, chains=chains, seed=SEED + 1, progress=False,
    )  # fmt: skip
    fields = fit.tree["posterior"]
    rates = np.concatenate([block for _, block in fit.iter_rate_draws()], axis=1)
    scale = fields["theta_scale"].to_numpy().astype(float)
    ratio = (scale[..., 0] / scale[..., 1]).reshape(-1)
    upper = fields["phi_scale_upper"].to_numpy().reshape(-1).astype(float)
    found = {}
    for name, values in quantities(rates, upper, ratio).items():
        parts = values.reshape(chains * 10, -1).mean(axis=1)
        found[name] = parts.mean(), parts.std(ddof=1) / np.sqrt(len(parts))
    return found


def worst(one, two):
    return max(abs(one[n][0] - two[n][0]) / np.hypot(one[n][1], two[n][1]) for n in one)


@pytest.mark.long
def test_chains_agree_with_importance_sampling():
    exact = by_importance()
    assert worst(exact, by_chains(SHAPE)) < 5
    # The comparison sees a prior whose entries are more alike.
    assert worst(exact, by_chains(3 * SHAPE)) > 5
