"""Saving and loading change nothing, and failures leave nothing behind."""

import errno
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from countveil.counts import (
    PrivateCounts,
    load_release,
    privatize,
    privatize_to_file,
    simulate_release,
)
from countveil.counts.cells.layout import same_arrays
from countveil.counts.files.cells import CellFile
from countveil.privacy import Guarantee

SIGNED = np.array([[3, -2, 0, 7], [0, -1, -5, 0], [1, 300, -4, 2]])
MASK = np.array([[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]], dtype=bool)
RNG = np.random.default_rng(0)

RELEASES = {
    "plain": PrivateCounts(SIGNED, alpha=0.37),
    "clamped": PrivateCounts(np.maximum(SIGNED, 0), alpha=0.37),
    "masked": PrivateCounts(SIGNED, alpha=0.37, mask=MASK),
    "signed": PrivateCounts(SIGNED, alpha=0.37, mask=MASK, keep_negative=True),
    "by row": PrivateCounts(SIGNED, alpha=[0.1, 0.9, 0.1]),
    "by cell": PrivateCounts(SIGNED, alpha=RNG.uniform(0.01, 0.99, SIGNED.shape)),
    "extreme rho": PrivateCounts(SIGNED, rho=[[1e-20], [2.0**-70], [1e300]]),
    "guarantee": PrivateCounts(SIGNED, guarantee=Guarantee("1/3", 7, unit="person")),
    "float epsilon": PrivateCounts(SIGNED, guarantee=Guarantee(0.1)),
    "labels": PrivateCounts(
        SIGNED, alpha=0.37, labels=(["", "日本 🙂", "a\0"], ["\ud800", '"', "\\", "null"])
    ),
    "axis names": PrivateCounts(SIGNED, alpha=0.37, labels={"sender": None, "Empfänger": list("wxyz")}),
    "one axis": PrivateCounts([5, -1, 0, 2], alpha=[0.1, 0.2, 0.3, 0.4]),
    "three axes": PrivateCounts(RNG.integers(-3, 4, (3, 4, 5)), alpha=0.5, mask=RNG.random((3, 4, 5)) < 0.3),
    "nothing positive": PrivateCounts([[-1, 0]], alpha=0.5),
    "all missing": PrivateCounts([[1, 2]], alpha=0.5, mask=[[True, True]]),
    "large values": PrivateCounts([[2**53, -(2**53)]], alpha=0.5, keep_negative=True),
    "nothing below 0 is left": PrivateCounts([[3, -1], [0, 2]], alpha=[0.5, 0.2], keep_negative=True).hide(
        ([0], [1])
    ),
    "simulated": simulate_release(np.abs(SIGNED), epsilon=1, seed=0),
    "private": privatize(np.abs(SIGNED), epsilon=2),
}


@pytest.mark.parametrize("name", RELEASES)
def test_round_trip(name, tmp_path):
    release = RELEASES[name]
    release.save(tmp_path / "release.parquet")
    loaded = load_release(str(tmp_path / "release.parquet"))
    assert loaded == release
    assert same_arrays(loaded._contents, release._contents)  # what lies below zero as well
    for one, other in zip(loaded.positive, release.positive, strict=True):
        assert one.dtype == other.dtype
    assert repr(loaded) == repr(release)
    assert [p.name for p in tmp_path.iterdir()] == ["release.parquet"]


def test_alpha_of_every_cell_of_a_large_array(tmp_path, monkeypatch):
    monkeypatch.setattr("countveil.counts.files.header.READABLE_FLOATS", 10)
    release = PrivateCounts(RNG.integers(-3, 3, (50, 60)), alpha=RNG.uniform(0.1, 0.9, (50, 60)))
    release.save(tmp_path / "r")
    assert same_arrays(load_release(tmp_path / "r")._contents, release._contents)


def test_many_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr("countveil.counts.files.cells.CELLS_PER_GROUP", 100)
    values, mask = RNG.integers(-3, 3, (200, 30)), RNG.random((200, 30)) < 0.1
    values[50:90] = -1  # rows without a listed cell
    release = PrivateCounts(values, alpha=0.5, mask=mask, keep_negative=True)
    release.save(tmp_path / "r")
    assert pq.ParquetFile(tmp_path / "r").num_row_groups > 10
    assert same_arrays(load_release(tmp_path / "r")._contents, release._contents)


def test_it_is_an_ordinary_table(tmp_path):
    RELEASES["masked"].save(tmp_path / "r.parquet")
    table = pd.read_parquet(tmp_path / "r.parquet")
    assert list(table.columns) == ["row", "column", "value"]
    listed = [tuple(None if pd.isna(v) else int(v) for v in row) for row in table.to_numpy()]
    assert listed == [(0, 0, 3), (0, 2, None), (0, 3, None), (2, 0, 1), (2, 1, None), (2, 2, None), (2, 3, 2)]
    RELEASES["three axes"].save(tmp_path / "t.parquet")
    assert pq.read_schema(tmp_path / "t.parquet").names == ["axis0", "axis1", "axis2", "value"]


def test_a_kept_release_is_not_lost_by_accident(tmp_path):
    path = tmp_path / "r"
    RELEASES["masked"].save(path)
    refused = "path: expected a new name, got .*r, which exists; .* overwrite=True"
    with pytest.raises(FileExistsError, match=refused):
        RELEASES["plain"].save(path)
    unread = tmp_path / "no_such.csv"  # refused before the counts are even looked for
    with pytest.raises(FileExistsError, match=refused):
        privatize_to_file(unread, path, 1)
    assert load_release(path) == RELEASES["masked"]
    assert privatize_to_file(np.eye(3, dtype=int), path, 1, overwrite=True).epsilon == 1
    assert load_release(path).shape == (3, 3)
    with pytest.raises(TypeError, match="overwrite: expected True or False, got str"):
        RELEASES["plain"].save(path, overwrite="yes")


def test_a_release_that_appears_while_another_is_written_stays(tmp_path, monkeypatch):
    path, add = tmp_path / "r", CellFile.add

    def other_first(self, listed):
        path.write_text("another's release")
        add(self, listed)

    monkeypatch.setattr(CellFile, "add", other_first)
    with pytest.raises(FileExistsError, match="path: expected a new name"):
        RELEASES["plain"].save(path)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["another's release"]


def test_saving_replaces_a_file_in_one_step(tmp_path):
    path = tmp_path / "r"
    RELEASES["signed"].save(path)
    RELEASES["plain"].save(path, overwrite=True)
    assert load_release(path) == RELEASES["plain"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask  # a release is for others to read


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(call, tmp_path, monkeypatch):
    path = tmp_path / "r"
    RELEASES["plain"].save(path)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="cannot write the release: No space left on device") as caught:
        RELEASES["masked"].save(path, overwrite=True)
    assert str(path) in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["r"]
    assert load_release(path) == RELEASES["plain"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_disk_that_fills_up_while_writing(tmp_path):
    # A real failure in the middle of Arrow's writing: the system refuses files beyond 20,000 bytes.
    program = """
import resource, signal, sys, warnings
import numpy as np
from countveil.counts import PrivateCounts
import pyarrow.parquet
warnings.simplefilter("error")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
values = np.random.default_rng(0).integers(-9, 1000, (300, 300))
try:
    PrivateCounts(values, alpha=0.5).save(sys.argv[1])
except OSError as error:
    print(error)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "r")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot write the release: File too large" in done.stdout
    assert str(tmp_path / "r") in done.stdout
    assert done.stderr == ""
    assert not list(tmp_path.iterdir())


def test_an_interrupted_save_cleans_up(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        RELEASES["plain"].save(tmp_path / "r")
    assert not list(tmp_path.iterdir())


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(IsADirectoryError, match="path: expected a file name, got the folder"):
        RELEASES["plain"].save(tmp_path)
    with pytest.raises(FileNotFoundError, match="cannot write the release") as caught:
        RELEASES["plain"].save(tmp_path / "no" / "r")
    assert str(tmp_path / "no" / "r") in str(caught.value)


def test_labels_beyond_what_a_header_holds_are_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("countveil.counts.files.header.LARGEST_HEADER", 1000)
    release = PrivateCounts(np.zeros((300, 1)), alpha=0.5, labels=(range(300), None))
    with pytest.raises(ValueError, match="labels, alpha: expected at most 1,000 bytes"):
        release.save(tmp_path / "r")
    assert not list(tmp_path.iterdir())


def test_saving_and_loading_take_little_memory(tmp_path):
    release = simulate_release(np.zeros((2000, 2000), dtype=np.int8), alpha=0.9, seed=0)
    held = sum(array.nbytes for array in release.positive)
    release.save(tmp_path / "r")  # pyarrow's own loading is not what is measured
    tracemalloc.start()
    release.save(tmp_path / "r", overwrite=True)
    load_release(tmp_path / "r")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * held + 100_000_000


def test_overwriting_replaces_releases_only(tmp_path):
    for name, content in (("notes.txt", b"important"), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FileExistsError, match="expected a release to replace, got"):
            privatize(SIGNED**2, epsilon=1).save(tmp_path / name, overwrite=True)
        with pytest.raises(FileExistsError, match="expected a release to replace, got"):
            privatize_to_file(SIGNED**2, tmp_path / name, 1, overwrite=True)
        assert (tmp_path / name).read_bytes() == content


def test_sums_below_zero_beyond_what_a_float_holds(tmp_path):
    counts = np.zeros((700, 700), dtype=int)
    privatize_to_file(counts, tmp_path / "r.parquet", "1e-12", keep_negative=True)
    assert load_release(tmp_path / "r.parquet").nonpositive.total[0] > 2**53
