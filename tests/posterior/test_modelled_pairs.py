"""What a network's model leaves out, and pairs that are one pair: the same in every answer."""

import networkx as nx
import numpy as np
import pytest

import countveil as cv
from countveil.evaluation import held_out_log_score, log_likelihood
from countveil.models import CommunityModel, Factorization
from countveil.models.unknown_noise import UnknownNoise
from countveil.posterior.align.communities import AlignedCommunities

GROUP = np.repeat([0, 1], 5)
COUNTS = np.random.default_rng(0).poisson(np.where(GROUP[:, None] == GROUP, 20, 0.2))
NAMES = [f"a{i}" for i in range(10)]
KINDS = [(directed, loops) for directed in (True, False) for loops in (True, False)]
SHORT = {"sweeps": 60, "seed": 1, "progress": False}


def modelled(directed, loops):
    """The cells that have a count of their own."""
    cells = np.ones((10, 10), bool) if directed else np.triu(np.ones((10, 10), bool))
    return cells if loops else cells & ~np.eye(10, dtype=bool)


@pytest.fixture(scope="module", params=KINDS, ids=str)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def plain(kind):
    """Plain counts; what the model leaves out holds rubbish."""
    data = np.where(modelled(*kind), COUNTS, 77)
    return cv.fit(CommunityModel(2, *kind), data, labels=(NAMES, NAMES), **{**SHORT, "sweeps": 600})


@pytest.fixture(scope="module")
def noisy(kind):
    release = cv.simulate_release(COUNTS, epsilon=1, seed=0, labels=(NAMES, NAMES)).hide(([0, 3], [4, 1]))
    return cv.fit(CommunityModel(2, *kind), release, **SHORT)


def truth(kind):
    upper = np.where(modelled(*kind), COUNTS, 0)
    return upper if kind[0] else np.triu(upper) + np.triu(upper, 1).T


def test_plain_counts_are_what_they_are(plain, kind):
    found = plain.true_counts()
    for name in ("mean", "low", "high"):
        assert np.array_equal(found[name], truth(kind))
    assert np.array_equal(found["positive"], truth(kind) > 0)
    table = plain.to_dataframe("true_counts")
    assert table["mean"].tolist() == truth(kind).reshape(-1).tolist()


def test_rates_in_all_forms(noisy, kind):
    rates = noisy.rates().to_numpy()
    states = list(noisy.states())
    # Row vectors: what the actor of a column receives beside.
    receiving = [getattr(s, "receiving", 1.0) for s in states]
    expected = np.mean(
        [(s.theta @ s.pi @ s.theta.T) * r for s, r in zip(states, receiving, strict=True)], axis=0
    )
    if not kind[1]:
        np.fill_diagonal(expected, 0.0)
    np.testing.assert_allclose(rates, expected, rtol=1e-12)
    assert (np.diag(rates) > 0).all() == kind[1]
    assert np.allclose(rates, rates.T, rtol=1e-12) == (not kind[0])
    np.testing.assert_allclose(np.concatenate([block for _, block in noisy.iter_rates()]), rates)
    draws = np.concatenate([block for _, block in noisy.iter_rate_draws()], axis=1)
    np.testing.assert_allclose(draws.mean(axis=0), rates)
    np.testing.assert_allclose(noisy.rates(["a3", "a1"], ["a1", "a0", "a3"]), rates[[3, 1]][:, [1, 0, 3]])
    assert np.array_equal(noisy.to_dataframe("rates")["rate"], rates.reshape(-1))


def test_a_pair_is_one_pair(noisy, kind):
    found = noisy.true_counts()
    for name in ("mean", "low", "high", "positive"):
        values = found[name].to_numpy()
        assert np.array_equal(values, values.T) == (not kind[0])
        assert (np.diag(values) == 0).all() == (not kind[1])
    # What is found does not depend on what else is asked for.
    part = noisy.true_counts(["a7", "a4"], ["a0", "a7", "a5"])
    assert np.array_equal(part["mean"], found["mean"].to_numpy()[[7, 4]][:, [0, 7, 5]])


def test_all_totals_are_one(noisy, kind):
    total = noisy.tree["sample_stats"]["total_rate"].to_numpy().reshape(-1)
    draws = np.concatenate([block for _, block in noisy.iter_rate_draws()], axis=1)
    np.testing.assert_allclose(draws[:, modelled(*kind)].sum(axis=1), total, rtol=1e-5)
    blocks = noisy.blocks()["mean"].to_numpy()
    part = blocks if kind[0] else np.triu(blocks)
    assert part.sum() == pytest.approx(total.mean(), rel=1e-5)
    assert np.allclose(blocks, blocks.T) == (not kind[0])
    # The memberships are shares of the same counts: what an actor has of all communities is what its pairs have.
    assert np.allclose(noisy.memberships()["mean"].sum("community"), 1.0)


def test_blocks_hold_the_counts_of_their_groups(plain, kind):
    shares = plain.memberships()["mean"].to_numpy()
    first = int(GROUP[np.argmax(shares[:, 0])])
    order = [first, 1 - first]
    counts = np.where(modelled(*kind), COUNTS, 0)
    member = np.array(order)[:, None] == GROUP
    known = member @ counts @ member.T
    if not kind[0]:
        known = known + np.triu(known, 1).T + np.tril(known, -1).T
    blocks = plain.blocks()["mean"].to_numpy()
    # The posterior of a sum of n counts has a standard deviation of about sqrt(n).
    assert (np.abs(blocks - known) < 4 * np.sqrt(known + 1)).all(), (blocks, known)
    everything = member @ COUNTS @ member.T
    if kind != (True, True):  # each pair twice, or self-pairs with them, are something else
        assert np.abs(blocks - everything).max() > 4 * np.sqrt(np.max(known) + 1)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_blocks_and_memberships_pair_by_pair(kind):
    rng = np.random.default_rng(5)
    directed, loops = kind
    theta, pi = rng.gamma(0.5, 1.0, (1, 10, 3)), rng.gamma(0.5, 1.0, (1, 3, 3))
    pi = pi if directed else pi + np.swapaxes(pi, 1, 2)
    aligned = AlignedCommunities(theta, pi, ("i", "j"), directed=directed, self_loops=loops)
    blocks, ends = np.zeros((3, 3)), np.zeros((10, 3))
    for i, j in zip(*np.nonzero(modelled(*kind)), strict=True):
        rates = theta[0, i][:, None] * pi[0] * theta[0, j]  # by the communities of i and of j
        blocks += rates
        ends[i] += rates.sum(axis=1)
        ends[j] += rates.sum(axis=0)
    if not directed:
        blocks = blocks + blocks.T - np.diag(np.diag(blocks))
    order = aligned.alignment.order[0]
    np.testing.assert_allclose(aligned.blocks(0.9)["mean"], blocks[order][:, order], rtol=1e-10)
    shares = (ends / ends.sum(axis=1, keepdims=True))[:, order]
    found = aligned.memberships(np.arange(10), 0.9, np.arange(10))["mean"]
    np.testing.assert_allclose(found, shares, rtol=1e-10)
    assert (np.diff(ends.sum(axis=0)[order]) <= 0).all()


def test_the_summary_watches_modelled_pairs_alone(noisy, kind):
    cells = np.argwhere(modelled(*kind))
    table = noisy.summary(10**6)
    assert list(table.index[3:]) == [f"rate[a{i}, a{j}]" for i, j in cells]
    ten = [name for name in noisy.summary(10).index if name.startswith("rate[")]
    assert len(ten) == 10
    assert set(ten) <= set(table.index)
    i, j = cells[-1]
    assert table["mean"].iloc[-1] == pytest.approx(float(noisy.rates()[i, j]))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_scores_speak_of_modelled_pairs_alone(kind):
    held = np.random.default_rng(2).random((10, 10)) < 0.3
    held[2, 2] = held[7, 1] = True
    inside = modelled(*kind)
    release = cv.simulate_release(COUNTS, epsilon=1, seed=0)
    posterior = cv.fit(CommunityModel(2, *kind), release.hide(held), **SHORT)
    found = held_out_log_score(posterior, release)
    assert found == held_out_log_score(posterior, release, cells=held & inside)
    # Rubbish in what is left out changes nothing; elsewhere it does.
    values = np.asarray(release.to_dense())
    changed = cv.PrivateCounts(np.where(inside, values, 99), alpha=release.alpha)
    assert held_out_log_score(posterior, changed) == pytest.approx(found, rel=1e-12)
    changed = cv.PrivateCounts(np.where(inside, 99, values), alpha=release.alpha)
    assert held_out_log_score(posterior, changed) < found - 1
    by_row = log_likelihood(posterior)["log_likelihood"]["released"].to_numpy()
    cells = np.nonzero(inside & ~held)
    by_cell = log_likelihood(posterior, cells=cells)["log_likelihood"]["released"].to_numpy()
    np.testing.assert_allclose(by_row.sum(axis=2), by_cell.sum(axis=2), rtol=1e-9)


def test_unknown_noise_leaves_out_the_same():
    release = cv.simulate_release(COUNTS, epsilon=1, seed=0, keep_negative=True)
    posterior = cv.fit(UnknownNoise(CommunityModel(2, directed=False)), release, **SHORT)
    for values in (posterior.rates().to_numpy(), posterior.true_counts()["mean"].to_numpy()):
        assert (np.diag(values) == 0).all()
        np.testing.assert_allclose(values, values.T, rtol=1e-12)
        assert values.sum() > 0
    assert "rate[0, 0]" not in posterior.summary().index


def test_releases_combined_and_runs_from_disk(tmp_path):
    releases = [cv.simulate_release(COUNTS, epsilon=1, seed=seed) for seed in (0, 1)]
    posterior = cv.fit(CommunityModel(2, directed=False), cv.combine_releases(*releases), **SHORT)
    counts = posterior.true_counts()["mean"].to_numpy()
    assert np.array_equal(counts, counts.T)
    assert (np.diag(counts) == 0).all()
    posterior.save(tmp_path / "run.zarr")
    again = cv.load_posterior(tmp_path / "run.zarr")
    assert np.array_equal(again.true_counts()["mean"], counts)
    assert again.blocks().identical(posterior.blocks())


def test_other_factorizations_model_every_cell():
    model = Factorization("ic,cd,jd->ij", names=["theta", "pi", "theta"], c=2, d=2)
    posterior = cv.fit(model, COUNTS, **SHORT)
    assert np.array_equal(posterior.true_counts()["mean"], COUNTS)
    assert (np.diag(posterior.rates()) > 0).all()
    assert len(posterior.summary(10**6)) == 3 + 100


def test_models_of_ones_own_leave_out_what_they_say():
    class Plain:
        """Rates that are all 2."""

        dims = {"level": ()}  # noqa: RUF012

        def init(self, data, rng):
            from collections import namedtuple

            return namedtuple("State", "level")(np.array(2.0))

        def rates(self, state, rows):
            return np.full((rows.stop - rows.start, 3), float(state.level))

        def update(self, state, counts, rng):
            return state

        def left_out(self, shape):
            return np.array([0, 1]), np.array([2, 0])

    posterior = cv.fit(Plain(), np.full((2, 3), 5), **SHORT)
    assert posterior.rates().to_numpy().tolist() == [[2, 2, 0], [0, 2, 2]]
    assert posterior.true_counts()["mean"].to_numpy().tolist() == [[5, 5, 0], [0, 5, 5]]
    assert [n for n in posterior.summary().index if n.startswith("rate")] == [
        "rate[0, 0]", "rate[0, 1]", "rate[1, 1]", "rate[1, 2]",
    ]  # fmt: skip


def test_a_table_of_blocks(noisy):
    table = noisy.to_dataframe("blocks", interval=0.5)
    assert sorted(table.columns) == ["agreement", "community", "high", "low", "mean", "to_community"]
    blocks = noisy.blocks(interval=0.5)
    for _, row in table.iterrows():
        at = blocks.sel(community=row["community"], to_community=row["to_community"])
        assert [row[n] for n in ("mean", "low", "high")] == [float(at[n]) for n in ("mean", "low", "high")]


def test_back_to_networkx(noisy, kind):
    graph = noisy.to_networkx()
    assert type(graph) is (nx.DiGraph if kind[0] else nx.Graph)
    assert list(graph.nodes) == NAMES
    assert graph.number_of_edges() == modelled(*kind).sum()
    assert nx.number_of_selfloops(graph) == (10 if kind[1] else 0)
    rates, shares = noisy.rates().to_numpy(), noisy.memberships()["mean"].to_numpy()
    for i, j in np.argwhere(modelled(*kind)):
        assert graph[NAMES[i]][NAMES[j]]["weight"] == pytest.approx(rates[i, j], rel=1e-12)
    for name, each in zip(NAMES, shares, strict=True):
        node = graph.nodes[name]
        assert [node["community_0"], node["community_1"]] == each.tolist()
        assert node["community"] == np.argmax(each)
    few = noisy.to_networkx(least=5.0)
    assert list(few.nodes) == NAMES
    assert few.number_of_edges() == (rates[modelled(*kind)] >= 5).sum() < graph.number_of_edges()


def test_what_networkx_cannot_get(posterior, tmp_path):
    with pytest.raises(TypeError, match="to_networkx: expected the posterior of a CommunityModel, got Topic"):
        posterior.to_networkx()
    other = cv.fit(CommunityModel(2), COUNTS, labels=(NAMES, NAMES), **SHORT)
    other._labels = (other._labels[0], other._labels[0][::-1])  # as in runs of older versions
    with pytest.raises(ValueError, match="to_networkx: expected the same labels on both axes"):
        other.to_networkx()
    bare = cv.fit(CommunityModel(2), COUNTS, labels=(None, NAMES), **SHORT)
    assert list(bare.to_networkx().nodes) == NAMES
    for least in (-1, "5", True, float("nan")):
        with pytest.raises(ValueError, match="least: expected a number of at least 0, got"):
            bare.to_networkx(least=least)
    unnamed = cv.fit(CommunityModel(2, directed=False), COUNTS, **SHORT).to_networkx()
    nx.write_graphml(unnamed, tmp_path / "graph.graphml")  # plain numbers only
    assert list(unnamed.nodes) == list(range(10))
