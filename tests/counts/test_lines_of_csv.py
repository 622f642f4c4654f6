"""Lines of CSV and TSV files: quotation marks, line breaks in fields, first lines without labels."""

import pytest

import countveil as cv
from countveil.counts import privatize


@pytest.mark.parametrize("padding", range(1, 2000, 97))
def test_a_quoted_line_break_anywhere_in_a_file(padding, tmp_path):
    """It may be lines of the table between two bare marks, and their counts; wherever blocks of the file end."""
    file = tmp_path / "long.csv"
    lines = ["r,c,n\n", f"other,{'z' * (2**20 - 1000 + padding)},1\n", *['a,"x\ny",2\n'] * 100]
    file.write_text("".join(lines))
    with pytest.raises(
        ValueError, match="fields of one line, got one with the end of a line in it"
    ) as caught:
        privatize(file, 900, long=("r", "c", "n"), rows=["a"], columns=["x\ny"])
    assert "x\ny" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        'token\n"\ntea\ntea\nwar\n"\nsea\n',  # of one column nothing stands between fields
        'r,c,n\nd0,",71\n\nd0,law,72\nd1,",73\nd1,cat,74\n',  # a blank line is passed over between lines
        'r,c,n\r\r\nd0,",71\r\r\nd0,law,72\r\r\nd1,",73\r\r\nd1,cat,74\r\r\n',
    ],
)
def test_lines_between_bare_marks_are_no_label(text, tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes(text.encode())
    long = ("token", None) if text.startswith("token") else ("r", "c", "n")
    for options in (
        {"public_labels": True},
        {"labels": [["tea", "sea", "war"], ["cat", "law"]][: len(long) - 1]},
    ):
        with pytest.raises(ValueError, match="fields of one line"):
            cv.privatize(file, epsilon=1, long=long, **options)


def test_a_first_line_of_counts_is_not_taken_for_labels(tmp_path):
    """Labels are released as they are."""
    file = tmp_path / "counts.csv"
    file.write_text("7654321,17,3\n4,5,6\n")
    with pytest.raises(ValueError, match="first line, got numbers, which may be counts") as caught:
        cv.privatize(file, epsilon=1, public_labels=True)
    assert "7654321" not in str(caught.value)
    release = cv.privatize(file, epsilon=900, columns=["3", "17"])  # years, say, which somebody declares
    assert release.to_dense().tolist() == [[6, 5]]
    file.write_text("who,17,3\nann,5,6\n")
    with pytest.raises(ValueError, match="first line, got numbers"):
        cv.privatize(file, epsilon=1, index="who", public_labels=True)
    assert cv.privatize(file, epsilon=900, index="who", rows=["ann"], columns=["3"]).to_dense().tolist() == [
        [6]
    ]


@pytest.mark.parametrize(
    "line",
    [
        "oil,3",
        "ann,1e3",
        '"1,234",oil',
        "0x1F,oil",
        "oil,true",
        "NA,17",
        "oil, 5 ",
        "inf,oil",
        "NA,null",
        "-,n/a",
    ],
)
def test_one_number_in_the_first_line_is_enough(tmp_path, line):
    file = tmp_path / "counts.csv"
    file.write_text(f"{line}\n5,6\n")
    with pytest.raises(ValueError, match="first line, got numbers, which may be counts"):
        cv.privatize(file, epsilon=1, public_labels=True)
    file.write_text("oil,Na,K2,top 10,2nd\n1,2,3,4,5\n")
    assert cv.privatize(file, epsilon=900, public_labels=True).to_dense().tolist() == [[1, 2, 3, 4, 5]]


def test_long_lines_are_read(tmp_path):
    words = [f"a word that is rather long, number {i}, {'o' * 300}" for i in range(4_000)]
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f'"{word}"' for word in words) + "\n" + ",".join(["7"] * len(words)) + "\n")
    assert path.stat().st_size > 2**20
    release = privatize(path, 900, columns=words)
    assert release.shape == (1, len(words))
    assert (release.to_dense() == 7).all()


@pytest.mark.parametrize("ending", ["csv", "tsv"])
@pytest.mark.parametrize(
    "options", [{"public_labels": True}, {"rows": ["d0", "d1"], "columns": ["cat", "law"]}]
)
@pytest.mark.parametrize("n_marks", [1, 2, 3])
def test_a_bare_quotation_mark_swallows_no_lines(ending, options, n_marks, tmp_path):
    """Between two of them, lines with their counts would be one label, and released, or be lost."""
    path, sep = tmp_path / f"counts.{ending}", {"csv": ",", "tsv": "\t"}[ending]
    words = ["cat", '"', "law"]
    lines = [["doc", "word", "n"], *([f"d{i}", word, str(70 + i)] for i in range(n_marks) for word in words)]
    path.write_text("".join(sep.join(line) + "\n" for line in lines))
    with pytest.raises(ValueError, match=r"^counts: ") as error:
        privatize(path, 900, long=("doc", "word", "n"), **options)
    assert "7" not in str(error.value).replace(str(path), "")
    quoted = path.with_name(f"quoted.{ending}")
    quoted.write_text(
        "".join(sep.join(field.replace('"', '""""') for field in line) + "\n" for line in lines)
    )
    release = privatize(quoted, 900, long=("doc", "word", "n"), rows=["d0"], columns=["cat", '"'])
    assert release.to_dense().tolist() == [[70, 70]]


def test_fields_of_several_lines_cannot_be_told_from_lines_of_the_table(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text('letter,note,tea,sea\nann,"one, two\nthree\nfour, five",7,8\n')
    with pytest.raises(ValueError, match="save it with all text quoted, or without that column"):
        privatize(path, 900, index="letter", rows=["ann"], columns=["tea", "sea"])
    path.write_text('letter,note,tea,sea\nann,"one, two, ""three""",7,8\n')
    release = privatize(path, 900, index="letter", rows=["ann"], columns=["tea", "sea"])
    assert release.to_dense().tolist() == [[7, 8]]


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_other_signs_between_fields_are_no_column(sign, tmp_path):
    """Rows would go by order, and the declared columns be nowhere: noise alone."""
    path = tmp_path / "counts.csv"
    path.write_text(f"who{sign}tea{sign}sea\nann{sign}3{sign}4\n")
    with pytest.raises(
        ValueError, match=r"^counts: expected .*commas between fields \(tabs in .tsv\), got a first"
    ):
        privatize(path, 1, columns=["tea", "sea"])
