"""Fits that do not keep all draws: running means are those of the aligned draws, on disk and after a stop, too."""

import pickle
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import countveil as cv
from countveil.cli import main
from countveil.evaluation import held_out_log_score, log_likelihood
from countveil.models import TensorModel
from countveil.posterior.running_means import ChainMeans, summary_of
from countveil.posterior.runs import checkpoint as checkpoints

SHORT = {"sweeps": 90, "burn_in": 60, "thin": 2, "chains": 2, "seed": 1, "threads": 1, "progress": False}
RNG = np.random.default_rng(3)
GROUP = np.repeat([0, 1, 2], [8, 6, 4])
MATRIX = RNG.poisson(np.where(GROUP[:, None] == np.repeat([0, 1, 2], 2), 12.0, 0.3))
TENSOR = RNG.poisson(
    np.where(GROUP[:, None, None] == np.repeat([0, 1, 2], 2)[:, None], [[[9.0, 1.0, 4.0]]], 0.2)
)
NETWORK = RNG.poisson(np.where(GROUP[:, None] == GROUP, 8.0, 0.3))
LABELS = {"letter": [f"l{i}" for i in range(18)], "word": list("abcdef")}
RELEASE = cv.simulate_release(MATRIX, epsilon=2, seed=0, labels=LABELS)
FIXED = cv.Factorization(
    "dk,kv->dv", names=["theta", "phi"], k=3, fixed={"phi": np.eye(3).repeat(2, axis=1) + 0.1}
)

MODELS = {
    "topics": (cv.TopicModel(3), RELEASE),
    "rates": (cv.TopicModel(3, rate=1.0), MATRIX),
    "turned": (cv.Factorization("kd,vk->dv", k=3), MATRIX),
    "fixed": (FIXED, RELEASE),
    "tensor": (TensorModel(rank=3, rate=None), TENSOR),
    "directed": (cv.CommunityModel(3, rate=None), NETWORK),
    "undirected": (cv.CommunityModel(3, directed=False), NETWORK),
}
REFUSED = [("directed", "columns"), ("undirected", "columns")]
QUICK = [("topics", "columns"), ("topics", "summaries"), ("tensor", "columns"), ("directed", "summaries")]


def same_run(one, other):
    for group in ("posterior", "sample_stats", "running"):
        assert one.tree[group].to_dataset().equals(other.tree[group].to_dataset())


def close(found, expected, what=("mean",)):
    for name in what:
        assert np.allclose(found[name], expected[name], rtol=1e-5, atol=1e-7)


def spread_of(draws):
    """Standard deviations over the draws of all chains."""
    return draws.std(axis=0, ddof=1)


CASES = [(case, keep) for case in MODELS for keep in ("columns", "summaries") if (case, keep) not in REFUSED]


@pytest.mark.parametrize(
    ("case", "keep"),
    [one if one in QUICK else pytest.param(*one, marks=pytest.mark.long) for one in CASES],
)
@pytest.mark.filterwarnings("ignore::countveil.posterior.ModesWarning")
def test_means_are_those_of_the_aligned_draws(case, keep):
    model, data = MODELS[case]
    whole, found = cv.fit(model, data, **SHORT), cv.fit(model, data, keep=keep, **SHORT)
    assert found.n_draws == whole.n_draws
    assert repr(found).endswith(f"2 chains x 15 draws, keep={keep!r})")
    assert found.summary(0).equals(whole.summary(0))
    if case != "tensor":
        close(found.memberships(), whole.memberships())
        close(found.memberships([3, 1]), whole.memberships([3, 1]))
        aligned = whole._aligned("memberships", "communities" if "directed" in case else "topics")
        draws = aligned._share if "directed" in case else shares(aligned)
        assert np.allclose(found.memberships()["sd"], spread_of(draws), rtol=1e-4, atol=1e-7)
        assert np.allclose(found.memberships()["agreement"], whole.memberships()["agreement"], atol=1e-6)
    if "directed" in case:
        close(found.blocks(), whole.blocks())
        assert np.allclose(found.blocks()["sd"], spread_of(aligned._blocks), rtol=1e-4)
    elif case == "tensor":
        one, two = found.components(2), whole.components(2)
        for axis in one.factors:
            close(one.factors[axis], two.factors[axis])
            assert np.allclose(one.share[axis], two.share[axis], atol=1e-6)
        assert one.table["label"].tolist() == two.table["label"].tolist()
    else:
        one, two = found.topics(2), whole.topics(2)
        close(one.weights, two.weights, ("mean", "low", "high") if keep == "columns" else ("mean",))
        assert np.allclose([one.prevalence, one.agreement], [two.prevalence, two.agreement], atol=1e-6)
        assert one.table["word"].tolist() == two.table["word"].tolist()
        spread = spread_of(weights(whole._aligned("topics", "topics")))
        assert keep == "columns" or np.allclose(one.weights["sd"], spread, rtol=1e-4, atol=1e-7)
    if getattr(model, "rate", 1) is None:
        for axis in (0, 1):
            close(found.scales(axis), whole.scales(axis))


def shares(aligned):
    each = aligned._theta * aligned._phi_sums[:, None, :]
    each /= each.sum(axis=2, keepdims=True)
    return np.take_along_axis(each, aligned.alignment.order[:, None, :], axis=2)


def weights(aligned):
    each = aligned._phi.astype(np.float64)
    each /= each.sum(axis=2, keepdims=True)
    return np.take_along_axis(each, aligned.alignment.order[:, :, None], axis=1)


def test_topics_that_change_their_places_are_brought_back():
    """States of a fit, their topics in another order every time: the same means, which without order are others."""
    model = cv.TopicModel(3, rate=1.0)
    states = list(cv.fit(model, RELEASE, **SHORT).states())[:15]
    shuffled, rng = [], np.random.default_rng(0)
    for state in states[1:]:
        turn = rng.permutation(3)
        shuffled.append(state._replace(theta=state.theta[:, turn], phi=state.phi[turn]))
    one, other = ChainMeans(model, "summaries"), ChainMeans(model, "summaries")
    for state, turned in zip(states, [states[0], *shuffled], strict=True):
        one.take(0, state)
        other.take(0, turned)
    found, expected = summary_of(other.sums(0)), summary_of(one.sums(0))
    assert all(np.allclose(found[name], expected[name], rtol=1e-9, atol=1e-12) for name in expected)
    unordered = np.mean([s.phi / s.phi.sum(axis=1, keepdims=True) for s in [states[0], *shuffled]], axis=0)
    assert abs(unordered - expected["phi_weights"]).max() > 0.1, "the test has power"


@pytest.mark.parametrize("keep", ["columns", pytest.param("summaries", marks=pytest.mark.long)])
def test_stopped_and_resumed_on_disk_it_is_the_run_in_memory(keep, tmp_path, monkeypatch):
    model, settings = cv.TopicModel(3), {**SHORT, "keep": keep}
    run, whole = tmp_path / "run.zarr", cv.fit(model, RELEASE, **settings)

    def stop(sweeps, _):
        for sweep in sweeps:
            if sweep > 71:
                raise KeyboardInterrupt
            yield sweep

    with monkeypatch.context() as patch:
        patch.setattr("countveil.chains_to_posterior.progress_bar", lambda *given: stop)
        with pytest.warns(UserWarning, match="interrupted: 5 of 15"):
            part = cv.fit(model, RELEASE, store=run, **settings)
    with pytest.warns(UserWarning, match="unfinished"):
        loaded = cv.load_posterior(run)
    short = cv.fit(model, RELEASE, **{**settings, "sweeps": 71})
    same_run(loaded, short)
    found = cv.resume(run, progress=False)
    same_run(found, whole)
    same_run(cv.load_posterior(run), whole)
    assert found.memberships().equals(whole.memberships())
    same_run(pickle.loads(pickle.dumps(found)), whole)
    same_run(part, short)  # read only now, and still what it was


@pytest.mark.long
@pytest.mark.parametrize("keep", ["columns", "summaries"])
def test_extended_saved_and_merged_it_is_the_run_in_memory(keep, tmp_path):
    model, settings = cv.TopicModel(3), {**SHORT, "keep": keep}
    run, whole = tmp_path / "run.zarr", cv.fit(model, RELEASE, **settings)
    found = cv.fit(model, RELEASE, store=run, **settings)
    longer = cv.fit(model, RELEASE, **{**settings, "sweeps": 100})
    same_run(cv.extend(run, 100, progress=False), longer)
    same_run(found, whole)  # read only now
    whole.save(tmp_path / "saved.zarr")
    again = cv.load_posterior(tmp_path / "saved.zarr")
    same_run(again, whole)
    assert again.memberships().equals(whole.memberships())
    parts = [tmp_path / f"{chain}.zarr" for chain in range(2)]
    for chain, place in enumerate(parts):
        cv.fit(model, RELEASE, chain=chain, store=place, **settings)
    merged = cv.merge_runs([parts[1], parts[0]], tmp_path / "merged.zarr")
    same_run(merged, whole)
    same_run(cv.extend(tmp_path / "merged.zarr", 100, progress=False), longer)
    cv.fit(model, RELEASE, chain=1, store=tmp_path / "all.zarr", **SHORT)
    with pytest.raises(ValueError, match="runs: expected one keep, got"):
        cv.merge_runs([parts[0], tmp_path / "all.zarr"], tmp_path / "no.zarr")


@pytest.mark.long
def test_a_fixed_factor_and_unknown_noise(tmp_path):
    run = tmp_path / "run.zarr"
    whole = cv.fit(FIXED, RELEASE, store=run, keep="columns", **SHORT)
    assert cv.load_posterior(run, FIXED).memberships().equals(whole.memberships())
    noisy = cv.UnknownNoise(cv.TopicModel(3))
    found = cv.fit(noisy, RELEASE, keep="summaries", **SHORT)
    assert found.release == cv.fit(noisy, RELEASE, **SHORT).release
    assert sorted(found.memberships()) == ["mean", "sd"]


def test_bytes_on_disk_do_not_grow_with_rows_times_draws(tmp_path):
    rows = 400
    counts = np.random.default_rng(0).poisson(1.0, (rows, 6))

    def size(keep, kept):
        run = tmp_path / f"{keep}{kept}.zarr"
        settings = {**SHORT, "burn_in": 2, "thin": 1, "sweeps": 2 + kept, "chains": 1}
        cv.fit(cv.TopicModel(4, rate=1.0), counts, store=run, keep=keep, **settings)
        return sum(path.stat().st_size for path in run.rglob("*") if path.is_file())

    grown = {keep: size(keep, 30) - size(keep, 10) for keep in ("all", "columns", "summaries")}
    draw = 4 * 4 * rows
    assert grown["all"] > 0.5 * 20 * draw, "the test has power"
    # 3 scalars of 8 bytes; of columns also phi and the sums of theta, of 4.
    assert grown["summaries"] < 20 * 3 * 8 + 500
    assert grown["columns"] < 20 * (3 * 8 + 4 * (4 * 6 + 4)) + 500


@pytest.mark.long
def test_memory_does_not_grow_with_the_draws():
    counts = np.random.default_rng(0).poisson(0.5, (2000, 60))

    def peak(kept, keep):
        settings = {**SHORT, "burn_in": 1, "thin": 1, "sweeps": 1 + kept, "chains": 1}
        tracemalloc.start()
        try:
            cv.fit(cv.TopicModel(20), counts, keep=keep, **settings)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    draw = 4 * 20 * 2060
    peak(2, "all"), peak(2, "summaries")
    assert peak(150, "all") - peak(10, "all") > 100 * draw, "the test has power"
    assert peak(150, "summaries") - peak(10, "summaries") < draw


def test_what_needs_draws_says_so(tmp_path):
    model = cv.TopicModel(3)
    for keep in ("columns", "summaries"):
        found = cv.fit(model, RELEASE.hide(([0], [0])), keep=keep, **SHORT)
        for ask in (
            found.rates,
            found.true_counts,
            lambda found=found: next(found.states()),
            lambda found=found: next(found.iter_rate_draws()),
            lambda found=found: log_likelihood(found),
            lambda found=found: held_out_log_score(found, RELEASE),
        ):
            with pytest.raises(
                ValueError, match=r"keep: expected a fit with keep='all', .* no draws of theta"
            ):
                ask()
        assert found.totals() is None  # what was missing is not known without draws
        assert found.to_dataframe("memberships").columns.tolist()[2:] == ["mean", "sd", "agreement"]
        assert "draws were not kept" in found.memberships().attrs["intervals"]
        assert len(found.to_dataframe("scalars")) == 30
    with pytest.raises(
        ValueError, match=r"keep: expected a fit with keep='all' or 'columns', .* got keep='summaries'"
    ):
        cv.transform(found, MATRIX[:2], progress=False)


def test_new_rows_need_no_draws_of_the_old():
    whole, found = (cv.fit(cv.TopicModel(3), RELEASE, keep=keep, **SHORT) for keep in ("all", "columns"))
    one, two = (cv.transform(posterior, MATRIX[:3], seed=2, progress=False) for posterior in (whole, found))
    assert one.equals(two)


def test_what_cannot_be_averaged_is_refused(tmp_path):
    def refused(message, model, data, keep):
        with pytest.raises(ValueError, match=message):
            cv.fit(model, data, keep=keep, store=tmp_path / "run.zarr", **SHORT)
        assert not list(tmp_path.iterdir())

    refused("keep: expected one of all, columns, summaries, got 'some'", cv.TopicModel(2), MATRIX, "some")
    refused(
        "keep: expected 'all' or 'summaries' for a CommunityModel, whose columns are its rows, got 'columns'",
        cv.CommunityModel(2), NETWORK, "columns",
    )  # fmt: skip
    words = cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2)
    shared = cv.SharedFactors(words=words, again=cv.Factorization("dk,ku->du", names=["theta", "psi"], k=2))
    refused(
        "keep: expected 'all' .* got 'columns' for a SharedFactors",
        shared,
        {"words": MATRIX, "again": MATRIX},
        "columns",
    )
    refused("got 'summaries' for a TensorModel", TensorModel(core=(2, 2, 2)), TENSOR, "summaries")
    refused(
        "got 'summaries' for a Factorization", cv.Factorization("dk,kl,lv->dv", k=2, l=2), MATRIX, "summaries"
    )


def test_damaged_running_means_are_found(tmp_path):
    run = tmp_path / "run.zarr"
    cv.fit(cv.TopicModel(3), RELEASE, store=run, keep="columns", **SHORT)
    for damage in ("lost", "changed"):
        other = tmp_path / f"{damage}.zarr"
        shutil.copytree(run, other)
        chunk = other / "running" / "memberships" / "c" / "1" / "0" / "0"
        if damage == "lost":
            chunk.unlink()
        else:
            chunk.write_bytes((other / "running" / "memberships_sd" / "c" / "1" / "0" / "0").read_bytes())
        with pytest.raises(cv.PosteriorFileError, match="damaged"):
            cv.load_posterior(other)
    # A checkpoint whose running means are of other states, by a right checksum.
    place = run / "checkpoint" / "chains"
    found = checkpoints.read_checkpoint(place)
    means = ChainMeans(cv.TopicModel(2), "columns")
    other = {"theta": np.ones((18, 2)), "phi": np.ones((2, 6)), "theta_mean": np.ones(2)}
    means.begin({**found.carries[0].state, **other})
    with pytest.raises(ValueError, match="expected a checkpoint of this problem, got one with other running"):
        means.load(0, found.running[0])


def test_many_draws_of_many_rows_are_not_kept_unless_somebody_asks(tmp_path, monkeypatch):
    options = {**SHORT, "sweeps": 66}
    size = 4 * 3 * len(MATRIX) * 2 * 3  # bytes of the rows' draws
    monkeypatch.setattr("countveil.chains_to_posterior.MOST_BYTES_OF_ROWS", size)
    assert "theta" in cv.fit(cv.TopicModel(3), RELEASE, **options).tree["posterior"]
    monkeypatch.setattr("countveil.chains_to_posterior.MOST_BYTES_OF_ROWS", size - 1)
    with pytest.warns(UserWarning, match="keep: 2 x 3 draws of all rows would take .* keep='summaries'"):
        found = cv.fit(cv.TopicModel(3), RELEASE, store=tmp_path / "run.zarr", **options)
    same_run(found, cv.fit(cv.TopicModel(3), RELEASE, keep="summaries", **options))
    assert cv.resume(tmp_path / "run.zarr", progress=False).tree["running"]["n_draws"].max() == 3
    for other in (
        cv.fit(cv.TopicModel(3), RELEASE, keep="all", **options),
        cv.fit(cv.CommunityModel(3), NETWORK, **options),
    ):
        assert "running" not in other.tree.children


def test_by_the_command(tmp_path, capsys):
    RELEASE.save(tmp_path / "release.parquet")
    run, table, shares = (str(tmp_path / name) for name in ("run.zarr", "topics.csv", "shares.csv"))
    words = ["--topics", "3", "--sweeps", "90", "--burn-in", "60", "--thin", "2", "--seed", "1"]
    assert (
        main(["fit", "topics", str(tmp_path / "release.parquet"), *words, "--keep", "summaries", "-o", run])
        == 0
    )
    assert "keep='summaries'" in capsys.readouterr().out
    assert main(["topics", run, "--csv", table, "--memberships", shares]) == 0
    heads = [Path(file).read_text().partition("\n")[0].strip() for file in (table, shares)]
    assert heads == ["topic,rank,word,weight,sd", "letter,topic,mean,sd,agreement"]
    same_run(cv.load_posterior(run), cv.fit(cv.TopicModel(3), RELEASE, keep="summaries", **SHORT))


@pytest.mark.long
def test_draws_on_disk_are_read_when_they_are_asked_for(tmp_path):
    words = cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2)
    shared = cv.SharedFactors(words=words, again=cv.Factorization("dk,ku->du", names=["theta", "psi"], k=2))
    cases = {
        "shared": (shared, {"words": RELEASE, "again": MATRIX}),
        "noise": (cv.UnknownNoise(cv.TopicModel(2)), RELEASE),
    }
    for name, (model, data) in cases.items():
        found, whole = cv.fit(model, data, store=tmp_path / name, **SHORT), cv.fit(model, data, **SHORT)
        assert "tree" not in vars(found)
        if name == "noise":
            assert found.release == whole.release
            assert "tree" not in vars(found)
        else:
            assert found["words"].release == RELEASE
            assert found["again"].rates().equals(whole["again"].rates())
            assert found["again"].true_counts([0]).equals(whole["again"].true_counts([0]))
        assert found.tree["posterior"].to_dataset().equals(whole.tree["posterior"].to_dataset())
