"""Draws and checkpoints whose rows shards write themselves: what readers see is the run of one process."""

import json
import shutil
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

import countveil as cv
from countveil.chains_to_posterior import running_means, without_draws
from countveil.inference import row_files
from countveil.inference.chains import run_into
from countveil.inference.engines.sharded.front import ShardedSampler
from countveil.inference.engines.sharded.in_process import open_problem_in_shards
from countveil.inference.problem import make_problem
from countveil.inference.row_files import with_rows
from countveil.posterior.runs import zarr_store
from countveil.posterior.runs.checkpoint import read_checkpoint
from countveil.posterior.runs.run_files import PLACE
from countveil.posterior.runs.zarr_store import ZarrStore
from inference.kinds import DATA, counts_of
from inference.test_sharded import SERVED, settings_of

#: A topic model, groups of rows, and a row factor that is not first in memory.
CASES = [
    ("topics", "missing", "auto"),
    ("groups", "per row", "auto"),
    ("CP in another order", "released", "auto"),
]
SHARDS = (1, 2, 3, 7)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Two rows of three components are a block, and a shard may have one; checkpoints after every sweep."""
    monkeypatch.setattr(row_files, "SMALLEST_BLOCK", 24)
    monkeypatch.setattr(row_files, "BLOCKS_PER_SHARD", 1)
    monkeypatch.setattr(zarr_store, "_SHARE", np.inf)


def stored(case, path, shards=None, sweeps=10, stop_after=None, chains=(0, 1), **options):
    """A run into a folder, by one process or by shards."""
    name, data, way = case
    model, shape = SERVED[name]
    problem = make_problem(model, DATA[data](counts_of(shape)))
    settings = settings_of(way, thin=2, sweeps=sweeps, burn_in=2, **options)
    new = partial(without_draws, problem, settings, chains)
    store = ZarrStore(path, settings, chains, 0.0, new, running=running_means(problem, settings))
    return run(store, problem, settings, shards, stop_after)


class KilledError(Exception):
    """A run ends at once."""


def use_shards(monkeypatch, shards):
    """Whatever the engine is called."""

    class Engine:
        @staticmethod
        def open_problem(problem, settings):
            return open_problem_in_shards(problem, settings, shards)

    monkeypatch.setattr("countveil.inference.chains.engine_named", lambda _: Engine)


def run(store, problem, settings, shards, stop_after=None):
    def progress(sweeps, _):
        for sweep in sweeps:
            if stop_after is not None and sweep > stop_after:
                raise KilledError
            yield sweep

    with pytest.MonkeyPatch.context() as patch:
        if shards is not None:
            use_shards(patch, shards)
        try:
            with suppress(KilledError):
                store.ended(run_into(store, problem, settings, progress))
        finally:
            store.close()
    return store.path


def arrays_of(path):
    tree = cv.load_posterior(path).tree
    return {
        f"{group}/{name}": one.to_numpy()
        for group in ("posterior", "sample_stats", "running")
        if group in tree.children
        for name, one in tree[group].data_vars.items()
    }


def same(one, two):
    return one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case[0], marks=[] if case[0] == "topics" else [pytest.mark.long])
        for case in CASES
    ],
)
def test_the_run_is_that_of_one_process(case, tmp_path):
    expected = stored(case, tmp_path / "alone")
    last = read_checkpoint(expected.joinpath(*PLACE))
    assert last.carries[0].rows is None
    for shards in SHARDS[1:]:
        found = stored(case, tmp_path / f"{shards}", shards)
        assert same(arrays_of(found), arrays_of(expected))
        checkpoint = read_checkpoint(found.joinpath(*PLACE))
        assert len(checkpoint.carries[0].rows.files) == shards
        for carry, own in zip(checkpoint.carries, last.carries, strict=True):
            whole = with_rows(carry)
            assert same(whole.state, own.state)
            assert same(whole.extra, own.extra)
        # Those of two checkpoints, and no others.
        assert len(list(found.joinpath(*PLACE).glob("rows-*"))) == 2 * 2 * shards
        assert json.loads((found / "zarr.json").read_text())["attributes"]["complete"] == 1


def resumed(path, shards, monkeypatch):
    """Gone on with, by one process or by shards."""
    if shards is not None:
        use_shards(monkeypatch, shards)
    cv.resume(path, progress=False, threads=1)
    return path


@pytest.mark.parametrize("shards", [2, *(pytest.param(n, marks=pytest.mark.long) for n in (None, 7))])
def test_a_run_that_was_killed_goes_on_with_another_number_of_shards(shards, tmp_path, monkeypatch):
    expected = stored(CASES[0], tmp_path / "alone")
    killed = stored(CASES[0], tmp_path / "killed", 3, stop_after=5)
    assert read_checkpoint(killed.joinpath(*PLACE)).sweep == 5
    assert same(arrays_of(resumed(killed, shards, monkeypatch)), arrays_of(expected))


def test_a_crash_between_rows_and_checkpoint_leaves_the_last_good_state(tmp_path, monkeypatch):
    expected = stored(CASES[0], tmp_path / "alone")
    real, saved = row_files.RowSaver.save, []

    def dies(self, part, start, stop):
        saved.append(start)
        if len(saved) > 3 * 2 * 4 + 4:  # in the midst of the fifth checkpoint of two chains on three shards
            raise OSError("gone")
        return real(self, part, start, stop)

    monkeypatch.setattr(row_files.RowSaver, "save", dies)
    with pytest.raises(OSError, match="gone"):
        stored(CASES[0], tmp_path / "killed", 3)
    monkeypatch.setattr(row_files.RowSaver, "save", real)
    place = (tmp_path / "killed").joinpath(*PLACE)
    assert read_checkpoint(place).sweep == 4
    assert list(place.glob("rows-5-*"))  # of the one that was not finished
    assert same(arrays_of(resumed(tmp_path / "killed", 2, monkeypatch)), arrays_of(expected))


@pytest.mark.long
@pytest.mark.parametrize("damage", ["changed", "lost"])
def test_damaged_rows_of_a_checkpoint_are_those_of_the_one_before(damage, tmp_path, monkeypatch):
    expected = stored(CASES[0], tmp_path / "alone")
    killed = stored(CASES[0], tmp_path / "killed", 3, stop_after=6)
    place = killed.joinpath(*PLACE)
    file = next(place.glob("rows-6-1-*"))
    if damage == "lost":
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    with pytest.warns(UserWarning, match="the last checkpoint is damaged: .* sweep 5"):
        resumed(killed, 2, monkeypatch)
    assert same(arrays_of(killed), arrays_of(expected))


def test_a_lost_chunk_of_a_block_is_noticed(tmp_path, monkeypatch):
    killed = stored(CASES[0], tmp_path / "killed", 3, stop_after=6)
    chunks = sorted((killed / "posterior" / "theta" / "c" / "1" / "0").iterdir())
    assert len(chunks) > 3
    shutil.rmtree(chunks[2])
    with pytest.raises(ValueError, match="damaged or lost chunk of 'theta'"):
        resumed(killed, 2, monkeypatch)


def test_shards_that_do_not_see_the_folder_do_not_write_there(tmp_path, monkeypatch):
    expected = stored(CASES[0], tmp_path / "alone")
    monkeypatch.setattr(ShardedSampler, "_all_see", lambda self, path: False)
    found = stored(CASES[0], tmp_path / "apart", 3)
    assert same(arrays_of(found), arrays_of(expected))
    assert not list(found.joinpath(*PLACE).glob("rows-*"))


def test_names_of_rows_do_not_lead_elsewhere(tmp_path):
    killed = stored(CASES[0], tmp_path / "killed", 3, stop_after=4)
    place = killed.joinpath(*PLACE)
    (place / "rows-stranger").write_bytes(b"")
    with pytest.raises(ValueError, match="'rows-stranger' beside the chunks of an array"):
        cv.resume(killed, progress=False)
