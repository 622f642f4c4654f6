"""Chains that stay in different places are told, and who is with whom; chains of one place are left alone."""

import copy

import numpy as np
import pytest
from scipy.signal import lfilter

import countveil as cv
from countveil.evaluation import loo, pit, rootogram
from countveil.posterior import ModesWarning
from countveil.posterior.diagnostics import sampled_rates
from countveil.posterior.diagnostics.clusters import _Parts, clusters_of
from countveil.posterior.diagnostics.modes import posterior_modes
from countveil.posterior.diagnostics.sampled_rates import rates_by_part
from goodness_of_fit import SEED


def chains_of_one_place(rng, n_chains, directions, correlation, draws=100):
    """(chain, draw, cell): AR(1) in so many directions of unequal size, which all cells share."""
    noise = rng.normal(size=(n_chains, draws, directions)) * np.sqrt(1 - correlation**2)
    start = correlation * rng.normal(size=(n_chains, 1, directions))
    moves = lfilter([1.0], [1.0, -correlation], noise, axis=1, zi=start)[0]
    return moves * np.geomspace(1.0, 0.5, directions) @ rng.normal(size=(directions, 300))


def parts_of(draws):
    n_chains, n, cells = draws.shape
    return draws.reshape(n_chains, 4, n // 4, cells).mean(axis=2)


# An autocorrelation time of (1 + 0.9) / (1 - 0.9) = 19 draws leaves five independent ones in a chain of a hundred.
@pytest.mark.parametrize("directions", [1, 3, 30])
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_one_place_is_one_place(directions, correlation):
    rng = np.random.default_rng(SEED)
    alarms = 0
    for repetition in range(60):
        draws = chains_of_one_place(rng, (2, 4, 8)[repetition % 3], directions, correlation)
        alarms += len(clusters_of(parts_of(draws)).groups) > 1
    assert alarms <= (1 if correlation else 0)


@pytest.mark.parametrize(("correlation", "shift"), [(0.0, 0.5), (0.5, 0.8), (0.9, 2.0)])
def test_two_and_two_are_found(correlation, shift):
    """A shift in a direction of its own, ``shift`` times as large as what the chains move in all directions."""
    rng, right = np.random.default_rng(SEED), 0
    for _ in range(40):
        draws = chains_of_one_place(rng, 4, 30, correlation)
        size = np.sqrt(draws.var(axis=1).sum(axis=1).mean())
        away = rng.normal(size=300)
        draws[[1, 3]] += shift * size * away / np.linalg.norm(away)
        found = clusters_of(parts_of(draws))
        right += found.groups == ((0, 2), (1, 3))
    assert right >= 38


def test_who_wanders_and_who_jumps_is_not_settled():
    rng = np.random.default_rng(SEED)
    away, right = 3 * rng.normal(size=300), 0
    for _ in range(20):
        draws = chains_of_one_place(rng, 5, 30, 0.5)
        draws[[1, 3]] += away
        draws[4, 60:] += away
        found = clusters_of(parts_of(draws))
        right += found.groups == ((0, 2), (1, 3, 4)) and found.unsettled == (4,)
        drifting = chains_of_one_place(rng, 3, 30, 0.5)
        drifting[2] += np.linspace(3, 0, 100)[:, None] * away
        assert len(clusters_of(parts_of(drifting)).groups) == 1
    assert right > 10, "whether its last part says where it is now is a matter of luck"


def test_directions_are_counted():
    rng = np.random.default_rng(SEED)
    for directions in (1, 4, 50):
        equal = rng.normal(size=(400, 4, 4, directions))
        found = [_Parts(one).directions([0, 1, 2, 3]) for one in equal]
        assert np.median(found) == pytest.approx(directions, rel=0.15)
    assert len(clusters_of(np.ones((3, 4, 5))).groups) == 1
    stuck = np.ones((2, 4, 5))
    stuck[1] += 1
    assert clusters_of(stuck).groups == ((0,), (1,)), "chains that never move, and not in one place"


COUNTS = np.random.default_rng(0).poisson(np.kron(np.eye(2), np.full((10, 4), 5.0)) + 0.3)
QUIETLY = {"sweeps": 120, "burn_in": 40, "thin": 2, "chains": 4, "seed": 1, "progress": False}


def with_two_solutions(one, other):
    """``one``, whose chains 1 and 3 have the states of ``other``; the log-likelihoods stay."""
    both = copy.copy(one)
    both.tree = one.tree.copy(deep=True)
    for name, values in other.tree["posterior"].data_vars.items():
        both.tree["posterior"][name][[1, 3]] = values[[1, 3]]
    return both


@pytest.fixture(scope="module")
def two():
    """Half of the chains have other columns beside each other."""
    fits = [
        cv.fit(cv.TopicModel(2), counts, **QUIETLY)
        for counts in (COUNTS, COUNTS[:, [0, 1, 4, 5, 2, 3, 6, 7]])
    ]
    return with_two_solutions(*fits)


def test_solutions_of_equal_likelihood_are_told(two):
    told = two.summary(0).verdict
    assert told.startswith(
        "Chains 0 and 2 agree with each other, chains 1 and 3 with each other: rates differ "
    )
    assert "though log-likelihoods are only" in told
    assert "Probably two solutions, which longer chains may not leave." in told
    assert "posterior.chains([0, 2]) and posterior.chains([1, 3]) take one each" in told
    for chains in ([0, 2], [1, 3]):
        assert not posterior_modes(two.chains(chains)).differ
    told = two.chains([0, 1]).summary(0).verdict
    assert "The two chains disagree: rates differ" in told
    assert "Chain 3 with no other" not in told
    assert "chain 3 with no other: rates" in two.chains([0, 2, 3]).summary(0).verdict


@pytest.mark.filterwarnings("ignore:loo. Pareto k")
def test_scores_and_checks_of_such_a_mixture_warn(two):
    for name, score in (("loo", loo), ("rootogram", rootogram), ("pit", pit), ("rates", cv.Posterior.rates)):
        with pytest.warns(
            ModesWarning, match=f"^{name}: an average over chains that do not agree. Chains 0 and 2"
        ):
            score(two)


def test_it_is_told_of_a_run_on_disk(two, tmp_path, capsys):
    from countveil.cli import main

    two.save(tmp_path / "run")
    assert posterior_modes(cv.load_posterior(tmp_path / "run")).groups in (((0, 2), (1, 3)), ((1, 3), (0, 2)))
    assert main(["show", str(tmp_path / "run")]) == 0
    assert "Chains 0 and 2 agree with each other, chains 1 and 3" in capsys.readouterr().out
    assert main(["plot", str(tmp_path / "run"), "traces", "-o", str(tmp_path / "traces.png")]) == 0
    assert "Chains 0 and 2 agree with each other, chains 1 and 3" in capsys.readouterr().err


def test_models_that_have_rates_and_those_that_have_none(monkeypatch):
    network = np.where(np.eye(20), 0, COUNTS[:, :5].repeat(4, axis=1))
    for model, counts in (
        (cv.CommunityModel(2), network),
        (cv.CommunityModel(2, directed=False), np.triu(network)),
        (cv.TensorModel(rank=2), COUNTS.reshape(20, 4, 2)),
    ):
        posterior = cv.fit(model, counts, **QUIETLY)
        parts = rates_by_part(posterior)
        whole = np.stack([posterior.chains([c]).rates().to_numpy() for c in range(4)])
        inside = whole[0].ravel() > 0  # a network has no diagonal
        means, rates = parts.mean(axis=1), whole.reshape(4, -1)[:, inside]
        assert np.allclose(means / means.sum(), rates / rates.sum(), rtol=1e-4, atol=1e-9)
    monkeypatch.setattr(sampled_rates, "_CELLS", 50)
    assert rates_by_part(posterior).shape == (4, 4, 50), "a sample"
    assert np.array_equal(rates_by_part(posterior), rates_by_part(posterior)), "the same every time"
    short = cv.fit(cv.TopicModel(2), COUNTS, **{**QUIETLY, "thin": 5})
    assert rates_by_part(short) is None, "sixteen draws make no four parts"
    assert rates_by_part(posterior.chains([0])) is None


def test_what_a_fit_keeps(two):
    permuted = COUNTS[:, [0, 1, 4, 5, 2, 3, 6, 7]]
    fits = [cv.fit(cv.TopicModel(2), counts, keep="columns", **QUIETLY) for counts in (COUNTS, permuted)]
    assert not posterior_modes(fits[0]).differ
    assert posterior_modes(with_two_solutions(*fits)).groups[0] in ((0, 2), (1, 3))
    assert rates_by_part(cv.fit(cv.TopicModel(2), COUNTS, keep="summaries", **QUIETLY)) is None
    shared = cv.SharedFactors(
        words=cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2),
        authors=cv.Factorization("dk,ka->da", names=["theta", "psi"], k=2),
    )
    posterior = cv.fit(shared, {"words": COUNTS, "authors": COUNTS[:, :3]}, **QUIETLY)
    assert rates_by_part(posterior).shape == (4, 4, COUNTS.size + 60)
    assert "with each other" not in posterior.summary(0).verdict
