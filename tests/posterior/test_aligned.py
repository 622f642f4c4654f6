"""Draws in one order for ArviZ: every place means the same in every draw, and everything on it has moved along."""

import arviz_stats
import numpy as np
import pytest

import countveil as cv
from goodness_of_fit import SEED


def rates(model, tree, shape):
    """(chain, draw, cells): they do not depend on the order, so they say whether all factors moved together."""
    draws = tree["posterior"].to_dataset()
    fields = [draws[name].to_numpy().astype(np.float64) for name in model.state_type._fields]
    cells = np.divmod(np.arange(np.prod(shape)), np.prod(shape[1:]))
    found = [
        model.rates_at(model.state_type(*(field[place] for field in fields)), *cells)
        for place in np.ndindex(*fields[0].shape[:2])
    ]
    return np.stack(found)


def planted(shape):
    """Two blocks along every axis."""
    halves = np.meshgrid(*(np.arange(n) < n // 2 for n in shape), indexing="ij")
    same = np.all([half == halves[0] for half in halves], axis=0)
    return np.random.default_rng(SEED).poisson(0.1 + 12.0 * same)


CASES = {
    "topics": (cv.TopicModel(2), (6, 6)),
    "topics, fixed prior": (cv.TopicModel(2, rate=1.0), (6, 6)),
    "matrix": (cv.Factorization("dk,kv->dv", k=2), (6, 6)),
    "matrix, turned": (cv.Factorization("vk,kd->dv", k=2, rate=None), (6, 6)),
    "communities": (cv.CommunityModel(2, rate=None), (6, 6)),
    "undirected": (cv.CommunityModel(2, directed=False), (6, 6)),
    "CP": (cv.TensorModel(rank=2), (4, 5, 6)),
    "CP by einsum": (cv.Factorization("ik,jk,tk->ijt", k=2), (4, 5, 6)),
    "Tucker": (cv.TensorModel(core=(2, 2, 2), rate=None), (4, 5, 6)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_field_moves_along(name):
    model, shape = CASES[name]
    posterior = cv.fit(model, planted(shape), sweeps=60, seed=SEED, progress=False)
    aligned = posterior.aligned()
    before, after = posterior.tree["posterior"].to_dataset(), aligned["posterior"].to_dataset()
    assert {n: v.dims for n, v in before.data_vars.items()} == {n: v.dims for n, v in after.data_vars.items()}
    np.testing.assert_allclose(rates(model, aligned, shape), rates(model, posterior.tree, shape), rtol=1e-9)
    for field in before.data_vars:  # nothing is lost or twice there
        np.testing.assert_array_equal(
            np.sort(before[field].to_numpy().reshape(*before[field].shape[:2], -1)),
            np.sort(after[field].to_numpy().reshape(*before[field].shape[:2], -1)),
        )
    assert aligned["sample_stats"].to_dataset().identical(posterior.tree["sample_stats"].to_dataset())
    assert "format" not in aligned.attrs
    assert after["agreement"].size == 2
    assert ("agreement_component1" in after.coords) == (name == "Tucker")


def test_places_are_those_of_the_answers(posterior, release):
    found = posterior.aligned()["posterior"]
    phi = found["phi"].to_numpy().astype(np.float64)
    shares = (phi / phi.sum(axis=-1, keepdims=True)).reshape(-1, *phi.shape[2:])
    topics = posterior.topics()
    np.testing.assert_allclose(shares.mean(axis=0), topics.weights["mean"], rtol=1e-9)
    np.testing.assert_array_equal(found["agreement"], topics.agreement)
    assert found["word"].to_numpy().tolist() == release.labels[1].tolist()
    assert found["document"].to_numpy().tolist() == release.labels[0].tolist()


def test_means_of_the_prior_go_with_their_topics(posterior, with_draws):
    sizes = posterior.tree["posterior"].sizes
    theta, phi = (posterior.tree["posterior"][name].to_numpy() for name in ("theta", "phi"))
    mean = posterior.tree["posterior"]["theta_mean"].to_numpy()
    turned = with_draws(
        posterior,
        theta=np.where(np.arange(sizes["draw"])[:, None, None] % 2, theta[..., ::-1], theta),
        phi=np.where(np.arange(sizes["draw"])[:, None, None] % 2, phi[..., ::-1, :], phi),
        theta_mean=np.where(np.arange(sizes["draw"])[:, None] % 2, mean[..., ::-1], mean),
    )
    assert not turned.tree["posterior"].identical(posterior.tree["posterior"])
    for name in ("theta", "phi", "theta_mean"):
        np.testing.assert_array_equal(
            turned.aligned()["posterior"][name], posterior.aligned()["posterior"][name]
        )


def test_several_views_have_one_order():
    model = cv.SharedFactors(
        words=cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2),
        authors=cv.Factorization("dk,ka->da", names=["theta", "psi"], k=2),
    )
    data = {"words": planted((6, 6)), "authors": planted((6, 4))}
    posterior = cv.fit(model, data, sweeps=60, seed=SEED, progress=False)
    aligned = posterior.aligned()["posterior"]
    for view, fields in {"words": ("theta", "phi"), "authors": ("theta", "psi")}.items():
        one = posterior[view].aligned()["posterior"]
        for field in fields:
            np.testing.assert_array_equal(one[field], aligned[field])


def test_models_without_an_order_are_refused(own):
    tucker = cv.Factorization("ia,jb,ab->ij", a=2, b=2)
    posterior = cv.fit(tucker, planted((6, 6)), sweeps=20, seed=SEED, progress=False)
    with pytest.raises(TypeError, match=r"^aligned: expected the posterior of a TopicModel.*'ia,jb,ab->ij'"):
        posterior.aligned()
    with pytest.raises(TypeError, match=r"^aligned: expected .*got Levels"):
        own.aligned()


@pytest.mark.long
@pytest.mark.parametrize("model", [cv.TopicModel(3), cv.TopicModel(3, rate=0.13)], ids=["inferred", "fixed"])
def test_r_hat_of_planted_topics_is_that_of_one_story(model):
    """Four chains that find the same three topics, each in an order of its own."""
    theme = np.arange(60) % 3
    counts = np.random.default_rng(SEED).poisson(0.1 + 5.0 * (np.arange(30) // 10 == theme[:, None]))
    release = cv.simulate_release(counts, epsilon=3, seed=SEED)
    posterior = cv.fit(model, release, sweeps=4000, burn_in=1000, thin=5, chains=4, seed=SEED, progress=False)
    trees = {"as they came": posterior.tree, "aligned": posterior.aligned()}
    r_hat = {n: arviz_stats.rhat(t["posterior"].to_dataset()[["theta", "phi"]]) for n, t in trees.items()}
    for factor in ("theta", "phi"):
        before, after = (r_hat[name][factor].to_numpy() for name in ("as they came", "aligned"))
        assert np.median(before) > 1.5
        assert np.quantile(after, 0.99) < 1.05
