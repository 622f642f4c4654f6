"""Stability: by how much one thing in the input can move the counts that get noise, for every form of input.

Inputs are changed by one thing (a message, a word, 1 of a number), read as ``privatize`` reads them, and compared.
"""

import re
from collections import Counter

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import io, sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

import countveil as cv
from countveil.counts import privatize
from countveil.counts.inputs import read_input
from countveil.counts.inputs.forms import FORMS, of_texts
from countveil.counts.inputs.options import InputOptions
from countveil.distributions import two_sided_geometric
from countveil.privacy import Guarantee

NAMES = ["a", "b", "c"]
fuzz = settings(max_examples=60, deadline=None, database=None, derandomize=True)


def read(counts, **options):
    return read_input(counts, InputOptions(**options))


def noisy_cells(read):
    """The counts that get noise: all cells but the missing ones."""
    n_rows = read.counts.shape[0]
    rows, missing = read.counts.rows(0, n_rows), read.counts.missing(0, n_rows)
    return rows if missing is None else np.where(missing, 0, rows)


def distance(one, other):
    assert (one.form, one.counts.shape, one.stability) == (other.form, other.counts.shape, other.stability)
    return int(np.abs(noisy_cells(one) - noisy_cells(other)).sum())


# Each form from events (place, place): events repeat, and "z" is outside what was declared.
def matrix(events):
    dense = np.zeros((3, 3), dtype=np.int64)
    for one, other in events:
        if "z" not in (one, other):
            dense[NAMES.index(one), NAMES.index(other)] += 1
    return dense


def entries(events, kind):
    inside = [(NAMES.index(one), NAMES.index(other)) for one, other in events if "z" not in (one, other)]
    places = np.array(inside, dtype=int).reshape(-1, 2).T
    return kind(sparse.coo_array((np.ones(places.shape[1], np.float32), tuple(places)), shape=(3, 3)))


def lines(events):
    return {"from": [e[0] for e in events], "to": [e[1] for e in events], "n": [1] * len(events)}


def wide(events):
    counted = Counter(events)
    names = [*NAMES, "z"]
    return pd.DataFrame([[counted[one, other] for other in names] for one in names], names, names)


def edges(events, kind):
    graph = kind()
    graph.add_nodes_from(NAMES)
    for (one, other), n in Counter(events).items():
        before = graph.get_edge_data(one, other, {"weight": 0})[
            "weight"
        ]  # of the other direction, if there is none
        graph.add_edge(one, other, weight=before + n)
    return graph


def general(events, folder):
    io.mmwrite(folder / "g.mtx", sparse.coo_array(matrix(events)), symmetry="general")
    return folder / "g.mtx"


def csv(events, folder, how):
    table = pd.DataFrame(lines(events)) if how == "long" else wide(events).reset_index(names="who")
    table.to_csv(folder / f"{how}.csv", index=False)
    return folder / f"{how}.csv"


BOTH = {"rows": NAMES, "columns": NAMES}
LONG = {"long": ("from", "to", "n"), **BOTH}
MADE = {
    "an array": (lambda e, _: matrix(e), {}, "array"),
    "lists": (lambda e, _: matrix(e).tolist(), BOTH, "array"),
    "rows of entries": (lambda e, _: entries(e, sparse.csr_array), {}, "sparse matrix"),
    "columns of entries": (lambda e, _: entries(e, sparse.csc_matrix), {}, "sparse matrix"),
    "entries": (lambda e, _: entries(e, sparse.coo_array), {}, "sparse matrix"),
    "a wide table": (lambda e, _: wide(e), BOTH, "wide table"),
    "a wide CSV file": (lambda e, f: csv(e, f, "wide"), {"index": "who", **BOTH}, "wide table"),
    "pandas lines": (lambda e, _: pd.DataFrame(lines(e)), LONG, "long table"),
    "polars lines": (lambda e, _: pl.DataFrame(lines(e), schema={"from": str, "to": str, "n": int}), LONG, "long table"),
    "lines without a number": (lambda e, _: pa.table(lines(e)), {**LONG, "long": ("from", "to", None)}, "long table"),
    "a long CSV file": (lambda e, f: csv(e, f, "long"), LONG, "long table"),
    "a graph": (lambda e, _: edges(e, nx.DiGraph), {"rows": NAMES}, "directed graph"),
    "a graph with loops": (lambda e, _: edges(e, nx.DiGraph), {"rows": NAMES, "self_loops": True}, "directed graph"),
    "an undirected graph": (lambda e, _: edges(e, nx.Graph), {"rows": NAMES}, "undirected graph"),
    "a part of a graph": (lambda e, _: edges(e, nx.Graph), {"rows": ["a"], "columns": ["b", "c"]}, "undirected graph"),
    "several edges": (lambda e, _: nx.MultiGraph(e), {"rows": NAMES, "weight": None}, "undirected graph"),
    "a matrix file": (general, {}, "sparse matrix"),
}  # fmt: skip

place = st.sampled_from([*NAMES, "z"])
event = st.tuples(place, place)


@pytest.mark.parametrize("name", MADE)
def test_one_thing_moves_what_its_form_says_and_no_more(name, tmp_path):
    make, options, form = MADE[name]
    stated = FORMS[form].stability
    reached = Counter()

    @fuzz
    @given(st.lists(event, max_size=6), event, event)
    @example([], ("a", "b"), ("a", "c"))
    def _(others, one, another):
        without, with_one, with_another = (
            read(make(events, tmp_path), **options) for events in (others, [*others, one], [*others, another])
        )
        assert (with_one.form, with_one.stability) == (form, str(stated))
        added, replaced = distance(without, with_one), distance(with_one, with_another)
        assert added <= stated.added
        assert replaced <= stated.replaced
        reached["added"], reached["replaced"] = (
            max(reached["added"], added),
            max(reached["replaced"], replaced),
        )

    _()
    # The bound is met, so a smaller one would be wrong.
    assert (reached["added"], reached["replaced"]) == (stated.added, stated.replaced)


WORDS = ["tea", "sea", "war", "the", "zoo"]
LETTERS = "abcz"
VECTORIZERS = {
    "words": {},
    "bigrams": {"ngram_range": (2, 2)},
    "one to three": {"ngram_range": (1, 3)},
    "two to four": {"ngram_range": (2, 4)},
    "present or not": {"ngram_range": (1, 2), "binary": True},
    "narrow": {"dtype": np.uint8},
    "without stop words": {"ngram_range": (1, 3), "stop_words": ["the"]},
    "characters": {"analyzer": "char", "ngram_range": (1, 3)},
}


def vectorizer(options, outside):
    """Counting all n-grams that do not have ``outside`` in them, nor a stop word."""
    chars = options.get("analyzer") == "char"
    from_to, parts = options.get("ngram_range", (1, 1)), LETTERS if chars else WORDS
    grams = [[]]
    vocabulary = []
    for n in range(1, from_to[1] + 1):
        left_out = {outside, *options.get("stop_words", ())}
        grams = [[*gram, part] for gram in grams for part in parts if part not in left_out]
        vocabulary += [("" if chars else " ").join(gram) for gram in grams] if n >= from_to[0] else []
    return CountVectorizer(vocabulary=vocabulary, **options)


@pytest.mark.parametrize("name", VECTORIZERS)
def test_one_word_moves_what_its_vectorizer_says_and_no_more(name):
    options = VECTORIZERS[name]
    counter = vectorizer(options, outside="z" if "analyzer" in options else "zoo")
    stated, parts = of_texts(counter), LETTERS if "analyzer" in options else WORDS
    tokens = st.lists(st.sampled_from(list(parts)), min_size=8, max_size=12)
    joined = ("" if "analyzer" in options else " ").join
    reached = Counter()

    @fuzz
    @given(tokens, st.integers(0, 8), st.sampled_from(list(parts)))
    def _(before, at, token):
        after = [*before[:at], token, *before[at:]]
        instead = [*before[:at], token, *before[at + 1 :]]
        texts = [read([joined(each)], vocabulary=counter) for each in (before, after, instead)]
        assert texts[0].stability == str(stated)
        added, replaced = distance(texts[0], texts[1]), distance(texts[0], texts[2])
        assert added <= stated.added
        assert replaced <= stated.replaced
        reached["added"], reached["replaced"] = (
            max(reached["added"], added),
            max(reached["replaced"], replaced),
        )

    _()
    assert reached["added"] > stated.added // 2
    assert reached["replaced"] > stated.replaced // 2


def test_one_word_among_trigrams_moves_nine_counts_and_a_replaced_one_twelve():
    words = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
    grams = [" ".join(words[i : i + n]) for n in (1, 2, 3) for i in range(9)]
    changed = [
        " ".join(g)
        for n in (1, 2, 3)
        for g in zip(*(["c", "d", "x", "e", "f"][i:] for i in range(n)), strict=False)
    ]
    changed += [
        " ".join(g)
        for n in (2, 3)
        for g in zip(*(["c", "d", "x", "f", "g"][i:] for i in range(n)), strict=False)
    ]
    counter = CountVectorizer(vocabulary={*grams, *changed}, ngram_range=(1, 3), token_pattern=r"\w")
    before, added, replaced = (
        read([text], vocabulary=counter)
        for text in ("a b c d e f g h i", "a b c d x e f g h i", "a b c d x f g h i")
    )
    assert (distance(before, added), distance(before, replaced)) == (9, 12)
    assert of_texts(counter)[1:3] == (9, 12)
    for precision, after in ((9, added), (12, replaced)):  # so these hide one word at epsilon
        promise = Guarantee("1.3", precision)
        largest = largest_odds(noisy_cells(before).ravel(), noisy_cells(after).ravel(), promise.rho)
        assert just_above(stated_odds(promise)[0], largest)


@fuzz
@given(st.lists(st.text("abc", min_size=1, max_size=6), max_size=4), st.text("abc", min_size=1, max_size=6))
def test_pieces_within_words(others, word):
    options = {"analyzer": "char_wb", "ngram_range": (1, 3)}
    every = CountVectorizer(**options).fit([" ".join([*others, word])]).get_feature_names_out()
    counter = CountVectorizer(vocabulary=every, **options)
    moved = distance(*(read([" ".join(w)], vocabulary=counter) for w in (others or [""], [*others, word])))
    per = int(re.search(r"has up to (\d+) \* \(w \+ 2\) pieces", of_texts(counter).note).group(1))
    assert moved <= per * (len(word) + 2)


def test_an_analyzer_of_ones_own_is_counted_in_its_pieces():
    counter = CountVectorizer(vocabulary=["x", "y"], analyzer=lambda text: ["x"] * len(text))
    said = read(["four"], vocabulary=counter).stability
    assert said.startswith(
        "A piece that the vectorizer's analyzer finds added or removed moves at most 1 count,"
    )
    assert "A word moves as many counts as the analyzer makes of it" in said


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.float16, bool])
def test_counts_of_words_do_not_wrap(kind):
    counter = CountVectorizer(vocabulary=["tea"], dtype=kind)
    assert noisy_cells(read(["tea " * 300], vocabulary=counter)).tolist() == [[300]]
    assert counter.dtype == kind  # the caller's is left alone


def test_words_learned_earlier_are_not_taken_for_the_declared_ones():
    learned = CountVectorizer().fit(["secret words"])
    learned.vocabulary = ["tea"]
    assert read(["tea"], vocabulary=learned).labels[1].tolist() == ["tea"]


def test_weights_of_words_are_no_counts():
    with pytest.raises(
        TypeError, match="vocabulary: expected words or scikit-learn's CountVectorizer, got Tfidf"
    ):
        privatize(["tea"], 1, vocabulary=TfidfVectorizer(vocabulary=["tea"]))


TWICE = ([0, 0, 0], [1, 1, 0])  # the first two are the same cell


@pytest.mark.parametrize(
    "form", [sparse.coo_array, sparse.coo_matrix, sparse.csr_array, sparse.csc_array, sparse.bsr_array]
)
@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (np.float32, 2**24, 1),
        (np.float64, 2**52, 2**52 - 1),
        (np.uint8, 255, 1),
        (np.int8, 127, 1),
        (np.uint32, 2**32 - 1, 1),
        (np.uint64, 2**52, 1),
        (bool, 1, 1),
    ],
)
def test_entries_given_twice_are_added_exactly(form, kind, one, other):
    starts = np.array([0, 3])
    if form is sparse.csr_array:
        given = form((np.array([one, other, 0], kind), np.array([1, 1, 0]), starts), shape=(1, 2))
    elif form is sparse.csc_array:
        given = form((np.array([one, other], kind), np.array([0, 0]), np.array([0, 0, 2])), shape=(1, 2))
    elif form is sparse.bsr_array:
        given = form(
            (np.array([one, other], kind).reshape(2, 1, 1), np.array([1, 1]), np.array([0, 2])), shape=(1, 2)
        )
    else:
        given = form((np.array([one, other, 0], kind), TWICE), shape=(1, 2))
    assert noisy_cells(read(given)).tolist() == [[0, one + other]]


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.float64])
def test_sums_that_would_wrap_are_refused(kind):
    """2**12 entries of 2**52 are 2**64, which is 0 in 64 bits."""
    n = 2**12
    many = sparse.coo_array((np.full(n, 2**52, kind), (np.zeros(n, int), np.zeros(n, int))), shape=(1, 2))
    apart = sparse.coo_array((np.full(n, 2**52, kind), (np.arange(n), np.zeros(n, int))), shape=(n, 1))
    with pytest.raises(ValueError, match=r"got values beyond 2\*\*53$"):
        read(many)
    assert noisy_cells(read(apart)).max() == 2**52  # none of which is too large by itself


@pytest.mark.parametrize("faulty", [(3, -1), (0.5, 0.5)])
def test_every_entry_must_be_a_count_not_only_their_sum(faulty):
    with pytest.raises(ValueError, match=r"got (negative|fractional) values"):
        read(sparse.coo_array((np.array(faulty), ([0, 0], [1, 1])), shape=(1, 2)))


def largest_odds(before, after, rho):
    """The largest P(x|after) / P(x|before) over all releases x; cells are independent."""
    x = np.arange(-5, 8)[:, None]  # beyond the counts themselves the ratio no longer changes
    ratio = two_sided_geometric.logpmf(x - after, rho) - two_sided_geometric.logpmf(x - before, rho)
    return np.exp(ratio.max(axis=0).sum())


def stated_odds(promise):
    """For counts added or removed, and for as many replaced or moved."""
    return [float(odds) for odds in re.findall(r"\d+\.\d+", str(promise))]


def just_above(odds, largest):
    return largest * (1 - 1e-9) <= odds <= largest + 0.0101 * max(1, largest)


@pytest.mark.parametrize("unit", ["document", "cell", "person"])
@pytest.mark.parametrize("name", MADE)
def test_the_stated_odds_are_those_of_one_thing_of_every_form(name, unit, tmp_path):
    """The law of the release for two inputs that differ by one message, against the sentence about its counts."""
    make, options, form = MADE[name]
    promise = Guarantee("1.3", FORMS[form].stability.added, unit)
    events = [("a", "b"), ("b", "c")]
    before, more, other = (
        noisy_cells(read(make(each, tmp_path), **options)).ravel()
        for each in (events, [*events, ("a", "c")], [("a", "c"), ("b", "c")])
    )
    for after, odds in zip((more, other), stated_odds(promise), strict=True):
        assert just_above(odds, largest_odds(before, after, promise.rho))
        assert just_above(odds, largest_odds(after, before, promise.rho))


def test_whether_counts_are_symmetric_is_not_released(tmp_path):
    """scipy writes one half of small matrices whose counts happen to be so: one message more and it writes all."""
    counts = np.zeros((30, 30), dtype=int)
    counts[3, 4] = counts[4, 3] = 2
    io.mmwrite(tmp_path / "mail.mtx", sparse.coo_array(counts))
    with pytest.raises(ValueError, match="of kind general, got a symmetric one"):
        privatize(tmp_path / "mail.mtx", 1)
    counts[4, 3] = 1
    io.mmwrite(tmp_path / "mail.mtx", sparse.coo_array(counts))
    assert privatize(tmp_path / "mail.mtx", 1).n_missing == 0


def test_accents_stripped_in_ones_own_way_promise_nothing():
    vectorizer = CountVectorizer(vocabulary=["tea"], strip_accents=lambda text: 50 * "tea ")
    release = cv.privatize(["x"], epsilon=60, vocabulary=vectorizer)
    assert "as many counts as the analyzer makes of it" in release.records[0].stability


@pytest.mark.parametrize("lengths", [(0, 1), (-3, 1), (0, 0), (2, 1), (1.0, 2)])
@pytest.mark.parametrize("analyzer", ["word", "char"])
def test_n_grams_of_other_lengths_are_refused(lengths, analyzer):
    """scikit-learn takes them; a word would be stated to move 0 counts, or fewer."""
    vectorizer = CountVectorizer(vocabulary=["tea"], ngram_range=lengths, analyzer=analyzer)
    with pytest.raises(ValueError, match=r"^vocabulary: expected .* ngram_range of whole numbers"):
        cv.privatize(["tea"], epsilon=1, vocabulary=vectorizer)


def test_forms_put_together_keep_what_each_of_them_says():
    vectorizer = CountVectorizer(vocabulary=["tea"], ngram_range=(1, 3))
    texts = cv.privatize(["tea"], epsilon=1, vocabulary=vectorizer, rows=["a"])
    array = cv.privatize([[3]], epsilon=1, labels=(["b"], ["tea"]))
    both = cv.stack_rows(texts, array).explain()
    assert "9 counts" in both
    assert "an array" in both
