"""New rows of tensors and other factorizations, by ``cv.transform``."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

import countveil as cv
from countveil.inference.new_rows import NewRows, new_row_draws
from countveil.models.einsum.inferred import Prior
from countveil.transforming.known_columns import known_columns
from goodness_of_fit import SEED
from test_new_actors import quadrature_mean

TENSOR = np.random.default_rng(2).poisson(
    20
    * np.einsum(
        "ik,jk,tk->ijt",
        np.eye(2)[np.arange(12) % 2],
        [[1, 0], [1, 0.1], [0, 1], [0.1, 1]],
        [[1, 0.3], [0.2, 1]],
    )
)


@pytest.mark.parametrize(
    ("model", "dimension"),
    [(cv.TensorModel(rank=2), "component"), (cv.TensorModel(core=(2, 2, 1)), "component0")],
)
def test_new_rows_of_a_tensor(model, dimension):
    posterior = cv.fit(
        model, TENSOR[:10], labels=(None, list("abcd"), None), sweeps=600, seed=1, progress=False
    )
    found = cv.transform(
        posterior, cv.simulate_release(TENSOR[10:], epsilon=2, seed=1), seed=1, progress=False
    )
    assert found["mean"].dims == ("axis0", dimension)
    shares = found["mean"].to_numpy()
    assert np.allclose(shares.sum(axis=1), 1)
    first = posterior.components().factors["axis0"]["mean"].to_numpy()  # (component, row)
    assert (shares.argmax(axis=1) == [first[:, 0].argmax(), first[:, 1].argmax()]).all()
    assert shares.max(axis=1).min() > 0.75


def test_a_tensor_agrees_with_quadrature():
    # Rank 1, the other factors nearly fixed by the draws that are given: here, by a posterior of one draw.
    fitted = cv.fit(
        cv.TensorModel(rank=1, shape=1.3, rate=0.5), TENSOR[:10, :2, :1], sweeps=400, thin=200, chains=1, seed=1,
        progress=False,
    )  # fmt: skip
    known = known_columns(fitted)
    phi, values = known.phi(0, 0)[0], np.array([7, 30])
    data = cv.PrivateCounts(values.reshape(1, 2, 1), rho=0.4)
    views = [NewRows(data, lambda chain, draw: known.phi(0, 0))]
    draws, _ = new_row_draws(known.prior, views, (2, 4000), sweeps=3, burn_in=50, seed=SEED, threads=1)
    scale = 5 / phi.max()  # the same number, in units that suit the grid
    exact = quadrature_mean(Prior(1.3, 0.5 * scale), [(values, phi * scale, 0.4)]) * scale
    draws = draws[..., 0, 0].astype(float)
    assert abs(draws.mean() - exact) < 5 * array_stats.mcse(draws)
    assert abs(1.1 * draws.mean() - exact) > 5 * array_stats.mcse(draws)


COUNTS = np.array([[9, 8, 0, 0], [8, 9, 1, 0], [0, 0, 9, 8], [9, 7, 0, 0], [1, 0, 8, 9], [7, 9, 0, 1]])


def test_a_factorization_is_the_topic_model():
    new = cv.PrivateCounts([[7, 9, -1, 0], [0, 1, 8, 8]], alpha=0.2)
    topics = cv.fit(cv.TopicModel(2), COUNTS, sweeps=400, seed=1, progress=False)
    factors = cv.fit(cv.Factorization("dk,kv->dv", k=2), COUNTS, sweeps=400, seed=1, progress=False)
    one, two = (cv.transform(p, new, seed=1, progress=False)["mean"] for p in (topics, factors))
    assert two.dims == ("row", "topic")
    assert np.abs(one.to_numpy() - two.to_numpy()).max() < 0.03


def test_fixed_factors_keep_their_places():
    phi = np.array([[0.0, 0.1, 5, 5], [5, 5, 0.1, 0]])
    model = cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2, fixed={"phi": phi})
    posterior = cv.fit(model, COUNTS, sweeps=100, seed=1, progress=False)
    shares = cv.transform(posterior, [[8, 9, 0, 0]], seed=1, progress=False)["mean"].to_numpy()
    assert shares[0, 1] > 0.9
    fixed = cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2, fixed={"theta": np.ones((6, 2))})
    posterior = cv.fit(fixed, COUNTS, sweeps=20, seed=1, progress=False)
    with pytest.raises(
        ValueError, match="transform: expected a factor of the first axis that was drawn, got 'theta'"
    ):
        cv.transform(posterior, COUNTS, progress=False)


def test_models_without_a_factor_of_the_first_axis_are_refused():
    posterior = cv.fit(cv.Factorization("dkv,k->dv", k=2), COUNTS, sweeps=20, seed=1, progress=False)
    with pytest.raises(
        TypeError, match="transform: expected the posterior of a TopicModel, or of a factorization"
    ):
        cv.transform(posterior, COUNTS, progress=False)


def test_received_is_for_networks():
    posterior = cv.fit(cv.TopicModel(2), COUNTS, sweeps=40, seed=1, progress=False)
    with pytest.raises(ValueError, match="received: expected it for a directed CommunityModel alone"):
        cv.transform(posterior, COUNTS, COUNTS, progress=False)
    tensor = cv.fit(cv.TensorModel(rank=1), TENSOR[:4], sweeps=20, seed=1, progress=False)
    with pytest.raises(ValueError, match="data: expected 3 axes, got 2"):
        cv.transform(tensor, COUNTS, progress=False)
    with pytest.raises(ValueError, match="data: expected the 4 places along axis 1 that were fitted, got 3"):
        cv.transform(tensor, TENSOR[:, :3], progress=False)
