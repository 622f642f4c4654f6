"""``countveil fit topics --groups FILE.csv:COLUMN``."""

import numpy as np
import pandas as pd
import pytest

import countveil as cv
from countveil.cli import main

COUNTS = np.array([[9, 7, 0, 0]] * 6 + [[0, 1, 8, 6]] * 6)
NAMES = [f"letter {i}" for i in range(12)]
QUICK = ["--topics", "2", "--sweeps", "60", "--thin", "2", "--seed", "1"]


@pytest.fixture
def release(tmp_path):
    path = tmp_path / "release.parquet"
    cv.simulate_release(COUNTS, epsilon=3, seed=1, labels=(NAMES, None)).save(path)
    (tmp_path / "letters.csv").write_text(
        "letter,place,year\n" + "".join(f"{n},NA,{2001 if i < 6 else 1999}\n" for i, n in enumerate(NAMES[1:], 1))
        + "letter 0,NA,\n"
    )  # fmt: skip
    (tmp_path / "order.csv").write_text("office\n" + "north\nsouth\n" * 6)
    return path


def fit(release, tmp_path, groups):
    run = tmp_path / "run.zarr"
    code = main(["fit", "topics", str(release), "-o", str(run), *QUICK, "--groups", groups])
    return code, run


def test_by_label(release, tmp_path, capsys):
    code, run = fit(release, tmp_path, f"{tmp_path}/letters.csv:year")
    assert code == 0
    out = capsys.readouterr().out
    assert "Shares of the topics in the groups" in out
    groups = cv.load_posterior(run).model.groups
    assert groups.names == ("1999", "2001")
    assert groups.codes.tolist() == [-1, *[1] * 5, *[0] * 6]


def test_by_labels_without_a_name(release, tmp_path):
    """As R writes a table with row names: its first line has a name less than the others have values."""
    lines = [f'"{name}","{"red" if i < 6 else "blue"}"' for i, name in enumerate(NAMES)]
    (tmp_path / "r.csv").write_text("\n".join(['"team"', *lines[::-1]]) + "\n")
    code, run = fit(release, tmp_path, f"{tmp_path}/r.csv:team")
    assert code == 0
    groups = cv.load_posterior(run).model.groups
    assert [groups.names[code] for code in groups.codes] == ["red"] * 6 + ["blue"] * 6


def test_in_order(release, tmp_path):
    code, run = fit(release, tmp_path, f"{tmp_path}/order.csv:office")
    assert code == 0
    assert cv.load_posterior(run).model.groups.codes.tolist() == [0, 1] * 6


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ("letters.csv", "--groups: expected FILE.csv:COLUMN, got"),
        ("letters.csv:month", "expected one of the columns 'letter', 'place', 'year'"),
        ("nothing.csv:year", "No such file"),
        (
            "turned.csv:year",
            "expected the labels of the rows in the first column of turned.csv, got 'year' there",
        ),
        ("twice.csv:year", "--groups: expected every row once in the column 'letter', got 'a' again"),
        ("longer.csv:year", "--groups: expected as many names in the first line of longer.csv as columns"),
        (
            "comma.csv:year",
            "--groups: expected as many names in the first line of comma.csv as there are fields",
        ),
        ("empty.csv:year", "groups: expected"),
        ("few.csv:year", "groups: expected a group, or None, for every row, got nothing for 'letter 1'"),
    ],
)
def test_what_is_refused(release, tmp_path, capsys, monkeypatch, groups, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twice.csv").write_text("letter,year\na,1\na,2\n")
    (tmp_path / "comma.csv").write_text("letter,year\n" + "".join(f"{name},1,\n" for name in NAMES))
    (tmp_path / "empty.csv").write_text("year\n" + "1\n\n" * len(NAMES))  # an empty line is no group
    (tmp_path / "few.csv").write_text("letter,year\nletter 0,1\n")
    (tmp_path / "longer.csv").write_text("year\na,1,2\nb,2,3\n")
    (tmp_path / "turned.csv").write_text("year,letter\n" + "".join(f"1,{name}\n" for name in NAMES))
    code, run = fit(release, tmp_path, groups)
    assert code == 2
    assert words in capsys.readouterr().err
    assert not run.exists()


def test_new_rows_by_their_groups(release, tmp_path, capsys):
    """As ``cv.transform(..., groups=)``; and an error speaks of the option."""
    _, run = fit(release, tmp_path, f"{tmp_path}/letters.csv:year")
    new, table = tmp_path / "new.parquet", tmp_path / "shares.parquet"
    cv.simulate_release([[1, 0, 0, 1]] * 2, epsilon=3, seed=1, labels=(["x", "y"], None)).save(new)
    (tmp_path / "new.csv").write_text("letter,year,place\nx,2001,NA\ny,1999,NB\n")
    words = ["transform", str(run), str(new), "-o", str(table), "--seed", "1", "--quiet"]
    assert main([*words, "--groups", f"{tmp_path}/new.csv:year"]) == 0
    posterior, groups = cv.load_posterior(run), {"x": 2001, "y": 1999}
    settings = {"seed": 1, "progress": False}
    expected = cv.transform(posterior, cv.load_release(new), groups=groups, **settings)["mean"].to_numpy()
    assert (pd.read_parquet(table)["mean"].to_numpy() == expected.ravel()).all()
    other = cv.transform(posterior, cv.load_release(new), **settings)["mean"].to_numpy()
    assert (other != expected).any()
    capsys.readouterr()
    assert main([*words, "--overwrite", "--groups", f"{tmp_path}/new.csv:place"]) == 2
    assert "--groups: expected groups that were fitted ('1999', '2001'), got 'NA'" in capsys.readouterr().err
