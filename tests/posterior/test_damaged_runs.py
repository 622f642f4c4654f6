"""A run that is damaged, foreign, newer or unfinished is refused, with a word on which it is."""

import contextlib
import json
import shutil
import zlib

import numpy as np
import pytest
import xarray as xr
import zarr

import countveil as cv


@pytest.fixture(scope="module")
def saved(posterior, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "run.zarr"
    posterior.save(folder)
    return folder


@pytest.fixture
def run(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "run.zarr")


def refused(path, message):
    with pytest.raises(cv.PosteriorFileError, match=message) as caught:
        cv.load_posterior(path)
    return caught.value


def edit(run, **attributes):
    header = json.loads((run / "zarr.json").read_text())
    header["attributes"].update(attributes)
    (run / "zarr.json").write_text(json.dumps(header))


def test_every_file_counts(run, posterior):
    """Each file of the run in turn is lost, emptied, cut in half, or has one byte changed."""
    files = sorted(path for path in run.rglob("*") if path.is_file())
    assert len(files) > 20
    for number, path in enumerate(files):
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 0x10
        damages = {"lost": None, "empty": b"", "cut": whole[: len(whole) // 2], "changed": bytes(flipped)}
        for kind, damage in list(damages.items())[number % 2 :: 2]:  # two of the four for each: time
            if damage is None:
                path.unlink()
            else:
                path.write_bytes(damage)
            # A change in a header that alters no number is harmless.
            with contextlib.suppress(cv.PosteriorFileError):
                assert cv.load_posterior(run).rates().equals(posterior.rates()), path
                assert (kind, path.name) == ("changed", "zarr.json"), path
            path.write_bytes(whole)
    cv.load_posterior(run)


def test_a_lost_chunk_is_not_read_as_zeros(run):
    chunk = next(path for path in (run / "posterior/theta/c").rglob("*") if path.is_file())
    chunk.unlink()
    refused(run, r"expected a whole run, got a damaged one in .* \(its checksum differs\)")


def test_changed_attributes(run):
    edit(run, model=json.dumps({"name": "countveil.TopicModel", "settings": {"n_topics": 3}}))
    refused(run, "damaged")


def test_newer(run):
    edit(run, version=2)
    refused(run, "expected format version 1 or older, got 2: update countveil")


def test_unfinished(run):
    edit(run, complete=0)
    refused(run, "expected a run with draws, got an unfinished one in .* that has none yet")


@pytest.mark.parametrize("version", ["one", None, [1]])
def test_nonsense_versions(run, version):
    edit(run, version=version)
    refused(run, "damaged")


def test_foreign(tmp_path):
    xr.Dataset({"x": ("i", np.arange(3))}).to_zarr(tmp_path / "xarray.zarr", consolidated=False)
    refused(tmp_path / "xarray.zarr", "expected a run of countveil, got another Zarr folder in")
    zarr.create_array(tmp_path / "array.zarr", shape=(3,), dtype="f4")
    refused(tmp_path / "array.zarr", "expected")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "expected the folder of a run, got .*, which is none")
    (tmp_path / "json").mkdir()
    (tmp_path / "json/zarr.json").write_text("hello")
    refused(tmp_path / "json", "damaged")


def test_a_file_where_a_folder_is_expected(tmp_path, release):
    release.save(tmp_path / "release.parquet")
    refused(
        tmp_path / "release.parquet", "expected the folder of a run, got .*release.parquet', which is a file"
    )


def test_nothing_there(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"path: expected the folder of a run, got .* which does not exist"
    ):
        cv.load_posterior(tmp_path / "nothing.zarr")


@pytest.mark.parametrize(
    "name",
    ["../../escaped", "..\\..\\escaped", "a\\..\\escaped", "C:escaped", "C:\\escaped", "\\\\host\\escaped"],
)
def test_a_release_cannot_be_written_elsewhere(run, name, tmp_path):
    """A name in the file that leads out of the folder on some system: refused on all, even with a right checksum."""
    header = json.loads((run / "release/zarr.json").read_text())
    header["attributes"]["files"] = json.dumps([name])
    (run / "release/zarr.json").write_text(json.dumps(header))
    with pytest.raises(cv.PosteriorFileError, match="damaged") as caught:
        cv.load_posterior(run)
    assert "expected one that stays in its folder" in str(caught.value.__cause__)
    assert not list(tmp_path.parent.rglob("escaped"))


def test_the_release_inside_is_checked(run):
    root = zarr.open_group(run, mode="r+", use_consolidated=False)
    values = root["release/file0"][...]
    values[len(values) // 2] ^= 1
    root["release/file0"][...] = values
    assert zlib.crc32(values) != 0
    refused(run, "damaged")
