"""A release that grows: what may be appended, and that it is whole at every moment."""

import hashlib
import json
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow.parquet as pq
import pytest

import countveil as cv
from countveil.cli import main
from countveil.counts import stack_files
from countveil.counts.files import release as release_file
from countveil.counts.sources import append

COLUMNS = ["oil", "gas", "law"]


def one(name, epsilon=1, columns=COLUMNS, unit="document", **options):
    guarantee = cv.Guarantee(epsilon=epsilon, precision=1, unit=unit)
    return cv.privatize(
        [[3, 0, 9][: len(columns)]], guarantee=guarantee, rows=[name], columns=columns, **options
    )


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.parquet"
    one("ann").save(path)
    return path


def test_rows_are_appended_with_the_noise_they_had(study, tmp_path):
    weak = one("bo", epsilon=3)
    weak.save(tmp_path / "bo.parquet")
    before = cv.load_release(study)
    grown = cv.append_release(study, tmp_path / "bo.parquet", one("cy"))
    again = cv.load_release(study)
    assert again == grown
    assert again.labels[0].tolist() == ["ann", "bo", "cy"]
    assert np.array_equal(again.to_dense()[:2], np.concatenate([before.to_dense(), weak.to_dense()]))
    assert again.rho.ravel().tolist() == [1.0, 3.0, 1.0]
    assert [float(g.epsilon) for g in again.row_guarantees] == [1.0, 3.0, 1.0]
    assert len(again.records) == 3


REFUSED = {
    "a respondent twice": (lambda: one("ANN "), "every respondent once, got 'ann'"),
    "other columns": (lambda: one("bo", columns=["oil", "gas", "tax"]), "the columns of"),
    "fewer columns": (lambda: one("bo", columns=["oil", "gas"]), r"\(3,\) cells per row"),
    "another unit": (lambda: one("bo", unit="person"), "guarantees for one unit, got document and person"),
    "no labels": (lambda: cv.PrivateCounts([[1, 2, 3]], rho=1, labels=(None, COLUMNS)), "labels of rows"),
    "no guarantee": (
        lambda: cv.PrivateCounts([[1, 2, 3]], rho=1, labels=(["bo"], COLUMNS)),
        "with a guarantee",
    ),
    "simulated": (
        lambda: cv.simulate_release([[1, 2, 3]], epsilon=1, seed=0, labels=(["bo"], COLUMNS)),
        "or simulated ones, got both",
    ),
    "no release": (lambda: [[1, 2, 3]], "expected releases or their paths, got list"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_belong_there_is_refused_and_nothing_changes(study, what):
    part, words = REFUSED[what]
    before = study.read_bytes()
    with pytest.raises((ValueError, TypeError), match=words):
        cv.append_release(study, part())
    assert study.read_bytes() == before


def test_the_release_itself_is_not_appended_to_itself(study):
    with pytest.raises(ValueError, match="every respondent once"):
        cv.append_release(study, study)


def test_who_appends_at_once_waits(study):
    names = [f"person {i}" for i in range(12)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: cv.append_release(study, one(name)), names))
    assert sorted(cv.load_release(study).labels[0]) == sorted(["ann", *names])


KILLED = """
import os, sys
import countveil as cv
from countveil.counts.files import release
put = release.{function}
def dies(*arguments, **options):
    os._exit(9)
release.{function} = dies
cv.append_release(sys.argv[1], sys.argv[2])
"""


@pytest.mark.parametrize(
    "function",
    ["new_file", *(pytest.param(f, marks=pytest.mark.long) for f in ("encode_header", "describe_contents"))],
)
def test_killed_while_it_writes_the_old_release_stays(study, tmp_path, function):
    before = cv.load_release(study)
    one("bo").save(tmp_path / "bo.parquet")
    script = [
        sys.executable,
        "-c",
        KILLED.format(function=function),
        str(study),
        str(tmp_path / "bo.parquet"),
    ]
    assert subprocess.run(script, check=False).returncode == 9
    assert cv.load_release(study) == before
    assert cv.append_release(study, tmp_path / "bo.parquet").shape == (2, 3)


def test_many_small_releases_become_one_by_one_command(tmp_path, capsys):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for i in range(40):
        one(f"person {i:02}").save(inbox / f"{i:02}.parquet")
    assert main(["stack", str(inbox), "-o", str(tmp_path / "all.parquet")]) == 0
    everyone = cv.load_release(tmp_path / "all.parquet")
    assert everyone.shape == (40, 3)
    assert everyone.labels[0].tolist() == [f"person {i:02}" for i in range(40)]
    one("late").save(tmp_path / "late.parquet")
    assert main(["append", str(tmp_path / "all.parquet"), str(tmp_path / "late.parquet")]) == 0
    assert cv.load_release(tmp_path / "all.parquet").shape == (41, 3)
    assert "41 x 3" in capsys.readouterr().out
    assert main(["stack", str(inbox), "-o", str(tmp_path / "all.parquet")]) == 2
    assert "expected a new name" in capsys.readouterr().err


def test_nothing_to_append_or_stack_is_refused(study, tmp_path):
    with pytest.raises(ValueError, match="parts: expected releases to append, got none"):
        cv.append_release(study)
    with pytest.raises(ValueError, match="paths: expected releases, got none"):
        stack_files([], tmp_path / "all.parquet")
    assert append.stack_alike([cv.load_release(study)], ["one"]).shape == (1, 3)


def test_the_format_is_what_the_note_says(tmp_path):
    """A reader that knows docs/release_format.md alone; nothing of ours reads the file here."""
    path = tmp_path / "release.parquet"
    values = np.array([[3, -1, 0], [0, 12, -2]])
    cv.PrivateCounts(values, rho=0.5, labels=(["ann", "bo"], COLUMNS)).save(path)
    file = pq.ParquetFile(path)
    assert file.schema_arrow.names == ["row", "column", "value"]
    cells = list(
        zip(*(file.read().column(name).to_pylist() for name in ("row", "column", "value")), strict=True)
    )
    assert cells == [(0, 0, 3), (1, 1, 12)]
    header = json.loads(file.metadata.metadata[b"countveil"])
    told = header.pop("sha256")
    text = json.dumps(header, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == told
    flat = b"".join(struct.pack("<qq", row * 3 + column, value) for row, column, value in cells)
    assert hashlib.sha256(flat).hexdigest() == header["cells_sha256"]
    # The test vector of the note.
    assert header["cells_sha256"] == "3444951347087b5159c42853cd0d038088a751c7aaa6d3356686334358ca5922"
    assert [float.fromhex(x) for x in header["rho"]["hex"]] == [0.5]
    assert (header["shape"], header["labels"]) == ([2, 3], [["ann", "bo"], COLUMNS])


def test_a_release_is_refused_before_others_are_read(tmp_path, monkeypatch):
    """A stranger's may take a gigabyte out of a kilobyte: an inbox of them must not be held at once."""
    read = []
    monkeypatch.setattr(append, "load_release", lambda path: read.append(path) or cv.load_release(path))
    one("ann").save(tmp_path / "0.parquet")
    for i in range(1, 4):
        cv.PrivateCounts([[1, 2, 3]], rho=1, labels=(None, COLUMNS)).save(tmp_path / f"{i}.parquet")
    with pytest.raises(ValueError, match="expected labels of rows"):
        stack_files([tmp_path / f"{i}.parquet" for i in range(4)], tmp_path / "all.parquet")
    assert len(read) == 2
    with pytest.raises(ValueError, match="expected labels of rows"):
        cv.append_release(tmp_path / "0.parquet", *[tmp_path / f"{i}.parquet" for i in range(1, 4)])
    assert len(read) == 4


@pytest.mark.parametrize("many", [False, True], ids=["one file", "a folder"])
def test_a_row_of_a_person_is_promised_nothing_as_a_person(many, tmp_path, monkeypatch):
    """A person may have rows in both releases, and has then the weaker promise, whatever their row says."""
    monkeypatch.setattr("countveil.counts.files.release.LABELS_IN_ONE_FILE", 3 if many else 1000)
    path = tmp_path / "study"
    one("ann", unit="person").save(path)
    cv.append_release(path, one("bo", epsilon=3, unit="person"))
    grown = cv.append_release(path, one("cy", epsilon=3, unit="person"))
    for release in (grown, cv.load_release(path)):
        assert release.guarantee == cv.Guarantee(3, unit="person")
        assert release.row_guarantees == (cv.Guarantee(1), cv.Guarantee(3), cv.Guarantee(3))
        assert release.guarantee_for([0]) == cv.Guarantee(1, unit="person")
        assert release.guarantee_for([0, 1]) == cv.Guarantee(3, unit="person")
        assert release.explain().startswith(cv.Guarantee(3, unit="person").explain())
        assert "up to epsilon 3 at precision 1" in repr(release)
    again = cv.privatize(
        np.zeros((3, 3), int), epsilon=1, unit="person", rows=["ann", "bo", "cy"], columns=COLUMNS
    )
    both = cv.combine_releases(grown, again)
    assert both.guarantee == cv.Guarantee(4, unit="person")
    assert both.row_guarantees == (cv.Guarantee(2), cv.Guarantee(4), cv.Guarantee(4))


def test_a_release_of_any_name_in_a_folder_is_stacked(tmp_path, capsys, monkeypatch):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for who, name in (("ann", "ann.parquet"), ("bo", "bo.pq"), ("cy", "cy"), ("dee", "dee.PARQUET")):
        one(who).save(inbox / name)
    monkeypatch.setattr(release_file, "LABELS_IN_ONE_FILE", 0)
    one("ed").save(inbox / "ward")
    assert (inbox / "ward").is_dir()
    (inbox / "notes.txt").write_text("no release")
    (inbox / ".hidden").mkdir()
    assert main(["stack", str(inbox), "-o", str(tmp_path / "all.parquet")]) == 0
    assert cv.load_release(tmp_path / "all.parquet").labels[0].tolist() == ["ann", "bo", "cy", "dee", "ed"]
    (inbox / "older").mkdir()
    assert main(["stack", str(inbox), "-o", str(tmp_path / "more.parquet")]) == 2
    assert "expected releases in the folder" in capsys.readouterr().err


def test_links_in_a_folder_of_releases_are_not_followed(study, tmp_path, capsys):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "a.parquet").symlink_to(study)
    assert main(["stack", str(inbox), "-o", str(tmp_path / "all.parquet")]) == 2
    assert "got a link" in capsys.readouterr().err
    assert not (tmp_path / "all.parquet").exists()


@pytest.mark.parametrize(("one", "other"), [((1, 5), (2, 10)), ((0.1, 1), ("0.1", 1))])
def test_guarantees_of_one_noise_in_different_numbers(one, other, tmp_path):
    """As by Python, which means a binary fraction, and by the command. Files of both are read, and runs too."""
    columns = ["tea", "sea"]
    file = tmp_path / "study.parquet"
    cv.privatize([[3, 0], [0, 9]], *one, rows=["ann", "bo"], columns=columns).save(file)
    part = cv.privatize([[1, 2]], *other, rows=["cy"], columns=columns)
    grown = cv.append_release(file, part)
    assert (cv.load_release(file), grown.rho.ndim) == (grown, 0)
    assert [each.rho for each in grown.row_guarantees] == [part.guarantee.rho] * 3
    more = cv.append_release(file, cv.privatize([[1, 2]], 2, rows=["di"], columns=columns))
    assert cv.load_release(file) == more
    cv.fit(cv.TopicModel(1), grown, store=tmp_path / "run.zarr", sweeps=4, thin=1, seed=1, progress=False)
    assert cv.load_posterior(tmp_path / "run.zarr").true_counts()["mean"].shape == (3, 2)


def test_negative_values_do_not_get_lost(tmp_path):
    options = {"epsilon": "0.1", "columns": [f"word{i}" for i in range(40)]}
    counts, file = np.zeros((1, 40), int), tmp_path / "study.parquet"
    kept = cv.privatize(counts, rows=["ann"], keep_negative=True, **options)
    kept.save(file)
    with pytest.raises(
        ValueError, match=r"^parts: expected negative values, which .* has and cannot get again"
    ):
        cv.append_release(file, cv.privatize(counts, rows=["bo"], **options))
    assert np.array_equal(cv.load_release(file).to_dense(), kept.to_dense())
    grown = cv.append_release(file, cv.privatize(counts, rows=["bo"], keep_negative=True, **options))
    assert grown.to_dense().min() < 0
