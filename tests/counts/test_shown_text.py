"""Labels as people see them: nothing hidden, nothing moved, nothing run; ordinary words as they are."""

import sys
import unicodedata

import numpy as np
import pytest

import countveil as cv
from countveil.cli.models import COMMUNITIES
from countveil.counts.shown_text import defused, visible

DIRECTION = [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C]


@pytest.mark.parametrize(
    "text",
    [
        "goal",
        "naïve Öl",
        "e\u0301",  # a letter and its accent
        "木 語\u3000名",
        "क्ष",
        "שלום",
        "שָׁלוֹם",
        "\u0627لسَّلَ\u0627\u0645",
        "สวัสดี",
        "한국어",
        "👩 ❤\ufe0f €",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian, with a joiner that the word needs
        "ක්\u200dෂ",  # Sinhala
        "C:\\new",
        "a\xa0b",
    ],
)
def test_ordinary_words_stay(text):
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("two\nlines\r\t", r"two\nlines\r\t"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("\x9b31m", r"\x9b31m"),  # the same sequence in one character
        ("\x00\x7f\x85", r"\x00\x7f\x85"),
        ("a\u2028b\u2029", r"a\u2028b\u2029"),
        ("pass\u200bword\u2060\ufeff\u00ad", r"pass\u200bword\u2060\ufeff\xad"),
        ("pass\u200cword\u200d", r"pass\u200cword\u200d"),  # no joiner belongs into these letters
        ("\u0645\u06cc\u200c", "\u0645\u06cc\\u200c"),  # nor at the end
        ("\u0645\u06cc\u200c\u200c\u062e", "\u0645\u06cc\\u200c\\u200c\u062e"),  # nor twice
        ("\ud800", r"\ud800"),
        ("\ue000\U0010fffd\u0378", r"\ue000\U0010fffd\u0378"),
        ("\U000e0041", r"\U000e0041"),
        ("a\u3164\u115fb\u034f", r"a\u3164\u115fb\u034f"),  # letters and marks by category that nobody sees
        (5, "5"),
    ],
)
def test_what_is_not_seen_is_written_out(text, seen):
    assert visible(text) == seen


@pytest.mark.long  # a million of them
def test_every_character_that_controls_is_written_out():
    """All of Unicode: what is left as it is has a shape, or is a plain space."""
    kept = [chr(c) for c in range(sys.maxunicode + 1) if visible(chr(c)) == chr(c)]
    assert not {unicodedata.category(c) for c in kept} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not {chr(c) for c in DIRECTION} & set(kept)
    assert all(visible(chr(c)).isascii() for c in [*range(32), *range(127, 160), *DIRECTION])
    letters = [chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c))[0] in "LMNPS"]
    assert len(set(letters) - set(kept)) == 5  # the fillers of Hangul and the joiner of marks


@pytest.mark.parametrize("sign", "=+-@\uff1d\uff0b\uff0d\uff20")
@pytest.mark.parametrize("before", ["", " ", "\xa0 ", "\ufeff", "\u200b"])
def test_formulas_get_an_apostrophe(sign, before):
    assert defused(f"{before}{sign}cmd|' /C calc'!A0") == f"'{before}{sign}cmd|' /C calc'!A0"
    assert defused(f"a;{before}{sign}b") == f"a;'{before}{sign}b"
    assert defused(f"a{sign}b, {sign}c") == f"a{sign}b, {sign}c"  # within a cell it is a sign as any other


def test_a_million_unseen_characters_take_no_hours():
    text = "\x01" * 10**6 + "\u200b" * 10**6
    assert defused(text + "=1") == f"'{text}=1"
    assert defused(text) == text


@pytest.mark.parametrize("text", ["\tx", "\rx", "\nx", "\t=x"])
def test_cells_that_begin_with_a_break_get_one_too(text):
    assert defused(text).startswith("'")


@pytest.mark.parametrize("text", ["", "plain", "'quoted", "a-b", "5", "é", "; ,"])
def test_other_cells_stay(text):
    assert defused(text) == text


def test_a_release_shows_the_names_of_its_axes_safely():
    release = cv.PrivateCounts([[1, 2]], alpha=0.5, labels={"a\x1b[2J\n": ["x"], "b\u202e": ["y", "z"]})
    told = repr(release)
    assert told.isprintable()
    assert r"a\x1b[2J\ns and b\u202es labelled" in told
    assert release.axes == ("a\x1b[2J\n", "b\u202e")  # the names themselves are not changed


def test_errors_show_the_names_of_axes_safely():
    for labels in ({"a\x1b[2J": ["x", "x"]}, {"a\x1b[2J": ["x"]}, {"a\x1b[2J": "x"}):
        with pytest.raises((ValueError, TypeError), match="labels: ") as caught:
            cv.PrivateCounts([1, 2], alpha=0.5, labels=labels)
        assert r"a\x1b[2J" in str(caught.value)
        assert str(caught.value).isprintable()
    parts = [
        cv.PrivateCounts([[1]], alpha=0.5, labels={"a\x1b": ["x"], name: ["y"]}) for name in ("b\n", "c")
    ]
    with pytest.raises(ValueError, match="expected the axes") as caught:
        cv.stack_rows(*parts, different_rows=True)
    assert str(caught.value).isprintable()


def test_long_labels_are_cut_where_many_stand_in_a_line():
    """Of 2,000 letters that nobody sees each takes ten: tables of a small run were megabytes."""
    n, hidden = 12, "\U000e0001" * 1_900
    words = [f"{word}{hidden}" for word in range(n)]
    counts = np.arange(n * n).reshape(n, n) % 5
    options = {"chains": 1, "sweeps": 20, "seed": 1, "progress": False}
    documents = cv.privatize(counts, epsilon=5, rows=words, columns=words)
    topics = cv.fit(cv.TopicModel(2, groups=words), documents, **options)
    people = cv.privatize(counts, epsilon=5, rows=words, columns=words)
    communities = cv.fit(cv.CommunityModel(2), people, **options)
    components = cv.fit(cv.TensorModel(2, n_axes=2), documents, **options)
    shown = [
        repr(topics.topics()),
        repr(topics.prevalence()),
        repr(components.components()),
        COMMUNITIES.findings(communities, 5),
    ]
    for one in shown:
        assert r"\U000e0001…" in one
        assert len(one) < 4 * n * 1_100  # four lines of them at most
    assert topics.topics().table["word"].str.len().min() > 1_900  # labels themselves stay as they are
