"""Runs that refer to a large release on disk, and do not hold it."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import countveil as cv
from countveil.counts import ReleaseFileError
from countveil.counts.release_on_disk import ReleaseOnDisk
from countveil.inference.engines.engine import may_stay_unread
from countveil.inference.problem import make_problem
from countveil.posterior.describe import describe_run
from countveil.posterior.runs import packed_release
from goodness_of_fit import SEED

COUNTS = np.random.default_rng(SEED).poisson(2.0, (30, 6))
MODEL = cv.TopicModel(2)
SETTINGS = {"sweeps": 20, "thin": 2, "seed": 1, "threads": 1, "progress": False}


@pytest.fixture
def release(tmp_path, monkeypatch):
    monkeypatch.setattr(packed_release, "LARGEST_PACKED", 100)
    path = tmp_path / "release.parquet"
    cv.simulate_release(COUNTS, epsilon=1, seed=SEED).save(path)
    return path


def draws_of(posterior):
    return {name: one.to_numpy() for name, one in posterior.tree["posterior"].data_vars.items()}


def same(one, two):
    return one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)


def test_a_large_release_is_not_copied_and_the_run_goes_on(release, tmp_path):
    run = tmp_path / "run.zarr"
    cv.fit(MODEL, release, scratch=tmp_path, store=run, **SETTINGS)
    assert not (run / "release").exists()
    assert str(release) in str(describe_run(run))
    loaded = cv.load_posterior(run)
    assert loaded.release == cv.load_release(release)
    assert loaded.true_counts(rows=[0]) is not None
    expected = cv.fit(
        MODEL, cv.load_release(release), start="plain", **{**SETTINGS, "sweeps": 40, "burn_in": 10}
    )
    grown = cv.extend(run, 40, scratch=tmp_path, progress=False, threads=1)
    assert same(draws_of(grown), draws_of(expected))
    loaded.save(tmp_path / "again.zarr")
    assert not (tmp_path / "again.zarr" / "release").exists()
    assert cv.load_posterior(tmp_path / "again.zarr").release == loaded.release


def test_a_small_one_is_copied_as_it_is(release, tmp_path, monkeypatch):
    monkeypatch.setattr(packed_release, "LARGEST_PACKED", 10**6)
    run = tmp_path / "run.zarr"
    cv.fit(MODEL, release, scratch=tmp_path, store=run, **SETTINGS)
    expected = cv.load_release(release)
    release.unlink()
    assert cv.load_posterior(run).release == expected
    assert cv.extend(run, 30, progress=False).release == expected
    with pytest.raises(ValueError, match="data: expected none, because the release is in the run"):
        cv.extend(run, 40, COUNTS, progress=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A stranger's release folder with more in it than a release has, and some of that links to files of the user."""
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 10)
    secret, folder = tmp_path / "home" / "id_rsa", tmp_path / "folder"
    secret.parent.mkdir()
    secret.write_text("hush")
    cv.simulate_release(COUNTS, epsilon=1, seed=SEED, labels=([f"r{i}" for i in range(30)], None)).save(
        folder
    )
    (folder / "generation-1" / "notes").symlink_to(secret)
    (folder / "more").symlink_to(secret.parent)
    (folder / "device").symlink_to("/dev/null")  # not one that never ends, should this test fail
    (folder / "junk").write_text("hush")
    return folder


def files_in(run):
    with xr.open_datatree(run, engine="zarr", consolidated=False) as tree:
        packed = tree["release"].to_dataset().load()
    return json.loads(packed.attrs["files"]), [one.to_numpy().tobytes() for one in packed.data_vars.values()]


NAMES = ["release.json", "generation-1/cells/part-00000.parquet", "generation-1/rows.parquet"]


def test_of_a_folder_only_the_files_of_the_release_are_copied(folder, tmp_path, monkeypatch):
    run, again = tmp_path / "run.zarr", tmp_path / "again.zarr"
    cv.fit(MODEL, folder, scratch=tmp_path, store=run, **SETTINGS)
    assert cv.load_posterior(run).release == cv.load_release(folder)
    # A run of the stranger's that refers to it, saved by the user.
    with monkeypatch.context() as patch:
        patch.setattr(packed_release, "LARGEST_PACKED", 100)
        cv.fit(MODEL, folder, scratch=tmp_path, store=tmp_path / "gift.zarr", **SETTINGS)
    cv.load_posterior(tmp_path / "gift.zarr").save(again)
    for one in (run, again):
        names, contents = files_in(one)
        assert sorted(names) == sorted(f"release.parquet/{name}" for name in NAMES)
        assert not any(b"hush" in content for content in contents)


@pytest.mark.parametrize("name", NAMES)
def test_a_link_in_place_of_a_file_is_not_followed(folder, tmp_path, name):
    release, away = ReleaseOnDisk(folder), tmp_path / "away"
    (folder / name).rename(away)
    (folder / name).symlink_to(away)
    with pytest.raises(ReleaseFileError, match=r"expected a regular file, got .*a link or something else"):
        packed_release.pack_release(release)


def test_no_more_is_copied_than_a_run_may_hold(folder, monkeypatch):
    release = ReleaseOnDisk(folder)
    packed_release.pack_release(release)
    monkeypatch.setattr(packed_release, "LARGEST_PACKED", release.n_bytes)
    packed_release.pack_release(release)
    with (folder / "generation-1" / "rows.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ReleaseFileError, match=f"expected at most {release.n_bytes:,} bytes, got more"):
        packed_release.pack_release(release)


def test_a_release_that_has_moved(release, tmp_path):
    run, moved = tmp_path / "run.zarr", tmp_path / "elsewhere.parquet"
    cv.fit(MODEL, release, scratch=tmp_path, store=run, **SETTINGS)
    release.rename(moved)
    posterior = cv.load_posterior(run)
    with pytest.warns(UserWarning, match="data: expected the release of this run at"):
        assert posterior.release is None
    with pytest.raises(FileNotFoundError, match="data: expected the release of this run at"):
        cv.extend(run, 30, progress=False)
    assert cv.extend(run, 30, moved, progress=False).n_draws == 2 * 10
    # Beside the run, under its old name.
    (tmp_path / "both").mkdir()
    run = run.rename(tmp_path / "both" / "run.zarr")
    moved.rename(tmp_path / "both" / release.name)
    assert cv.load_posterior(run).release.shape == COUNTS.shape


def test_another_release_in_its_place(release, tmp_path):
    run = tmp_path / "run.zarr"
    cv.fit(MODEL, release, scratch=tmp_path, store=run, **SETTINGS)
    cv.simulate_release(COUNTS, epsilon=1, seed=SEED + 1).save(release, overwrite=True)
    with pytest.raises(ReleaseFileError, match="expected the release that the fit was begun with"):
        cv.extend(run, 30, progress=False)


def test_a_release_of_another_shape_is_not_that_of_a_strangers_run(release, tmp_path):
    """Rows of the run were looked up beyond those of the release."""
    run = tmp_path / "run.zarr"
    cv.fit(MODEL, release, scratch=tmp_path, store=run, **SETTINGS)
    small = cv.simulate_release(COUNTS[:2, :2], epsilon=1, seed=SEED)
    for ask in (lambda one: one.true_counts(), lambda one: one.totals(), lambda one: one.release):
        posterior = cv.load_posterior(run)
        posterior._given = lambda: small
        with pytest.raises(ValueError, match="release: expected the one of this run, of shape"):
            ask(posterior)


def test_a_release_on_disk_is_read_when_it_is_needed(release):
    found, whole = ReleaseOnDisk(release), cv.load_release(release)
    assert (found.shape, found.axes, found.simulated) == (whole.shape, whole.axes, whole.simulated)
    assert (found.rho == whole.rho).all()
    assert not found.plain_rows.any()
    problem = replace(make_problem(MODEL, found), source=found)
    assert problem.is_unread
    assert problem.views[""].observed.row_rho.tolist() == [1.0]
    assert found.is_unread
    again = pickle.loads(pickle.dumps(found))
    assert again.is_unread
    assert again == whole
    assert not again.is_unread
    assert repr(again) == repr(whole)


def test_which_releases_stay_unread(release, tmp_path):
    by_cell = tmp_path / "by_cell.parquet"
    cv.PrivateCounts(COUNTS, rho=np.linspace(0.5, 1, COUNTS.size).reshape(COUNTS.shape)).save(by_cell)
    found = ReleaseOnDisk(release)
    assert [may_stay_unread(found, MODEL, engine) for engine in ("cpu", "cuda", "mpi", "ray")] == [
        False,
        False,
        True,
        True,
    ]
    assert not may_stay_unread(found, cv.CommunityModel(2), "mpi")
    assert not may_stay_unread(found, cv.UnknownNoise(MODEL), "mpi")
    assert not may_stay_unread(ReleaseOnDisk(by_cell), MODEL, "mpi")


@pytest.mark.parametrize("path", [r"\\host\share\release.parquet", "//host/share/release.parquet"])
def test_no_other_machine_is_asked_because_a_run_says_so(path, tmp_path, monkeypatch):
    """Windows would sign in there, and tell who the user is."""
    monkeypatch.setattr(Path, "exists", lambda self: pytest.fail("it was looked for"))
    with pytest.raises(ValueError, match="data: expected the release of this run, which lies on another"):
        packed_release.release_at({"path": path, "sha256": "0" * 64}, tmp_path / "run.zarr")
