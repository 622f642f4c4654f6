"""What people see of factorizations: missing cells, threads, symmetry, labels, planted structure."""

import numpy as np
import pytest

import countveil as cv
from countveil.models import CommunityModel, Factorization, TensorModel
from goodness_of_fit import SEED

SHORT = {"sweeps": 30, "thin": 3, "seed": 5, "progress": False}
RNG = np.random.default_rng(3)
NETWORK = RNG.poisson(2.0, (70, 70))
TENSOR = RNG.poisson(1.0, (70, 6, 5))

MODELS = {
    "directed": (CommunityModel(3), NETWORK),
    "undirected": (CommunityModel(3, directed=False), NETWORK),
    "self-loops": (CommunityModel(3, self_loops=True), NETWORK),
    "CP": (TensorModel(rank=3), TENSOR),
    "Tucker": (TensorModel(core=(3, 2, 2)), TENSOR),
    "other": (Factorization("dk,kv,dv->dv", k=2, rate=None), NETWORK),
}


def states(posterior):
    return {name: values.to_numpy() for name, values in posterior.tree["posterior"].data_vars.items()}


def same(one, two):
    return all(np.array_equal(states(one)[name], states(two)[name]) for name in states(one))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", ["exact", "bessel", "naive"])
def test_draws_do_not_depend_on_threads(name, method):
    model, counts = MODELS[name]
    release = cv.simulate_release(counts, epsilon=1, seed=0)
    one, two = (cv.fit(model, release, method=method, threads=n, **SHORT) for n in (1, 2))
    assert same(one, two)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("share", [0.2, pytest.param(0.8, marks=pytest.mark.long)])
def test_masked_values_cannot_influence_anything(name, share):
    model, counts = MODELS[name]
    mask = np.random.default_rng(1).random(counts.shape) < share
    x = np.asarray(cv.simulate_release(counts, epsilon=1, seed=0).to_dense())
    one = cv.fit(model, cv.PrivateCounts(x, alpha=0.4, mask=mask), **SHORT)
    two = cv.fit(model, cv.PrivateCounts(np.where(mask, x + 50, x), alpha=0.4, mask=mask), **SHORT)
    other = cv.fit(model, cv.PrivateCounts(np.where(mask, x, x + 1), alpha=0.4, mask=mask), **SHORT)
    assert same(one, two)
    assert not same(one, other)


@pytest.mark.parametrize("directed", [True, False])
def test_what_communities_leave_out_has_no_influence(directed):
    model = CommunityModel(3, directed=directed)
    changed = NETWORK.copy()
    changed[model.left_out(NETWORK.shape)] = 77
    one, two = (cv.fit(model, cv.PrivateCounts(x, alpha=0.4), **SHORT) for x in (NETWORK, changed))
    assert same(one, two)
    one, two = (cv.fit(model, x, **SHORT) for x in (NETWORK, changed))
    assert same(one, two)
    seen = cv.fit(CommunityModel(3, self_loops=True), changed, **SHORT)
    assert not same(one, seen)


@pytest.mark.parametrize("self_loops", [True, False])
def test_symmetric_stays_symmetric(self_loops):
    model = CommunityModel(3, directed=False, self_loops=self_loops)
    for data in (NETWORK, cv.simulate_release(NETWORK, epsilon=1, seed=0)):
        posterior = cv.fit(model, data, **SHORT)
        pi = states(posterior)["pi"]
        assert np.array_equal(pi, np.swapaxes(pi, -1, -2))
        rates = posterior.rates().to_numpy()
        np.testing.assert_allclose(rates, rates.T, rtol=1e-12)


def test_a_fixed_factor_stays_and_a_start_is_one():
    pi = np.array([[2.0, 0.1], [0.3, 1.0]])
    names = ["theta", "pi", "theta"]
    model = Factorization("ic,cd,jd->ij", names=names, fixed={"pi": pi}, c=2, d=2)
    posterior = cv.fit(model, NETWORK, **SHORT)
    assert (states(posterior)["pi"] == pi.astype(np.float32)).all()
    start = np.full((70, 2), 0.3)
    model = Factorization("ic,cd,jd->ij", names=names, start={"theta": start}, c=2, d=2)
    first = model.init(cv.PrivateCounts(NETWORK, alpha=0.5), np.random.default_rng(0))
    assert np.array_equal(first.theta, start)


@pytest.mark.parametrize("name", MODELS)
def test_the_start_has_the_scale_of_the_data(name):
    model, counts = MODELS[name]
    release = cv.simulate_release(counts * 5, epsilon=1, seed=0)
    state = model.init(release, np.random.default_rng(0))
    total = model.rates(state, slice(0, len(counts))).sum()
    assert 0.9 < total / (5 * counts.sum()) < 1.1


@pytest.mark.parametrize("name", MODELS)
def test_rates_in_all_forms_are_one(name):
    model, counts = MODELS[name]
    data = cv.PrivateCounts(counts, alpha=0.5)
    state = model.init(data, np.random.default_rng(0))
    everything = model.rates(state, slice(0, len(counts)))
    assert everything.shape == counts.shape
    np.testing.assert_allclose(model.rates(state, slice(3, 9)), everything[3:9], rtol=1e-12)
    rows, columns = np.array([0, 5, 69]), np.array([2, 0, 29])
    at = model.rates_at(state, rows, columns)
    np.testing.assert_allclose(at, everything.reshape(70, -1)[rows, columns], rtol=1e-12)
    outside = model.left_out(counts.shape)
    part = everything.copy()
    if outside is not None:
        part[outside] = 0
    np.testing.assert_allclose(model.total_rate(state), part.sum(), rtol=1e-9)


def test_an_undirected_network_needs_its_upper_half():
    mask = np.triu(np.ones((4, 4), dtype=bool))
    with pytest.raises(
        ValueError, match="data: expected observed counts in the part that CommunityModel models"
    ):
        cv.fit(
            CommunityModel(2, directed=False), cv.PrivateCounts(np.ones((4, 4), int), alpha=0.5, mask=mask)
        )


def test_held_out_links_are_predicted():
    group = np.repeat([0, 1], 15)
    counts = np.random.default_rng(SEED).poisson(np.where(group[:, None] == group, 6.0, 0.3))
    held = np.random.default_rng(SEED + 1).random(counts.shape) < 0.1
    release = cv.simulate_release(counts, epsilon=1, seed=SEED).hide(held)
    posterior = cv.fit(CommunityModel(2), release, sweeps=400, seed=1, progress=False)
    off = held & ~np.eye(30, dtype=bool)
    rates, truth = posterior.rates().to_numpy()[off], posterior.true_counts()["mean"].to_numpy()[off]
    near = (group[:, None] == group)[off]
    assert rates[near].min() > rates[~near].max()
    assert abs(truth[near].mean() - 6.0) < 1.5


@pytest.mark.parametrize("name", ["communities", "CP"])
def test_planted_structure_is_found_better_than_by_the_naive_method(name):
    rng = np.random.default_rng(SEED)
    if name == "communities":
        theta = rng.gamma(0.3, 1.0, (50, 3))
        truth = theta @ (0.1 + 3.0 * np.eye(3)) @ theta.T
        np.fill_diagonal(truth, 0)
        model = CommunityModel(3)
    else:
        factors = [rng.gamma(0.3, 1.5, (n, 3)) for n in (40, 12, 8)]
        truth = np.einsum("ik,jk,tk->ijt", *factors)
        model = TensorModel(rank=3)
    release = cv.simulate_release(rng.poisson(truth), alpha=np.exp(-0.7), seed=SEED)
    errors = {}
    for method in ("exact", "naive"):
        posterior = cv.fit(model, release, method=method, sweeps=600, seed=1, progress=False)
        rates = np.concatenate([block for _, block in posterior.iter_rates()])
        keep = np.ones(truth.shape, dtype=bool) if name == "CP" else ~np.eye(50, dtype=bool)
        errors[method] = np.abs(rates - truth)[keep].mean()
    assert errors["exact"] < 0.7 * errors["naive"], errors


def test_noise_that_varies_by_row_and_by_cell():
    for alpha in (np.linspace(0.1, 0.6, 70)[:, None], np.linspace(0.1, 0.6, 4900).reshape(70, 70)):
        release = cv.PrivateCounts(NETWORK, alpha=alpha)
        one, two = (cv.fit(CommunityModel(3), release, threads=n, **SHORT) for n in (1, 2))
        assert same(one, two)


@pytest.mark.parametrize("name", MODELS)
def test_a_run_comes_back_from_disk(name, tmp_path):
    model, counts = MODELS[name]
    posterior = cv.fit(model, cv.simulate_release(counts, epsilon=1, seed=0), **SHORT)
    posterior.save(tmp_path / "run.zarr")
    again = cv.load_posterior(tmp_path / "run.zarr")
    assert again.model == model
    assert same(again, posterior)
    for (_, one), (_, two) in zip(again.iter_rates(), posterior.iter_rates(), strict=True):
        assert np.array_equal(one, two)
