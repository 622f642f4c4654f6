"""A save that fails says why and leaves nothing behind."""

import asyncio
import errno
import os
import stat
import sys
import tempfile

import pytest

import countveil as cv
from countveil.counts.files.atomic import LOCK, UNFINISHED
from countveil.posterior.runs.writer import StoppableStore


def test_an_existing_target_is_never_touched(posterior, tmp_path):
    for name in ("folder", "file"):
        target = tmp_path / name
        target.mkdir() if name == "folder" else target.write_text("mine")
        with pytest.raises(FileExistsError, match=r"path: expected a new folder, got .*, which exists"):
            posterior.save(target)
    assert (tmp_path / "file").read_text() == "mine"
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize("other", ["file", "folder", "empty folder", "link"])
def test_what_takes_the_name_meanwhile_is_never_touched(posterior, tmp_path, monkeypatch, other):
    target, write = tmp_path / "run.zarr", StoppableStore._write

    def other_first(self, *args):
        if not os.path.lexists(target):
            if other == "file":
                target.write_text("mine")
            elif other == "link":
                target.symlink_to("nowhere")
            else:
                target.mkdir()
                if other == "folder":
                    (target / "thesis").write_text("mine")
        write(self, *args)

    monkeypatch.setattr(StoppableStore, "_write", other_first)
    with pytest.raises(FileExistsError, match=r"path: expected a new folder, got .*, which exists"):
        posterior.save(target)
    assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"]
    if other == "file":
        assert target.read_text() == "mine"
    elif other == "link":
        assert target.is_symlink()
    else:
        assert [path.name for path in target.iterdir()] == (["thesis"] if other == "folder" else [])


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX modes")
def test_modes_while_writing_and_after(posterior, tmp_path, monkeypatch):
    seen, write = [], StoppableStore._write

    def look(self, *args):
        write(self, *args)
        (place,) = tmp_path.iterdir()
        seen.append(stat.S_IMODE(place.stat().st_mode))
        seen.extend(0o700 | stat.S_IMODE(path.stat().st_mode) for path in place.rglob("*") if path.is_file())

    monkeypatch.setattr(StoppableStore, "_write", look)
    before = os.umask(0o002)
    try:
        posterior.save(tmp_path / "run.zarr")
    finally:
        os.umask(before)
    assert set(seen) == {0o700}
    for path in tmp_path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o775 if path.is_dir() else 0o664)


def killed_in(folder, name):
    """What a killed writer leaves."""
    dead = folder / f"{UNFINISHED}dead"
    dead.mkdir(mode=0o700)
    (dead / name).mkdir()
    (dead / LOCK).touch()


def test_the_next_save_removes_what_a_killed_one_left(posterior, tmp_path):
    killed_in(tmp_path, "run.zarr")
    posterior.save(tmp_path / "run.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"]


def test_the_folder_for_the_release_inside_is_private_and_removed(posterior, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed_in(tmp_path, "scratch")
    (tmp_path / "runs").mkdir()
    posterior.save(tmp_path / "runs" / "run.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_no_name_leads_out_of_a_run(tmp_path):
    with pytest.raises(ValueError, match="name: expected one that stays in its folder"):
        asyncio.run(StoppableStore(tmp_path).set("..\\escaped", None))


def test_no_folder_to_write_into(posterior, tmp_path):
    with pytest.raises(FileNotFoundError, match="path: expected a folder to write into, got"):
        posterior.save(tmp_path / "nowhere/run.zarr")


@pytest.mark.parametrize("after", [0, 5, 15, 20])
def test_a_full_disk(posterior, tmp_path, monkeypatch, after):
    calls = iter(range(10**6))
    write = StoppableStore._write

    def full(self, *args):
        if next(calls) >= after:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, *args)

    monkeypatch.setattr(StoppableStore, "_write", full)
    with pytest.raises(
        OSError, match=r"path: could not write '.*run.zarr' \(No space left on device\)"
    ) as caught:
        posterior.save(tmp_path / "run.zarr")
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    posterior.save(tmp_path / "run.zarr")
    assert cv.load_posterior(tmp_path / "run.zarr").n_draws == posterior.n_draws


@pytest.mark.parametrize("after", [0, 15])
def test_a_full_disk_where_a_run_begins(tmp_path, monkeypatch, after):
    modes, write = [], StoppableStore._write

    def full(self, path, content):
        if len(modes) >= after:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, path, content)
        modes.append(stat.S_IMODE(path.stat().st_mode))

    monkeypatch.setattr(StoppableStore, "_write", full)
    settings = {
        "sweeps": 20,
        "burn_in": 10,
        "thin": 5,
        "seed": 1,
        "progress": False,
        "store": tmp_path / "run.zarr",
    }
    with pytest.raises(OSError, match=r"store: could not write '.*run.zarr' \(No space left on device\)"):
        cv.fit(cv.TopicModel(2), [[9, 0], [0, 8]], **settings)
    assert list(tmp_path.iterdir()) == []
    assert {*modes} <= {0o600}
    monkeypatch.undo()
    cv.fit(cv.TopicModel(2), [[9, 0], [0, 8]], **settings)
    (tmp_path / "plain").touch()
    found = {
        stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run.zarr").rglob("*") if path.is_file()
    }
    assert found == {stat.S_IMODE((tmp_path / "plain").stat().st_mode)}  # as anything that people write


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_any_other_end(posterior, tmp_path, monkeypatch, kind):
    def stop(*args, **options):
        raise kind("stop")

    monkeypatch.setattr("xarray.DataTree.to_zarr", stop)
    with pytest.raises(kind):
        posterior.save(tmp_path / "run.zarr")
    assert list(tmp_path.iterdir()) == []


def test_saving_leaves_the_tree_alone(posterior, tmp_path):
    before = dict(posterior.tree.attrs)
    posterior.save(tmp_path / "run.zarr")
    assert dict(posterior.tree.attrs) == before
    assert "release" not in posterior.tree.children
    assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"]


def test_what_could_not_be_loaded_again_is_refused_before_the_first_sweep(tmp_path):
    """Labels that nearly vanish when compressed, and hardly any counts: the reader takes such a run for a bomb."""
    labels = ["a" * 1990 + str(n) for n in range(12_000)]
    release = cv.privatize([[0]] * 12_000, epsilon=8, rows=labels)
    seen = []
    with pytest.raises(
        ValueError, match=r"store: expected a run that can be loaded again, it would have arrays"
    ):
        cv.fit(
            cv.TopicModel(2),
            release,
            chains=1,
            sweeps=2,
            thin=1,
            store=tmp_path / "run.zarr",
            progress=seen.append,
        )
    assert not seen
    posterior = cv.fit(cv.TopicModel(2), release, chains=1, sweeps=2, thin=1, progress=False)
    with pytest.raises(
        ValueError, match=r"path: expected a run that can be loaded again, it would have arrays"
    ):
        posterior.save(tmp_path / "run.zarr")
    assert not list(tmp_path.iterdir())
