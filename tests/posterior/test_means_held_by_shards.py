"""Running means of rows that are spread: each shard counts in its own, and what readers see is the run of one process."""

import pickle

import numpy as np
import pytest

import countveil as cv
from countveil.inference.carry import RUNNING, has_running
from countveil.inference.engines.sharded.front import ShardedSampler
from countveil.inference.row_files import with_rows
from countveil.posterior.align import invariants
from countveil.posterior.running_means import ChainMeans
from countveil.posterior.runs.checkpoint import read_checkpoint
from countveil.posterior.runs.run_files import PLACE
from countveil.runtime.workers import Workers
from posterior.test_rows_written_by_shards import arrays_of, resumed, same, small_blocks, stored, use_shards

__all__ = ["small_blocks"]  # a fixture

TOPICS, GROUPS = ("topics", "missing", "auto"), ("groups", "per row", "auto")
#: A row factor that is not first in memory, and summaries of which rows are the second axis.
TENSOR = ("CP in another order", "released", "auto")


def kinds(*quick):
    """Every model with either way to keep; some of them quick."""
    each = [(case, keep) for case in (TOPICS, GROUPS, TENSOR) for keep in ("columns", "summaries")]
    return pytest.mark.parametrize(
        ("case", "keep"),
        [
            pytest.param(
                case, keep, id=f"{case[0]}, {keep}", marks=[] if (case, keep) in quick else [pytest.mark.long]
            )
            for case, keep in each
        ],
    )


@pytest.fixture
def rows_stay(monkeypatch):
    """All rows never come to one place."""

    def refused(*_):
        raise AssertionError("rows are gathered")

    monkeypatch.setattr(ShardedSampler, "draw", refused)
    monkeypatch.setattr(ShardedSampler, "carry", refused)


@kinds((TENSOR, "summaries"))
@pytest.mark.usefixtures("rows_stay")
def test_the_run_is_that_of_one_process(case, keep, tmp_path):
    expected = arrays_of(stored(case, tmp_path / "alone", keep=keep))
    assert any(name.startswith("running/") for name in expected)
    for shards in (1, 2, 3, 7):
        found = stored(case, tmp_path / f"{shards}", shards, keep=keep)
        assert same(arrays_of(found), expected)
        for carry in read_checkpoint(found.joinpath(*PLACE)).carries:
            spread = [name for name in carry.rows.axes if name.startswith(RUNNING)]
            assert spread
            assert not set(spread) & carry.extra.keys()
            assert len(carry.rows.files) == shards


@pytest.mark.long
def test_sums_of_each_shard_alone_would_be_caught(tmp_path, monkeypatch):
    expected = arrays_of(stored(TOPICS, tmp_path / "alone", keep="columns"))
    real = invariants.exact_sums
    monkeypatch.setattr(invariants, "exact_sums", lambda terms, _: real(terms, Workers(1)))
    found = arrays_of(stored(TOPICS, tmp_path / "shards", 3, keep="columns"))
    assert {name for name in found if not np.array_equal(found[name], expected[name])} == {
        "posterior/theta_sum"
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "after"),
    [(3, 2), (3, None), (None, 3), (1, 7), (7, 1)],
)
def test_a_run_that_was_killed_goes_on_elsewhere(before, after, tmp_path, monkeypatch):
    expected = arrays_of(stored(TOPICS, tmp_path / "alone", keep="summaries"))
    killed = stored(TOPICS, tmp_path / "killed", before, stop_after=7, keep="summaries")
    assert read_checkpoint(killed.joinpath(*PLACE)).draws == 2
    with pytest.warns(UserWarning, match="unfinished"):
        growing = arrays_of(killed)
    assert growing["running/n_draws"].tolist() == [2, 2]
    assert same(arrays_of(resumed(killed, after, monkeypatch)), expected)


@pytest.mark.long
@pytest.mark.parametrize("after", [2, None])
def test_means_that_one_process_held_of_spread_rows_go_on(after, tmp_path, monkeypatch):
    """Runs of 0.1 have checkpoints with rows in files, and the means of all rows beside them."""
    expected = arrays_of(stored(TOPICS, tmp_path / "alone", keep="summaries"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShardedSampler, "count_with", lambda *_: False)
        killed = stored(TOPICS, tmp_path / "killed", 3, stop_after=7, keep="summaries")
    last = read_checkpoint(killed.joinpath(*PLACE))
    assert last.running
    assert last.carries[0].rows is not None
    assert not has_running(last.carries[0])
    assert same(arrays_of(resumed(killed, after, monkeypatch)), expected)


@pytest.mark.parametrize("shards", [3, pytest.param(None, marks=pytest.mark.long)])
def test_means_that_no_chain_can_come_to_are_refused(shards, tmp_path, monkeypatch):
    from countveil.posterior.runs import checkpoint as checkpoints

    killed = stored(TOPICS, tmp_path / "killed", 3, stop_after=7, keep="columns")
    real = checkpoints._carry

    def damaged(part, place):
        carry = with_rows(real(part, place))
        name = f"{RUNNING}memberships"
        return carry._replace(extra={**carry.extra, name: carry.extra[name] + np.inf})

    monkeypatch.setattr(checkpoints, "_carry", damaged)
    with pytest.raises(ValueError, match="other running means"):
        resumed(killed, shards, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("keep", ["columns", "summaries"])
def test_extended_and_merged_runs(keep, tmp_path, monkeypatch):
    expected = stored(TOPICS, tmp_path / "alone", sweeps=14, keep=keep)
    short = stored(TOPICS, tmp_path / "short", 3, keep=keep)
    use_shards(monkeypatch, 2)
    cv.extend(short, sweeps=14, progress=False, threads=1)
    assert same(arrays_of(short), arrays_of(expected))
    parts = [stored(TOPICS, tmp_path / f"{i}", 2, sweeps=14, chains=[i], keep=keep) for i in range(2)]
    cv.merge_runs(parts, tmp_path / "merged")
    assert same(arrays_of(tmp_path / "merged"), arrays_of(expected))


@pytest.mark.long
def test_shards_that_do_not_see_the_folder(tmp_path, monkeypatch):
    expected = arrays_of(stored(TOPICS, tmp_path / "alone", keep="columns"))
    monkeypatch.setattr(ShardedSampler, "_all_see", lambda self, path: False)
    assert same(arrays_of(stored(TOPICS, tmp_path / "apart", 3, keep="columns")), expected)


def test_what_shards_are_told_to_count_with_is_small():
    """Not a zero for every row."""
    means = ChainMeans(cv.TopicModel(50), "summaries")
    row = {
        "theta": np.ones((1, 50)),
        "phi": np.ones((50, 3)),
        "theta_scale": np.ones(1),
        "phi_scale": np.ones(3),
    }
    names = [*cv.TopicModel(50).state_type._fields]
    state = {name: row.get(name, np.ones(50 if name == "theta_mean" else ())) for name in names}
    state["theta"] = np.broadcast_to(state["theta"], (1_000_000, 50))
    state["theta_scale"] = np.broadcast_to(state["theta_scale"], 1_000_000)
    means.begin(state)
    sent = pickle.dumps(means)
    assert len(sent) < 20_000
    for name, zeros in means.sums(0).items():
        told = pickle.loads(sent).sums(0)[name]
        assert (told.shape, told.dtype, told.any()) == (zeros.shape, zeros.dtype, False)
