"""Topics with their words, and which topics rows belong to; communities of actors in the same way."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from countveil.models.count_model import whole_number
from countveil.posterior import Posterior
from countveil.posterior.axes import as_chosen
from countveil.report.canvas import (
    FAINT,
    GRID,
    LEAST_AGREEMENT,
    SMALL,
    Intervals,
    axes_for,
    colour_of,
    draw_intervals,
    fitted,
    grid_of,
    mean_and_interval,
    name_ticks,
    named,
    percent,
    plain_frame,
    room_for,
    titled,
    with_interval,
)


def plot_topics(
    posterior: Posterior,
    ax: Axes | None = None,
    *,
    n_topics: int = 12,
    n_words: int = 8,
    interval: float = 0.9,
) -> Axes:
    """The heaviest words of the largest topics, a panel for each: dots are means, lines intervals.

    All panels have one scale, the word's share of the topic. A panel is grey where the draws do not agree on the
    topic (agreement below 0.7): its words say little.

    Examples
    --------
    >>> import countveil as cv
    >>> counts = [[9, 7, 0, 0], [8, 9, 1, 0], [0, 0, 7, 9]]
    >>> posterior = cv.fit(cv.TopicModel(2), counts, sweeps=100, seed=1, progress=False)
    >>> ax = cv.report.plot_topics(posterior, n_words=2)
    >>> len(ax.child_axes), ax.child_axes[0].get_title(loc="left").split(",")[0]
    (2, 'topic 0')
    """
    shown, n_words = whole_number("n_topics", n_topics, 1), whole_number("n_words", n_words, 1)
    topics = posterior.topics(n_words, interval=interval)
    every, top = len(topics.prevalence), topics.top_words()
    shown = min(shown, every)
    weights = mean_and_interval(topics.weights)
    words = topics.weights[topics.weights["mean"].dims[1]].to_numpy()
    columns = min(shown, 3 if shown <= 9 else 4)
    rows = math.ceil(shown / columns)
    ax = axes_for(ax, 3.2 * columns, 0.6 + rows * (0.7 + 0.19 * top.shape[1]))
    grid = grid_of(ax, shown, columns, labels=room_for(words[top[:shown]].reshape(-1)))
    furthest = max(weights[2][k, top[k]].max() for k in range(shown))
    for k, panel in enumerate(grid.panels):
        agreement = topics.agreement[k]
        colour = FAINT if agreement < LEAST_AGREEMENT else colour_of(0)
        found = Intervals(words[top[k]], *(each[k, top[k]] for each in weights))
        draw_intervals(panel, found, colour, grid.label_inches)
        panel.set_xlim(0, 1.05 * furthest)
        sure = "" if np.isnan(agreement) else f", agreement {agreement:.2f}"
        of_all = percent(topics.prevalence[k])
        panel.set_title(f"topic {k}, {of_all}{sure}", loc="left", fontsize=SMALL + 0.5, color=colour)
        if k + columns >= shown:
            named(panel, "share of the topic")
    which = "Topics" if shown == every else f"The {shown} largest of {every} topics"
    titled(
        ax, f"{which}: their share of all counts, their heaviest words, {with_interval(interval)}", posterior
    )
    return ax


def plot_memberships(
    posterior: Posterior,
    ax: Axes | None = None,
    *,
    rows: Any = None,
    n_rows: int = 30,
    n_topics: int = 10,
    interval: float = 0.9,
) -> Axes:
    """The shares of the topics (communities) in each row: dots are means, lines intervals.

    Every topic has a column that goes from 0 to 1. ``rows`` are chosen as everywhere; by default ``n_rows`` of
    them, spread evenly. Of more topics than ``n_topics`` those are shown that the rows have most of.

    Examples
    --------
    >>> import countveil as cv
    >>> counts = [[9, 7, 0, 0], [8, 9, 1, 0], [0, 0, 7, 9]]
    >>> posterior = cv.fit(cv.TopicModel(2), counts, sweeps=100, seed=1, progress=False)
    >>> ax = cv.report.plot_memberships(posterior, rows=[0, 2])
    >>> ax.get_ylabel(), [text.get_text() for text in ax.get_yticklabels()]
    ('row', ['0', '2'])
    """
    n_rows, n_topics = whole_number("n_rows", n_rows, 1), whole_number("n_topics", n_topics, 1)
    every_row = posterior._shape[0]
    if rows is None and every_row > n_rows:
        places = np.unique(np.linspace(0, every_row - 1, n_rows).astype(np.int64))
        rows = as_chosen(places, posterior._labels[0])
    shares = posterior.memberships(rows, interval=interval)
    axis, kind = (str(dim) for dim in shares["mean"].dims)
    mean, low, high = mean_and_interval(shares)
    labels, every = shares[axis].to_numpy(), mean.shape[1]
    kept = np.sort(np.argsort(-mean.sum(axis=0), kind="stable")[:n_topics])
    ax = axes_for(ax, max(4.5, 1.9 + 0.85 * len(kept)), 1.4 + 0.19 * max(len(labels), 4))
    places, width = np.arange(len(labels)), 0.86
    for column, k in enumerate(kept):
        colour = colour_of(int(k))
        ax.axvspan(column, column + width, color=GRID, alpha=0.35, linewidth=0)
        ax.hlines(
            places, column + width * low[:, k], column + width * high[:, k], color=colour, alpha=0.5, lw=2.0
        )
        ax.plot(column + width * mean[:, k], places, "o", color=colour, markersize=3.5)
    name_ticks(ax.yaxis, places, [fitted(label, 1.3) for label in labels])
    name_ticks(ax.xaxis, np.arange(len(kept)) + width / 2, [str(k) for k in kept])
    ax.tick_params(length=0)
    ax.set(xlim=(-0.1, len(kept) - 0.04), ylim=(len(labels) - 0.4, -0.6))
    plain_frame(ax, grid="y")
    ax.spines[["left", "bottom"]].set_visible(False)
    some = f"the {len(kept)} of {every} these rows have most of, " if len(kept) < every else ""
    named(ax, f"{kind} ({some}each from 0 to 1)", axis)
    which = "" if len(labels) == every_row else f" of {len(labels)} of {every_row:,} rows"
    plural = "communities" if kind == "community" else f"{kind}s"
    titled(ax, f"Shares of the {plural}{which}:\n{with_interval(interval)}", posterior)
    return ax
