"""Predictive checks as pictures: rootogram and histogram of the probability integral transform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binom

from countveil.evaluation.predictive_checks import pit, rootogram
from countveil.models.count_model import whole_number
from countveil.posterior.diagnostics.summary import check_interval, tails_of
from countveil.report.canvas import axes_for, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from countveil.posterior import Posterior

# Told apart by colour-blind readers too (Okabe and Ito), and by their brightness.
SEEN, EXPECTED = "#56b4e9", "#d55e00"


def plot_rootogram(posterior: Posterior, ax: Axes | None = None, **options: Any) -> Axes:
    """How often each value was seen (bars) and is expected (line, with intervals), on the scale of square roots.

    On that scale the chance of a frequency varies equally, small or large: a bar that ends outside the interval of
    its value is a misfit wherever it stands. ``options`` go to ``evaluation.rootogram``.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import countveil as cv
    >>> from countveil.report import plot_rootogram
    >>> posterior = cv.fit(cv.TopicModel(1), [[3, 1, 0], [0, 2, 2]], sweeps=100, seed=1, progress=False)
    >>> plot_rootogram(posterior).get_ylabel()
    'number of cells (square root scale)'
    """
    table = rootogram(posterior, **options)
    interval = options.get("interval", 0.9)
    ax = axes_for(ax, 7.0, 4.2)
    value, low, expected, high = (table[name].to_numpy() for name in ("value", "low", "expected", "high"))
    ax.bar(value, table["observed"], width=0.8, color=SEEN, label="seen")
    error, label = np.maximum([expected - low, high - expected], 0.0), f"expected, {interval:.0%} interval"
    look: dict[str, Any] = {"color": EXPECTED, "marker": "o", "markersize": 4, "capsize": 3, "linewidth": 1.5}
    ax.errorbar(value, expected, yerr=error, label=label, **look)
    ax.set_yscale("function", functions=(lambda y: np.sqrt(np.maximum(y, 0.0)), np.square))
    top = max(float(table["observed"].max()), float(high.max()))
    ax.set_ylim(0, 1.08 * top)
    ax.set_yticks(_round_squares(top))
    step = max(1, -(-len(value) // 16))
    ticks = sorted({*value[::step][: -1 if len(value) > step else None], value[-1]})
    ax.set_xticks(ticks, [f"{v}+" if v == value[-1] else f"{v}" for v in ticks])
    of = "count" if posterior.release is None else "released value"
    titled(ax, f"{of.capitalize()}s: how often seen, and how often expected", posterior)
    ax.set_xlabel(of)
    ax.set_ylabel("number of cells (square root scale)")
    ax.legend(frameon=False)
    return ax


def plot_pit(
    posterior: Posterior, ax: Axes | None = None, *, bins: int = 20, interval: float = 0.99, **options: Any
) -> Axes:
    """Histogram of the probability integral transform: flat if the model is right.

    The band holds a bin of uniform numbers with the probability ``interval``, each bin by itself. ``options`` go to
    ``evaluation.pit``.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> import countveil as cv
    >>> from countveil.report import plot_pit
    >>> counts = np.random.default_rng(0).poisson(1.0, (6, 6))
    >>> posterior = cv.fit(cv.TopicModel(1), counts, sweeps=200, thin=2, seed=1, progress=False)
    >>> plot_pit(posterior, bins=5).get_xlabel()
    'probability integral transform of the counts'
    """
    bins, interval = whole_number("bins", bins, 2), check_interval(interval)
    values = pit(posterior, **options)
    ax = axes_for(ax, 7.0, 4.2)
    height, edges = np.histogram(values, bins=bins, range=(0.0, 1.0))
    flat = len(values) / bins
    low, high = binom.ppf(tails_of(interval), len(values), 1 / bins) / flat
    ax.bar(
        edges[:-1], height / flat, width=1 / bins, align="edge", color=SEEN, edgecolor="white", label="seen"
    )
    ax.axhspan(low, high, color=EXPECTED, alpha=0.2, label=f"{interval:.0%} of uniform bins")
    ax.axhline(1.0, color=EXPECTED, linewidth=1.5, label="uniform")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.25 * max(float((height / flat).max()), float(high)))
    of = "counts" if posterior.release is None else "released values"
    titled(ax, f"{of.capitalize()} in their predictions: flat if the model is right", posterior)
    ax.set_xlabel(f"probability integral transform of the {of}")
    ax.set_ylabel("relative frequency")
    ax.legend(frameon=False, ncols=3, loc="upper center")
    return ax


def _round_squares(top: float) -> np.ndarray:
    """Ticks that are about evenly spread on the scale of square roots, rounded to one digit, or two below 25."""
    raw = (np.linspace(0, np.sqrt(top), 6)[1:]) ** 2
    digits = np.maximum(1.0, 10.0 ** np.floor(np.log10(np.maximum(raw, 1) / 2.5)))
    return np.unique(np.concatenate([[0.0], np.round(raw / digits) * digits]))
