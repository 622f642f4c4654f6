"""The record of a release: an id of its own, where it came from, through files; and one release is never two."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import countveil as cv
from countveil.cli.main import main
from countveil.counts.bounded.room import Room
from countveil.counts.files.header import ReleaseFileError, check_header, read_header, sign_header
from countveil.counts.files.release import describe_contents

COUNTS = [[3, 0], [1, 2]]
FRAME = pd.DataFrame(COUNTS, index=["a", "b"], columns=["x", "y"])


@pytest.mark.parametrize(
    ("counts", "options", "form", "labels"),
    [
        (COUNTS, {}, "array", ("none", "none")),
        (FRAME, {"rows": ["a", "b"], "public_labels": True}, "wide table", ("declared", "from the data")),
        (nx.Graph([("a", "b")]), {"rows": ["a", "b"]}, "undirected graph", ("declared", "declared")),
        (["vote vote"], {"vocabulary": ["vote"]}, "texts", ("none", "declared")),
    ],
)
def test_what_it_says(counts, options, form, labels, tmp_path):
    release = cv.privatize(counts, epsilon=1, **options)
    (record,) = release.records
    assert (record.form, record.labels, record.software) == (form, labels, f"countveil {cv.__version__}")
    release.save(tmp_path / "r.parquet")
    assert cv.load_release(tmp_path / "r.parquet").records == release.records
    cv.privatize_to_file(counts, tmp_path / "f.parquet", epsilon=1, **options)
    (other,) = cv.load_release(tmp_path / "f.parquet").records
    assert other._replace(id=record.id) == record
    assert other.id != record.id


def test_it_survives_hiding_and_is_not_made_up():
    release = cv.privatize(COUNTS, epsilon=1)
    assert release.hide(([0], [0])).records == release.records
    assert cv.simulate_release(COUNTS, epsilon=1, seed=0).records == ()
    assert cv.PrivateCounts(COUNTS, alpha=0.5).records == ()


def test_releases_without_a_record_are_written_for_older_readers(tmp_path):
    def version(release):
        return describe_contents(release._contents, None, "", False, "missing")["version"]

    assert version(cv.PrivateCounts(COUNTS, alpha=0.5)) == 1
    assert version(cv.PrivateCounts(COUNTS, alpha=[0.5, 0])) == 2
    assert version(cv.privatize(COUNTS, epsilon=1)) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"id": "0"}, {"id": "Z" * 32}, {"id": 3}, {"form": "x" * 1000}, {"form": None}, {"form": ""}, {"labels": ["declared"]},
        {"labels": 3}, {"software": ["x"]}, {"twice": True}, {"version": 2}, {"version": 1},
    ],
)  # fmt: skip
def test_a_false_record_is_refused(change):
    contents = cv.privatize(COUNTS, epsilon=1)._contents
    header = describe_contents(contents, np.zeros(1), "", False, "missing")
    assert check_header(read_header(sign_header(header)), Room(0))[1].records == contents.records
    if "twice" in change:
        header["records"] *= 2
    elif "version" in change:
        header |= change
    else:
        header["records"][0] |= change
    with pytest.raises((ReleaseFileError, ValueError, TypeError)):
        check_header(read_header(sign_header(header)), Room(0))


def test_a_simulated_release_has_no_record():
    header = describe_contents(cv.privatize(COUNTS, epsilon=1)._contents, np.zeros(1), "", False, "missing")
    header |= {"simulated": True, "guarantee": None}
    with pytest.raises(ReleaseFileError, match="cannot have a record"):
        check_header(header, Room(0))


def test_one_release_is_not_stacked_twice(tmp_path):
    release = cv.privatize(COUNTS, epsilon=1, rows=["a", "b"])
    other = cv.privatize(COUNTS, epsilon=1, rows=["c", "d"])
    release.save(tmp_path / "r.parquet")
    again = cv.load_release(tmp_path / "r.parquet")
    for twice in (release, again, release.hide(([0], [0])), cv.stack_rows(other, again)):
        with pytest.raises(ValueError, match="expected different releases, got one of them twice"):
            cv.stack_rows(release, twice)
    both = cv.stack_rows(release, other)
    assert [r.id for r in both.records] == [release.records[0].id, other.records[0].id]
    both.save(tmp_path / "both.parquet")
    assert cv.load_release(tmp_path / "both.parquet").records == both.records


def test_one_release_without_a_record_is_not_stacked_twice():
    values = np.random.default_rng(0).integers(-5, 20, (30, 40))
    with pytest.raises(ValueError, match="one of them twice"):
        cv.stack_rows(cv.PrivateCounts(values, alpha=0.5), cv.PrivateCounts(values, alpha=0.5))


def test_two_releases_of_one_row_are_not_two_rows():
    one, other = (cv.privatize(FRAME, epsilon=1, rows=["a", "b"], columns=["x", "y"]) for _ in range(2))
    with pytest.raises(ValueError, match=r"got 'a' in two; .* combine_releases"):
        cv.stack_rows(one, other, rows=list("abcd"))
    stacked = cv.stack_rows(one, other, rows=list("abcd"), different_rows=True)
    assert stacked.shape == (4, 2)
    assert stacked.guarantee == cv.Guarantee(1)
    assert cv.combine_releases(one, other).guarantee == cv.Guarantee(2)


@pytest.mark.parametrize("rows", [("ab", None), (None, None), ("ab", "AB"), (["1", "2"], [1.0, 2.0])])
def test_rows_that_cannot_be_told_apart_are_not_stacked(rows):
    parts = [cv.privatize(COUNTS, epsilon=1, rows=None if one is None else list(one)) for one in rows]
    with pytest.raises(ValueError, match=r"different_rows=True says"):
        cv.stack_rows(*parts, rows=list("wxyz"))
    assert cv.stack_rows(*parts, rows=list("wxyz"), different_rows=True).guarantee == cv.Guarantee(1)


def test_combined_twice_is_refused_by_the_record():
    release = cv.privatize([[0]], epsilon=20)  # chance would explain that two such releases agree
    with pytest.raises(ValueError, match="got one of them twice"):
        cv.combine_releases(release, release.hide(([], [])))


def test_a_strangers_record_is_shown_escaped():
    contents = cv.privatize(COUNTS, epsilon=1)._contents
    nasty = "\x1b[2J\n\u202e"
    record = contents.records[0]._replace(form=nasty, stability=nasty, software=nasty, labels=(nasty, nasty))
    told = cv.PrivateCounts._from_contents(contents._replace(records=(record,))).explain()
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert told.count(r"\x1b[2J\n\u202e") == 5


def test_show(tmp_path, capsys):
    cv.privatize(FRAME, epsilon=[1, 2], rows=["a", "b"], public_labels=True).save(tmp_path / "r.parquet")
    release = cv.load_release(tmp_path / "r.parquet")
    assert main(["show", str(tmp_path / "r.parquet")]) == 0
    text = capsys.readouterr().out
    assert release.records[0].id in text
    assert "row: labels were declared beforehand" in text
    assert "column: labels were taken from the counts" in text
    assert main(["show", str(tmp_path / "r.parquet"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["shape"] == [2, 2]
    assert said["guarantee"]["epsilon"] == "2"
    assert [g["epsilon"] for g in said["row_guarantees"]] == ["1", "2"]
    assert said["records"][0]["labels"] == ["declared", "from the data"]
    assert "added or removed" in said["records"][0]["adjacency"]
    assert main(["show", str(tmp_path / "none.parquet")]) == 2


def test_the_ledger_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("counts.csv", index_label="letter")
    privatize = ["privatize", "counts.csv", "--index", "letter", "--public-labels", "--epsilon", "2"]
    assert main(["ledger", "study.ledger"]) == 2
    assert main(["ledger", "study.ledger", "--budget", "3", "--dataset", "letters"]) == 0
    assert main([*privatize, "-o", "r.parquet", "--ledger", "study.ledger", "--dataset", "letters"]) == 0
    capsys.readouterr()
    assert main([*privatize, "-o", "s.parquet", "--ledger", "study.ledger", "--dataset", "letters"]) == 2
    assert "--ledger: expected at most 1 more" in capsys.readouterr().err
    assert not (tmp_path / "s.parquet").exists()
    assert main([*privatize, "-o", "s.parquet", "--ledger", "study.ledger"]) == 2
    assert "--dataset: expected a name" in capsys.readouterr().err
    assert main(["ledger", "study.ledger"]) == 0
    assert "letters: spent 2 per count, budget 3." in capsys.readouterr().out
    assert main(["ledger", "study.ledger", "--json"]) == 0
    (account,) = json.loads(capsys.readouterr().out)["accounts"]
    assert (account["spent"], account["releases"][0]["state"]) == ("2", "finished")
    assert account["releases"][0]["n_rows"] == 2
    assert main(["ledger", "study.ledger", "--budget", "9", "--dataset", "letters"]) == 2
    assert "--raise" in capsys.readouterr().err
