"""A release from anyone: it is read from its own files alone, and takes no more memory than its size explains."""

import base64
import hashlib
import json
import os
import sys
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

import countveil as cv
from countveil.counts import PrivateCounts, ReleaseFileError, load_release
from countveil.counts.bounded import pages
from countveil.counts.bounded.pages import check_pages
from countveil.counts.bounded.room import Room
from countveil.counts.files import cells, folder, header, rows
from countveil.counts.files.header import KEY, read_header, sign_header
from countveil.counts.files.release import read_release
from countveil.posterior.runs import packed_release

ONE = PrivateCounts(np.array([[3, 1], [0, 2], [5, 4]]), alpha=0.4, labels=(list("abc"), list("vw")))
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX links and pipes")


@pytest.fixture
def many(monkeypatch):
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 3)


@pytest.fixture
def saved(many, tmp_path):
    ONE.save(tmp_path / "r")
    return tmp_path / "r"


INSIDE = [
    "release.json",
    "generation-1",
    "generation-1/rows.parquet",
    "generation-1/cells",
    "generation-1/cells/part-00000.parquet",
]


@posix
@pytest.mark.parametrize("name", INSIDE)
def test_a_link_inside_a_release_folder_is_refused(name, saved, tmp_path):
    (saved / name).rename(tmp_path / "elsewhere")
    (saved / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ReleaseFileError, match="a link or something else"):
        load_release(saved)
    # The user's own link to the folder is followed.
    (saved / name).unlink()
    (tmp_path / "elsewhere").rename(saved / name)
    (tmp_path / "link").symlink_to(saved)
    assert load_release(tmp_path / "link") == ONE


@posix
@pytest.mark.parametrize("name", [name for name in INSIDE if "." in name])
def test_nobody_waits_for_a_pipe_inside_a_release_folder(name, saved):
    (saved / name).unlink()
    os.mkfifo(saved / name)
    # A writer at its other end: a reader that opens the pipe would not hang, but get nothing.
    other = os.open(saved / name, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(other, b"{}")
        with pytest.raises(ReleaseFileError, match="expected a regular file"):
            load_release(saved)
        assert os.read(other, 3) == b"{}"  # nobody has read it
    finally:
        os.close(other)


@posix
def test_devices_are_not_read(saved, many, tmp_path):
    (saved / "release.json").unlink()
    (saved / "release.json").symlink_to("/dev/null")
    with pytest.raises(ReleaseFileError, match="expected a regular file"):
        load_release(saved)
    with pytest.raises(FileExistsError, match="which is something else"):
        ONE.save(saved, overwrite=True)
    with pytest.raises(ReleaseFileError, match="expected a regular file"):
        load_release("/dev/null")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ReleaseFileError, match="expected a regular file"):
        load_release(tmp_path / "pipe")


@posix
def test_a_file_that_the_user_names_may_be_a_link(tmp_path):
    ONE.save(tmp_path / "r")
    (tmp_path / "link").symlink_to("r")
    assert load_release(tmp_path / "link") == ONE


def test_the_header_of_a_folder_has_a_largest_size_for_reader_and_writer(saved, monkeypatch, many, tmp_path):
    size = (saved / "release.json").stat().st_size
    monkeypatch.setattr(folder, "LARGEST_HEADER", size)
    assert load_release(saved) == ONE
    monkeypatch.setattr(folder, "LARGEST_HEADER", size - 1)
    with pytest.raises(ReleaseFileError, match=r"expected at most [0-9,]+ bytes in release\.json"):
        load_release(saved)
    monkeypatch.setattr("countveil.counts.files.header.LARGEST_HEADER", 100)
    with pytest.raises(ValueError, match="labels, alpha: expected at most 100 bytes"):
        ONE.save(tmp_path / "new")
    assert not (tmp_path / "new").exists()


# Small files that unpack to much.

NONE = hashlib.sha256(b"").hexdigest()
NO_CELLS = pa.table({name: pa.array([], pa.int64()) for name in ("row", "column", "value")})


def forged(path, change, table=NO_CELLS, **how):
    """A release that says what a stranger likes, with right checksums."""
    PrivateCounts([[1, 2]], alpha=0.4).save(path)
    with pq.ParquetFile(path) as file:
        header = read_header(file.metadata.metadata[KEY])
    header |= {"cells_sha256": NONE, "nonpositive_total": None, "pieces": None, **change}
    pq.write_table(table.replace_schema_metadata({KEY: sign_header(header)}), path, compression="zstd", **how)
    return path


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"shape": [2**27, 2], "absent": "missing"}, "rows"),
        ({"shape": [2**27, 2**35]}, "rows"),
        ({"shape": [2**20, 2**10], "absent": "missing"}, "missing cells"),
    ],
)
def test_a_shape_alone_does_not_take_gigabytes(change, what, tmp_path):
    path = forged(tmp_path / "r", change)
    assert path.stat().st_size < 4000
    for how in ({}, {"scratch": tmp_path}):
        with pytest.raises(ReleaseFileError, match=f"expected fewer {what} in a release of"):
            load_release(path, **how)


@pytest.mark.parametrize("total", ["0x1p+0", "0x1p+30", "0x1p+1000"])
def test_a_sum_below_zero_without_a_cell_there_is_refused(total, tmp_path):
    """By which noise that is not known would seem endless."""
    listed = {"row": [0, 0], "column": [0, 1], "value": [5, 7]}
    digest = hashlib.sha256(np.array([[0, 5], [1, 7]], dtype="<i8").tobytes()).hexdigest()
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in listed.items()})
    right = forged(tmp_path / "right", {"cells_sha256": digest}, table)
    assert load_release(right).to_dense().tolist() == [[5, 7]]
    said = {"nonpositive_total": {"shape": [1], "hex": [total]}}
    with pytest.raises(ReleaseFileError, match="sum of the cells x <= 0 is beyond what so many can have"):
        load_release(forged(tmp_path / "wrong", {"cells_sha256": digest, **said}, table))


@pytest.mark.parametrize(
    "places", [[0, 1, 2, 3, 0, 1, 2, 3], [4, 5, 6, 7, 0, 1, 2, 3]], ids=["twice", "turned"]
)
def test_cells_are_in_order_from_one_reading_to_the_next(places, tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "CELLS_PER_READ", 4)
    monkeypatch.setattr(rows, "CELLS_PER_READ", 4)
    listed = {"row": np.array(places) // 2, "column": np.array(places) % 2, "value": np.arange(1, 9)}
    digest = hashlib.sha256(np.stack([places, listed["value"]], axis=1).astype("<i8").tobytes()).hexdigest()
    change = {"shape": [4, 2], "cells_sha256": digest}
    path = forged(tmp_path / "r", change, pa.table({k: pa.array(v, pa.int64()) for k, v in listed.items()}))
    for read, how in (
        (load_release, {}),
        (load_release, {"scratch": tmp_path}),
        (rows.read_rows, {"stop": 2}),
    ):
        with pytest.raises(ReleaseFileError, match="expected cells in order, each once"):
            read(path, **how)


def test_a_million_rows_without_a_positive_cell_are_a_small_file_and_are_read(tmp_path):
    release = PrivateCounts(np.zeros((10**6, 10), np.int8), alpha=0.4)
    release.save(tmp_path / "r")
    assert (tmp_path / "r").stat().st_size < 10_000
    assert load_release(tmp_path / "r") == release


def test_packed_noise_does_not_take_gigabytes(tmp_path):
    n = 2**25
    packed = base64.b64encode(zlib.compress(np.ones(n).tobytes())).decode()
    path = forged(tmp_path / "r", {"shape": [1, n], "rho": {"shape": [1, n], "zlib": packed}})
    with pytest.raises(ReleaseFileError, match="expected fewer numbers in a release of"):
        load_release(path)


def with_rows(saved, table, n_rows):
    """The release folder with another table of row labels."""
    file = saved / "generation-1" / "rows.parquet"
    pq.write_table(table, file, compression="zstd", store_schema=False)
    header = read_header((saved / "release.json").read_bytes())
    header["files"][0]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    header["shape"][0] = n_rows
    (saved / "release.json").write_bytes(sign_header(header))


def equal_labels(n, text):
    return pa.table({"label": pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), pa.array([text]))})


@pytest.mark.parametrize(("n", "text"), [(6_000_000, "x"), (1000, "x" * 1_000_000)])
def test_one_label_again_and_again_does_not_take_gigabytes(n, text, saved):
    with_rows(saved, equal_labels(n, text), n)
    with pytest.raises(ReleaseFileError, match="expected fewer labels in a release of"):
        load_release(saved)


def test_labels_are_as_many_as_rows_and_text(saved):
    with_rows(saved, pa.table({"label": list("abcd")}), 3)
    with pytest.raises(ReleaseFileError, match=r"expected 3 labels in rows\.parquet"):
        load_release(saved)
    with_rows(saved, pa.table({"label": [1, 2, 3]}), 3)
    with pytest.raises(ReleaseFileError, match="lists of text"):
        load_release(saved)
    with_rows(saved, pa.table({"row": list("abc")}), 3)
    with pytest.raises(ReleaseFileError, match="damaged release file"):
        load_release(saved)
    with_rows(saved, pa.table({"label": list("abc")}), 3)
    assert load_release(saved) == ONE


def test_large_pages_are_refused_before_they_are_unpacked(tmp_path):
    n = 2**24
    column = pa.array(np.zeros(n, np.int64))
    table = pa.table({"row": column, "column": column, "value": column})
    path = forged(tmp_path / "r", {}, table, use_dictionary=False, row_group_size=n, data_page_size=2**30)
    assert path.stat().st_size < 300_000
    with pytest.raises(ReleaseFileError, match="expected groups of rows of at most 268,435,456 bytes"):
        load_release(path)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_sizes_of_pages_are_those_of_the_footer(version, dictionary, tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.integers(0, 50, 30_000), "b": [f"label {i}" for i in range(30_000)]})
    pq.write_table(
        table, tmp_path / "t", row_group_size=7000, data_page_size=5000, write_page_checksum=True,
        use_dictionary=dictionary, data_page_version=version, compression="zstd",
    )  # fmt: skip
    meta = pq.read_metadata(tmp_path / "t")
    stated = sum(meta.row_group(i).column(j).total_uncompressed_size for i in range(5) for j in range(2))
    with (tmp_path / "t").open("rb") as file:
        found = check_pages(file, 10**7)
        with pytest.raises(ReleaseFileError, match="expected groups of rows of at most"):
            check_pages(file, 50_000)
    assert 0.8 * stated < found < stated  # without the headers of the pages


def test_texts_made_of_texts_before_them_are_refused(tmp_path):
    table = pa.table({"label": ["x" * 1000 + str(i) for i in range(1000)]})
    coding = {"label": "DELTA_BYTE_ARRAY"}
    pq.write_table(table, tmp_path / "t", use_dictionary=False, column_encoding=coding)
    with (tmp_path / "t").open("rb") as file, pytest.raises(ReleaseFileError, match="plain or dictionary"):
        check_pages(file, 10**9)


def test_pages_that_several_columns_share_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "r.parquet"
    cv.PrivateCounts(np.arange(1, 13).reshape(3, 4), alpha=0.5).save(path)
    footer = pages._footer

    def shared(file):
        found = footer(file)
        return {**found, pages._ROW_GROUPS: found[pages._ROW_GROUPS] * 50}

    with path.open("rb") as file:
        assert pages.check_pages(file, 10**6) > 0
        monkeypatch.setattr(pages, "_footer", shared)
        with pytest.raises(cv.ReleaseFileError, match="expected pages that lie apart"):
            pages.check_pages(file, 10**6)


@pytest.mark.parametrize("shape", [[10**4000] * 1000, [2] * 1000, [2**63]])
def test_shapes_of_long_numbers_are_refused_at_once(shape):
    with pytest.raises(cv.ReleaseFileError, match="expected a shape of positive whole numbers"):
        header._shape(shape, Room(10**6))
    with pytest.raises(ValueError, match="expected a shape of positive whole numbers"):
        header.decode_floats({"shape": shape, "hex": []}, Room(10**6))


def test_a_release_in_a_run_has_the_room_of_the_run(tmp_path, monkeypatch):
    release = cv.privatize(np.zeros((50, 40), int), epsilon=1)
    posterior = cv.fit(cv.TopicModel(2), release, sweeps=4, thin=1, seed=1, progress=False)
    posterior.save(tmp_path / "run.zarr")
    seen = []

    def read(path, room):
        seen.append(room.n_bytes)
        return read_release(path, room)

    monkeypatch.setattr(packed_release, "read_release", read)
    assert cv.load_posterior(tmp_path / "run.zarr").release == release
    on_disk = sum(p.stat().st_size for p in (tmp_path / "run.zarr" / "release").rglob("*") if p.is_file())
    assert seen == [on_disk]
    monkeypatch.setattr("countveil.counts.bounded.room.AT_LEAST", 0)
    release.save(tmp_path / "r.parquet")
    with pytest.raises(cv.ReleaseFileError, match="in a release of 0 bytes"):
        read_release(tmp_path / "r.parquet", Room(0))


def packed(*releases):
    """Releases that are combined in a run, as it holds them."""
    arrays = {f"file{i}": ((f"byte{i}",), np.fromfile(path, np.uint8)) for i, path in enumerate(releases)}
    names = [f"release{i:03}.parquet" for i in range(len(releases))]
    return xr.Dataset(arrays, attrs={"files": json.dumps(names)})


def test_all_releases_of_a_run_together_have_one_room(tmp_path):
    def room(left):
        found = Room(0)
        found.left = left
        return found

    large = packed(*[forged(tmp_path / "large", {"shape": [1, 10**6], "absent": "missing"})] * 3)  # 4 MB each
    assert packed_release.unpack_release(large, room(13 * 10**6)).n_missing == 10**6
    with pytest.raises(ReleaseFileError, match="expected fewer missing cells"):
        packed_release.unpack_release(large, room(10 * 10**6))
    # To compare other missing cells takes far more than to read them.
    masks = np.tile([False, True, True], 1000), np.tile([True, True, False], 1000)
    noisy = [PrivateCounts(np.ones((1, 3000), int), alpha=0.4, mask=mask[None]) for mask in masks]
    for place, release in enumerate(noisy):
        release.save(tmp_path / str(place))
    other = packed(tmp_path / "0", tmp_path / "1")
    assert list(packed_release.unpack_release(other, room(600_000)).releases) == noisy
    with pytest.raises(ReleaseFileError, match="expected fewer missing cells"):
        packed_release.unpack_release(other, room(300_000))


@pytest.mark.parametrize(
    "said", [b"[" * 100_000, b'{"format": "countveil release", "version": ' + b"9" * 4000 + b"}"]
)
def test_headers_that_nest_or_count_without_end_are_refused_in_a_line(said, saved, tmp_path):
    (saved / "release.json").write_bytes(said)
    for how in ({}, {"scratch": tmp_path}):
        with pytest.raises(ReleaseFileError) as refused:
            load_release(saved, **how)
        assert len(str(refused.value)) < 500
