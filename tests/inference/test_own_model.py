"""A user's own model with the protocol's three functions fits privately: the example of docs/own_model.md."""

from typing import NamedTuple

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats

import countveil as cv
from countveil.distributions import release_given_rate
from goodness_of_fit import SEED


class GroupState(NamedTuple):
    rate: np.ndarray


class GroupRates:
    """Events per group: y_dv ~ Poisson(exposure_dv * rate_{group of d}), rate_g ~ Gamma(shape, 1/scale).

    ``exposure`` is a known covariate offset (hours observed, population); rows belong to groups.
    """

    dims = {"rate": ("group",)}  # noqa: RUF012

    def __init__(self, groups, exposure, shape=2.0, rate=0.5):
        self.groups, self.exposure, self.shape, self.rate = (
            np.asarray(groups),
            np.asarray(exposure),
            shape,
            rate,
        )

    def init(self, data, rng):
        n_groups = self.groups.max() + 1
        return GroupState(np.full(n_groups, max(data.total(), 1.0) / self.exposure.sum()))

    def rates(self, state, rows):
        return self.exposure[rows] * state.rate[self.groups[rows], None]

    def update(self, state, counts, rng):
        events = np.bincount(self.groups, counts.sum(axis=1))
        exposed = np.bincount(self.groups, self.exposure.sum(axis=1))
        return GroupState(rng.gamma(self.shape + events) / (self.rate + exposed))


GROUPS = np.array([0, 0, 1, 1, 1])
EXPOSURE = np.random.default_rng(1).uniform(0.5, 2, (5, 3))
VALUES = np.array([[3, 1, -1], [2, 6, 2], [9, 7, 12], [0, 5, 8], [11, 6, 7]])
RHO = 0.7


def exact_mean(group, mask=None):
    """Posterior mean of a group's rate by quadrature: groups are independent given the release."""
    grid = np.linspace(1e-4, 25, 20_000)
    here = np.broadcast_to((group == GROUPS)[:, None], VALUES.shape)
    if mask is not None:
        here = here & ~mask
    log_posterior = stats.gamma.logpdf(grid, 2.0, scale=1 / 0.5)
    for x, e in zip(VALUES[here], EXPOSURE[here], strict=True):
        log_posterior += release_given_rate.logpmf(x, e * grid, RHO)
    weights = np.exp(log_posterior - log_posterior.max())
    return (grid * weights).sum() / weights.sum()


MASK = np.zeros(VALUES.shape, dtype=bool)
MASK[3] = True
MASK[0, 0] = True


@pytest.mark.parametrize("sweeps", [3000, pytest.param(12_000, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("mask", "method"),
    [
        pytest.param(None, "exact", marks=pytest.mark.long),
        (None, "bessel"),
        (MASK, "exact"),
        pytest.param(MASK, "bessel", marks=pytest.mark.long),
    ],
    ids=["complete-exact", "complete-bessel", "missing-exact", "missing-bessel"],
)
def test_the_posterior_of_an_own_model_is_right(mask, method, sweeps):
    release = cv.PrivateCounts(VALUES, rho=RHO, mask=mask)
    model = GroupRates(GROUPS, EXPOSURE)
    posterior = cv.fit(
        model, release, sweeps=sweeps, burn_in=500, thin=1, chains=2, seed=SEED, method=method, progress=False
    )
    for group in (0, 1):
        draws = posterior.tree["posterior"]["rate"].to_numpy()[..., group].astype(float)
        error = (draws.mean() - exact_mean(group, mask)) / array_stats.mcse(draws)
        assert abs(error) < 5
        assert abs(draws.mean() * 1.1 - exact_mean(group, mask)) / array_stats.mcse(draws) > 5


def test_an_own_model_has_the_general_methods():
    posterior = cv.fit(
        GroupRates(GROUPS, EXPOSURE), cv.PrivateCounts(VALUES, rho=RHO), sweeps=200, seed=1, progress=False
    )
    assert posterior.rates().shape == (5, 3)
    assert np.allclose(posterior.rates(rows=[1, 3]), posterior.rates()[[1, 3]])
    assert {"sampled_log_likelihood", "total_rate"} <= set(posterior.summary().index)
    assert posterior.true_counts(rows=[0]).sizes == {"row": 1, "column": 3}
    with pytest.raises(TypeError, match=r"topics: expected the posterior of a TopicModel, .*got GroupRates"):
        posterior.topics()


def test_an_own_model_fits_plain_counts_and_releases_alike():
    plain = cv.fit(
        GroupRates(GROUPS, EXPOSURE), np.maximum(VALUES, 0), sweeps=4000, thin=1, seed=1, progress=False
    )
    conjugate = (2.0 + np.maximum(VALUES, 0)[2:].sum()) / (0.5 + EXPOSURE[2:].sum())
    draws = plain.tree["posterior"]["rate"].to_numpy()[..., 1].astype(float)
    assert abs(draws.mean() - conjugate) / array_stats.mcse(draws) < 5


def test_an_own_model_with_rates_of_the_wrong_shape_is_told_so():
    class Wrong(GroupRates):
        def rates(self, state, rows):
            return np.ones((2, 2))

    with pytest.raises(ValueError, match=r"model.rates: expected an array of shape \(5, 3\), got \(2, 2\)"):
        cv.fit(Wrong(GROUPS, EXPOSURE), cv.PrivateCounts(VALUES, rho=RHO), sweeps=5, thin=1, progress=False)


def test_an_own_model_with_impossible_rates_is_told_so():
    class Wrong(GroupRates):
        def rates(self, state, rows):
            return -super().rates(state, rows)

    with pytest.raises(ValueError, match=r"model.rates: expected finite rates >= 0"):
        cv.fit(Wrong(GROUPS, EXPOSURE), cv.PrivateCounts(VALUES, rho=RHO), sweeps=5, thin=1, progress=False)


def test_an_own_tensor_model_works_too():
    class Flat:
        dims = {"rate": ()}  # noqa: RUF012

        def init(self, data, rng):
            self.shape = data.shape
            return GroupState(np.array(1.0))

        def rates(self, state, rows):
            return np.full((rows.stop - rows.start, *self.shape[1:]), state.rate)

        def update(self, state, counts, rng):
            return GroupState(np.array(rng.gamma(1 + counts.sum()) / (1 + counts.size)))

    release = cv.simulate_release(np.full((4, 3, 2), 5), epsilon=2, seed=1)
    posterior = cv.fit(Flat(), release, sweeps=400, seed=1, progress=False)
    assert abs(float(posterior.tree["posterior"]["rate"].mean()) - 5) < 2
    assert next(posterior.iter_rates())[1].shape == (4, 3, 2)
