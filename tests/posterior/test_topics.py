"""Topics and memberships as people read them."""

import numpy as np
import pytest

import countveil as cv
from goodness_of_fit import SEED


def test_words_weights_and_intervals(posterior):
    topics = posterior.topics(3)
    assert topics.weights["mean"].dims == ("topic", "word")
    assert topics.weights["word"].to_numpy().tolist() == posterior.release.labels[1].tolist()
    mean, low, high = (topics.weights[name].to_numpy() for name in ("mean", "low", "high"))
    np.testing.assert_allclose(mean.sum(axis=1), 1.0)
    assert (low < mean).all()
    assert (mean < high).all()
    assert {frozenset(row) for row in topics.top_words()[:, :2].tolist()} <= {
        frozenset(pair) for pair in ([0, 1], [2, 3], [2, 4], [3, 4])
    }


def test_the_most_prevalent_comes_first(plain, with_draws):
    """By expected counts: theta and phi trade scale, and neither alone says how much a topic has."""
    theta = np.tile([[1.0, 200.0], [3.0, 200.0], [2.0, 0.0]], (2, 5, 1, 1))
    phi = np.tile([[60.0, 40.0, 0.0], [0.0, 0.2, 0.3]], (2, 5, 1, 1))
    topics = with_draws(plain, theta=theta, phi=phi).topics(2)
    np.testing.assert_allclose(topics.prevalence, [0.75, 0.25])
    np.testing.assert_allclose(topics.weights["mean"], [[0.6, 0.4, 0.0], [0.0, 0.4, 0.6]], rtol=1e-6)
    assert topics.top_words().tolist() == [[0, 1], [2, 1]]
    memberships = with_draws(plain, theta=theta, phi=phi).memberships()
    np.testing.assert_allclose(memberships["mean"], [[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]], rtol=1e-6)


def test_a_wider_interval_holds_a_narrower_one(posterior):
    for method in (lambda **o: posterior.topics(**o).weights, posterior.memberships, posterior.true_counts):
        wide, narrow = method(interval=0.95), method(interval=np.float32(0.5))
        assert wide.attrs["interval"] == 0.95
        assert (wide["low"] <= narrow["low"]).all()
        assert (wide["high"] >= narrow["high"]).all()
        assert float((wide["high"] - wide["low"] - narrow["high"] + narrow["low"]).sum()) > 0


@pytest.mark.parametrize("interval", [0, 1, -0.5, 1.5, 90, "0.9", None, float("nan"), True])
def test_bad_intervals(posterior, interval):
    for method in (posterior.topics, posterior.memberships, posterior.true_counts, posterior.summary):
        with pytest.raises(ValueError, match="interval: expected a number between 0 and 1, got"):
            method(interval=interval)


def test_bad_numbers_of_words(posterior):
    for n_words in (0, -1, 2.5, True, "10"):
        with pytest.raises(ValueError, match="n_words: expected a whole number >= 1, got"):
            posterior.topics(n_words)
    assert posterior.topics(1000).top_words().shape == (2, 5)


def test_memberships_are_shares_with_labels(posterior):
    everything = posterior.memberships()
    assert everything["mean"].dims == ("document", "topic")
    np.testing.assert_allclose(everything["mean"].sum("topic"), 1.0)
    np.testing.assert_allclose(everything["agreement"], posterior.topics().agreement)
    some = posterior.memberships(rows=["g", ""])
    assert some["document"].to_numpy().tolist() == ["g", ""]
    np.testing.assert_allclose(some["mean"], everything["mean"].to_numpy()[[5, 0]])


def test_it_prints_as_a_table_of_words(posterior):
    topics = posterior.topics(2)
    lines = repr(topics).split("\n", maxsplit=1)
    assert lines[0].split() == ["topic", "share", "agreement", "words"]
    assert str(topics) == repr(topics)
    assert "%" in lines[1]


@pytest.mark.long
def test_intervals_cover_the_truth():
    """Truth and data from the model, topics sparse enough to be told apart: 90 % intervals hold about 90 %.

    Over 8 data sets of 2 topics x 15 words and 40 rows each; bounds far from what chance does to 0.9.
    """
    covered = {"topics": [], "memberships": [], "true_counts": []}
    rng = np.random.default_rng(SEED)
    for seed in range(8):
        theta, phi = rng.gamma(0.3, 5, size=(40, 2)), rng.gamma(0.3, 5, size=(2, 15))
        counts = rng.poisson(theta @ phi)
        release = cv.simulate_release(counts, epsilon=2, seed=seed)
        model = cv.TopicModel(2, shape=0.3, rate=0.2)
        posterior = cv.fit(model, release, sweeps=800, thin=2, seed=seed, progress=False)
        weights, share = phi / phi.sum(axis=1, keepdims=True), theta * phi.sum(axis=1)
        share /= share.sum(axis=1, keepdims=True)
        found = posterior.topics().weights
        straight, crossed = (np.sqrt(found["mean"].to_numpy() * weights[o]).sum() for o in ([0, 1], [1, 0]))
        order = [0, 1] if straight > crossed else [1, 0]
        truths = {
            "topics": (found, weights[order]),
            "memberships": (posterior.memberships(), share[:, order]),
            "true_counts": (posterior.true_counts(), counts),
        }
        for name, (answer, truth) in truths.items():
            inside = (answer["low"] <= truth) & (truth <= answer["high"])
            covered[name].append(inside.to_numpy().mean())
    assert 0.8 < np.mean(covered["topics"]) < 0.98
    assert 0.8 < np.mean(covered["memberships"]) < 0.98
    assert 0.88 < np.mean(covered["true_counts"]) < 0.995  # counts are discrete: never less than 0.9
