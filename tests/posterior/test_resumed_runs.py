"""Runs on disk: the draws of a fit in memory; stopped and resumed, extended, read while they grow."""

import pickle
import shutil
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import countveil as cv
from countveil.inference import chains
from countveil.inference.engines.cpu.sampler import CpuSampler
from countveil.inference.problem import make_problem
from countveil.posterior.runs import schema, zarr_store
from countveil.resuming import _engine_again

RNG = np.random.default_rng(5)
COUNTS, OTHER = RNG.poisson(2.0, (12, 6)), RNG.poisson(1.0, (12, 4))
SIGNED = COUNTS + RNG.geometric(0.6, COUNTS.shape) - RNG.geometric(0.6, COUNTS.shape)
RELEASE = cv.simulate_release(
    COUNTS, epsilon=2, seed=0, labels={"letter": [f"l{i}" for i in range(12)], "word": list("abcdef")}
)
SHORT = {"sweeps": 30, "burn_in": 10, "thin": 3, "chains": 2, "seed": 1, "threads": 1, "progress": False}


class Levels:
    """A model of one's own, which a run does not hold."""

    dims = {"level": ("row",), "group": ("row",)}  # noqa: RUF012

    def init(self, data, rng):
        from collections import namedtuple

        self.state = namedtuple("LevelState", ["level", "group"])
        return self.state(np.ones(12), np.zeros(12, dtype=np.int64))

    def rates(self, state, rows):
        return np.repeat(state.level[rows, None], 6, axis=1)

    def update(self, state, counts, rng):
        level = rng.gamma(1 + counts.sum(axis=1)) / 7
        return self.state(level, (level > state.level).astype(np.int64))


WORDS = cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2)
AUTHORS = cv.Factorization("dk,ka->da", names=["theta", "psi"], k=2)
FIXED = cv.Factorization(
    "dk,kv->dv", names=["theta", "phi"], k=2, fixed={"phi": np.random.default_rng(5).random((2, 6))}
)

#: Model, data, further options of fit, and what resume needs beside the run.
CASES = {
    "release": (cv.TopicModel(2), RELEASE, {}, {}),
    "plain": (cv.TopicModel(2), COUNTS, {}, {"data": COUNTS}),
    "robust": (cv.TopicModel(2), COUNTS, {"robust": 0.2}, {"data": COUNTS}),
    "unknown noise": (cv.UnknownNoise(cv.TopicModel(2)), cv.PrivateCounts(SIGNED, alpha=0.4), {}, {}),
    "fixed factor": (FIXED, RELEASE, {}, {"model": FIXED}),
    "combined": (
        cv.TopicModel(2),
        cv.combine_releases(RELEASE, cv.simulate_release(COUNTS, epsilon=1, seed=1)),
        {},
        {},
    ),
    "shared": (
        cv.SharedFactors(words=WORDS, authors=AUTHORS),
        {"words": RELEASE, "authors": OTHER},
        {},
        {"data": {"authors": OTHER}},
    ),
    "own": (Levels(), RELEASE, {}, {"model": Levels()}),
}
SLOW = ("plain", "robust", "unknown noise", "fixed factor", "combined", "shared", "own")
EACH = [pytest.param(case, marks=pytest.mark.long) if case in SLOW else case for case in CASES]


def same_draws(one, other):
    for group in ("posterior", "sample_stats"):
        assert one.tree[group].to_dataset().equals(other.tree[group].to_dataset())


@pytest.fixture
def stop_after(monkeypatch):
    """stop_after(n): Ctrl-C comes when sweep n is done; stop_after(None): no more."""

    def change(n):
        def progress(sweeps, _):
            for sweep in sweeps:
                if n is not None and sweep > n:
                    raise KeyboardInterrupt
                yield sweep

        monkeypatch.setattr("countveil.chains_to_posterior.progress_bar", lambda *given: progress)

    return change


@pytest.mark.parametrize("case", EACH)
def test_stopped_and_resumed_it_is_the_run_in_memory(case, tmp_path, stop_after):
    model, data, more, needs = CASES[case]
    whole, run = cv.fit(model, data, **SHORT, **more), tmp_path / "run.zarr"
    stop_after(4)
    with pytest.raises(KeyboardInterrupt):  # in burn-in there is nothing to return
        cv.fit(model, data, store=run, **SHORT, **more)
    with pytest.raises(cv.PosteriorFileError, match=r"expected a run with draws, .* has none yet"):
        cv.load_posterior(run, needs.get("model"))
    stop_after(17)
    with pytest.warns(UserWarning, match="interrupted: 2 of 6 draws per chain were kept"):
        part = cv.resume(run, **needs)
    assert part.tree["posterior"].sizes["draw"] == 2
    assert part.settings["interrupted"]
    stop_after(None)
    found = cv.resume(run, **needs)
    same_draws(found, whole)
    again = cv.load_posterior(run, needs.get("model"))
    same_draws(again, whole)
    for one in (found, again):
        assert list(one.tree["posterior"].data_vars) == list(whole.tree["posterior"].data_vars)
        assert one.tree["posterior"].attrs.keys() == whole.tree["posterior"].attrs.keys()
        assert {k: v for k, v in one.tree.attrs.items() if k != "settings"} == {
            k: v for k, v in whole.tree.attrs.items() if k != "settings"
        }
        assert not one.settings["interrupted"]
        if case not in ("shared", "own"):
            assert one.rates().equals(whole.rates())
            assert one.release == whole.release
    if case not in ("shared", "own"):
        assert found.true_counts([0]).equals(whole.true_counts([0]))  # the data are at hand, plain ones too
    xr.open_datatree(run, engine="zarr", consolidated=False).close()  # by itself, without a warning


def test_a_run_that_an_older_version_began(tmp_path, stop_after):
    """The watched log-likelihood had another name then."""
    model, data, _, _ = CASES["release"]
    whole, run = cv.fit(model, data, **SHORT), tmp_path / "run.zarr"
    stop_after(17)
    with pytest.warns(UserWarning, match="interrupted"):
        cv.fit(model, data, store=run, **SHORT)
    (run / "sample_stats" / "sampled_log_likelihood").rename(run / "sample_stats" / "log_likelihood")
    root = run / "zarr.json"
    root.write_text(root.read_text().replace("sampled_log_likelihood", "log_likelihood"))
    stop_after(None)
    same_draws(cv.resume(run), whole)
    same_draws(cv.load_posterior(run), whole)


def test_what_a_run_does_not_hold_must_be_given_again(tmp_path, stop_after):
    run = tmp_path / "run.zarr"
    stop_after(14)
    with pytest.warns(UserWarning, match="interrupted"):
        cv.fit(cv.TopicModel(2), COUNTS, store=run, **SHORT)
    stop_after(None)
    with pytest.raises(
        ValueError, match="data: expected the plain counts of this run, which it does not hold"
    ):
        cv.resume(run)
    changed = COUNTS.copy()
    changed[3, 2] += 1
    with pytest.raises(ValueError, match="data: expected the counts that the run was begun with, got others"):
        cv.resume(run, changed)
    with pytest.raises(ValueError, match=r"model: expected that of this run, TopicModel\(n_topics=2"):
        cv.resume(run, COUNTS, model=cv.TopicModel(3))
    raw = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert np.ascontiguousarray(COUNTS[0], dtype="<i8").tobytes() not in raw
    same_draws(cv.resume(run, COUNTS), cv.fit(cv.TopicModel(2), COUNTS, **SHORT))


def test_data_given_again_have_the_labels_of_the_run(tmp_path):
    """The same cells under other names are other data; data without names have those of the run."""
    run, letters, words = tmp_path / "run.zarr", [f"l{i}" for i in range(12)], list("abcdef")
    table = pd.DataFrame(COUNTS, index=letters, columns=words)
    cv.fit(cv.TopicModel(2), table, store=run, **SHORT)
    for other, message in (
        (table.set_axis(letters[::-1]), "begun along axis 0, got them in another order"),
        (table.set_axis(["b", "a", *words[2:]], axis=1), "begun along axis 1, got them in another order"),
        (table.rename(columns={"f": "oil"}), "begun along axis 1, got 'oil' in place of 'f'"),
    ):
        with pytest.raises(ValueError, match=f"data: expected the labels with which the run was {message}"):
            cv.extend(run, 36, other, progress=False)
    for same in (table, COUNTS):
        found = cv.extend(run, 36, same, progress=False)
        assert found.memberships(["l3"])["row"].to_numpy().tolist() == ["l3"]
        assert found.rates(columns=["b"]).dims == cv.load_posterior(run).rates(columns=["b"]).dims
    release = tmp_path / "release.zarr"
    named, turned = (
        cv.PrivateCounts(COUNTS, alpha=0.3, labels=(one, words)) for one in (letters, letters[::-1])
    )
    cv.fit(cv.TopicModel(2), named, store=release, **SHORT)
    with pytest.raises(
        ValueError, match="data: expected the labels with which the run was begun along axis 0"
    ):
        cv.extend(release, 36, turned, progress=False)


def test_views_given_again_have_the_labels_of_the_run(tmp_path):
    run, letters = tmp_path / "run.zarr", [f"l{i}" for i in range(12)]
    model = cv.SharedFactors(words=WORDS, authors=AUTHORS)
    data = {"words": pd.DataFrame(COUNTS, index=letters), "authors": pd.DataFrame(OTHER, index=letters)}
    cv.fit(model, data, store=run, **SHORT)
    turned = {name: table.set_axis(letters[::-1]) for name, table in data.items()}
    with pytest.raises(
        ValueError, match="words: data: expected the labels with which the run was begun along axis 0"
    ):
        cv.extend(run, 36, turned, progress=False)
    cv.extend(run, 36, data, progress=False)


@pytest.mark.parametrize("case", ["release", pytest.param("unknown noise", marks=pytest.mark.long)])
def test_extended_it_is_one_run_of_that_length(case, tmp_path, stop_after):
    model, data, more, _ = CASES[case]
    run = tmp_path / "run.zarr"
    first = cv.fit(model, data, store=run, **SHORT, **more)
    second = cv.extend(first, 47, progress=False)
    same_draws(second, cv.fit(model, data, **{**SHORT, "sweeps": 47}, **more))
    assert second.settings["sweeps"] == 47
    assert second.settings["seconds"] > first.settings["seconds"]
    assert first.n_draws == 12, "it is what it was, though nobody had looked at it before"
    stop_after(60)
    with pytest.warns(UserWarning, match="interrupted: 16 of 30"):
        cv.extend(run, 100)
    stop_after(None)
    whole = cv.fit(model, data, **{**SHORT, "sweeps": 100}, **more)
    same_draws(cv.resume(run), whole)
    same_draws(cv.load_posterior(run), whole)


def test_a_total_can_be_made_smaller_down_to_what_was_done(tmp_path, stop_after):
    run = tmp_path / "run.zarr"
    stop_after(4)
    with pytest.raises(KeyboardInterrupt):
        cv.fit(cv.TopicModel(2), RELEASE, store=run, **{**SHORT, "sweeps": 100})
    with pytest.raises(ValueError, match=r"sweeps: expected a new total above the burn-in of 10, .*, got 7"):
        cv.extend(run, 7)
    stop_after(17)
    with pytest.warns(UserWarning, match="interrupted: 2 of 15 draws"):
        cv.extend(run, 55)
    stop_after(None)
    with pytest.raises(ValueError, match=r"sweeps: expected a new total of at least 17, .*, got 16"):
        cv.extend(run, 16)
    same_draws(cv.extend(run, 30), cv.fit(cv.TopicModel(2), RELEASE, **SHORT))


def test_what_cannot_be_extended(tmp_path):
    run = tmp_path / "run.zarr"
    cv.fit(cv.TopicModel(2), RELEASE, store=run, **SHORT)
    with pytest.raises(ValueError, match=r"sweeps: expected a new total of at least 30, .*, got 20"):
        cv.extend(run, 20)
    with pytest.raises(ValueError, match="sweeps: expected a whole number >= 1, got 'x'"):
        cv.extend(run, "x")
    in_memory = cv.fit(cv.TopicModel(2), RELEASE, **SHORT)
    with pytest.raises(ValueError, match="a posterior that was fitted with store=, got one in memory"):
        cv.extend(in_memory, 50)
    in_memory.save(tmp_path / "saved.zarr")
    with pytest.raises(cv.PosteriorFileError, match="which was saved from memory and has no checkpoint"):
        cv.extend(tmp_path / "saved.zarr", 50)
    # A copy that is saved is a run like any other.
    cv.load_posterior(run).save(tmp_path / "copy.zarr")
    same_draws(cv.load_posterior(tmp_path / "copy.zarr"), in_memory)


def test_it_is_readable_while_it_grows(tmp_path, monkeypatch):
    whole, run, seen = cv.fit(cv.TopicModel(2), RELEASE, **SHORT), tmp_path / "run.zarr", []

    def progress(sweeps, _):
        for sweep in sweeps:
            if sweep > 13 and sweep % 4 == 0:  # the first draw was kept in sweep 13
                with pytest.warns(UserWarning, match=r"unfinished: .* of 6 draws per chain so far"):
                    part = cv.load_posterior(run)
                seen.append(part.tree["posterior"].sizes["draw"])
                same = whole.tree["posterior"].to_dataset().isel(draw=slice(seen[-1]))
                assert part.tree["posterior"].to_dataset().equals(same)
                assert part.topics(2).top_words().shape == (2, 2)
            yield sweep

    monkeypatch.setattr("countveil.chains_to_posterior.progress_bar", lambda *given: progress)
    monkeypatch.setattr(zarr_store, "_SHARE", float("inf"))
    cv.fit(cv.TopicModel(2), RELEASE, store=run, checkpoint_seconds=0, **SHORT)
    assert seen == [1, 3, 4, 5], "after sweeps 15, 19, 23 and 27"


@pytest.mark.long
def test_memory_does_not_grow_with_the_draws(tmp_path):
    counts = np.random.default_rng(0).poisson(0.5, (2000, 60))
    settings = {"burn_in": 1, "thin": 1, "chains": 1, "seed": 1, "threads": 1, "progress": False}

    def peak(kept, **more):
        tracemalloc.start()
        try:
            cv.fit(cv.TopicModel(20), counts, sweeps=1 + kept, **settings, **more)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(2)
    draw = 4 * 20 * (2000 + 60)
    assert peak(150) - peak(10) > 100 * draw, "in memory it does"
    peak(2, store=tmp_path / "first.zarr")  # imports
    few = peak(10, store=tmp_path / "few.zarr")
    # The checksum at the end reads some draws together.
    assert peak(150, store=tmp_path / "many.zarr") - few < 4 * schema._BYTES_AT_ONCE < 100 * draw


def test_a_posterior_of_a_run_travels(tmp_path):
    posterior = cv.fit(cv.TopicModel(2), RELEASE, store=tmp_path / "run.zarr", **SHORT)
    same_draws(pickle.loads(pickle.dumps(posterior)), posterior)


def test_bad_stores(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match=r"store: expected a new folder, got .*which exists"):
        cv.fit(cv.TopicModel(2), RELEASE, store=tmp_path / "file", **SHORT)
    with pytest.raises(FileNotFoundError, match="store: expected a folder to write into"):
        cv.fit(cv.TopicModel(2), RELEASE, store=tmp_path / "no" / "run.zarr", **SHORT)
    with pytest.raises(ValueError, match="checkpoint_seconds: expected a number >= 0, got -1"):
        cv.fit(cv.TopicModel(2), RELEASE, store=tmp_path / "run.zarr", checkpoint_seconds=-1, **SHORT)
    with pytest.raises(FileNotFoundError, match="path: expected the folder of a run"):
        cv.resume(tmp_path / "run.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_loop_monitors_what_its_names_say():
    """The arrays of a run are made before the first draw."""
    from countveil.inference.monitor import names_of_scalars
    from countveil.inference.problem import make_problem
    from countveil.inference.settings import check_settings

    settings = check_settings(
        **{k: v for k, v in SHORT.items() if k != "progress"}, method="exact", engine="auto"
    )
    for case in ("release", "plain", "unknown noise"):
        model, data, more, _ = CASES[case]
        problem = make_problem(model, data, **more)
        assert list(chains.run_chains(problem, settings).monitored) == names_of_scalars(problem)


@pytest.mark.parametrize("after", [8, 17])
def test_stopped_in_the_middle_of_a_sweep_the_last_checkpoint_stays(after, tmp_path, monkeypatch):
    """As by a second Ctrl-C: the chains are not in step, and what came after the checkpoint is drawn again."""
    whole, run, swept = cv.fit(cv.TopicModel(2), RELEASE, **SHORT), tmp_path / "run.zarr", []
    sweep = CpuSampler.sweep

    def stop(self, chain):
        swept.append(chain)
        if len(swept) == 2 * after + 2:  # the second chain's
            raise KeyboardInterrupt
        sweep(self, chain)

    with monkeypatch.context() as patch:
        patch.setattr(CpuSampler, "sweep", stop)
        patch.setattr(zarr_store, "_SHARE", float("inf"))
        patch.setattr(zarr_store.ZarrStore, "swept", every_fifth_sweep)
        expected = (
            pytest.raises(KeyboardInterrupt) if after < 15 else pytest.warns(UserWarning, match="1 of 6")
        )
        with expected:
            cv.fit(cv.TopicModel(2), RELEASE, store=run, **SHORT)
    same_draws(cv.resume(run, progress=False), whole)


def every_fifth_sweep(store, sweep, carries, last):
    if sweep % 5 == 0:
        store._checkpoint(sweep, carries)
    return False


def test_where_a_run_may_go_on():
    release = cv.simulate_release(np.ones((3, 3), dtype=int), epsilon=1, seed=0)
    topics, network = make_problem(cv.TopicModel(2), release), make_problem(cv.CommunityModel(2), release)

    def place(engine, *, began="cpu", start="auto", sweep=10, problem=topics):
        return _engine_again(problem, {"engine": began, "start": start, "burn_in": 20}, sweep, engine)

    assert place("auto") == "cpu"
    assert place("auto", began="auto") == place("auto", began="mpi") == "cpu"
    assert place("auto", began="cuda") == place("cuda", began="cuda") == "cuda"
    for engine, began in (("cpu", "cuda"), ("mpi", "cuda"), ("cuda", "cpu"), ("cuda", "mpi")):
        with pytest.raises(
            ValueError, match=f"engine: expected the hardware on which .*'{began}'.* got '{engine}'"
        ):
            place(engine, began=began)
    # Better starts look at all rows together.
    with pytest.raises(ValueError, match=r"expected one machine until burn-in has ended .* got 'ray'"):
        place(cv.Ray())
    assert place("mpi", start="plain") == place("mpi", sweep=20) == "mpi"
    assert place("mpi", problem=network) == "mpi"  # of which the chains are spread, not the rows


def test_a_folder_that_was_replaced_meanwhile_is_not_written_to(tmp_path):
    """Deleted by hand, say, and made anew by another fit: draws of both would be one run, with a right checksum."""
    options = {"sweeps": 40, "burn_in": 4, "thin": 1, "threads": 1}
    counts = [[9, 0, 2], [0, 8, 1]]
    run, other = tmp_path / "run.zarr", tmp_path / "other.zarr"
    cv.fit(cv.TopicModel(1), counts, seed=2, store=other, progress=False, **options)
    expected = files_of(other)

    def replaced(progress):
        if progress.sweep >= 10 and other.exists():
            shutil.rmtree(run)
            other.rename(run)

    with pytest.raises(
        FileNotFoundError, match=r"store: expected the folder in which this run was begun, got"
    ):
        cv.fit(
            cv.TopicModel(2), counts, seed=1, store=run, progress=replaced, checkpoint_seconds=0, **options
        )
    assert files_of(run) == expected
    assert cv.load_posterior(run).model == cv.TopicModel(1)


def test_a_folder_that_was_deleted_meanwhile_is_not_called_safe(tmp_path):
    run = tmp_path / "run.zarr"
    gone = lambda progress: shutil.rmtree(run, ignore_errors=True)  # noqa: E731
    with pytest.raises(
        FileNotFoundError, match=r"got another or none at .*: it was deleted, moved or replaced"
    ):
        cv.fit(cv.TopicModel(2), [[9, 0], [0, 8]], sweeps=40, seed=1, store=run, progress=gone, threads=1)
    assert not run.exists()


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
