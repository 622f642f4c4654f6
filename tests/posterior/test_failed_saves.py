"""A save that fails says why and leaves nothing behind."""

import errno

import pytest

import countveil as cv
from countveil.posterior.runs.writer import StoppableStore


def test_an_existing_target_is_never_touched(posterior, tmp_path):
    for name in ("folder", "file"):
        target = tmp_path / name
        target.mkdir() if name == "folder" else target.write_text("mine")
        with pytest.raises(FileExistsError, match=r"path: expected a new folder, got .*, which exists"):
            posterior.save(target)
    assert (tmp_path / "file").read_text() == "mine"
    assert list((tmp_path / "folder").iterdir()) == []


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
