"""Whatever happened to a file: the same release comes out, or a clear error."""

import base64
import hashlib
import json
import tracemalloc
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from countveil.counts import PrivateCounts, ReleaseFileError, load_release, privatize, simulate_release
from countveil.counts.cells.layout import same_arrays
from countveil.counts.files.rows import read_rows
from fake_remote import BUCKET, remote_of
from goodness_of_fit import SEED

VALUES = np.array([[3, -2, 0, 7], [0, -1, -5, 0], [1, 300, -4, 2]])


@pytest.fixture
def release():
    return PrivateCounts(VALUES, alpha=0.37, mask=VALUES == -4, labels=(list("abc"), None))


@pytest.fixture
def path(tmp_path, release):
    release.save(tmp_path / "r.parquet")
    return tmp_path / "r.parquet"


def outcome_is_right(path, release):
    """Either a named error or exactly the release that was saved."""
    try:
        loaded = load_release(path)
    except ReleaseFileError as error:
        return str(path) in str(error)
    return same_arrays(loaded._contents, release._contents)


def test_truncated_anywhere(path, release):
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ReleaseFileError, match=r"r\.parquet"):
            load_release(path)


@pytest.mark.long  # a quick one: test_fuzz.py
def test_a_flipped_bit_anywhere(path, release):
    whole = path.read_bytes()
    rng = np.random.default_rng(SEED)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        assert outcome_is_right(path, release)


def test_random_damage_to_a_larger_file(tmp_path):
    path = tmp_path / "r.parquet"
    release = simulate_release(np.zeros((60, 70), int), alpha=0.6, seed=0).hide(np.eye(60, 70, dtype=bool))
    release.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(SEED)
    for _ in range(400):
        damaged = bytearray(whole)
        for place in rng.integers(len(whole), size=rng.integers(1, 20)):
            damaged[place] = rng.integers(256)
        if rng.random() < 0.3:
            cut, length = rng.integers(len(whole)), rng.integers(1, 50)
            damaged[cut : cut + length] = rng.bytes(int(rng.integers(50)))
        path.write_bytes(damaged)
        assert outcome_is_right(path, release)


def test_files_that_are_not_releases(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_release(tmp_path / "absent")
    with pytest.raises(ReleaseFileError, match=r"expected a release, got a folder without release\.json"):
        load_release(tmp_path)
    (tmp_path / "text").write_text("row,column,value\n")
    with pytest.raises(ReleaseFileError, match="something not Parquet"):
        load_release(tmp_path / "text")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(ReleaseFileError, match="something not Parquet"):
        load_release(tmp_path / "empty")
    pq.write_table(pa.table({"row": [0], "column": [0], "value": [1]}), tmp_path / "table")
    with pytest.raises(ReleaseFileError, match="expected a countveil release, got some other Parquet file"):
        load_release(tmp_path / "table")
    assert issubclass(ReleaseFileError, ValueError)


def rewritten(path, header=None, table=None, *, resign=True):
    """Write the file anew with a changed header or table, by default with matching checksums."""
    with pq.ParquetFile(path) as file:
        cells, found = file.read(), json.loads(file.metadata.metadata[b"countveil"])
    found.update(header or {})
    if resign:
        found.pop("sha256")
        found["sha256"] = hashlib.sha256(
            json.dumps(found, sort_keys=True, separators=(",", ":")).encode()
        ).hexdigest()
    if table is not None:
        cells = pa.table(table)
    pq.write_table(cells.replace_schema_metadata({"countveil": json.dumps(found)}), path)


def test_rewriting_alone_changes_nothing(path, release):
    rewritten(path)
    assert load_release(path) == release


BAD_HEADERS = [
    ({"version": 4}, "expected format version 3 or older, got 4; a newer countveil can read it"),
    ({"version": "1"}, "format version"),
    ({"version": 0}, "format version"),
    ({"format": "something"}, "expected the format 'countveil release'"),
    ({"absent": "missing"}, "expected a value for every listed cell"),
    ({"absent": "nothing"}, "expected absent cells to be"),
    ({"shape": [3, 0]}, "shape"),
    ({"shape": [3, -4]}, "shape"),
    ({"shape": [3, 4.0]}, "shape"),
    ({"shape": []}, "shape"),
    ({"shape": "34"}, "shape"),
    ({"shape": [2**40, 2**40]}, "shape"),
    ({"shape": [2**28, 4]}, "expected at most 134,217,728 rows"),
    ({"shape": [4, 4]}, "expected 4 row labels, got 3"),
    ({"shape": [3, 3]}, "pieces one after the other"),
    ({"shape": [3, 5]}, "checksum"),  # all cells fit, but elsewhere
    ({"axes": ["row"]}, "2 axes"),
    ({"axes": ["row", "row"]}, "axis names"),
    ({"axes": ["row", "value"]}, "axis names"),
    ({"axes": ["row", 3]}, "axis names"),
    ({"axes": ["row", "other"]}, "expected the columns"),
    ({"labels": [None]}, "2 axes"),
    ({"labels": [["a", "b"], None]}, "expected 3 row labels, got 2"),
    ({"labels": [["a", "b", "a"], None]}, "row label 'a' appears twice"),
    ({"labels": [["a", "b", 3], None]}, "lists of text"),
    ({"labels": ["abc", None]}, "lists of text"),
    ({"rho": {"shape": [], "hex": ["-0x1p+0"]}}, "rho: expected a value above 0"),
    ({"rho": {"shape": [], "hex": ["nan"]}}, "rho: expected a value above 0"),
    ({"rho": {"shape": [], "hex": ["0x1p-1000"]}}, "rho: expected a value at which noise fits 64 bits"),
    ({"rho": {"shape": [], "hex": ["inf"]}}, "rho: expected noise in some row, got inf for all"),
    ({"rho": {"shape": [], "hex": ["two"]}}, "damaged"),
    ({"rho": {"shape": [], "hex": [1.0]}}, "damaged"),
    ({"rho": {"shape": [2], "hex": ["0x1p+0", "0x1p+0"]}}, "rho: expected one number, 3"),
    ({"rho": {"shape": [3], "hex": ["0x1p+0"]}}, "expected 3 numbers, got 1"),
    ({"rho": {"shape": [3], "zlib": "AAAA"}}, "unpack"),
    ({"rho": {"shape": [3], "zlib": "é"}}, "damaged"),
    ({"rho": {"shape": [3], "zlib": base64.b64encode(zlib.compress(bytes(8))).decode()}}, "24 bytes"),
    ({"rho": None}, "damaged"),
    ({"guarantee": {"epsilon": "3", "precision": "1", "unit": "document"}}, "does not match the noise"),
    ({"guarantee": {"epsilon": "-1", "precision": "1", "unit": "document"}}, "epsilon: expected"),
    ({"guarantee": {"epsilon": "1"}}, "damaged"),
    ({"guarantee": 3}, "damaged"),
    (
        {"row_guarantees": {"epsilon": ["1"], "precision": ["1"], "rows": [0, 0, 0]}},
        "expected a guarantee beside",
    ),
    ({"row_guarantees": 3}, "expected a guarantee beside"),
    ({"simulated": 1}, "true or false"),
    ({"negative_kept": None}, "true or false"),
    ({"negative_kept": True}, "cells below 0 do not match their sum"),
    ({"nonpositive_total": {"shape": [2], "hex": ["0x0p+0", "0x0p+0"]}}, "one whole sum"),
    ({"nonpositive_total": {"shape": [1], "hex": ["-0x1p+0"]}}, "one whole sum"),
    ({"nonpositive_total": {"shape": [1], "hex": ["nan"]}}, "one whole sum"),
    ({"cells_sha256": "0"}, "the cells do not match their checksum"),
    ({"cells_sha256": None}, "the cells do not match their checksum"),
]


@pytest.mark.parametrize(("change", "message"), BAD_HEADERS)
def test_every_entry_of_the_header_is_checked(path, change, message):
    rewritten(path, change)
    with pytest.raises(ReleaseFileError, match=message):
        load_release(path)


def test_a_header_that_was_tampered_with(path):
    rewritten(path, {"simulated": True}, resign=False)
    with pytest.raises(ReleaseFileError, match="the header does not match its checksum"):
        load_release(path)


def test_a_simulated_release_cannot_claim_a_guarantee(tmp_path):
    from countveil.privacy import Guarantee

    PrivateCounts(VALUES, guarantee=Guarantee(1)).save(tmp_path / "r")
    rewritten(tmp_path / "r", {"simulated": True})
    with pytest.raises(ReleaseFileError, match="a simulated release cannot have a guarantee"):
        load_release(tmp_path / "r")


@pytest.mark.parametrize("header", [b"", b"[]", b"3", b"{", b"\xff", b"[" * 100_000])
def test_headers_that_are_not_ours(path, header):
    with pq.ParquetFile(path) as file:
        cells = file.read()
    pq.write_table(cells.replace_schema_metadata({"countveil": header}), path)
    with pytest.raises(ReleaseFileError):
        load_release(path)


def listing_its_zeros(path):
    """A row of ten cells of which three are listed, the others missing."""
    mask = np.ones((1, 10), dtype=bool)
    mask[0, [2, 3, 7]] = False
    PrivateCounts([[5] * 3 + [0] * 7], alpha=0.5, mask=mask).save(path)
    return path


def test_a_small_file_does_not_make_its_reader_ask_for_gigabytes(tmp_path):
    path = listing_its_zeros(tmp_path / "r")
    rewritten(path, {"shape": [1, 2**31]})
    assert path.stat().st_size < 3000
    with pytest.raises(ReleaseFileError, match=r"expected fewer missing cells in a release of [0-9,]+ bytes"):
        load_release(path)
    rewritten(path, {"shape": [1, 2**24]})
    load_release(path)  # pyarrow's own loading is not what is measured
    tracemalloc.start()
    release = load_release(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert release.n_observed == 3
    assert peak < 4 * 2**24 + 50_000_000  # what is kept, and one piece


@pytest.mark.parametrize("shape", [(1, 30), (1, 32), (3, 11), (7, 4), (20, 1), (5, 3, 2)])
@pytest.mark.parametrize("block", [4, 8, 1000])
def test_the_missing_cells_are_those_that_are_not_listed(shape, block, tmp_path, monkeypatch):
    for module in ("cells.layout", "files.cells"):
        monkeypatch.setattr(f"countveil.counts.{module}.CELLS_PER_BLOCK", block)
    rng = np.random.default_rng(0)
    for share in (0.0, 0.2, 0.45, 1.0):
        observed = rng.random(shape) < share
        release = PrivateCounts(rng.integers(0, 3, shape), alpha=0.5, mask=~observed)
        release.save(tmp_path / "r", overwrite=True)
        assert same_arrays(load_release(tmp_path / "r")._contents, release._contents)


def test_what_a_graph_declares_missing_is_not_too_much(tmp_path, monkeypatch):
    # An undirected graph lists about as many cells as it lacks: it passes whatever its size.
    monkeypatch.setattr("countveil.counts.bounded.room.AT_LEAST", 0)
    pairs = np.triu(np.ones((40, 40), dtype=bool), 1)
    PrivateCounts(np.zeros((40, 40), int), alpha=0.5, mask=~pairs).save(tmp_path / "r")
    assert load_release(tmp_path / "r").n_observed == 780


def test_more_cells_than_the_bytes_of_a_file_can_hold(path, monkeypatch):
    monkeypatch.setattr("countveil.counts.bounded.room.AT_LEAST", 1000)
    monkeypatch.setattr("countveil.counts.bounded.room.PER_BYTE", 0)
    monkeypatch.setattr("countveil.counts.files.cells.CELL", 300)
    with pytest.raises(ReleaseFileError, match=r"expected fewer cells in a release of [0-9,]+ bytes"):
        load_release(path)


BAD_TABLES = [
    ({"row": [0, 0], "column": [1, 1], "value": [1, 1]}, "in order, each once"),
    ({"row": [1, 0], "column": [0, 0], "value": [1, 1]}, "in order, each once"),
    ({"row": [0], "column": [4], "value": [1]}, "indices within the shape"),
    ({"row": [-1], "column": [0], "value": [1]}, "indices within the shape"),
    ({"row": [None, 0], "column": [0, 0], "value": [1, 1]}, "an index in every row"),
    ({"row": [0], "column": [0], "value": [0]}, "values above 0"),
    ({"row": [0], "column": [0], "value": [-1]}, "values above 0"),
    ({"row": [0], "column": [0], "value": [2**54 + 1]}, r"values of at most 2\*\*54 in absolute value"),
    ({"row": [0], "column": [0], "value": [-(2**54) - 1]}, r"values of at most 2\*\*54 in absolute value"),
    ({"row": [0], "column": [0], "value": [1]}, "the cells do not match their checksum"),
    ({"row": [0.0], "column": [0], "value": [1]}, "columns of whole numbers"),
    ({"row": [0], "column": [0], "value": ["1"]}, "columns of whole numbers"),
    ({"column": [0], "row": [0], "value": [1]}, "expected the columns"),
    ({"row": [0], "column": [0]}, "expected the columns"),
]


@pytest.mark.parametrize(("table", "message"), BAD_TABLES)
def test_every_cell_of_the_table_is_checked(path, table, message):
    rewritten(path, table=table)
    with pytest.raises(ReleaseFileError, match=message):
        load_release(path)


def large_values(path, values):
    """A release of a stranger's with these values in its first row, and right checksums."""
    cells = b"".join(np.array([at, value], "<i8").tobytes() for at, value in enumerate(values))
    table = {"row": [0] * len(values), "column": list(range(len(values))), "value": list(values)}
    sha256 = hashlib.sha256(cells).hexdigest()
    piece = {"groups": [0, 1], "cells": [0, len(values) - 1], "sha256": sha256}
    rewritten(path, {"cells_sha256": sha256, "pieces": [[piece]]}, table)


@pytest.mark.parametrize("where", ["here", "rows", "scratch", "remote"])
def test_values_that_no_noisy_count_has_are_refused_by_every_reader(where, path, tmp_path, monkeypatch):
    """Their sums wrap around, and compiled code would loop or read outside of arrays."""
    remote_of(tmp_path, monkeypatch)
    read = {
        "here": lambda: load_release(path),
        "rows": lambda: PrivateCounts._from_contents(read_rows(path)),
        "scratch": lambda: load_release(path, scratch=tmp_path),
        "remote": lambda: load_release(f"{BUCKET}/{path.name}"),
    }[where]
    large_values(path, [2**54, 2**54])  # as of counts of 2**53 with the noise that they may have
    assert read().to_dense()[0, :2].tolist() == [2**54, 2**54]
    for value in (2**54 + 1, 2**63 - 1):
        large_values(path, [3, value])
        with pytest.raises(ReleaseFileError, match=r"expected values of at most 2\*\*54 in absolute value"):
            read()


def test_counts_as_large_as_they_may_be_are_read_whatever_their_noise(tmp_path):
    counts = np.full((2, 30), 2**53)
    release = privatize(counts, epsilon=1e-12)
    assert release.to_dense().max() > 2**53
    release.save(tmp_path / "large.parquet")
    assert load_release(tmp_path / "large.parquet") == release
