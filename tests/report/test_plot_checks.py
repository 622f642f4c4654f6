"""Pictures of predictive checks: what is drawn is what was computed, and the axes say what they are."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("agg")
import matplotlib.pyplot as plt

import countveil as cv
from countveil.evaluation import pit, rootogram
from countveil.report import plot_pit, plot_rootogram


@pytest.fixture(scope="module")
def posterior():
    counts = np.random.default_rng(0).poisson(1.5, (12, 10))
    release = cv.simulate_release(counts, epsilon=1, seed=1).hide(([0], [0]))
    return cv.fit(cv.TopicModel(1), release, sweeps=160, burn_in=60, thin=4, seed=1, progress=False)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_rootogram(posterior, ax):
    table = rootogram(posterior)
    assert plot_rootogram(posterior, ax) is ax
    assert [bar.get_height() for bar in ax.patches] == table["observed"].tolist()
    line = ax.get_lines()[0]
    np.testing.assert_allclose(line.get_ydata(), table["expected"])
    assert ax.get_xlabel() == "released value"
    assert ax.get_title("left").startswith("Released values: how often seen")
    assert ax.get_xticklabels()[-1].get_text() == f"{table['value'].iloc[-1]}+"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["seen", "expected, 90% interval"]


def test_pit(posterior, ax):
    values = pit(posterior)
    assert plot_pit(posterior, ax, bins=5) is ax
    heights = [bar.get_height() for bar in ax.patches[:5]]
    np.testing.assert_allclose(heights, np.histogram(values, 5, (0, 1))[0] / len(values) * 5)
    assert ax.get_xlabel() == "probability integral transform of the released values"
    assert ax.get_ylabel() == "relative frequency"
    assert ax.get_title("left").startswith("Released values in their predictions")
    with pytest.raises(ValueError, match=r"^bins: expected a whole number >= 2, got 1"):
        plot_pit(posterior, ax, bins=1)


def test_axes_of_their_own(posterior):
    for plot in (plot_rootogram, plot_pit):
        made = plot(posterior)
        assert made.figure is not None
        plt.close(made.figure)
