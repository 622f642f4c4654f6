"""What is being written is for its writer alone, has its name when it is complete, and is removed if it never is."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from countveil.counts import PrivateCounts, ReleaseFileError, load_release, privatize_to_file
from countveil.counts.files import atomic
from countveil.counts.files.atomic import LOCK, UNFINISHED, new_file, new_folder, unfinished
from countveil.counts.files.cells import CellFile
from countveil.counts.files.header import read_header, sign_header
from countveil.counts.files.names import is_plain_name, path_below
from goodness_of_fit import SEED

RNG = np.random.default_rng(0)
LABELS = (list("abcdef"), list("vwxyz"))
ONE = PrivateCounts(RNG.integers(-3, 6, (6, 5)), alpha=0.4, labels=LABELS)
OTHER = PrivateCounts(RNG.integers(-3, 6, (6, 5)), alpha=0.5, labels=LABELS)
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX modes, locks and signals")


@pytest.fixture
def many(monkeypatch):
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 3)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def dead(parent, name="dead"):
    """What a killed writer leaves."""
    place = parent / f"{UNFINISHED}{name}"
    place.mkdir(mode=0o700)
    (place / "cells").write_text("noisy")
    (place / LOCK).write_text("")
    return place


@posix
@pytest.mark.parametrize(
    ("n_times", "n_steps"),
    [
        (1, 2),
        pytest.param(50, 0, marks=pytest.mark.long),
        pytest.param(0, -1, marks=pytest.mark.long, id="every step"),
    ],
)
def test_killed_at_any_moment(n_times, n_steps, tmp_path):
    program = Path(__file__).parents[1] / "killed_writers.py"
    command = [sys.executable, str(program), str(tmp_path), str(n_times), str(n_steps), str(SEED)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" kills, ") == 9


@posix
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_modes_while_writing_and_after(umask, tmp_path, monkeypatch):
    seen, add = [], CellFile.add

    def look(self, listed):
        (place,) = tmp_path.rglob(f"{UNFINISHED}*")
        seen.append((mode(place), {mode(file) & ~0o600 for file in place.rglob("*") if file.is_file()}))
        add(self, listed)

    monkeypatch.setattr(CellFile, "add", look)
    before = os.umask(umask)
    try:
        ONE.save(tmp_path / "file")
        monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 3)
        ONE.save(tmp_path / "folder")
        ONE.save(tmp_path / "folder", overwrite=True)
    finally:
        os.umask(before)
    assert seen == [(0o700, {0})] * 3
    for path in tmp_path.rglob("*"):
        assert mode(path) == (0o777 if path.is_dir() else 0o666) & ~umask, path


@posix
def test_a_file_that_is_replaced_keeps_its_mode_and_a_folder_its_group(tmp_path):
    ONE.save(tmp_path / "file")
    (tmp_path / "file").chmod(0o640)
    OTHER.save(tmp_path / "file", overwrite=True)
    assert mode(tmp_path / "file") == 0o640
    tmp_path.chmod(0o2700)
    with new_folder(tmp_path / "folder"):
        pass
    assert mode(tmp_path / "folder") & stat.S_ISGID


def test_the_next_writer_removes_what_a_dead_one_left(tmp_path):
    dead(tmp_path)
    (tmp_path / f"{UNFINISHED}empty").mkdir()  # killed before it had a lock
    ONE.save(tmp_path / "r")
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_what_a_living_writer_has_is_left_alone(tmp_path):
    with unfinished(tmp_path) as first, unfinished(tmp_path) as second:
        ONE.save(tmp_path / "r")
        assert first.is_dir()
        assert second.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


@posix
def test_links_and_what_others_own_are_left_alone(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("important")
    (tmp_path / f"{UNFINISHED}link").symlink_to(tmp_path / "mine")
    dead(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    atomic.remove_unfinished(tmp_path)
    assert (tmp_path / f"{UNFINISHED}dead" / "cells").exists()
    monkeypatch.undo()
    atomic.remove_unfinished(tmp_path)
    assert not (tmp_path / f"{UNFINISHED}dead").exists()
    assert (tmp_path / "mine" / "thesis").read_text() == "important"
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis"]


def test_without_locks_a_day_tells_the_dead_from_the_living(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "fcntl", None)
    recent, old = dead(tmp_path, "recent"), dead(tmp_path, "old")
    for path in (*old.iterdir(), old, recent):
        os.utime(path, (time.time() - 90_000,) * 2)
    with unfinished(tmp_path) as mine:
        ONE.save(tmp_path / "r")
        assert mine.is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == [recent.name, "r"]


@posix
def test_a_folder_that_is_removed_before_it_is_locked_is_made_anew(tmp_path, monkeypatch):
    lock, calls = atomic.lock_file, []

    def removed_first(descriptor, *, wait):
        if wait and not calls:
            calls.append(1)
            for path in tmp_path.iterdir():
                shutil.rmtree(path)
        return lock(descriptor, wait=wait)

    monkeypatch.setattr(atomic, "lock_file", removed_first)
    ONE.save(tmp_path / "r")
    assert calls
    assert load_release(tmp_path / "r") == ONE


@posix
def test_a_file_system_that_shows_all_files_as_one_users_is_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    for overwrite in (False, True):
        ONE.save(tmp_path / "r", overwrite=overwrite)
        assert [path.name for path in tmp_path.iterdir()] == ["r"]
    assert load_release(tmp_path / "r") == ONE


@posix
def test_where_every_folder_is_taken_away_writers_say_so_and_end(tmp_path, monkeypatch):
    made, mkdir = [], Path.mkdir

    def swapped(self, mode=0o777, **options):
        mkdir(self, mode, **options)
        if self.name.startswith(UNFINISHED):
            made.append(self)
            (self / "other").write_text("of somebody else")

    monkeypatch.setattr(Path, "mkdir", swapped)
    with pytest.raises(OSError, match="nobody takes away what is being written"):
        ONE.save(tmp_path / "r")
    assert 1 < len(made) <= 1000
    assert {(folder / "other").read_text() for folder in made} == {"of somebody else"}


@posix
@pytest.mark.parametrize(("number", "locked"), [(0o700, False), (0o755, True), (0o750, False)])
def test_a_folder_that_was_given_the_name_of_a_dead_one_stays(number, locked, tmp_path):
    # In a folder that others may write to, they may rename what is ours, though not remove what is in it.
    thesis = tmp_path / f"{UNFINISHED}1"
    thesis.mkdir()
    (thesis / "chapter").write_text("years of work")
    if locked:
        (thesis / LOCK).write_text("")
    thesis.chmod(number)
    ONE.save(tmp_path / "r")
    assert (thesis / "chapter").read_text() == "years of work"
    assert locked or not (thesis / LOCK).exists()


@posix
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_swapped_folder_changes_no_mode_elsewhere(kind, tmp_path):
    key = tmp_path / "key"
    key.write_text("secret")
    key.chmod(0o600)
    shared = tmp_path / "shared"
    shared.mkdir()

    def swap():
        (hidden,) = shared.iterdir()
        hidden.rename(shared / "moved")
        hidden.mkdir()
        if kind == "file":
            (hidden / "r").symlink_to(key)
        else:
            (hidden / "r").mkdir()
            (hidden / "r" / "part").symlink_to(key)

    if kind == "file":
        with new_file(shared / "r", overwrite=False) as file:
            file.write(b"mine")
            swap()
        assert (shared / "r").read_bytes() == b"mine"
    else:
        with new_folder(shared / "r") as place:
            (place / "part").write_bytes(b"mine")
            swap()
        assert (shared / "r" / "part").read_bytes() == b"mine"
    assert mode(key) == 0o600


@posix
@pytest.mark.parametrize("kind", ["file", "folder", "neither"])
def test_a_swapped_folder_removes_nothing_elsewhere(kind, tmp_path):
    """What others may rename: a link to a folder of ours in place of the one that is written into."""
    home, shared = tmp_path / "home", tmp_path / "shared"
    shared.mkdir()
    (home / "thesis").mkdir(parents=True)
    (home / "thesis" / "chapter").write_text("years of work")
    (home / "notes").write_text("more of it")

    def swap():
        (hidden,) = shared.iterdir()
        hidden.rename(shared / "moved")
        hidden.symlink_to(home)

    if kind == "file":
        with new_file(shared / "r", overwrite=False) as file:
            file.write(b"mine")
            swap()
    elif kind == "folder":
        with new_folder(shared / "r") as place:
            (place / "part").write_bytes(b"mine")
            swap()
    else:
        with unfinished(shared) as place:
            (place / "half").write_bytes(b"mine")
            swap()
    assert (home / "thesis" / "chapter").read_text() == "years of work"
    assert (home / "notes").exists()
    assert list((shared / "moved").iterdir()) == []  # wherever it is now, nothing is left in it


@posix
def test_a_replaced_file_hands_on_no_more_than_reading_and_writing_and_only_from_us(tmp_path, monkeypatch):
    ONE.save(tmp_path / "r")
    (tmp_path / "r").chmod(0o6767)
    OTHER.save(tmp_path / "r", overwrite=True)
    assert mode(tmp_path / "r") == 0o666
    (tmp_path / "r").chmod(0o606)
    monkeypatch.setattr(atomic, "_is_ours", lambda _: False)
    before = os.umask(0o027)
    try:
        ONE.save(tmp_path / "r", overwrite=True)
    finally:
        os.umask(before)
    assert mode(tmp_path / "r") == 0o640


# Two savers of one name.


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_of_many_savers_of_one_name_one_wins_and_the_others_are_told(kind, tmp_path, monkeypatch):
    target, barrier, modes = tmp_path / "r", threading.Barrier(4), atomic.final_modes

    def together(folder, inside):
        """They wait for each other when all is written and only the name is missing."""
        found = modes(folder, inside)
        barrier.wait(timeout=60)
        return found

    def save(number):
        try:
            if kind == "file":
                with new_file(target, overwrite=False) as file:
                    file.write(b"%d" % number)
            else:
                with new_folder(target) as place:
                    (place / "part").write_bytes(b"%d" % number)
            return "saved"
        except FileExistsError as error:
            return str(error)

    monkeypatch.setattr(atomic, "final_modes", together)
    with ThreadPoolExecutor(4) as savers:
        for _ in range(20):
            told = list(savers.map(save, range(4)))
            assert sorted(told) == [f"path: expected a new name, got {target}, which exists"] * 3 + ["saved"]
            assert [path.name for path in tmp_path.iterdir()] == ["r"]
            saved = target if kind == "file" else target / "part"
            assert saved.read_bytes() == b"%d" % told.index("saved")
            target.unlink() if kind == "file" else shutil.rmtree(target)


@pytest.mark.parametrize("is_many", [False, True])
@pytest.mark.parametrize("other", ["file", "folder", "empty folder", "dangling link"])
def test_a_name_that_is_taken_meanwhile_stays(is_many, other, tmp_path, monkeypatch):
    if is_many:
        monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 3)
    target, add = tmp_path / "r", CellFile.add

    def other_first(self, listed):
        if other == "file":
            target.write_text("another's")
        elif other == "dangling link":
            target.symlink_to("nowhere")
        else:
            target.mkdir()
            if other == "folder":
                (target / "thesis").write_text("another's")
        add(self, listed)

    monkeypatch.setattr(CellFile, "add", other_first)
    with pytest.raises(FileExistsError, match="path: expected a new name"):
        ONE.save(target)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    if other == "file":
        assert target.read_text() == "another's"
    elif other == "dangling link":
        assert target.is_symlink()
    else:
        assert [path.name for path in target.iterdir()] == (["thesis"] if other == "folder" else [])


def test_file_systems_without_links(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    ONE.save(tmp_path / "r")
    assert load_release(tmp_path / "r") == ONE
    monkeypatch.setattr("countveil.counts.files.release.check_free", lambda *_: None)
    with pytest.raises(FileExistsError):
        OTHER.save(tmp_path / "r")
    assert load_release(tmp_path / "r") == ONE
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


@posix
def test_devices_and_pipes_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match=r"path: expected a file, got .*pipe, which is something else"):
        ONE.save(tmp_path / "pipe", overwrite=True)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


# Names that come out of files.

ELSEWHERE = [
    "..",
    ".",
    "",
    "../x",
    "/x",
    "a/../../x",
    "..\\x",
    "a\\..\\x",
    "C:x",
    "c:\\x",
    "\\\\host\\x",
    "x\0",
    "//host/x",
]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_names_that_lead_elsewhere_on_some_system_are_refused_on_every_one(name, many, tmp_path):
    with pytest.raises(ValueError, match="name: expected one that stays in its folder on every system"):
        path_below(tmp_path, name)
    ONE.save(tmp_path / "r")
    file = tmp_path / "r" / "release.json"
    header = read_header(file.read_bytes())
    (tmp_path / "x").mkdir()
    for generation in (name, f"generation-1/{name}", f"generation-1{name}" if name else "generation-"):
        file.write_bytes(sign_header({**header, "generation": generation}))
        with pytest.raises(ReleaseFileError, match="expected the name of a generation, got another"):
            load_release(tmp_path / "r")


def test_ordinary_names_are_not_refused(tmp_path):
    for name in (
        "cells",
        "a b",
        "Öl",
        "x.parquet",
        ".hidden",
        "time: hour",
        "generation-1/cells/part-00000.parquet",
    ):
        assert path_below(tmp_path, name) == tmp_path / name
    assert is_plain_name("release.parquet")


# The input.


def test_a_release_does_not_replace_what_it_is_made_of(tmp_path):
    counts = tmp_path / "counts.csv"
    counts.write_text("a,b\n1,2\n")
    (tmp_path / "link.csv").symlink_to(counts)
    (tmp_path / "same.csv").hardlink_to(counts)
    for path in (
        counts,
        str(counts),
        tmp_path / "x" / ".." / "counts.csv",
        tmp_path / "link.csv",
        tmp_path / "same.csv",
    ):
        if "x" in Path(path).parts:
            (tmp_path / "x").mkdir()
        for overwrite in (False, True):
            with pytest.raises(ValueError, match="path: expected another file than those that are read, got"):
                privatize_to_file(str(counts), path, 1, public_labels=True, overwrite=overwrite)
    assert counts.read_text() == "a,b\n1,2\n"
    privatize_to_file(counts, tmp_path / "r", 1, public_labels=True)
    assert load_release(tmp_path / "r").shape == (1, 2)
