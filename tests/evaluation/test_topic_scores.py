"""NPMI, coherence and top words: against brute force over documents, by hand, and at their extremes."""

from itertools import combinations
from math import log

import numpy as np
import pytest
from scipy import sparse

from countveil.evaluation import coherence, npmi, top_words


def documents_with(counts, *words):
    return sum(all(document[w] > 0 for w in words) for document in counts.tolist())


def plain_npmi(words, counts):
    total = len(counts)
    values = []
    for i, j in combinations(words, 2):
        both = documents_with(counts, i, j) / total
        alone = documents_with(counts, i) * documents_with(counts, j) / total**2
        values.append(-1 if both == 0 else 1 if both == 1 else log(both / alone) / -log(both))
    return sum(values) / len(values)


def plain_coherence(words, counts):
    total = 0.0
    for position, later in enumerate(words):
        for earlier in words[:position]:
            alone = documents_with(counts, earlier)
            total += (
                log((documents_with(counts, later, earlier) + 1) / alone) if alone else log(1 / len(counts))
            )
    return total


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.coo_matrix, np.ndarray.tolist])
@pytest.mark.parametrize("seed", range(5))
def test_brute_force(seed, form):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.gamma(0.5, size=12), size=(9, 12))
    counts[:, 0] = 0
    counts[:, 1] = 3
    topics = np.array([rng.permutation(12)[:5] for _ in range(6)])
    topics[0, :2] = 0, 1
    topics[0, 2:] = 2, 3, 4
    assert npmi(topics, form(counts)) == pytest.approx([plain_npmi(t, counts) for t in topics], abs=1e-12)
    expected = [plain_coherence(t, counts) for t in topics]
    assert coherence(topics, form(counts)) == pytest.approx(expected, abs=1e-12)


CORPUS = np.array([
    # 0  1  2  3  4: words 0 and 1 always together, 2 in all documents, 3 alone, 4 in none
    [1, 2, 1, 0, 0],
    [3, 1, 1, 0, 0],
    [0, 0, 1, 1, 0],
    [0, 0, 9, 1, 0],
])  # fmt: skip


@pytest.mark.parametrize(
    ("pair", "expected"),
    [((0, 1), 1), ((0, 3), -1), ((0, 2), 0), ((0, 4), -1), ((2, 4), -1)],
)
def test_npmi_by_hand(pair, expected):
    assert npmi([pair], CORPUS) == pytest.approx([expected], abs=1e-15)
    assert npmi([pair[::-1]], CORPUS) == pytest.approx([expected], abs=1e-15)


def test_npmi_of_words_that_are_everywhere_is_one():
    assert npmi([[0, 1]], np.ones((3, 2))) == 1
    assert npmi([[0, 1]], np.ones((1, 2))) == 1
    assert npmi([[0, 1]], np.zeros((1, 2))) == -1


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((0, 1), log(3 / 2)),
        ((2, 0), log(3 / 4)),
        ((0, 2), log(3 / 2)),
        ((0, 3), log(1 / 2)),
        ((0, 1, 3), log(3 / 2) + log(1 / 2) + log(1 / 2)),
        ((0, 4), log(1 / 2)),  # an unseen word after another: the formula has a value
        ((4, 0), log(1 / 4)),  # before another it has none: the lowest there is
    ],
)
def test_coherence_by_hand(words, expected):
    assert coherence([words], CORPUS) == pytest.approx([expected], abs=1e-15)


def test_words_that_nobody_wrote_score_lowest():
    counts = np.zeros((50, 8), dtype=int)
    counts[:, :4] = np.random.default_rng(0).random((50, 4)) < 0.5
    real, invented = coherence([[0, 1, 2, 3], [4, 5, 6, 7]], counts)
    assert np.isfinite(invented)
    assert invented == pytest.approx(6 * log(1 / 50))
    assert invented < real
    assert npmi([[4, 5, 6, 7]], counts) == -1


def test_scores_keep_leading_axes_and_the_order_of_topics():
    rng = np.random.default_rng(2)
    counts = rng.poisson(0.7, size=(20, 15))
    chosen = top_words(rng.random((3, 4, 15)), n=5)
    for score in (npmi, coherence):
        found = score(chosen, counts)
        assert found.shape == (3, 4)
        assert found[1, 2] == pytest.approx(score(chosen[1, 2][None], counts)[0], rel=1e-12)


def test_entries_given_twice_in_a_narrow_type_do_not_vanish():
    # 128 + 128 wraps around to 0 in uint8.
    twice = sparse.coo_array((np.array([128, 128, 1], np.uint8), ([0, 0, 0], [0, 0, 1])), shape=(1, 2))
    assert npmi([[0, 1]], twice) == 1


def test_top_words_by_weight_then_index():
    assert top_words([[1, 3, 3, 0, 3]], n=4).tolist() == [[1, 2, 4, 0]]
    assert top_words(np.zeros((2, 12)))[1].tolist() == list(range(10))
    assert top_words(np.array([[0, 255]], np.uint8), n=2).tolist() == [[1, 0]]
    weights = np.random.default_rng(1).random((2, 3, 20))
    found = top_words(weights, n=20)
    assert found.shape == (2, 3, 20)
    assert (np.diff(np.take_along_axis(weights, found, -1)) <= 0).all()


@pytest.mark.parametrize(
    ("weights", "n", "message"),
    [
        ([0.1, 0.2], 1, r"topic_weights: expected shape \(..., topics, words\), got \(2,\)"),
        ([[0.1, np.nan]], 1, "topic_weights: expected numbers, got NaN"),
        ([["a", "b"]], 1, "topic_weights: expected numbers, got"),
        ([[0.1, 0.2]], 3, "n: expected a whole number from 1 to 2, got 3"),
        ([[0.1, 0.2]], 0, "n: expected a whole number from 1 to 2, got 0"),
        ([[0.1, 0.2]], 1.0, "n: expected a whole number from 1 to 2, got 1.0"),
    ],
)
def test_faults_of_top_words(weights, n, message):
    with pytest.raises((TypeError, ValueError), match=message):
        top_words(weights, n)


@pytest.mark.parametrize("score", [npmi, coherence])
@pytest.mark.parametrize(
    ("words", "counts", "message"),
    [
        ([[0]], CORPUS, r"top_words: expected shape \(topics, n\) with n of at least 2, got \(1, 1\)"),
        ([[0, 5]], CORPUS, "top_words: expected indices from 0 to 4, got some from 0 to 5"),
        ([[-1, 2]], CORPUS, "top_words: expected indices from 0 to 4, got some from -1 to 2"),
        ([[0, 0]], CORPUS, "top_words: expected different words within a topic, got one twice"),
        ([[0.0, 1.0]], CORPUS, "top_words: expected column indices .* got float64"),
        ([[0, 1]], -CORPUS, "counts: expected whole numbers of at least 0, got negative values"),
        ([[0, 1]], CORPUS[0], "counts: expected 2 axes, documents and words, got 1"),
        ([[0, 1]], np.zeros((0, 2)), "counts: expected at least one cell"),
    ],
)
def test_faults_of_scores(score, words, counts, message):
    with pytest.raises((TypeError, ValueError), match=message):
        score(words, counts)
