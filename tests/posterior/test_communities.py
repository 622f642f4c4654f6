"""Communities and components of draws in any order: aligned first, scale cancelled, then averaged."""

import numpy as np
import pytest

import countveil as cv
from countveil.models import CommunityModel, Factorization, TensorModel
from countveil.posterior.align.communities import AlignedCommunities
from countveil.posterior.align.components import AlignedComponents

RNG = np.random.default_rng(4)
EVERY = np.arange(12)


def shuffled_communities(n_draws, trade=True):
    """One truth, seen in any order of communities, with scale traded between theta and pi."""
    theta, pi = RNG.gamma(0.3, 1.0, (12, 3)), RNG.gamma(0.5, 1.0, (3, 3))
    thetas, pis = [], []
    for _ in range(n_draws):
        order = RNG.permutation(3)
        scale = RNG.gamma(3.0, size=3) if trade else np.ones(3)
        thetas.append((theta * scale)[:, order])
        pis.append((pi / np.outer(scale, scale))[order][:, order])
    return theta, pi, np.array(thetas), np.array(pis)


def test_order_and_scale_do_not_matter():
    theta, pi, thetas, pis = shuffled_communities(30)
    aligned = AlignedCommunities(thetas, pis, ("sender", "receiver"), directed=True, self_loops=True)
    blocks, shares = aligned.blocks(0.9), aligned.memberships(EVERY, 0.9, EVERY)
    np.testing.assert_allclose(blocks["agreement"], 1.0, atol=1e-9)
    for found in (blocks, shares):
        np.testing.assert_allclose(found["low"], found["high"], rtol=1e-6)
    sums = theta.sum(axis=0)
    expected = np.outer(sums, sums) * pi
    order = np.argsort(-(expected.sum(axis=0) + expected.sum(axis=1)))
    np.testing.assert_allclose(blocks["mean"], expected[order][:, order], rtol=1e-6)
    np.testing.assert_allclose(shares["mean"].sum("community"), 1.0)
    # Averages of draws that are not aligned are another thing.
    assert not np.allclose(pis.mean(axis=0), pi, rtol=0.1)


def test_components_in_any_order():
    factors = [RNG.gamma(0.3, 1.0, (n, 3)) for n in (8, 6, 5)]
    orders = [RNG.permutation(3) for _ in range(20)]
    scales = RNG.gamma(3.0, size=(20, 3))
    draws = [np.array([f[:, o] for o in orders]) for f in factors]
    draws[0], draws[1] = draws[0] * scales[:, None], draws[1] / scales[:, None]
    found = AlignedComponents(draws, None, ("from", "to", "when")).components(
        3, 0.9, [np.arange(8), np.arange(6), np.arange(5)]
    )
    share = np.prod([f.sum(axis=0) for f in factors], axis=0)
    order = np.argsort(-share)
    for name, factor in zip(("from", "to", "when"), factors, strict=True):
        expected = (factor / factor.sum(axis=0))[:, order].T
        np.testing.assert_allclose(found.factors[name]["mean"], expected, rtol=1e-6)
        np.testing.assert_allclose(found.share[name], share[order] / share.sum(), rtol=1e-6)
        np.testing.assert_allclose(found.agreement[name], 1.0, atol=1e-9)


def test_a_core_follows_its_factors():
    factors = [RNG.gamma(0.3, 1.0, (n, 2)) for n in (8, 6, 5)]
    core = RNG.gamma(0.5, 1.0, (2, 2, 2))
    draws, cores = [[], [], []], []
    for _ in range(10):
        orders = [RNG.permutation(2) for _ in range(3)]
        for axis in range(3):
            draws[axis].append(factors[axis][:, orders[axis]])
        cores.append(core[np.ix_(*orders)])
    aligned = AlignedComponents([np.array(d) for d in draws], np.array(cores), ("from", "to", "when"))
    found = aligned.components(3, 0.9, [np.arange(8), np.arange(6), np.arange(5)])
    np.testing.assert_allclose(found.core["low"], found.core["high"], rtol=1e-6)
    assert np.isclose(found.core["mean"].sum(), 1.0)
    parts = core * np.einsum("a,b,c->abc", *(f.sum(axis=0) for f in factors))
    np.testing.assert_allclose(
        np.sort(found.core["mean"].to_numpy().ravel()), np.sort((parts / parts.sum()).ravel())
    )


def test_labels_throughout():
    actors = [f"a{i}" for i in range(5)]
    release = cv.PrivateCounts(np.ones((5, 5), int), alpha=0.4, labels={"sender": actors, "receiver": actors})
    posterior = cv.fit(CommunityModel(2), release, sweeps=20, seed=1, progress=False)
    assert posterior.tree["posterior"]["theta"].dims == ("chain", "draw", "sender", "community")
    shares = posterior.memberships(["a3", "a1"])
    assert shares["sender"].to_numpy().tolist() == ["a3", "a1"]
    assert posterior.rates(columns=["a2"]).dims == ("sender", "receiver")
    table = posterior.to_dataframe("memberships")
    assert set(table["sender"]) == set(actors)


def test_models_without_blocks_say_so():
    posterior = cv.fit(
        Factorization("dk,kv->dv", k=2), np.ones((3, 3), int), sweeps=20, seed=1, progress=False
    )
    with pytest.raises(
        TypeError, match="blocks: expected the posterior of a CommunityModel, got Factorization"
    ):
        posterior.blocks()
    with pytest.raises(
        TypeError, match="blocks: expected the posterior of a CommunityModel, got Factorization"
    ):
        posterior.to_dataframe("blocks")


def test_the_table_of_components():
    labels = {"from": list("abcd"), "to": list("wxyz"), "when": ["Jan", "Feb"]}
    counts = np.zeros((4, 4, 2), int)
    counts[:2, :2, 0] = counts[2:, 2:, 1] = 20
    release = cv.simulate_release(counts, epsilon=3, seed=0, labels=labels)
    found = cv.fit(TensorModel(rank=2), release, sweeps=400, seed=1, progress=False).components(2)
    top = found.table[found.table["rank"] == 0].set_index(["axis", "component"])["label"]
    assert {(top["from", k] in "ab", top["to", k] in "wx", top["when", k] == "Jan") for k in (0, 1)} == {
        (True, True, True),
        (False, False, False),
    }
    assert "agreement" in repr(found)
