"""The demo's picture: made, of the right size, without text over text, and strict about what it is given."""

import errno
import os
import struct
import subprocess
import sys
from itertools import combinations

import pytest
from matplotlib.text import Text

from countveil.report import MethodResult, comparison_picture
from countveil.report.plot_comparison import shown
from countveil.report.sheet import Sheet, fitted_lines

SENTENCE = (
    "Seeing the release shifts nobody's odds on any 10 counts of one document by more than a factor of 20."
)
WORDS = ["sample", "test", "stats", "distribution", "value", "samples", "data", "null", "mean", "statistic"]
LONG = ["honorificabilitudinitatibus" * 3, "$\\frac{", "naïve", *["incomprehensibilities"] * 8]


def result(name, scores=(0.0243, -0.0812, 0.213, -64.2), topics=(WORDS,) * 6):
    return MethodResult(name, *scores, topics)


def three(**changed):
    return [result(name, **changed) for name in ("non-private", "exact", "naive")]


def test_a_png_of_the_promised_size(tmp_path):
    made = comparison_picture(three(), str(tmp_path / "a.PNG"), guarantee=SENTENCE)
    content = made.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", content[16:24]) == (1600, 1000)
    assert [path.name for path in tmp_path.iterdir()] == ["a.PNG"]


def test_a_picture_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = comparison_picture(three(), tmp_path / "a.png", guarantee=SENTENCE)
    before = path.read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        comparison_picture(three(), path, guarantee="Another sentence.")
    assert path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_the_same_results_give_the_same_picture_in_place_of_the_old_one(tmp_path):
    path = tmp_path / "a.png"
    first = comparison_picture(three(), path, guarantee=SENTENCE).read_bytes()
    path.write_bytes(b"old")
    assert comparison_picture(three(), path, guarantee=SENTENCE).read_bytes() == first
    changed = [*three()[:2], result("naive", (0.5, -1.0, 0.0, -99.0))]
    assert comparison_picture(changed, path, guarantee=SENTENCE).read_bytes() != first


EXTREME = [
    (433.1, float("-inf"), -0.00512, -166.3),
    (0.0, -0.00123, -0.00124, 12.0),
    (0.00312, -123456.0, 1.0, -1e-9),
    (1e9, -1e9, -1.0, 0.0),
]
NAMES = ["non-private", "exact", "naive", "a method with a very long name"]


@pytest.mark.parametrize("words", [WORDS, LONG, ["a"]], ids=["usual", "long", "short"])
@pytest.mark.parametrize("n_topics", [1, 6, 8])
@pytest.mark.parametrize("n_methods", [*(pytest.param(n, marks=pytest.mark.long) for n in (2, 3)), 4])
def test_no_text_over_text_or_beyond_the_edge(tmp_path, monkeypatch, n_methods, n_topics, words):
    sheets = []
    monkeypatch.setattr(Sheet, "png", lambda sheet: sheets.append(sheet) or b"")
    results = [
        MethodResult(name, *scores, [words] * n_topics)
        for name, scores in zip(NAMES[:n_methods], EXTREME, strict=False)
    ]
    comparison_picture(results, tmp_path / "a.png", guarantee=SENTENCE * 5, title=SENTENCE)
    figure, renderer = sheets[0]._figure, sheets[0]._canvas.get_renderer()
    texts = [text for text in figure.findobj(Text) if text.get_text()]
    assert len(texts) == 2 + 4 * (2 + 2 * n_methods) + n_methods + n_topics * (1 + n_methods)
    places = [text.get_window_extent(renderer) for text in texts]
    assert all(p.x0 > 0 and p.y0 > 0 and p.x1 < 1600 and p.y1 < 1000 for p in places)
    overlapping = [
        (a.get_text(), b.get_text())
        for (a, p), (b, q) in combinations(zip(texts, places, strict=True), 2)
        if p.x0 < q.x1 and q.x0 < p.x1 and p.y0 < q.y1 - 1 and q.y0 < p.y1 - 1
    ]
    assert not overlapping


def test_words_that_would_move_the_text_are_written_out(tmp_path, monkeypatch):
    sheets = []
    monkeypatch.setattr(Sheet, "png", lambda sheet: sheets.append(sheet) or b"")
    words = ["two\nlines", "turned\u202e", "\x1b[2J"]
    comparison_picture(three(topics=(words,) * 3), tmp_path / "a.png", guarantee=SENTENCE)
    drawn = [text.get_text() for text in sheets[0]._figure.findobj(Text)]
    shown_words = [text for text in drawn if text.startswith("two")]
    assert shown_words == [r"two\nlines  turned\u202e  \x1b[2J"] * 9
    assert all(line.isprintable() for text in drawn for line in text.split("\n"))


def test_pyplot_is_left_alone():
    program = (
        "import sys\n"
        "from countveil.report import comparison_picture\n"
        "assert 'matplotlib' in sys.modules\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.02431, "0.0243"),
        (-166.3, "\N{MINUS SIGN}166"),
        (0.0, "0"),
        (float("-inf"), "\N{MINUS SIGN}\N{INFINITY}"),
        (1.0, "1.00"),
        (0.00123, "0.00123"),
        (1.2e-5, "1.2e\N{MINUS SIGN}05"),
        (123456.0, "123456"),
    ],
)
def test_values_as_people_read_them(value, text):
    assert shown(value) == text


def test_words_that_fit():
    assert fitted_lines(["a"], len, 5, 1) == ["a"]
    assert fitted_lines([], len, 5, 1) == []
    assert fitted_lines(["abc", "de", "f"], len, 7, 2) == ["abc  de", "f"]
    assert fitted_lines(["abc", "de", "f"], len, 7, 1) == ["abc…"]
    assert fitted_lines(["abcdefghij", "k"], len, 5, 1) == ["abcd…"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": ""}, "name: expected the name of a method, got ''"),
        ({"scores": (float("nan"), 0, 0, 0)}, "mae: expected a finite number for 'x', got nan"),
        ({"scores": (float("inf"), 0, 0, 0)}, "mae: expected a finite number for 'x', got inf"),
        ({"scores": (0, float("inf"), 0, 0)}, "log_score: expected a finite number for 'x', got inf"),
        ({"scores": (0, 0, 0, float("-inf"))}, "coherence: expected a finite number for 'x', got -inf"),
        ({"topics": []}, "topics: expected 1 to 8 for 'x', got 0"),
        ({"topics": [WORDS] * 9}, "topics: expected 1 to 8 for 'x', got 9"),
        ({"topics": ["matrix"]}, "topics: expected lists of words for 'x', got 'matrix'"),
        ({"topics": [[]]}, r"topics: expected lists of words for 'x', got \[\]"),
        ({"topics": [[3, 4]]}, r"topics: expected lists of words for 'x', got \[3, 4\]"),
    ],
)
def test_faults_of_a_result(changed, message):
    with pytest.raises(ValueError, match=message):
        result(**({"name": "x"} | changed))


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (three()[:1], "results: expected 2 to 4 methods, got 1"),
        ([result(str(i)) for i in range(5)], "results: expected 2 to 4 methods, got 5"),
        ([result("a"), result("a")], r"results: expected different names, got \['a', 'a'\]"),
        ([result("a"), result("b", topics=[WORDS])], r"results: expected as many topics .* got \[6, 1\]"),
        ("abc", "results: expected a list of MethodResult, got str"),
        (3, "results: expected a list of MethodResult, got int"),
    ],
)
def test_faults_of_the_results(tmp_path, results, message):
    with pytest.raises((TypeError, ValueError), match=message):
        comparison_picture(results, tmp_path / "a.png", guarantee=SENTENCE)
    assert not list(tmp_path.iterdir())


def test_faults_of_the_rest(tmp_path):
    for name in ("guarantee", "title"):
        with pytest.raises(ValueError, match=f"{name}: expected a sentence, got ' '"):
            comparison_picture(three(), tmp_path / "a.png", **({"guarantee": SENTENCE} | {name: " "}))
    with pytest.raises(ValueError, match=r"path: expected a name that ends in \.png, got 'a\.jpg'"):
        comparison_picture(three(), tmp_path / "a.jpg", guarantee=SENTENCE)
    with pytest.raises(FileNotFoundError, match="path: expected an existing folder, got"):
        comparison_picture(three(), tmp_path / "no" / "a.png", guarantee=SENTENCE)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(IsADirectoryError, match="path: expected a file, got the folder"):
        comparison_picture(three(), tmp_path / "folder.png", guarantee=SENTENCE)
