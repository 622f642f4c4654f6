"""A picture of how much of each topic there is in each group of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from countveil.models.count_model import whole_number
from countveil.posterior import Posterior
from countveil.report.canvas import USUAL, axes_for, fitted, name_ticks, titled
from countveil.report.sheet import LITERAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart by colour-blind readers too (Okabe and Ito), and by their marks where there is no colour.
_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5d3a9b", "#000000"]
_MARKS = "osD^vPX*"
#: Words of a topic, and the inches of one of them and of the name of a group.
_WORDS, _WORD_INCHES, _GROUP_INCHES = 4, 0.75, 1.5


def plot_prevalence(
    posterior: Posterior,
    ax: Axes | None = None,
    *,
    groups: Sequence[str] | None = None,
    n_topics: int = 30,
    interval: float = 0.9,
) -> Axes:
    """Shares of the topics in groups of rows, with intervals: topics from top to bottom, a mark for every group.

    ``groups`` chooses some of them, at most eight, in this order. Topics bear their heaviest words; of more than
    ``n_topics`` the largest are shown.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import countveil as cv
    >>> from countveil.report import plot_prevalence
    >>> counts = [[90, 60, 0, 3], [80, 70, 9, 0], [4, 0, 90, 10], [0, 9, 80, 20]]
    >>> model = cv.TopicModel(2, groups=["old", "old", "new", "new"])
    >>> ax = plot_prevalence(cv.fit(model, counts, sweeps=400, seed=1, progress=False))
    >>> ax.get_xlabel()
    'share of expected counts (90% intervals)'
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior: expected a Posterior, got {type(posterior).__name__}")
    shown = whole_number("n_topics", n_topics, 1)
    found = posterior.prevalence(interval=interval)
    places = _chosen(found.groups, groups)
    topics = posterior.topics(_WORDS)
    every = found.shares.sizes["topic"]
    shown = min(shown, every)
    mean, low, high = (found.shares[name].to_numpy()[places, :shown] for name in ("mean", "low", "high"))
    n_groups = len(places)
    ax = axes_for(ax, 7.0, 1.2 + shown * (0.25 + 0.18 * n_groups))
    step = 0.7 / n_groups
    for i in range(n_groups):
        y = np.arange(shown) + (i - (n_groups - 1) / 2) * step
        errors = [np.maximum(mean[i] - low[i], 0), np.maximum(high[i] - mean[i], 0)]
        ax.errorbar(
            mean[i], y, xerr=errors, fmt=_MARKS[i], color=_COLOURS[i], markersize=5, elinewidth=1.5, capsize=2,
            label=f"group {i}",  # matplotlib leaves out names with _ before them, and $ begins a formula
        )  # fmt: skip
    for k in range(shown - 1):
        ax.axhline(k + 0.5, color="#d0d0d0", linewidth=0.8)
    words = topics.weights[topics.weights["mean"].dims[1]].to_numpy()
    names = [
        f"{k}: " + " ".join(fitted(words[v], _WORD_INCHES) for v in top)
        for k, top in enumerate(topics.top_words()[:shown])
    ]
    name_ticks(ax.yaxis, np.arange(shown), names)
    ax.set_ylim(shown - 0.5, -0.5)
    ax.set_xlim(left=0)
    ax.set_xlabel(f"share of expected counts ({interval:.0%} intervals)")
    ax.set_ylabel("topic")
    which = "the topics" if shown == every else f"the {shown} largest of {every} topics"
    titled(ax, f"Shares of {which} in groups of rows", posterior)
    # Beside the axes: intervals may be anywhere in them.
    named_groups = ax.legend(title="group", frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for text, place in zip(named_groups.get_texts(), places, strict=True):
        text.set(text=fitted(found.groups[place], _GROUP_INCHES, USUAL), **LITERAL)
    return ax


def _chosen(known: tuple[str, ...], wanted: Sequence[str] | None) -> list[int]:
    names = list(known if wanted is None else [wanted] if isinstance(wanted, str) else map(str, wanted))
    for name in names:
        if name not in known:
            raise ValueError(f"groups: expected some of {', '.join(map(repr, known))}, got {name!r}")
    if not 1 <= len(names) <= len(_COLOURS):
        raise ValueError(f"groups: expected 1 to {len(_COLOURS)} groups in one picture, got {len(names)}")
    return [known.index(name) for name in names]
