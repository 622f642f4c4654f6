"""Declared labels that nothing matches: told by the noisy counts alone, or refused beforehand."""

import warnings

import networkx
import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer

import countveil as cv
from countveil.counts import NoiseAloneWarning

MANY_ROWS, MANY_WORDS = [f"person {i}" for i in range(40)], [f"word{i}" for i in range(40)]
MANY_LINES = pd.DataFrame({"who": MANY_ROWS, "what": MANY_WORDS, "n": 50})


NOISE_ALONE = r"^counts: nothing but noise can be seen in this release"


@pytest.mark.parametrize(
    ("counts", "options"),
    [
        (
            MANY_LINES,
            {"rows": [row.title() for row in MANY_ROWS], "columns": MANY_WORDS, "long": ("who", "what", "n")},
        ),
        (
            MANY_LINES.pivot(index="who", columns="what", values=["n"]).fillna(0),
            {"rows": MANY_ROWS, "columns": MANY_WORDS},
        ),
        (
            networkx.complete_graph(40, create_using=networkx.DiGraph),
            {"rows": MANY_ROWS, "weight": None},
        ),
        (["nothing of it"] * 40, {"vocabulary": MANY_WORDS}),
    ],
)
def test_labels_of_which_none_is_found_are_told_by_the_noisy_counts(counts, options, tmp_path):
    with pytest.warns(NoiseAloneWarning, match=NOISE_ALONE):
        cv.privatize(counts, epsilon=1, **options)
    with pytest.warns(NoiseAloneWarning, match=NOISE_ALONE):
        cv.privatize_to_file(counts, tmp_path / "r.parquet", epsilon=1, **options)
    assert (tmp_path / "r.parquet").exists()


def test_no_warning_where_counts_are_seen():
    options = {"rows": MANY_ROWS, "columns": MANY_WORDS}
    nothing = np.zeros((40, 40), int)
    with warnings.catch_warnings(record=True) as caught:
        cv.privatize(MANY_LINES, epsilon=1, long=("who", "what", "n"), **options)
        cv.privatize(MANY_LINES, epsilon=[1, 2] * 20, long=("who", "what", "n"), **options)
        cv.privatize(nothing, epsilon=1, **options)  # which go by their places
    assert caught == []


@pytest.mark.parametrize("word", ["NATO", "don't", "human rights", "I"])
def test_words_that_are_never_found_are_refused(word):
    refused = r"^vocabulary: expected words as they are found in texts, got "
    with pytest.raises(ValueError, match=refused):
        cv.privatize(["tea at sea"], epsilon=1, vocabulary=["tea", word])
    with pytest.raises(ValueError, match=refused):
        cv.privatize(["tea at sea"], epsilon=1, vocabulary=CountVectorizer(vocabulary=["tea", word]))


@pytest.mark.parametrize(
    ("word", "options"),
    [
        ("Vote", {"token_pattern": "[A-Za-z]+"}),
        ("Vote", {"ngram_range": (1, 2)}),
        ("né", {"strip_accents": "unicode"}),
        ("the", {"stop_words": "english"}),
        ("new york city", {"ngram_range": (1, 2)}),
        ("Vo", {"analyzer": "char", "ngram_range": (2, 2)}),
        ("vot", {"analyzer": "char_wb", "ngram_range": (2, 2)}),
    ],
)
def test_words_that_a_vectorizer_never_finds_are_refused(word, options):
    with pytest.raises(ValueError, match=r"^vocabulary: expected words as they are found in texts, got "):
        cv.privatize(["tea at sea"], epsilon=1, vocabulary=CountVectorizer(vocabulary=[word], **options))


@pytest.mark.parametrize(
    ("word", "options"),
    [
        ("Vote", {"lowercase": False}),
        ("vote", {"token_pattern": r"#(\w+)"}),  # which stands alone in no text
        ("new york", {"ngram_range": (2, 2)}),
        ("vot", {"analyzer": "char", "ngram_range": (3, 3)}),
        (" v", {"analyzer": "char_wb", "ngram_range": (2, 2)}),
        ("Vote!", {"analyzer": str.split}),
        ("Vote!", {"tokenizer": str.split, "token_pattern": None, "lowercase": False}),
        ("vote", {"preprocessor": str.swapcase}),
    ],
)
def test_words_that_a_vectorizer_finds_are_counted(word, options):
    vectorizer = CountVectorizer(vocabulary=[word], **options)
    release = cv.privatize(["Vote! #vote VOTE in new york"] * 2, epsilon=900, vocabulary=vectorizer)
    assert release.to_dense().min() > 0


def test_a_vectorizer_that_counts_its_own_way_is_refused():
    class Fivefold(CountVectorizer):
        def transform(self, texts):
            return 5 * super().transform(texts)

    with pytest.raises(
        TypeError, match=r"^vocabulary: expected a CountVectorizer that counts as scikit-learn's"
    ):
        cv.privatize(["tea"], epsilon=1, vocabulary=Fivefold(vocabulary=["tea"]))
