"""The forms of input, and the stability of reading each: how many counts one thing in it can move.

Noise protects counts. What people have are messages, lines and words, so a promise about N counts is one about
N / c of these where reading is c-stable: two inputs that differ by one thing added or removed give counts at an L1
distance of at most c. A thing that is replaced by another is one removed and one added, at most 2c; where words
overlap in n-grams a little less.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Stability(NamedTuple):
    """One ``thing`` added or removed moves at most ``added`` counts, one replaced by another at most ``replaced``.

    >>> print(FORMS["directed graph"].stability)
    A message (1 of an edge's weight) added or removed moves at most 1 count, one replaced by another at most 2.
    """

    thing: str
    added: int = 1
    replaced: int = 2
    note: str = ""

    def __str__(self) -> str:
        thing = f"{self.thing[0].upper()}{self.thing[1:]}"
        moved = f"{self.added} count{'s' * (self.added > 1)}"
        return (
            f"{thing} added or removed moves at most {moved}, one replaced by another at most {self.replaced}."
            + (f" {self.note}" if self.note else "")
        )


class Form(NamedTuple):
    """What a row and a cell are, and the stability of reading. ``pairs``: a cell belongs to two people."""

    row: str
    cell: str
    stability: Stability
    pairs: bool = False


_MESSAGE = Stability("a message (1 of an edge's weight)")

#: Of plain counts, and of releases of earlier versions.
SYMMETRIC = "symmetric Matrix Market file"

FORMS = {
    "array": Form("one entry of the first axis", "one number", Stability("1 of a number in the array")),
    "sparse matrix": Form("one row of the matrix", "one number", Stability("1 of an entry of the matrix")),
    "wide table": Form("one row of the table", "one number", Stability("1 of a number in the table")),
    "long table": Form(
        "all lines with one label in the first column",
        "all lines with the same labels",
        Stability("1 of a line's number (a line without one counts 1)"),
    ),
    "directed graph": Form(
        "what one person sent", "what one person sent to another", _MESSAGE, pairs=True
    ),
    "undirected graph": Form(
        "one person's pairs, each of which stands in one row alone",
        "one pair, whose count gets noise once",
        _MESSAGE,
        pairs=True,
    ),
    SYMMETRIC: Form(
        "one entry's pairs with those that come later, and itself",
        "one pair, whose count gets noise once",
        Stability("1 of an entry of the file"),
        pairs=True,
    ),
    "texts": Form("one text", "one word's count in a text", Stability("a word")),
}  # fmt: skip


def a_form(form: str) -> str:
    """Its name with an article.

    >>> a_form("array"), a_form("sparse matrix"), a_form("texts")
    ('an array', 'a sparse matrix', 'texts')
    """
    return form if form == "texts" else f"{'an' if form[0] in 'au' else 'a'} {form}"


# Patterns that find one word at a time: neither spaces in it, nor looks at what stands around.
_WORD_PATTERNS = (r"(?u)\b\w\w+\b", r"(?u)\b\w+\b", r"\b\w\w+\b", r"\b\w+\b", r"\w+", r"\w", r"\S+")


def prepares_texts_its_own_way(vectorizer: Any) -> bool:
    """Whether code of the user's may make anything of a text before words are looked for, or look for them."""
    kind = type(vectorizer)
    if kind.__module__.partition(".")[0] != "sklearn" or kind.__name__ != "CountVectorizer":
        return True
    own = (vectorizer.preprocessor, vectorizer.strip_accents, vectorizer.analyzer)
    return any(map(callable, own))


def finds_words_its_own_way(vectorizer: Any) -> bool:
    """Whether code of the user's, or a pattern that looks around, may make any number of words of one."""
    own = prepares_texts_its_own_way(vectorizer) or vectorizer.tokenizer is not None
    return own or vectorizer.token_pattern not in _WORD_PATTERNS


def counts_its_own_way(vectorizer: Any) -> bool:
    """Whether code of the user's may count one word any number of times."""
    kind = type(vectorizer)
    known = next(one for one in kind.__mro__ if one.__module__.startswith("sklearn."))
    return any(getattr(kind, name) is not getattr(known, name) for name in ("transform", "_count_vocab"))


def of_texts(vectorizer: Any) -> Stability:
    """How many counts one word can move where a CountVectorizer counts n-grams, n from a to b.

    A token is in up to n of the n-grams of a text, and up to n - 1 others stood where it is put in between. So one
    added or removed moves up to n + (n - 1), one replaced 2n, for each n: sums of 2n - 1 and of 2n over n = a .. b.
    (``binary=True`` moves no more: it brings counts closer together.)

    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> print(of_texts(CountVectorizer(ngram_range=(1, 3))))
    A word, as the vectorizer finds words, added or removed moves at most 9 counts, one replaced by another at \
most 12.
    """
    kind, (least, most) = vectorizer.analyzer, vectorizer.ngram_range
    lengths = range(least, most + 1)
    overlapping = sum(2 * n - 1 for n in lengths), sum(2 * n for n in lengths)
    own = finds_words_its_own_way(vectorizer)
    if kind == "word" and not own:
        return Stability("a word, as the vectorizer finds words,", *overlapping)
    if kind == "char" and not own:
        note = "A word moves more, the longer it is."
        return Stability("a character, of texts as the vectorizer prepares them,", *overlapping, note)
    if kind == "char_wb" and not own:
        note = f"A word of w characters has up to {len(lengths)} * (w + 2) pieces."
    else:
        note = "A word moves as many counts as the analyzer makes of it, there and around it."
    return Stability("a piece that the vectorizer's analyzer finds", note=note)
