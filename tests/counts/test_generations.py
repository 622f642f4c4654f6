"""Overwriting a release folder is one step: readers get the old release or the new one, whatever goes wrong."""

import errno
import shutil
import subprocess
import sys

import numpy as np
import pytest

from countveil.counts import PrivateCounts, load_release
from countveil.counts.files import folder
from countveil.counts.files.atomic import LOCK, UNFINISHED

RNG = np.random.default_rng(0)
LABELS = (list("abcdef"), list("vwxyz"))
ONE = PrivateCounts(RNG.integers(-3, 6, (6, 5)), alpha=0.4, labels=LABELS)
OTHER = PrivateCounts(RNG.integers(-3, 6, (6, 5)), alpha=0.5, labels=LABELS)


@pytest.fixture
def many(monkeypatch):
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 3)


def dead_writer(parent):
    place = parent / f"{UNFINISHED}dead"
    place.mkdir(mode=0o700)
    (place / "generation" / "cells").mkdir(parents=True)
    (place / LOCK).write_text("")


def test_overwriting_keeps_one_generation(many, tmp_path):
    target = tmp_path / "r"
    for number, release in enumerate((ONE, OTHER, ONE, OTHER), start=1):
        release.save(target, overwrite=True)
        assert sorted(path.name for path in target.iterdir()) == [f"generation-{number}", "release.json"]
        assert load_release(target) == release
    (target / "README").write_text("from the holder")
    ONE.save(target, overwrite=True)
    assert (target / "README").read_text() == "from the holder"


def test_the_next_overwriting_removes_what_a_dead_one_left_in_the_folder(many, tmp_path):
    target = tmp_path / "r"
    ONE.save(target)
    dead_writer(target)
    dead_writer(tmp_path)
    shutil.copytree(target / "generation-1", target / "generation-7")
    assert load_release(target) == ONE
    OTHER.save(target, overwrite=True)
    assert sorted(p.name for p in target.iterdir()) == ["generation-2", "release.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["r"]
    assert load_release(target) == OTHER


def test_overwriting_removes_no_files_of_others(many, tmp_path):
    """Not even those that have names of ours, where a release of generations has none."""
    target = tmp_path / "r"
    ONE.save(target)
    own = [
        "rows.parquet", "columns.parquet", "axis7.parquet", "notes.txt", "cells/part-00000.parquet",
        "generation-1/notes.txt", "generation-2/backup.txt",
    ]  # fmt: skip
    for name in own:
        (target / name).parent.mkdir(exist_ok=True)
        (target / name).write_text("mine")
    OTHER.save(target, overwrite=True)
    assert [(target / name).read_text() for name in own] == ["mine"] * len(own)
    assert not (target / "generation-1" / "cells").exists()
    assert load_release(target) == OTHER


@pytest.mark.parametrize("current", [False, True])
def test_the_last_number_that_a_generation_may_have_is_not_passed(many, tmp_path, current):
    """By a stray file of that name, or in a stranger's folder: the new release must be one that can be read."""
    target, last = tmp_path / "r", "generation-999999999999999999"
    ONE.save(target)
    if current:
        (target / "generation-1").rename(target / last)
        header = folder.read_header((target / folder.HEADER).read_bytes()) | {"generation": last}
        (target / folder.HEADER).write_bytes(folder.encode_header(header))
        assert load_release(target) == ONE
    else:
        (target / last).write_text("no folder")
    for release in (OTHER, ONE, OTHER):
        release.save(target, overwrite=True)
        assert load_release(target) == release


def test_a_generation_that_a_living_writer_is_about_to_name_stays(many, tmp_path, monkeypatch):
    target, write = tmp_path / "r", folder._write_header
    ONE.save(target)

    def another_first(place, generation, header):
        monkeypatch.setattr(folder, "_write_header", write)
        ONE.save(target, overwrite=True)  # generation-3, while generation-2 has no release.json yet
        assert (target / "generation-2").is_dir()
        write(place, generation, header)

    monkeypatch.setattr(folder, "_write_header", another_first)
    OTHER.save(target, overwrite=True)
    assert sorted(p.name for p in target.iterdir()) == ["generation-2", "release.json"]
    assert load_release(target) == OTHER


def test_reading_while_it_is_overwritten(many, tmp_path, monkeypatch):
    target, read = tmp_path / "r", folder._read_names
    ONE.save(target)

    def overwritten_first(*args):
        monkeypatch.setattr(folder, "_read_names", read)
        OTHER.save(target, overwrite=True)
        return read(*args)

    monkeypatch.setattr(folder, "_read_names", overwritten_first)
    assert load_release(target) == OTHER


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["_write_header", "open_up", "final_modes", "_named", "private_file"])
def test_a_failed_overwriting_leaves_the_old_release_and_nothing_else(
    error, step, many, tmp_path, monkeypatch
):
    target = tmp_path / "r"
    ONE.save(target)

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(folder, step, fail)
    with pytest.raises(type(error)):
        OTHER.save(target, overwrite=True)
    assert sorted(p.name for p in target.iterdir()) == ["generation-1", "release.json"]
    assert load_release(target) == ONE


def test_an_interruption_just_after_the_new_one_is_named_does_not_remove_it(many, tmp_path, monkeypatch):
    ONE.save(tmp_path / "r")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(folder, "sync_folder", interrupt)
    with pytest.raises(KeyboardInterrupt):
        OTHER.save(tmp_path / "r", overwrite=True)
    assert load_release(tmp_path / "r") == OTHER


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_disk_that_fills_up_while_a_folder_is_overwritten(tmp_path):
    program = """
import resource, signal, sys, warnings
import numpy as np
from countveil.counts import PrivateCounts
from countveil.counts.files import release
import pyarrow.parquet
warnings.simplefilter("error")
release.LABELS_IN_ONE_FILE = 0
PrivateCounts([[1, 2]], alpha=0.5, labels=(["a"], ["b", "c"])).save(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
values = np.random.default_rng(0).integers(-9, 1000, (300, 300))
try:
    PrivateCounts(values, alpha=0.5, labels=(range(300), None)).save(sys.argv[1], overwrite=True)
except OSError as error:
    print(error)
"""
    target = tmp_path / "r"
    command = [sys.executable, "-c", program, str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot write the release: File too large" in done.stdout
    assert done.stderr == ""
    assert load_release(target).shape == (1, 2)
    assert sorted(p.name for p in target.iterdir()) == ["generation-1", "release.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["r"]
