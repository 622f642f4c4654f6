"""How the chains went: traces and ranks of the monitored scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy import stats

from countveil.counts.shown_text import visible
from countveil.posterior import Posterior, SharedPosterior
from countveil.posterior.diagnostics.clusters import MOST_CHAINS
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
from countveil.report.sheet import LITERAL

#: Ranks are counted in so many parts of equal size, or fewer where draws are few.
_BINS, _LEAST_IN_BIN = 20, 5
#: More chains share colours, and have other strokes.
_STROKES = ("-", "--", ":", "-.")


def plot_traces(posterior: Posterior | SharedPosterior, ax: Axes | None = None) -> Axes:
    """Every monitored scalar over the sweeps, at kept draws, a line for each chain.

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

    settings = posterior.settings
    n_draws = posterior.tree["sample_stats"].sizes["draw"]
    sweeps = settings["burn_in"] + settings["thin"] * np.arange(1, n_draws + 1)
    marker = "o" if n_draws == 1 else None  # one draw makes no line

    def draw(panel: Axes, chains: dict[int, np.ndarray]) -> None:
        for chain, values in chains.items():
            panel.plot(sweeps, values, marker=marker, linewidth=0.9, alpha=0.85, **_look(chain))

    return _by_scalar(posterior, ax, draw, ("sweep", None), "Traces of the monitored scalars")


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

    def draw(panel: Axes, chains: dict[int, np.ndarray]) -> None:
        values = np.stack(list(chains.values()))
        n_draws = values.shape[1]
        bins = max(2, min(_BINS, n_draws // _LEAST_IN_BIN))
        ranks = stats.rankdata(values).reshape(values.shape)
        edges = np.linspace(0.5, values.size + 0.5, bins + 1)
        low, high = stats.binom.ppf((0.025, 0.975), n_draws, 1 / bins)
        panel.axhspan(low, high, color=GRID, alpha=0.6, linewidth=0)
        panel.axhline(n_draws / bins, color="#808080", linewidth=0.8)
        for chain, one in zip(chains, ranks, strict=True):
            counts = np.histogram(one, edges)[0]
            panel.stairs(counts, edges, linewidth=1.4, **_look(chain))
        panel.set(xlim=(edges[0], edges[-1]), ylim=(0, None))

    names = ("rank among the draws of all chains", "draws")
    return _by_scalar(posterior, ax, draw, names, "Ranks of the monitored scalars, by chain")


def _look(chain: int) -> dict[str, Any]:
    """Colour, stroke and name of a chain: by its number, so that a chain looks the same among selected ones."""
    stroke = _STROKES[chain // len(PALETTE) % len(_STROKES)]
    return {"color": colour_of(chain), "linestyle": stroke, "label": str(chain)}


def _by_scalar(
    posterior: Posterior | SharedPosterior,
    ax: Axes | None,
    draw: Callable[[Axes, dict[int, np.ndarray]], None],
    names: tuple[str, str | None],
    title: str,
) -> Axes:
    """A panel for every scalar, with its R-hat and effective sample size; one legend for the chains.

    ``names`` are those of the axes; the second is the scalar itself if it is None.
    """
    group = posterior.tree["sample_stats"]
    scalars = {str(name): one.to_numpy() for name, one in group.data_vars.items()}
    numbers = group["chain"].to_numpy().tolist()
    if len(numbers) > MOST_CHAINS:
        raise ValueError(
            f"posterior: expected at most {MOST_CHAINS} chains in a picture, got {len(numbers)}; "
            "posterior.chains([...]) takes some of them"
        )
    summary = summarize(scalars, 0.9)
    ax = axes_for(ax, 7.5, 0.6 + 1.75 * len(scalars))
    grid = grid_of(ax, len(scalars), 1, labels=0.75)
    for panel, (name, values) in zip(grid.panels, scalars.items(), strict=True):
        draw(panel, dict(zip(numbers, values, strict=True)))
        plain_frame(panel, grid=None)
        panel.locator_params(axis="y", nbins=5)
        panel.ticklabel_format(axis="y", useOffset=False)
        is_last = panel is grid.panels[-1]
        named(panel, names[0] if is_last else "", names[1] or name)
        if names[1] is not None:
            panel.set_title(visible(name), loc="left", fontsize=SMALL + 0.5, **LITERAL)
        r_hat, ess = summary["r_hat"][name], summary["ess_bulk"][name]
        known = [f"R-hat {r_hat:.2f}" * (not np.isnan(r_hat)), f"ESS {ess:.0f}" * (not np.isnan(ess))]
        panel.set_title(", ".join(filter(None, known)), loc="right", fontsize=SMALL + 0.5)
    if len(numbers) > 1:
        grid.panels[0].legend(
            title="chain", fontsize=SMALL, title_fontsize=SMALL, loc="upper left", bbox_to_anchor=(1.0, 1.05),
            frameon=False, handlelength=1.2, ncols=1 + (len(numbers) - 1) // 8,
        )  # fmt: skip
    titled(ax, title, posterior)
    return ax
