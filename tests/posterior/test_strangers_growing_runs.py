"""A stranger's run that shall go on takes no more memory, and no longer, than an honest one of its size."""

import hashlib
import json
import shutil
import warnings
from contextlib import suppress

import numpy as np
import pytest
import xarray as xr
from scipy import sparse

import countveil as cv
from countveil.inference.carry import Carry, RowFile, SpreadRows
from countveil.posterior.describe import describe_run
from countveil.posterior.runs import checkpoint
from countveil.posterior.runs.growing_array import CODEC
from countveil.posterior.runs.run_files import RunFiles
from countveil.posterior.runs.schema import OPENING, checksum
from countveil.runtime.machine import this_machine

RELEASE = cv.simulate_release([[9, 0, 1], [0, 8, 7], [1, 1, 3]], epsilon=2, seed=1)


SETTINGS = {"sweeps": 20, "burn_in": 10, "thin": 5, "chains": 2, "seed": 1, "threads": 1}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped before its first draw."""
    path = tmp_path_factory.mktemp("runs") / "run.zarr"
    return stopped_at(3, cv.TopicModel(2), path, keep="columns", **SETTINGS)


def stopped_at(sweep, model, path, release=RELEASE, **settings):
    """A run that was stopped after so many sweeps."""

    def interrupted(sweeps, _):
        for done in sweeps:
            if done > sweep:
                raise KeyboardInterrupt
            yield done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("countveil.chains_to_posterior.progress_bar", lambda *_: interrupted)
        with suppress(KeyboardInterrupt), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "interrupted")  # once there are draws
            cv.fit(model, release, store=path, **settings)
    return path


@pytest.fixture
def run(stopped, tmp_path):
    return shutil.copytree(stopped, tmp_path / "run.zarr")


def changed(run, array, shape=None, chunk=None):
    """Other lengths of some axes, and of the chunks along them."""
    path = run / array / "zarr.json"
    node = json.loads(path.read_text())
    for axis, n in (shape or {}).items():
        node["shape"][axis] = n
    for axis, n in (chunk or {}).items():
        node["chunk_grid"]["configuration"]["chunk_shape"][axis] = n
    path.write_text(json.dumps(node))


def test_an_honest_run_goes_on(run):
    assert cv.resume(run, progress=False).tree["posterior"].sizes["draw"] == 2


@pytest.mark.parametrize(
    ("array", "shape", "chunk"),
    [
        ("posterior/phi", {}, {1: 10**5}),  # draws of a chunk
        ("posterior/phi", {}, {2: 10**5}),
        ("posterior/phi", {2: 10**5}, {2: 10**5}),
        ("posterior/draw", {}, {0: 10**5}),
        ("sample_stats/log_joint", {}, {1: 10**5}),
        ("sample_stats/log_joint", {0: 10**5}, {}),  # chains
        ("running/memberships", {0: 0}, {1: 10**5}),
    ],
)
def test_arrays_without_draws_have_the_chunks_of_honest_ones(run, array, shape, chunk):
    """No byte stands behind their sizes, and whoever goes on makes room for a whole chunk: for 11 kB any memory."""
    shutil.rmtree(run / array / "c", ignore_errors=True)
    changed(run, array, shape, chunk)
    with pytest.raises(ValueError, match=r"path: expected a .*run.*, got .*other"):
        cv.resume(run, progress=False)


def test_no_file_for_every_number(tmp_path):
    wide = cv.simulate_release(np.ones((2, 200), np.int64), epsilon=2, seed=1)
    run = stopped_at(3, cv.TopicModel(2), tmp_path / "run.zarr", wide, **SETTINGS)
    shutil.rmtree(run / "posterior" / "phi" / "c", ignore_errors=True)
    changed(run, "posterior/phi", {}, {1: 1, 3: 1})
    with pytest.raises(
        ValueError, match="path: expected a run of this problem, got one cut into other blocks"
    ):
        cv.resume(run, progress=False)


@pytest.mark.parametrize("kind", ["int8", "bool", "uint16"])
def test_draws_are_not_cut_short(run, kind):
    node = json.loads((run / "posterior/phi/zarr.json").read_text())
    (run / "posterior/phi/zarr.json").write_text(json.dumps({**node, "data_type": kind, "fill_value": 0}))
    with pytest.raises(ValueError, match=r"path: expected a .*run"):
        cv.resume(run, progress=False)


def numbered(run, numbers):
    for group in ("posterior", "sample_stats", "running"):
        changed(run, f"{group}/chain", {0: len(numbers)}, {0: len(numbers)})
        (run / group / "chain" / "c").mkdir(exist_ok=True)
        (run / group / "chain" / "c" / "0").write_bytes(CODEC.encode(np.array(numbers, dtype="<i8")))


def test_a_chain_that_comes_again_is_refused(run):
    """Each was started anew: 300,000 zeros take a hundred bytes, and hours."""
    numbered(run, [0, 1, 0])
    with pytest.raises(cv.PosteriorFileError, match="numbers of its chains"):
        cv.resume(run, progress=False)


def test_the_states_of_all_chains_fit_a_run_of_its_size(run):
    """The state of a single one was compared with it."""
    numbered(run, range(4000))
    node = json.loads((run / "zarr.json").read_text())
    node["attributes"]["model"] = json.dumps(
        {"name": "countveil.TopicModel", "settings": {"n_topics": 10_000}}
    )
    (run / "zarr.json").write_text(json.dumps(node))
    with pytest.raises(ValueError, match=r"path: expected a model that fits .* in each of 4000 chains"):
        cv.resume(run, progress=False)


def spread(run, chain, of=0):
    """A carry whose rows are in the file of a chain."""
    content = Carry(of, 10, {"theta": np.ones((3, 2))}, {}).to_bytes()
    name = f"rows-10-{of}-0"
    (run / "checkpoint" / "chains" / name).write_bytes(content)
    rows = SpreadRows({"theta": 0}, (RowFile(name, 0, 3, hashlib.sha256(content).hexdigest()),))
    return Carry(chain, 10, {}, {}, rows)


def written(run, carries):
    with RunFiles(run) as files:
        for name in ("newest", "before"):
            (files.place / name).unlink(missing_ok=True)
        checkpoint.write_checkpoint(files, 10, 1, 1.0, carries)
        return files.place


def test_files_of_rows_are_of_one_chain(run):
    """A thousand chains that all name one file of 40 MB took the memory, and the time, of a thousand files."""
    place = written(run, [spread(run, 0, of=0), spread(run, 1, of=1)])
    assert [carry.chain for carry in checkpoint.read_checkpoint(place).carries] == [0, 1]
    for carries in (
        [spread(run, 0), spread(run, 1)],
        [spread(run, 0, of=0), spread(run, 0, of=1), spread(run, 0, of=2)],
        [spread(run, 0)._replace(rows=SpreadRows({"theta": 0}, ()))],
    ):
        with pytest.raises(checkpoint.DamagedCheckpointError):
            checkpoint.read_checkpoint(written(run, carries))


@pytest.mark.parametrize("said", [{"seconds": 10**400}, {"sweep": float("inf")}, {"made_by": 3}])
def test_headers_of_any_kind_give_the_one_error(run, said, monkeypatch):
    parts = checkpoint._parts
    monkeypatch.setattr(
        checkpoint, "_parts", lambda header, carries: parts({**header, **said}, list(carries))
    )
    written(run, [])
    with pytest.raises(cv.PosteriorFileError, match="got damaged checkpoints"):
        cv.resume(run, progress=False)


def test_names_in_a_strangers_checkpoint_lead_nowhere_else(tmp_path):
    """Merging writes arrays by the names that checkpoints have."""
    settings = {"sweeps": 12, "thin": 2, "threads": 1, "progress": False}
    cv.fit(cv.TopicModel(2), RELEASE, seed=9, chains=2, store=tmp_path / "mine.zarr", **settings)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    runs = [tmp_path / "0.zarr", tmp_path / "1.zarr"]
    for name in ("../../../mine.zarr/release/file0", str(tmp_path / "mine.zarr" / "release" / "file0")):
        for chain, path in enumerate(runs):
            shutil.rmtree(path, ignore_errors=True)
            cv.fit(
                cv.TopicModel(2), RELEASE, seed=1, chains=2, chain=chain, store=path, keep="summaries", **settings
            )  # fmt: skip
            with RunFiles(path) as files:
                found = checkpoint.read_checkpoint(files.place)
                carry = found.carries[0]
                forged = carry._replace(state={**found.sums(0), name: np.array(66.0)}, extra={}, rows=None)
                checkpoint.write_checkpoint(files, found.sweep, found.draws, found.seconds, [carry], [forged])
        with pytest.raises(cv.PosteriorFileError, match="damaged"):
            cv.merge_runs(runs, tmp_path / "merged.zarr")
        assert not (tmp_path / "merged.zarr").exists()
    assert all(path.read_bytes() == content for path, content in before.items())


def test_no_file_of_a_run_is_written_elsewhere(tmp_path):
    with RunFiles(tmp_path / "run.zarr") as files:
        for target in (tmp_path / "other", files.root / ".." / "other"):
            with pytest.raises(ValueError, match="store: expected a place in"):
                files.write(target, [b"x"])
    assert not (tmp_path / "other").exists()


def test_what_is_held_for_every_cell_fits_a_run_of_its_size(tmp_path):
    """The paper's sampler has two numbers for each, and how a run goes on is said in it."""
    run, cells = tmp_path / "run.zarr", sparse.csr_array(([5], ([0], [0])), shape=(12_000, 12_000))
    release = cv.PrivateCounts(cells, alpha=0.001, clamped=True)
    cv.fit(cv.TopicModel(1), release, store=run, sweeps=2, burn_in=0, thin=1, chains=1, progress=False)
    path = run / "zarr.json"
    node = json.loads(path.read_text())
    settings = json.loads(node["attributes"]["settings"])
    node["attributes"]["settings"] = json.dumps(settings | {"method": "bessel"})
    path.write_text(json.dumps(node))
    with xr.open_datatree(run, **OPENING) as tree:
        node["attributes"]["checksum"] = checksum(tree)
    path.write_text(json.dumps(node))
    with pytest.raises(ValueError, match=r"expected a model that fits a run .* 2,304,000,000 bytes of cells"):
        cv.extend(run, 4, progress=False)


def test_what_a_stranger_says_of_his_machine_is_shown_escaped():
    said = {**this_machine(), "processor": "\x1b[31m" + "9" * 10_000}
    with pytest.warns(UserWarning, match=r"processor \\x1b\[31m9+ before") as caught:
        checkpoint.warn_of_another_machine(said)
    assert len(str(caught[0].message)) < 500


@pytest.mark.parametrize("lost", ["scalars", "nothing"])
def test_a_checkpoint_that_says_more_draws_than_there_are_is_refused(lost, tmp_path):
    """Their numbers would be written, for 22 kB without end, in a run whose arrays are all of one draw."""
    run = stopped_at(12, cv.TopicModel(2, rate=1.0), tmp_path / "run.zarr", keep="summaries", **SETTINGS)
    before = checkpoint.read_checkpoint(run / "checkpoint" / "chains")
    for name in json.loads(json.loads((run / "zarr.json").read_text())["attributes"]["scalars"]):
        if lost == "scalars":
            shutil.rmtree(run / "sample_stats" / name)
    with RunFiles(run) as files:
        for name in ("newest", "before"):
            (files.place / name).unlink(missing_ok=True)
        sums = [Carry(carry.chain, carry.sweep, before.sums(i), {}) for i, carry in enumerate(before.carries)]
        checkpoint.write_checkpoint(files, before.sweep, 10**9, 1.0, before.carries, sums)
    n_files = sum(1 for _ in run.rglob("*"))
    with pytest.raises(ValueError, match=r"path: expected a .*run.*, got"):
        cv.resume(run, progress=False)
    assert sum(1 for _ in run.rglob("*")) <= n_files + 2


def lose(run, lost):
    place = run / "checkpoint"
    if lost == "the folder":
        shutil.rmtree(place)
    else:
        for file in (place / "chains").glob("[nb]e*"):  # the newest, and the one before
            file.unlink()


@pytest.mark.parametrize("lost", ["the folder", "its files"])
def test_draws_are_not_overwritten_where_the_checkpoint_was_lost(lost, tmp_path):
    """Of a complete run, which anyone may shorten so, or copy: its chains would begin again, over them."""
    complete = tmp_path / "complete.zarr"
    cv.fit(cv.TopicModel(2), RELEASE, store=complete, progress=False, **SETTINGS)
    lose(complete, lost)
    with pytest.raises(cv.PosteriorFileError, match="one whose checkpoint was lost"):
        cv.extend(complete, sweeps=30, progress=False)
    assert cv.load_posterior(complete).n_draws == 4


@pytest.mark.parametrize("lost", ["the folder", "its files"])
def test_draws_of_a_stopped_run_are_not_overwritten_either(lost, tmp_path):
    stopped = stopped_at(16, cv.TopicModel(2), tmp_path / "stopped.zarr", **SETTINGS)
    lose(stopped, lost)
    with pytest.raises(cv.PosteriorFileError):
        cv.merge_runs([stopped, shutil.copytree(stopped, tmp_path / "other.zarr")], tmp_path / "merged.zarr")
    for _ in range(3):  # the first try must not make what the second takes for a run without draws
        with pytest.raises(cv.PosteriorFileError, match="one whose checkpoint was lost"):
            cv.resume(stopped, progress=False)
        with pytest.raises(cv.PosteriorFileError, match="one whose checkpoint was lost"):
            cv.extend(stopped, sweeps=40, progress=False)
    assert "its checkpoint was lost, and it cannot go on" in str(describe_run(stopped))
    with pytest.warns(UserWarning, match="has 1 of 2 draws per chain"):
        assert cv.load_posterior(stopped).n_draws == 2


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("dims", lambda one: [one[1]] * 2),
        ("dims", lambda one: [*one, "further"]),
        ("labelled", lambda one: [True] * 40),
        ("scalars", lambda one: [one[0]] * 2),
        ("fields", lambda one: [*one, one[0]]),
        ("fields", lambda one: [f"field {i}" for i in range(400)]),
        ("views", lambda _: {f"view {i}": {} for i in range(400)}),
        ("views", lambda _: {"one": {"dims": ["row", "row"], "labelled": [True, True]}}),
    ],
)
def test_lists_of_names_have_each_once_by_whatever_door(name, made, run):
    """Each name is an array that is read: of 42 kB one and the same came to 7 GB, or took minutes."""
    path = run / "zarr.json"
    node = json.loads(path.read_text())
    one = json.loads(node["attributes"].get(name, "{}"))
    node["attributes"][name] = json.dumps(made(one))
    path.write_text(json.dumps(node))
    other = shutil.copytree(run, run.parent / "other.zarr")

    def merged(place):
        cv.merge_runs([place, other], run.parent / "merged.zarr")

    for door in (cv.load_posterior, cv.resume, describe_run, merged):
        with pytest.raises(cv.PosteriorFileError, match="expected a whole run, got a damaged one"):
            door(run)


def test_labels_of_a_run_are_texts(run):
    """Numbers would be made objects, one by one: gigabytes of a kilobyte."""
    path = run / "zarr.json"
    node = json.loads(path.read_text())
    node["attributes"] |= {"dims": json.dumps(["chain", "column"]), "labelled": json.dumps([True, False])}
    path.write_text(json.dumps(node))
    with pytest.raises(cv.PosteriorFileError, match="expected a whole run, got a damaged one"):
        cv.resume(run, progress=False)
