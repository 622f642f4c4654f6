"""Labels that want to do something: on the terminal they are shown, in a CSV file they are text."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xarray as xr

import countveil as cv
from countveil.cli import main
from countveil.cli.options import read_label_file
from countveil.cli.tables import write_table
from countveil.counts.files.header import metadata_header, sign_header
from countveil.posterior.runs.schema import OPENING, checksum

WORDS = ["\x1b[2Jclear", "two\nlines", "evil\u202etxt", "=1+1"]
NAMES = [
    "@sum(1)",
    "-2+3",
    " =A1",
    "a\r\nb",
    "\t+1",
    "x;=2",
    "\ud800",
    "plain",
    "\uff1dfull",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
]
SHOWN = [r"\x1b[2Jclear", r"two\nlines", r"evil\u202etxt", "=1+1"]
QUICK = ["--sweeps", "60", "--thin", "2", "--seed", "1"]
COUNTS = np.array([[9, 7, 0, 0]] * 5 + [[0, 1, 8, 6]] * 5)


def is_safe(text):
    """Line by line nothing but what is seen; the progress bar of stderr is not asked."""
    return all(line.isprintable() for line in text.replace("\u200c", "").split("\n"))


def fitted_run(tmp_path):
    release, run = tmp_path / "release.parquet", tmp_path / "run.zarr"
    cv.privatize(COUNTS, epsilon=3, labels={"=who()": NAMES, "word\x1b[0m": WORDS}).save(release)
    assert main(["fit", "topics", str(release), "-o", str(run), "--topics", "2", *QUICK]) == 0
    return run


@pytest.mark.skipif(os.name == "nt", reason="no such terminals")
@pytest.mark.parametrize("name", ["its own", "/dev/fd"])
def test_a_table_on_a_terminal_is_shown_safely(name):
    master, terminal = os.openpty()
    try:
        write_table(
            pd.DataFrame({"word\x1b[0m": WORDS}),
            os.ttyname(terminal) if name == "its own" else f"/dev/fd/{terminal}",
        )
        out = os.read(master, 10_000).decode()
    finally:
        os.close(terminal)
        os.close(master)
    assert is_safe(out.replace("\r\n", "\n"))
    assert all(word in out for word in SHOWN[:3])


def test_topics_are_shown_safely(tmp_path, capsys):
    run = fitted_run(tmp_path)
    fitted = capsys.readouterr()
    assert is_safe(fitted.out)
    assert main(["topics", str(run), "--words", "4"]) == 0
    told = capsys.readouterr()
    for out in (fitted.out, told.out):
        assert is_safe(out)
        assert all(word in out for word in SHOWN)
        assert len([line for line in out.split("\n") if "agreement" in line or "%" in line]) == 3
    assert r"rate[@sum(1), \x1b[2Jclear]" in fitted.out  # of the table of diagnostics
    summary = cv.load_posterior(run).summary()
    assert is_safe(str(summary))
    assert is_safe(summary._repr_html_())
    assert r"rate[@sum(1), \x1b[2Jclear]" in str(summary)
    assert "rate[@sum(1), \x1b[2Jclear]" in summary.index  # which is for programs
    assert "\x1b" not in told.err + fitted.err.replace("\x1b[A", "")  # tqdm moves the cursor up between bars


def test_the_method_that_a_strangers_run_names_is_shown_safely(tmp_path, capsys):
    run = fitted_run(tmp_path)
    root = json.loads((run / "zarr.json").read_text())
    attributes = root["attributes"]
    settings = json.loads(attributes["settings"]) | {"method": "exact\x1b[2J\u202e"}
    attributes["settings"] = json.dumps(settings)
    (run / "zarr.json").write_text(json.dumps(root))
    with xr.open_datatree(run, **OPENING) as tree:
        attributes["checksum"] = checksum(tree)
    (run / "zarr.json").write_text(json.dumps(root))
    capsys.readouterr()
    for command in ("resume", "show"):
        assert main([command, str(run)]) == 0
        told = capsys.readouterr().out
        assert is_safe(told)
        assert r"method exact\x1b[2J\u202e" in told


def test_a_label_never_makes_two_lines(tmp_path):
    names = ["ann", "x\rann", "a\r=1+1", "b\nc", "d\r\ne", 'f"g', "h,i"]
    write_table(pd.DataFrame({"who": names, "mean": 0.5}), str(tmp_path / "t.csv"))
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as lines:
        found = list(csv.reader(lines))
    assert len(found) == 1 + len(names)
    assert len(pd.read_csv(tmp_path / "t.csv")) == len(names)
    assert [row[1] for row in found[1:]] == ["0.5"] * len(names)


@pytest.mark.parametrize("option", ["--rows", "--columns"])
def test_the_counts_are_no_file_of_labels(option, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("letters.csv").write_text("letter,tea,sea\nann,40961,3\nbo,5,77773\n")
    Path("words.txt").write_text("tea\nsea\n")
    Path("link").symlink_to("letters.csv")
    for file in ("letters.csv", "./letters.csv", "link"):
        words = ["privatize", "letters.csv", "--index", "letter", "--epsilon", "1", "-o", "r.parquet"]
        labels = {"--rows": "words.txt", "--columns": "words.txt"} | {option: file}
        assert main([*words, *(word for both in labels.items() for word in both)]) == 2
        assert (
            f"{option}: expected a file of labels, one per line, got the file of counts"
            in capsys.readouterr().err
        )
        assert not Path("r.parquet").exists()


def test_labels_that_r_quotes(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text('"tea"\n"say ""sea"""\n"a, b"\n')
    assert read_label_file(str(file)) == ["tea", 'say "sea"', "a, b"]
    file.write_text('"tea\nsea"\n')
    assert read_label_file(str(file)) == ['"tea', 'sea"']
    file.write_text('"Smith, J"\nbo\n"the ""boss"""\n')  # as pandas and spreadsheets quote
    assert read_label_file(str(file)) == ["Smith, J", "bo", 'the "boss"']
    file.write_text('"tea"\nsea\n')  # which none of them writes
    assert read_label_file(str(file)) == ['"tea"', "sea"]
    with file.open("wb") as hole:
        hole.truncate(2**28)
    with pytest.raises(ValueError, match=r"expected labels as UTF-8 text, got something else"):
        read_label_file(str(file))
    file.write_text('"1","tea"\n"2","sea"\n')
    with pytest.raises(ValueError, match=r"expected one label per line, got several quoted fields"):
        read_label_file(str(file))


def test_tables_hold_no_formula(tmp_path, capsys):
    run = fitted_run(tmp_path)
    topics, shares = tmp_path / "topics.csv", tmp_path / "shares.csv"
    assert main(["topics", str(run), "--words", "4", "--csv", str(topics), "--memberships", str(shares)]) == 0
    for file in (topics, shares):
        with file.open(newline="", encoding="utf-8") as lines:
            header, *rows = csv.reader(lines)
        numbers = [name in ("topic", "rank", "weight", "low", "high", "mean", "agreement") for name in header]
        for row in [header, *rows]:
            for cell, number in zip(row, numbers, strict=True):
                assert number or not cell.lstrip().startswith(("=", "+", "-", "@", "\uff1d"))
                assert not number or row is header or not cell.startswith("'")
    assert set(pd.read_csv(topics)["word"]) == {*WORDS[:3], "'=1+1"}
    found = pd.read_csv(shares)
    expected = ["'@sum(1)", "'-2+3", "' =A1", "a\r\nb", "'\t'+1", "x;'=2", r"\ud800", "plain", "'\uff1dfull"]
    assert found["'=who()"].unique().tolist() == [*expected, NAMES[-1]]
    # Data stay data: in Python every label is as it was.
    table = cv.load_posterior(run).to_dataframe("memberships")
    assert table["=who()"].unique().tolist() == [name if name != "\ud800" else r"\ud800" for name in NAMES]


def test_the_help_says_what_is_done_to_tables(capsys):
    assert main(["topics", "--help"]) == 0
    told = capsys.readouterr().out
    assert "apostrophe" in told
    assert "to_dataframe" in told


def test_communities_and_components_are_shown_safely(tmp_path, capsys):
    names = ["a\x1b[31m", "b\u2066", "c\n", "d", "e", "f"]
    network = np.kron(np.eye(2, dtype=int), np.full((3, 3), 9))
    cv.privatize(network, epsilon=3, rows=names, columns=names).save(tmp_path / "network")
    words = ["fit", "communities", str(tmp_path / "network"), "-o", str(tmp_path / "c.zarr"), *QUICK]
    assert main([*words, "--communities", "2"]) == 0
    out = capsys.readouterr().out
    assert is_safe(out)
    assert r"a\x1b[31m" in out
    labels = {"who\x1b[0m": names, "to": names, "when": ["\u202e1", "2"]}
    cv.privatize(np.stack([network, network], axis=2), epsilon=3, labels=labels).save(tmp_path / "tensor")
    words = ["fit", "tensor", str(tmp_path / "tensor"), "-o", str(tmp_path / "t.zarr"), *QUICK]
    assert main([*words, "--rank", "2"]) == 0
    out = capsys.readouterr().out
    assert is_safe(out)
    assert r"\u202e1" in out
    assert "who\\x1b[0m\ncomponent" in out


def test_errors_about_a_strangers_release_are_shown_safely(tmp_path, capsys):
    """A header that says one label twice, along an axis whose name would clear the screen."""
    labels = {"r": ["x"], "c\x1b[2J": ["y", "z"]}
    cv.PrivateCounts([[1, 2]], alpha=0.5, labels=labels).save(tmp_path / "release")
    table = pq.read_table(tmp_path / "release")
    header = metadata_header(table.schema.metadata) | {"labels": [["x"], ["y\x1b", "y\x1b"]]}
    header.pop("sha256", None)
    pq.write_table(table.replace_schema_metadata({b"countveil": sign_header(header)}), tmp_path / "stranger")
    assert main(["fit", "topics", str(tmp_path / "stranger"), "-o", str(tmp_path / "run"), "--quiet"]) == 2
    told = capsys.readouterr().err
    assert is_safe(told)
    assert r"c\x1b[2J label 'y\x1b' appears twice" in told


def test_what_was_typed_is_shown_escaped(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["show", "a", "--\x1b[31m"]) == 2
    assert main(["show", "a\x1b[31m.parquet"]) == 2
    (tmp_path / "c.csv").write_text("x\n1\n")
    assert main(["privatize", "c.csv", "--public-labels", "--epsilon", "1", "-o", "o\x1b[31m"]) == 0
    told = capsys.readouterr()
    assert "\x1b" not in told.out + told.err
    assert (told.out + told.err).count(r"\x1b[31m") == 3


@pytest.mark.parametrize("slashes", ["//", "/"])
@pytest.mark.parametrize(
    "words",
    [
        ["table", "RUN", "rates", "-o", "ADDRESS"],
        ["topics", "RUN", "--csv", "ADDRESS"],
        ["topics", "RUN", "--memberships", "ADDRESS"],
        ["plot", "RUN", "topics", "-o", "ADDRESS.png"],
        ["privatize", "counts.csv", "-o", "r.parquet", "--epsilon", "1", "--rows", "ADDRESS"],
        ["privatize", "counts.csv", "-o", "r.parquet", "--epsilon", "1", "--columns", "ADDRESS"],
        [
            "privatize",
            "counts.csv",
            "-o",
            "r.parquet",
            "--epsilon",
            "1",
            "--public-labels",
            "--ledger",
            "ADDRESS",
        ],
        ["ledger", "ADDRESS"],
        ["ledger", "ADDRESS", "--budget", "1", "--dataset", "a"],
        ["fit", "topics", "r.parquet", "-o", "new.zarr", "--scratch", "ADDRESS"],
        ["fit", "topics", "r.parquet", "-o", "new.zarr", "--groups", "ADDRESS.csv:team"],
        ["transform", "RUN", "r.parquet", "-o", "shares.parquet", "--groups", "ADDRESS.csv:team"],
        ["fit", "topics", "counts.csv", "--plain", "-o", "new.zarr", "--columns", "ADDRESS"],
    ],
)
def test_credentials_in_any_option_are_not_shown(words, slashes, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("counts.csv").write_text("tea,sea\n1,2\n3,4\n")
    cv.simulate_release([[9, 0], [0, 8]], epsilon=1, seed=0).save("r.parquet")
    address = f"s3:{slashes}AKIAKEY:TOPSECRET@bucket/x"
    assert main([word.replace("ADDRESS", address).replace("RUN", "run.zarr") for word in words]) == 2
    out, err = capsys.readouterr()
    assert "TOPSECRET" not in out + err
    assert "expected" in err
