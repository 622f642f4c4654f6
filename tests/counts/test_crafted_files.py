"""Files that the fuzzer has found, or that are like those: refused in words, and not by what runs out first."""

import gzip
import hashlib
import io
import json
import os
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import countveil as cv
from countveil.cli.options import read_label_file
from countveil.counts.bounded.within import data_size, size_on_disk
from countveil.counts.inputs import read_input
from countveil.counts.inputs.options import InputOptions
from countveil.counts.ledger import ledger as ledgers

posix = pytest.mark.skipif(sys.platform != "linux", reason="needs links, pipes and holes as on Linux")
HUGE = 1 << 40


def with_entry(path, entry):
    """A ledger with one more line, signed as if it were ours."""
    before = path.read_bytes() if path.exists() else ledgers.HEAD
    text = entry if isinstance(entry, str) else json.dumps(entry)
    path.write_bytes(before + text.replace("BEFORE", hashlib.sha256(before).hexdigest()).encode() + b"\n")
    return cv.Ledger(path)


RELEASED = {
    "what": "release", "dataset": "d", "release": "0" * 32, "time": "2025-01-01T00:00:00+00:00", "unit": "document",
    "epsilon": "1", "precision": "1", "slope": "1", "spent": "1", "path": None, "columns": None,
    "rows": {"number": 2, "hashes": None}, "before": "BEFORE",
}  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"spent": None}, {"unit": 3}, {"precision": 1.5}, {"slope": "1e999999999"}, {"slope": "1/0"}, {"slope": 1e308},
        {"path": 1}, {"columns": []}, {"rows": {"number": "2", "hashes": None}}, {"rows": []}, {"time": 0},
    ],
)  # fmt: skip
def test_entries_of_a_ledger_are_as_they_were_written(changed, tmp_path):
    assert str(with_entry(tmp_path / "whole", RELEASED)).startswith("d: spent 1 per count")
    ledger = with_entry(tmp_path / "l", RELEASED | changed)
    with pytest.raises(cv.LedgerError, match="cannot be understood"):
        str(ledger)


def test_a_ledger_is_shown_without_control_characters(tmp_path):
    shown = str(with_entry(tmp_path / "l", RELEASED | {"unit": "\x1b[2J", "epsilon": "\u202e"}))
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_a_deep_line_of_a_ledger(tmp_path):
    with pytest.raises(cv.LedgerError, match="was changed, in line 2"):
        with_entry(tmp_path / "l", "[" * 100_000).entries()


@posix
def test_a_ledger_that_is_a_hole(tmp_path):
    path = tmp_path / "l"
    path.write_bytes(ledgers.HEAD)
    os.truncate(path, HUGE)
    for ask in (str, lambda ledger: ledger.set_budget("d", cv.Guarantee(1))):
        with pytest.raises(cv.LedgerError, match="mostly a hole"):
            ask(cv.Ledger(path))


@posix
def test_anybodys_ledger_is_not_used(tmp_path, monkeypatch):
    path = tmp_path / "l"
    cv.Ledger(path).set_budget("d", cv.Guarantee(1))
    path.chmod(0o666)
    cv.Ledger(path).set_budget("d", cv.Guarantee(1))  # one's own may have any mode
    os.chown(path, 12345, -1) if os.geteuid() == 0 else monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(cv.LedgerError, match="expected a file that not everyone may change"):
        cv.Ledger(path).set_budget("d", cv.Guarantee(1))
    path.chmod(0o660)
    cv.Ledger(path).set_budget("d", cv.Guarantee(1))


@posix
def test_holes_do_not_count(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * 100_000)
    assert size_on_disk(path) == 100_000
    os.truncate(path, 1 << 25)
    assert size_on_disk(path) < 200_000
    os.truncate(path, HUGE)
    with path.open("r+b") as file:
        file.seek(HUGE - 10)
        file.write(b"0123456789")
        file.seek(7)
        assert 100_000 < data_size(file.fileno()) < 300_000
        assert file.tell() == 7


@posix
@pytest.mark.parametrize("name", ["columns.parquet", "cells/part-00000.parquet"])
def test_a_release_with_a_hole(name, tmp_path, monkeypatch):
    """To hash terabytes of nothing would take hours."""
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 0)
    cv.privatize([[1, 2]], 1, rows=["a"], columns=["b", "c"]).save(tmp_path / "r")
    os.truncate(tmp_path / "r" / "generation-1" / name, HUGE)
    with pytest.raises(cv.ReleaseFileError, match="mostly a hole"):
        cv.load_release(tmp_path / "r")


@posix
def test_a_link_to_itself(tmp_path):
    (tmp_path / "r").symlink_to("r")
    with pytest.raises(cv.ReleaseFileError, match="a link or something else"):
        cv.load_release(tmp_path / "r")


@posix
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".mtx", ".npy", ".npz"])
def test_counts_are_in_files(suffix, tmp_path):
    path = tmp_path / f"counts{suffix}"
    os.mkfifo(path)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"counts: expected a file, got .* which is something else"):
            read_input(path, InputOptions())
        path.unlink()
        path.symlink_to("/dev/zero")
    path.unlink()
    path.touch()
    os.truncate(path, HUGE)
    with pytest.raises(ValueError, match="mostly a hole"):
        read_input(path, InputOptions())


def refused(path, content, message, **options):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_input(path, InputOptions(**options))


MTX = b"%%%%MatrixMarket matrix coordinate integer general\n%s\n"


@pytest.mark.parametrize("places", [b"1e30 1 2", b"nan 1 2", b"1 inf 2", b"1 2 " + b"9" * 10**5])
def test_places_of_a_matrix(places, tmp_path):
    refused(tmp_path / "m.mtx", MTX % (b"3 3 1\n" + places), "cannot be read as .mtx")


def test_rows_that_are_declared_only(tmp_path):
    refused(tmp_path / "m.mtx", MTX % b"1000000000000 3 1\n1 1 1", "at most 1 GiB and 1000 times its size")
    file = io.BytesIO()
    arrays = {"row": [0], "col": [0], "data": [1], "shape": [10**12, 3], "format": np.bytes_(b"coo")}
    np.savez(file, **arrays)
    refused(tmp_path / "m.npz", file.getvalue(), "at most 1 GiB and 1000 times its size")


def test_arrays_that_are_declared_only(tmp_path):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (10**12,)})
    refused(tmp_path / "a.npy", file.getvalue() + bytes(80), "cannot be read as .npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", file.getvalue() + bytes(80))
    refused(tmp_path / "a.npz", (tmp_path / "a.npz").read_bytes(), "cannot be read as .npz")


def test_files_that_swell(tmp_path, monkeypatch):
    """By more than their size explains: here the rule has no gibibyte to begin with."""
    monkeypatch.setattr("countveil.counts.bounded.room.AT_LEAST", 0)
    monkeypatch.setattr("countveil.counts.bounded.room.PER_BYTE", 30)
    packed = gzip.compress(MTX % b"3 3 1\n1 1 1" + b"\n" * 10**6)
    refused(tmp_path / "m.mtx.gz", packed, "at most 1 GiB and 1000 times its size")
    file = io.BytesIO()
    np.savez_compressed(file, np.zeros(10**6, np.int64))
    refused(tmp_path / "a.npz", file.getvalue(), "cannot be read as .npz")
    table = io.BytesIO()
    pq.write_table(pa.table({"r": np.zeros(10**6, np.int64), "n": np.zeros(10**6, np.int64)}), table)
    refused(tmp_path / "t.parquet", table.getvalue(), "at most 1 GiB and 1000 times its size")


@posix
def test_labels_that_never_end(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="/dev/zero: expected labels as UTF-8 text, got something else"):
        read_label_file("/dev/zero")
    monkeypatch.setattr("countveil.cli.options._MOST_LABELS", 1000)
    file = tmp_path / "labels.txt"
    file.write_text("a\n" * 501)
    with pytest.raises(ValueError, match="expected at most 1,000 bytes of labels, got more"):
        read_label_file(str(file))
    file.write_text("a\n" * 500)
    assert len(read_label_file(str(file))) == 500
