"""How the chains went: traces and ranks of the monitored scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy import stats

from countveil.counts.shown_text import visible
from countveil.posterior import Posterior, SharedPosterior
from countveil.posterior.diagnostics.summary import summarize
from countveil.report.canvas import (
    GRID,
    PALETTE,
    SMALL,
    axes_for,
    colour_of,
    grid_of,
    named,
    plain_frame,
    titled,
)

#: Ranks are counted in so many parts of equal size, or fewer where draws are few.
_BINS, _LEAST_IN_BIN = 20, 5
#: More chains share colours, and have other strokes.
_STROKES = ("-", "--", ":", "-.")


def plot_traces(posterior: Posterior | SharedPosterior, ax: Axes | None = None) -> Axes:
    """Every monitored scalar over the kept draws, a line for each chain.

    Chains that agree are one band without a trend. A chain that stays apart is in another solution; one that climbs
    has not arrived. None of these scalars depends on the order of topics.

    Examples
    --------
    >>> import countveil as cv
    >>> posterior = cv.fit(cv.TopicModel(2), [[9, 7, 0], [0, 1, 7]], sweeps=100, seed=1, progress=False)
    >>> ax = cv.report.plot_traces(posterior)
    >>> [panel.get_ylabel() for panel in ax.child_axes]
    ['sampled_log_likelihood', 'total_rate', 'log_joint']
    """

    def draw(panel: Axes, values: np.ndarray) -> None:
        marker = "o" if values.shape[1] == 1 else None  # one draw makes no line
        for chain, one in enumerate(values):
            panel.plot(one, marker=marker, linewidth=0.9, alpha=0.85, **_look(chain))

    return _by_scalar(posterior, ax, draw, ("kept draw", None), "Traces of the monitored scalars")


def plot_ranks(posterior: Posterior | SharedPosterior, ax: Axes | None = None) -> Axes:
    """For every monitored scalar, how often each chain has small, middle and large values among all chains.

    All draws of all chains are ranked together, and the ranks of each chain counted in equal parts (Vehtari,
    Gelman, Simpson, Carpenter and Buerkner, 2021). Chains that agree have about the same number in every part. The
    grey band holds 95 % of such numbers if draws are independent; draws of a chain follow each other and go beyond
    it more often. One that leans to a side, or has a hump of its own, is elsewhere.

    Examples
    --------
    >>> import countveil as cv
    >>> posterior = cv.fit(cv.TopicModel(2), [[9, 7, 0], [0, 1, 7]], sweeps=100, seed=1, progress=False)
    >>> len(cv.report.plot_ranks(posterior).child_axes)
    3
    """

    def draw(panel: Axes, values: np.ndarray) -> None:
        n_draws = values.shape[1]
        bins = max(2, min(_BINS, n_draws // _LEAST_IN_BIN))
        ranks = stats.rankdata(values).reshape(values.shape)
        edges = np.linspace(0.5, values.size + 0.5, bins + 1)
        low, high = stats.binom.ppf((0.025, 0.975), n_draws, 1 / bins)
        panel.axhspan(low, high, color=GRID, alpha=0.6, linewidth=0)
        panel.axhline(n_draws / bins, color="#808080", linewidth=0.8)
        for chain, one in enumerate(ranks):
            counts = np.histogram(one, edges)[0]
            panel.stairs(counts, edges, linewidth=1.4, **_look(chain))
        panel.set(xlim=(edges[0], edges[-1]), ylim=(0, None))

    names = ("rank among the draws of all chains", "draws")
    return _by_scalar(posterior, ax, draw, names, "Ranks of the monitored scalars, by chain")


def _look(chain: int) -> dict[str, Any]:
    """Its colour and stroke, and its name in the legend."""
    stroke = _STROKES[chain // len(PALETTE) % len(_STROKES)]
    return {"color": colour_of(chain), "linestyle": stroke, "label": str(chain)}


def _by_scalar(
    posterior: Posterior | SharedPosterior,
    ax: Axes | None,
    draw: Callable[[Axes, np.ndarray], None],
    names: tuple[str, str | None],
    title: str,
) -> Axes:
    """A panel for every scalar, with its R-hat and effective sample size; one legend for the chains.

    ``names`` are those of the axes; the second is the scalar itself if it is None.
    """
    scalars = {str(name): one.to_numpy() for name, one in posterior.tree["sample_stats"].data_vars.items()}
    summary = summarize(scalars, 0.9)
    ax = axes_for(ax, 7.5, 0.6 + 1.75 * len(scalars))
    grid = grid_of(ax, len(scalars), 1, labels=0.75)
    n_chains = next(iter(scalars.values())).shape[0]
    for panel, (name, values) in zip(grid.panels, scalars.items(), strict=True):
        draw(panel, values)
        plain_frame(panel, grid=None)
        panel.locator_params(axis="y", nbins=5)
        panel.ticklabel_format(axis="y", useOffset=False)
        is_last = panel is grid.panels[-1]
        named(panel, names[0] if is_last else "", names[1] or name)
        if names[1] is not None:
            panel.set_title(visible(name), loc="left", fontsize=SMALL + 0.5, parse_math=False)
        r_hat, ess = summary["r_hat"][name], summary["ess_bulk"][name]
        known = [f"R-hat {r_hat:.2f}" * (not np.isnan(r_hat)), f"ESS {ess:.0f}" * (not np.isnan(ess))]
        panel.set_title(", ".join(filter(None, known)), loc="right", fontsize=SMALL + 0.5)
    if n_chains > 1:
        grid.panels[0].legend(
            title="chain", fontsize=SMALL, title_fontsize=SMALL, loc="upper left", bbox_to_anchor=(1.0, 1.05),
            frameon=False, handlelength=1.2, ncols=1 + (n_chains - 1) // 8,
        )  # fmt: skip
    titled(ax, title)
    return ax
