"""Communities of a network: as blocks, and as a network whose opacity says how sure one can be."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import PowerNorm, to_rgba
from matplotlib.patheffects import Normal, Stroke

from countveil.models.count_model import whole_number
from countveil.posterior import Posterior
from countveil.posterior.diagnostics.summary import check_interval, tails_of
from countveil.report.canvas import (
    SMALL,
    USUAL,
    axes_for,
    colour_of,
    fitted,
    inches_of,
    mean_and_interval,
    name_ticks,
    named,
    text_inches,
    titled,
)
from countveil.report.layout import force_layout
from countveil.report.sheet import LITERAL

#: Beyond so many communities numbers in the cells would be too small to read.
_MOST_NUMBERS = 8
#: Inches of a side: a picture of a stranger's thousand communities is no larger.
_LARGEST = 30.0
#: Around text that is to be read on any colour.
_HALO = [Stroke(linewidth=2.2, foreground="white"), Normal()]
#: What is uncertain is still to be seen.
_FAINTEST = 0.12


def certainty(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How sure a positive number is: one end of its interval over the other, from 0 (may be nothing) to 1.

    >>> certainty(np.array([0.0, 9.0]), np.array([4.0, 10.0]))
    array([0. , 0.9])
    """
    return np.divide(low, high, out=np.zeros(np.shape(high)), where=np.asarray(high) > 0)


def plot_blocks(posterior: Posterior, ax: Axes | None = None, *, interval: float = 0.9) -> Axes:
    """Expected counts from community to community (``posterior.blocks()``), with their certainty.

    A cell has three strips: the low end of its interval, the mean, the high end. One of a single colour is certain;
    one that goes from pale to dark is not. Up to eight communities the cells hold their numbers. Names of rows have
    the agreement of the draws.

    Examples
    --------
    >>> import numpy as np
    >>> import countveil as cv
    >>> counts = np.kron(np.eye(2, dtype=int), np.full((4, 4), 9))
    >>> posterior = cv.fit(cv.CommunityModel(2), counts, sweeps=100, seed=1, progress=False)
    >>> ax = cv.report.plot_blocks(posterior)
    >>> ax.get_ylabel(), ax.get_xlabel()
    ('from community (agreement of draws)', 'to community')
    """
    blocks = posterior.blocks(interval=interval)
    mean, low, high = mean_and_interval(blocks)
    n = len(mean)
    cell = 0.95 if n <= _MOST_NUMBERS else min(max(0.25, 6.0 / n), _LARGEST / n)
    ax = axes_for(ax, max(5.5, 2.6 + cell * n), max(3.5, 1.3 + cell * n))
    # Between communities there is little and within them much: equal steps of colour would hide the first.
    norm = PowerNorm(0.5, vmin=0, vmax=max(high.max(), 1e-12))
    strips = np.stack([low, mean, high], axis=2).reshape(n, 3 * n)
    extent = (-0.5, n - 0.5, n - 0.5, -0.5)
    drawn = ax.imshow(strips, cmap="YlGnBu", norm=norm, extent=extent, interpolation="nearest")
    if n <= _MOST_NUMBERS:
        for c, d in np.ndindex(n, n):
            ax.text(
                d, c - 0.12, _short(mean[c, d]), fontsize=USUAL, path_effects=_HALO, ha="center", va="center"
            )
            ends = f"{_short(low[c, d])} to {_short(high[c, d])}"
            ax.text(d, c + 0.16, ends, fontsize=SMALL - 1, path_effects=_HALO, ha="center", va="center")
    sure = blocks["agreement"].to_numpy()
    names = [str(c) if np.isnan(sure[c]) else f"{c} ({sure[c]:.2f})" for c in range(n)]
    some = np.arange(0, n, max(1, n // 25))
    name_ticks(ax.yaxis, some, [names[c] for c in some])
    name_ticks(ax.xaxis, some, [str(c) for c in some])
    ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
    ax.set_xticks(np.arange(n + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(n + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=min(2.5, 10 * cell))
    ax.tick_params(which="both", length=0)
    directed = posterior.model.directed
    rows = "from community" if directed else "community"
    named(ax, "to community" if directed else "community", f"{rows} (agreement of draws)")
    bar = ax.figure.colorbar(drawn, ax=ax, shrink=0.8)
    bar.set_label("expected counts", fontsize=USUAL)
    bar.ax.tick_params(labelsize=SMALL)
    between = "from community to community" if directed else "between communities"
    titled(ax, f"Counts {between}:\nlow end, mean, high end of the {100 * interval:g} % interval", posterior)
    return ax


def plot_network(
    posterior: Posterior,
    ax: Axes | None = None,
    *,
    n_actors: int = 60,
    n_links: int | None = None,
    interval: float = 0.9,
) -> Axes:
    """The strongest actors and links as the posterior sees them; what is uncertain is faint.

    An actor's colour is the community in which it is largest in most draws, its opacity the share of draws that say
    so, its size how much it sends and receives. A link stands for the counts of both directions; its opacity is
    low / high of their interval. Beside the ``n_links`` strongest (twice as many as actors, by default) every actor
    has the strongest of its own. Names are left out where they would overlap.

    Examples
    --------
    >>> import numpy as np
    >>> import countveil as cv
    >>> counts = np.kron(np.eye(2, dtype=int), np.full((4, 4), 9))
    >>> posterior = cv.fit(cv.CommunityModel(2), counts, sweeps=100, seed=1, progress=False)
    >>> ax = cv.report.plot_network(posterior, n_actors=6)
    >>> ax.get_title(loc="left").splitlines()[0]
    'The 6 strongest of 8 actors, the 12 strongest of their 15 links'
    """
    n_actors = whole_number("n_actors", n_actors, 2)
    aligned = posterior._aligned("plot_network", "communities")
    main, sure = aligned.main_communities()
    every = posterior._shape[0]
    chosen = np.sort(np.argsort(-aligned.strength, kind="stable")[:n_actors])
    links = _links(posterior, chosen, check_interval(interval))
    order = _shown(links, 2 * len(chosen) if n_links is None else whole_number("n_links", n_links, 1))
    weights = np.zeros((len(chosen), len(chosen)))
    weights[links.one, links.other] = weights[links.other, links.one] = links.mean
    places = force_layout(weights)
    ax = axes_for(ax, 8.0, 7.0)
    ax.set(xlim=(-1.12, 1.12), ylim=(-1.12, 1.12), aspect="equal")
    ax.set_axis_off()
    widest = max(links.mean.max(), 1e-12)
    opacity = np.maximum(certainty(links.low, links.high), _FAINTEST)[order]
    ax.add_collection(
        LineCollection(
            list(np.stack([places[links.one[order]], places[links.other[order]]], axis=1)),
            linewidths=0.4 + 4.0 * np.sqrt(links.mean[order] / widest),
            colors=[to_rgba("#555555", 0.75 * one) for one in opacity],
            zorder=1,
        )
    )
    strength = weights.sum(axis=1)
    area = 40 + 260 * strength / max(strength.max(), 1e-12)
    colours = [to_rgba(colour_of(int(main[i])), max(_FAINTEST, sure[i])) for i in chosen]
    # White below, so that links do not shine through an uncertain actor.
    ax.scatter(places[:, 0], places[:, 1], s=area, color="white", linewidths=0, zorder=2)
    edges = [colour_of(int(main[i])) for i in chosen]
    ax.scatter(places[:, 0], places[:, 1], s=area, c=colours, edgecolors=edges, linewidths=0.8, zorder=3)
    for c in np.unique(main[chosen]):
        ax.plot([], [], "o", color=colour_of(int(c)), label=str(c), markersize=6)
    ax.legend(
        title="community", fontsize=SMALL, title_fontsize=SMALL, frameon=False, loc="center left",
        bbox_to_anchor=(1.0, 0.5),
    )  # fmt: skip
    which = "All" if len(chosen) == every else f"The {len(chosen)} strongest of"
    some = f"the {len(order)} strongest of their {len(links.mean):,} links"
    some = some if len(order) < len(links.mean) else "all links"
    unnamed = _name_actors(ax, places, area, [posterior._axis_labels(0)[i] for i in chosen], strength)
    lost = f"; no room for {unnamed} names" if unnamed else ""
    titled(
        ax,
        f"{which} {every:,} actors, {some}{lost}\n"
        "opacity: how sure their community is, and low / high of a link",
        posterior,
    )
    return ax


class _Links(NamedTuple):
    """Counts between pairs of the chosen actors, in both directions together."""

    one: np.ndarray
    other: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def _links(posterior: Posterior, chosen: np.ndarray, interval: float) -> _Links:
    one, other = np.triu_indices(len(chosen), 1)
    both = (
        0.5 if posterior.model.mirrored else 1.0
    )  # of an undirected network the same rate stands on both sides
    draws = np.stack(
        [
            both * (rates[one, other] + rates[other, one])
            for rates in posterior._with_model("plot_network").rates(chosen, chosen)
        ]
    )
    low, high = np.quantile(draws, tails_of(interval), axis=0)
    return _Links(one, other, draws.mean(axis=0), low, high)


def _shown(links: _Links, most: int) -> np.ndarray:
    """The strongest links, and the strongest of every actor: nobody stands alone. The strongest last, on top."""
    order = np.argsort(-links.mean, kind="stable")
    ends = np.column_stack([links.one, links.other])[order].reshape(-1)
    first = np.unique(ends, return_index=True)[1] // 2  # where every actor comes first
    return order[np.union1d(np.arange(min(most, len(order))), first)][::-1]


def _name_actors(
    ax: Axes, places: np.ndarray, area: np.ndarray, labels: list[object], strength: np.ndarray
) -> int:
    """Names beside the nodes, the strongest first, each where it is free; how many have no room."""
    inches = inches_of(ax)
    per_inch = np.array([np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())]) / inches.min()
    radius = np.sqrt(area) / 2 / 72
    nodes = np.column_stack([places - radius[:, None] * per_inch, places + radius[:, None] * per_inch])
    taken = [tuple(box) for box in nodes]
    height = 1.25 * SMALL / 72 * per_inch[1]
    unnamed = 0
    for i in np.argsort(-strength, kind="stable"):
        name = fitted(labels[i], 1.2)
        width = (text_inches(name, SMALL) + 0.03) * per_inch[0]
        x, y = places[i]
        gap = (radius[i] + 0.03) * per_inch
        for left, below in (
            (x - width / 2, y + gap[1]),
            (x - width / 2, y - gap[1] - height),
            (x + gap[0], y - height / 2),
            (x - gap[0] - width, y - height / 2),
        ):
            box = (left, below, left + width, below + height)
            if not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
                taken.append(box)
                ax.text(
                    left + width / 2, below + height / 2, name,
                    ha="center", va="center", fontsize=SMALL, **LITERAL, path_effects=_HALO, zorder=4,
                )  # fmt: skip
                break
        else:
            unnamed += 1
    return unnamed


def _short(value: Any) -> str:
    """A count in at most five letters or so."""
    return f"{value:,.0f}" if value >= 9.95 or value < 0.05 else f"{value:.1f}"
