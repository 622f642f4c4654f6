"""The picture of prevalence: what stands where, and what is refused."""

from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
import xarray as xr

import countveil as cv
from countveil.report import plot_prevalence

matplotlib.use("agg")
from matplotlib import pyplot

NAMES = [f"g{i}" for i in range(10)]
WORDS = ["oil$", "gas", "law", "$x$"]


@pytest.fixture(scope="module")
def posterior():
    counts = np.random.default_rng(0).poisson([[9, 7, 0, 0]] * 10 + [[0, 1, 8, 6]] * 10)
    model = cv.TopicModel(2, groups=NAMES * 2)
    labels = (None, WORDS)
    return cv.fit(model, counts, sweeps=100, seed=1, threads=1, progress=False, labels=labels)


def test_marks_stand_at_the_means(posterior):
    figure, given = pyplot.subplots()
    ax = plot_prevalence(posterior, given, groups=["g3", "g1"], interval=0.5)
    assert ax is given
    found = posterior.prevalence(interval=0.5).shares.sel(group=["g3", "g1"])
    for container, name in zip(ax.containers, ["g3", "g1"], strict=True):
        points, _, (bars,) = container.lines
        assert np.allclose(points.get_xdata(), found["mean"].sel(group=name))
        ends = np.array([segment[:, 0] for segment in bars.get_segments()])
        assert np.allclose(ends[:, 0], np.minimum(found["low"].sel(group=name), points.get_xdata()))
        assert np.allclose(ends[:, 1], np.maximum(found["high"].sel(group=name), points.get_xdata()))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("share of expected counts (50% intervals)", "topic")
    assert ax.get_title("left").startswith("Shares of the topics")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["g3", "g1"]
    assert "oil" in " ".join(label.get_text() for label in ax.get_yticklabels())
    figure.canvas.draw()  # no word is taken for a formula
    pyplot.close(figure)


def test_every_group_has_its_name_in_the_legend():
    """matplotlib leaves out names with _ before them, and takes what stands between dollar signs for a formula."""
    names = ["_old", "$x$", "plain", "\u202ea"]
    counts = np.random.default_rng(0).poisson(3, (8, 4))
    fitted = cv.fit(cv.TopicModel(2, groups=names * 2), counts, sweeps=100, seed=1, progress=False)
    ax = plot_prevalence(fitted, groups=names)
    texts = ax.get_legend().get_texts()
    assert [text.get_text() for text in texts] == ["_old", "$x$", "plain", r"\u202ea"]
    assert not any(text.get_parse_math() for text in texts)
    handles, marked = ax.get_legend_handles_labels()
    assert (handles, marked) == (ax.containers, [f"group {i}" for i in range(4)])  # in the order of the marks
    ax.figure.canvas.draw()
    pyplot.close(ax.figure)


def test_what_is_refused(posterior):
    with pytest.raises(ValueError, match="groups: expected 1 to 8 groups in one picture, got 10"):
        plot_prevalence(posterior)
    with pytest.raises(ValueError, match="groups: expected some of 'g0'"):
        plot_prevalence(posterior, groups=["x"])
    with pytest.raises(TypeError, match="posterior: expected a Posterior, got int"):
        plot_prevalence(3)


def test_a_picture_of_very_many_topics_is_no_larger_and_says_so(posterior, monkeypatch):
    """Of a stranger's 1,000 topics, with labels of any length, it took 725 MB."""
    n, words = 1000, [f"w{i}" * 500 for i in range(4)]
    share = (("group", "topic"), np.full((1, n), 1 / n))
    found = xr.Dataset(dict.fromkeys(("mean", "low", "high"), share), {"group": ["$" * 9000]})
    weights = xr.Dataset({"mean": (("topic", "word"), np.ones((n, 4)))}, {"word": words})
    top = np.tile(np.arange(4), (n, 1))
    monkeypatch.setattr(
        cv.Posterior, "prevalence", lambda self, interval: SimpleNamespace(shares=found, groups=("$" * 9000,))
    )
    monkeypatch.setattr(
        cv.Posterior, "topics", lambda self, n: SimpleNamespace(weights=weights, top_words=lambda: top)
    )
    ax = plot_prevalence(posterior)
    assert ax.get_title("left").startswith("Shares of the 30 largest of 1000 topics")
    assert max(ax.figure.get_size_inches()) < 40
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert len(labels) == 30
    assert max(map(len, labels)) < 80
    assert len(ax.get_legend().get_texts()[0].get_text()) < 80
    assert len(plot_prevalence(posterior, n_topics=7).get_yticklabels()) == 7
    with pytest.raises(ValueError, match="n_topics: expected a whole number >= 1, got 0"):
        plot_prevalence(posterior, n_topics=0)
