"""What goes wrong on a disk is said clearly, and the last good state stays."""

import errno
import hashlib
import io
import json
import os
import shutil
import zipfile

import numpy as np
import pytest

import countveil as cv
from countveil.inference import row_files
from countveil.inference.carry import Carry, RowFile, SpreadRows
from countveil.inference.engines.cpu import open_problem
from countveil.inference.problem import make_problem
from countveil.inference.settings import check_settings
from countveil.kernels.given_release.bessel import bessel
from countveil.kernels.given_release.geometric import draw_count
from countveil.kernels.philox import SweepKey, open_stream
from countveil.posterior.runs import checkpoint, run_files, zarr_store
from countveil.posterior.runs.growing_array import CODEC
from countveil.posterior.runs.run_files import RunFiles
from countveil.runtime import machine
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers

COUNTS = np.random.default_rng(5).poisson(2.0, (12, 6))
RELEASE = cv.simulate_release(COUNTS, epsilon=2, seed=0)
SHORT = {"sweeps": 30, "burn_in": 10, "thin": 3, "chains": 2, "seed": 1, "threads": 1, "progress": False}


def stopped_after(n):
    def progress(sweeps, _):
        for sweep in sweeps:
            if sweep > n:
                raise KeyboardInterrupt
            yield sweep

    return progress


def same_draws(one, other):
    for group in ("posterior", "sample_stats"):
        assert one.tree[group].to_dataset().equals(other.tree[group].to_dataset())


@pytest.fixture(scope="module")
def whole():
    return cv.fit(cv.TopicModel(2), RELEASE, **SHORT)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run with a checkpoint after every sweep, stopped after sweep 20: three draws."""
    path = tmp_path_factory.mktemp("runs") / "run.zarr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("countveil.chains_to_posterior.progress_bar", lambda *given: stopped_after(20))
        patch.setattr(zarr_store, "_SHARE", float("inf"))
        with pytest.warns(UserWarning, match="interrupted: 3 of 6"):
            cv.fit(cv.TopicModel(2), RELEASE, store=path, checkpoint_seconds=0, **SHORT)
    return path


@pytest.fixture
def run(stopped, tmp_path):
    return shutil.copytree(stopped, tmp_path / "run.zarr")


def place(run):
    return run / "checkpoint" / "chains"


def damaged(path, kind):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes({"changed": bytes(content), "cut": bytes(content[:-40]), "empty": b""}[kind])


@pytest.mark.parametrize("kind", ["changed", "cut", "empty"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(run, whole, kind):
    damaged(place(run) / "newest", kind)
    with pytest.warns(UserWarning, match="last checkpoint is damaged: the run goes on from .* sweep 19"):
        found = cv.resume(run, progress=False)
    same_draws(found, whole)


def test_killed_between_two_names(run, whole):
    """The old one has its new name, the new one not yet."""
    (place(run) / "newest").rename(place(run) / "coming")
    same_draws(cv.resume(run, progress=False), whole)


def test_no_good_checkpoint(run, whole):
    for name in ("newest", "before"):
        damaged(place(run) / name, "changed")
    with pytest.raises(cv.PosteriorFileError, match="got damaged checkpoints, from which no chain can go on"):
        cv.resume(run)
    with pytest.warns(UserWarning, match="unfinished"):
        part = cv.load_posterior(run)
    assert part.n_draws == 2 * 3, "the draws are still there"


def test_a_damaged_or_lost_draw_is_found_before_the_chains_go_on(run):
    chunk = next(path for path in (run / "posterior" / "theta" / "c").rglob("*") if path.is_file())
    content = bytearray(chunk.read_bytes())
    content[-6] ^= 1
    chunk.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="a damaged or lost chunk of 'theta'"):
        cv.resume(run)
    with pytest.raises(cv.PosteriorFileError, match="damaged"):
        cv.load_posterior(run)
    chunk.unlink()
    with pytest.raises(ValueError, match="a damaged or lost chunk of 'theta'"):
        cv.resume(run)
    with pytest.raises(cv.PosteriorFileError, match="damaged"):
        cv.load_posterior(run)


def test_a_damaged_release(run):
    chunk = run / "release" / "file0" / "c" / "0"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(bytes(content))
    with pytest.raises(cv.PosteriorFileError, match="damaged release"):
        cv.resume(run)


@pytest.mark.parametrize(
    "after", [3, 200, 400, *(pytest.param(n, marks=pytest.mark.long) for n in (0, 40, 90, 150, 240, 300))]
)
def test_a_full_disk(tmp_path, whole, monkeypatch, after):
    """It is full at one moment or another; once there is room, the run goes on."""
    calls, sync = iter(range(10**6)), os.fsync
    monkeypatch.setattr(zarr_store, "_SHARE", float("inf"))

    def full(descriptor):
        if next(calls) >= after:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(run_files.os, "fsync", full)
    path = tmp_path / "run.zarr"
    with pytest.raises(OSError, match=r"store: could not write .*No space left on device\)") as caught:
        cv.fit(cv.TopicModel(2), RELEASE, store=path, checkpoint_seconds=0, **SHORT)
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert [one.name for one in tmp_path.iterdir()] == (["run.zarr"] if path.exists() else [])
    assert path.exists() == (after >= 200)  # it is there after some 160
    if path.exists():
        same_draws(cv.resume(path, progress=False), whole)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder(run, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    with pytest.raises(PermissionError, match="store: expected a folder that can be written"):
        cv.fit(cv.TopicModel(2), RELEASE, store=closed / "run.zarr", **SHORT)
    for folder in (place(run), run):
        folder.chmod(0o555)
    (place(run) / "lock").chmod(0o444)
    with pytest.raises(OSError, match="store: expected a run that can be written"):
        cv.resume(run)
    for folder in (run, place(run)):
        folder.chmod(0o755)


def test_a_run_that_cannot_be_locked_for_want_of_rights(run, monkeypatch):
    """The same for root, whom nothing stops."""
    opened = os.open

    def refuse(path, *given):
        if str(path).endswith("lock"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, *given)

    monkeypatch.setattr(run_files.os, "open", refuse)
    with pytest.raises(
        OSError, match=r"store: expected a run that can be written, got .* \(Permission denied\)"
    ):
        cv.resume(run)


def test_two_writers(run, whole):
    with RunFiles(run):
        with pytest.raises(BlockingIOError, match="expected a run that nobody else writes"):
            cv.resume(run)
        with pytest.raises(BlockingIOError, match="expected a run that nobody else writes"):
            cv.extend(run, 50)
        with pytest.warns(UserWarning, match="unfinished"):
            cv.load_posterior(run)  # readers are welcome
    same_draws(cv.resume(run, progress=False), whole)


def test_another_machine_is_told(run, whole, monkeypatch):
    monkeypatch.setattr(machine, "_processor", lambda: "another processor")
    with pytest.warns(
        UserWarning, match="begun elsewhere .*another processor now.* may differ in the last bits"
    ):
        same_draws(cv.resume(run, progress=False), whole)


class Spy:
    """Unpickled, it would leave a mark."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def rewritten(run, carries):
    """A checkpoint with these carries, and a right checksum."""
    with RunFiles(run) as files:
        for name in ("newest", "before"):
            (files.place / name).unlink(missing_ok=True)
        checkpoint.write_checkpoint(files, 20, 3, 1.0, carries)


class Forged:
    """Bytes in the place of a carry."""

    def __init__(self, content):
        self.content = content

    def to_bytes(self):
        return self.content


def npz(compressed=False, **arrays):
    header = {"version": 1, "chain": 0, "sweep": 20, "arrays": [f"state/{name}" for name in arrays]}
    numbered = {f"array{i}": value for i, value in enumerate(arrays.values())}
    file, save = io.BytesIO(), np.savez_compressed if compressed else np.savez
    save(file, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **numbered)
    return file.getvalue()


def huge_header():
    """An array of 8 TB, in a hundred bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, archive.open("array0.npy", "w") as member:
        np.lib.format.write_array_header_1_0(
            member, {"shape": (2**40,), "fortran_order": False, "descr": "<f8"}
        )
    return file.getvalue()


def test_a_strangers_checkpoint(run, tmp_path):
    spy = np.array([Spy(tmp_path / "mark")], dtype=object)
    for content in (npz(theta=spy), npz(compressed=True, theta=np.zeros(2**24)), huge_header(), b"PK"):
        rewritten(run, [Forged(content), Forged(content)])
        with pytest.raises(cv.PosteriorFileError, match="got damaged checkpoints"):
            cv.resume(run)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("kind", ["shape", "names", "nan", "chain"])
def test_carries_of_another_problem(run, kind):
    """Compiled code would read beyond the end of a smaller array."""
    good = checkpoint.read_checkpoint(place(run)).carries

    def changed(carry):
        state = dict(carry.state)
        if kind == "shape":
            state["theta"] = state["theta"][:2]
        elif kind == "names":
            state["other"] = state.pop("theta")
        elif kind == "nan":
            state["theta"] = np.full_like(state["theta"], np.nan)
        return Carry(carry.chain + (kind == "chain"), carry.sweep, state, carry.extra)

    rewritten(run, [changed(carry) for carry in good])
    with pytest.raises(
        ValueError, match="path: expected a checkpoint of this problem, got one with another state"
    ):
        cv.resume(run)
    rewritten(run, good)
    cv.resume(run, progress=False)


def in_files(run, carry, axes, n_rows, times=1):
    """The carry with the first rows of these arrays in a file beside it, which is named so many times."""
    rows = {name: np.take(carry.state[name], range(n_rows), axis) for name, axis in axes.items()}
    others = {name: value for name, value in carry.state.items() if name not in axes}
    content = Carry(carry.chain, carry.sweep, rows, {}).to_bytes()
    name = f"rows-{carry.sweep}-{carry.chain}-0"
    (place(run) / name).write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    files = [RowFile(name, i * n_rows, (i + 1) * n_rows, sha256) for i in range(times)]
    return carry._replace(state=others, rows=SpreadRows(axes, tuple(files)))


@pytest.mark.parametrize("axes", [{"theta": 0, "theta_scale": 0}, {"phi": 1, "phi_scale": 0}])
def test_arrays_in_files_are_those_of_the_problem(run, axes):
    """Whatever a checkpoint calls rows: compiled code would read, and write, beyond the end of a smaller array."""
    good = checkpoint.read_checkpoint(place(run)).carries
    rewritten(run, [in_files(run, carry, axes, 2) for carry in good])
    with pytest.raises(
        ValueError, match="path: expected a checkpoint of this problem, got one with another state"
    ):
        cv.resume(run, progress=False)
    length = good[0].state[next(iter(axes))].shape[next(iter(axes.values()))]
    rewritten(run, [in_files(run, carry, axes, length) for carry in good])
    cv.resume(run, progress=False)


def test_a_file_of_rows_is_named_once(run):
    """It is read through for every time: a thousand names would take a thousand times as long."""
    good = checkpoint.read_checkpoint(place(run)).carries
    rewritten(run, [in_files(run, carry, {"theta": 0}, 6, times=2) for carry in good])
    with pytest.raises(cv.PosteriorFileError, match="got damaged checkpoints"):
        cv.resume(run)


def test_numbers_of_chains_that_no_stream_has_are_refused(run):
    """Streams are named by some bits of them: two chains would draw the same."""
    for group in ("posterior", "sample_stats"):
        (run / group / "chain" / "c" / "0").write_bytes(CODEC.encode(np.array([0, 2**40], dtype="<i8")))
    with pytest.raises(cv.PosteriorFileError, match="damaged one"):
        cv.resume(run)


def test_no_links_are_followed(run, tmp_path):
    (tmp_path / "mine").write_text("mine")
    (place(run) / "part").symlink_to(tmp_path / "mine")
    with pytest.raises(cv.PosteriorFileError, match="got a link"):
        cv.resume(run)
    assert (tmp_path / "mine").read_text() == "mine"


def edited(run, **attributes):
    node = json.loads((run / "zarr.json").read_text())
    node["attributes"].update(attributes)
    (run / "zarr.json").write_text(json.dumps(node))


def test_no_array_is_written_elsewhere(run, tmp_path):
    """Names of arrays that lead out of the folder."""
    for name in ("fields", "scalars"):
        before = json.loads((run / "zarr.json").read_text())["attributes"][name]
        shutil.copytree(run / "posterior" / "theta", tmp_path / "theta", dirs_exist_ok=True)
        edited(run, **{name: json.dumps(["../../theta", *json.loads(before)])})
        with pytest.raises(
            ValueError, match="path: expected a run of this problem, got one with other arrays"
        ):
            cv.resume(run)
        edited(run, **{name: before})
    cv.resume(run, progress=False)


@pytest.mark.parametrize("name", ["settings", "model", "problem", "version"])
def test_damaged_attributes(run, name):
    edited(run, **{name: "{"})
    with pytest.raises(cv.PosteriorFileError, match="expected a whole run, got a damaged one"):
        cv.resume(run)


def test_arrays_of_a_checkpoint_share_no_bytes(monkeypatch):
    part = Carry(0, 1, {"theta": np.ones((50, 4))}, {}).to_bytes()
    assert row_files.carry_from(part).sweep == 1
    members = zipfile.ZipFile.infolist
    monkeypatch.setattr(zipfile.ZipFile, "infolist", lambda self: members(self) * 3)
    with pytest.raises(ValueError, match="arrays that share their bytes"):
        row_files.carry_from(part)


@pytest.mark.parametrize("changed", [{"sweeps": None}, {"method": 3}, None])
def test_what_a_stranger_writes_into_settings_is_told_as_damage(stopped, tmp_path, changed):
    """Nobody wants to hear of a KeyError."""
    run = shutil.copytree(stopped, tmp_path / "run.zarr")
    node = json.loads((run / "zarr.json").read_bytes())
    settings = json.loads(node["attributes"]["settings"])
    settings = {} if changed is None else settings | changed
    node["attributes"]["settings"] = json.dumps(settings)
    (run / "zarr.json").write_text(json.dumps(node))
    with pytest.raises((ValueError, TypeError), match=r": expected "):
        cv.resume(run, progress=False)


def test_the_processor_is_asked_for_without_a_process(monkeypatch):
    """``platform.processor()`` may start one, while a stranger's file is read."""
    monkeypatch.setattr("platform.processor", lambda: pytest.fail("it was asked"))
    if checkpoint.Path("/proc/cpuinfo").exists():
        assert machine.this_machine()["processor"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 1e200])
def test_numbers_that_no_chain_comes_to_are_refused(run, value, monkeypatch):
    """A stranger's checkpoint, rightly signed: compiled code would draw from it for ever."""
    real = Carry.from_bytes

    def forged(data):
        carry = real(data)
        phi = np.array(carry.state["phi"])
        phi[0, 0] = value
        return carry._replace(state={**carry.state, "phi": phi})

    monkeypatch.setattr(Carry, "from_bytes", staticmethod(forged))
    with pytest.raises(ValueError, match="path: expected a checkpoint of this problem, got"):
        cv.resume(run, progress=False)


@pytest.mark.parametrize("alpha", [np.nan, -1.0, 0.0, 1.0, 1e308])
def test_an_alpha_that_is_none_is_refused(alpha):
    problem = make_problem(cv.UnknownNoise(cv.TopicModel(2)), cv.PrivateCounts(COUNTS - 1, alpha=0.5))
    state = problem.start(SweepKey(np.uint64(0), 0, 0), Workers(1))._asdict()
    problem.check_carry(Carry(0, 1, state, {"alpha": np.asarray(0.4)}))
    with pytest.raises(ValueError, match="numbers no chain can come to"):
        problem.check_carry(Carry(0, 1, state, {"alpha": np.asarray(alpha)}))


@pytest.mark.parametrize("model", [cv.CommunityModel(3), cv.TensorModel(2)])
def test_a_run_that_was_stopped_in_a_relocation_goes_on(model, tmp_path, monkeypatch):
    """A trial takes 40 of every 45 sweeps of the middle of burn-in: that is where most runs are stopped."""
    counts = np.random.default_rng(3).poisson(3.0, (9, 9) if "Community" in repr(model) else (6, 5, 4))
    options = {**SHORT, "sweeps": 110, "burn_in": 90, "thin": 5}
    release = cv.simulate_release(counts, epsilon=2, seed=0)
    whole, run = cv.fit(model, release, **options), tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        patch.setattr("countveil.chains_to_posterior.progress_bar", lambda *given: stopped_after(30))
        patch.setattr(zarr_store, "_SHARE", float("inf"))
        with pytest.raises(KeyboardInterrupt):
            cv.fit(model, release, store=run, checkpoint_seconds=0, **options)
    carries = checkpoint.read_checkpoint(place(run)).carries
    assert any(name.startswith("before:") for carry in carries for name in carry.extra)
    same_draws(cv.resume(run, progress=False), whole)


def test_arrays_in_another_order_of_memory_are_brought_into_ours():
    """Numba would compile everything anew for them."""
    levels = np.asfortranarray(np.linspace(0.5, 2.0, COUNTS.size).reshape(COUNTS.shape))
    problem = make_problem(cv.TopicModel(2), cv.PrivateCounts(COUNTS, rho=levels))
    assert problem.views[""].observed.cell_rho.flags.c_contiguous
    given = {name: value for name, value in SHORT.items() if name != "progress"}
    with open_problem(problem, check_settings(**given, method="exact", engine="cpu")) as sampler:
        sampler.start(0)
        carry = sampler.carry(0)
        sampler.load(carry._replace(state={name: np.array(a, order="F") for name, a in carry.state.items()}))
        assert all(value.flags.c_contiguous for value in sampler.carry(0).state.values())


def test_rates_of_noise_of_several_views_are_looked_at():
    views = {
        "words": cv.TopicModel(2),
        "authors": cv.Factorization("dk,ka->da", names=["theta", "psi"], k=2, rate=None),
    }
    data = {"words": RELEASE, "authors": cv.simulate_release(COUNTS[:, :3], epsilon=2, seed=1)}
    problem = make_problem(cv.SharedFactors(**views), data, "bessel")
    given = {name: value for name, value in SHORT.items() if name != "progress"}
    settings = check_settings(**given, method="bessel", engine="cpu")
    with open_problem(problem, settings) as sampler:
        sampler.start(0)
        carry = sampler.carry(0)
    problem.check_carry(carry)
    for value in (np.inf, -1.0, 1e25, np.nan):
        wrong = {**carry.extra, "words:noise_plus": np.full_like(carry.extra["words:noise_plus"], value)}
        with pytest.raises(ValueError, match="numbers no chain can come to"):
            problem.check_carry(carry._replace(extra=wrong))


@compiled
def drawn_at(seed, x, rate):
    y, stream = draw_count(open_stream(seed, 0, 0, 0, 0), x, rate, 1.0)
    m, stream = bessel(stream, 2, rate)
    return y, m


@pytest.mark.parametrize("rate", [1e20, 1e60, np.inf, np.nan])
def test_counts_of_absurd_rates_are_counts(rate):
    """What gets past every check must not read outside an array, nor be rejected for ever."""
    for x in (0, 3, 100):
        assert all(0 <= one < 2**60 for one in drawn_at(np.uint64(1), x, rate))
