"""Smoothed weights of many observations at once: as ArviZ has them, one by one."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

from countveil.evaluation.psis import good_k, smoothed_weights
from goodness_of_fit import SEED


def log_likelihoods(n_draws):
    """Light tails, heavy ones (k about 0.3, 0.7, 1.2), nearly none."""
    rng = np.random.default_rng(SEED)
    heavy = [rng.exponential(k, n_draws) for k in (0.3, 0.7, 1.2)]
    others = [rng.normal(size=n_draws), rng.gamma(0.1, size=n_draws), 1e-9 * rng.normal(size=n_draws)]
    return -np.stack([*heavy, *others, 40 * rng.normal(size=n_draws) - 800], axis=1)


@pytest.mark.parametrize(
    ("n_draws", "efficiency"), [(30, 1.0), (400, 1.0), (1000, 0.3), (2000, 0.05), (2000, 1.4)]
)
def test_weights_are_those_of_arviz(n_draws, efficiency):
    values = log_likelihoods(n_draws)
    found = smoothed_weights(values, efficiency)
    np.testing.assert_allclose(np.exp(found.log_weights).sum(axis=0), 1.0)
    for i, column in enumerate(values.T):
        weights, k = array_stats.psislw(column, r_eff=efficiency)
        np.testing.assert_allclose(found.pareto_k[i], k, rtol=0, atol=1e-6)
        np.testing.assert_allclose(found.log_weights[:, i], weights, rtol=0, atol=1e-6)
    # The tails are told apart: an implementation that does not look at them would not.
    assert n_draws < 400 or found.pareto_k[1] > found.pareto_k[0] + 0.1


def test_what_cannot_be_smoothed():
    values = log_likelihoods(100)[:, :3]
    values[:, 0] = -2.0
    values[7, 1] = -np.inf
    found = smoothed_weights(values)
    np.testing.assert_allclose(found.log_weights[:, 0], -np.log(100))
    assert found.pareto_k[0] == -np.inf
    assert found.pareto_k[1] == np.inf
    np.testing.assert_array_equal(found.log_weights[:, 2], smoothed_weights(values[:, 2:]).log_weights[:, 0])
    with pytest.raises(ValueError, match=r"^draws: expected at least 30, got 29"):
        smoothed_weights(values[:29])
    assert good_k(100) == pytest.approx(0.5)
