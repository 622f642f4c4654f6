"""Components of a tensor, or of any factorization of that form: what each has of every axis."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from countveil.counts.shown_text import visible
from countveil.models.count_model import whole_number
from countveil.posterior import Posterior
from countveil.report.canvas import (
    FAINT,
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
    text_inches,
    titled,
    with_interval,
)

#: Numbers, years, months, days, hours: labels that have an order.
_IN_ORDER = re.compile(r"[+-]?\d+(\.\d+)?|\d{4}(-\d{2}){1,2}([T ]\d{2}(:\d{2}){0,2})?|\d{4}-?[QW]\d{1,2}")


def plot_components(
    posterior: Posterior,
    ax: Axes | None = None,
    *,
    n_components: int = 6,
    n_labels: int = 5,
    in_order: Collection[str] = (),
    interval: float = 0.9,
) -> Axes:
    """The largest components, one under the other, with a panel for every axis.

    A panel has the heaviest labels with intervals. An axis whose labels are numbers or dates, in their order, is
    drawn whole, as a line with a band; so are those that ``in_order`` names. Each component is a distribution over
    each axis. Components of a Tucker form belong to their axis alone: a row of panels is then no component.

    Examples
    --------
    >>> import numpy as np
    >>> import countveil as cv
    >>> counts = np.zeros((3, 3, 2), int)
    >>> counts[:2, :2, 0], counts[2, 2, 1] = 60, 90
    >>> posterior = cv.fit(cv.TensorModel(rank=2), counts, sweeps=100, seed=1, progress=False)
    >>> ax = cv.report.plot_components(posterior, in_order=["axis2"])
    >>> len(ax.child_axes), ax.child_axes[2].get_xlabel()
    (6, 'axis2')
    """
    shown, n_labels = whole_number("n_components", n_components, 1), whole_number("n_labels", n_labels, 1)
    found = posterior.components(n_labels, interval=interval)
    axes = list(found.factors)
    for name in in_order:
        if name not in axes:
            raise ValueError(f"in_order: expected names among {', '.join(map(repr, axes))}, got {name!r}")
    every = max(len(one) for one in found.share.values())
    shown = min(shown, every)
    ax = axes_for(ax, 3.1 * len(axes), 0.4 + shown * (0.85 + 0.19 * n_labels))
    labels = [
        label
        for label, rank in zip(found.table["label"], found.table["component"], strict=True)
        if rank < shown
    ]
    grid = grid_of(ax, shown * len(axes), len(axes), labels=max(0.65, room_for(labels)), below=0.45)
    for place, panel in enumerate(grid.panels):
        k, column = divmod(place, len(axes))
        axis = axes[column]
        if k >= len(found.share[axis]):  # a Tucker form has more components of another axis
            panel.set_axis_off()
            continue
        agreement = found.agreement[axis][k]
        colour = FAINT if agreement < LEAST_AGREEMENT else colour_of(column)
        weights = found.factors[axis].isel({found.factors[axis]["mean"].dims[0]: k})
        if axis in in_order or _has_order(weights[axis].to_numpy()):
            _draw_whole(panel, weights, axis, colour, grid.panel_inches)
        else:
            _draw_heaviest(panel, weights, axis, colour, n_labels, grid.label_inches)
        if column == 0 or found.core is not None:
            sure = "" if np.isnan(agreement) else f", agreement {agreement:.2f}"
            told = f"component {k}, {percent(found.share[axis][k])}{sure}"
            panel.set_title(told, loc="left", fontsize=SMALL + 0.5, color=colour)
    which = "Components" if shown == every else f"The {shown} largest of {every} components"
    titled(
        ax,
        f"{which}: their share of all counts, their part of every axis, {with_interval(interval)}",
        posterior,
    )
    return ax


def _draw_heaviest(
    ax: Axes, weights: xr.Dataset, axis: str, colour: str, n_labels: int, label_inches: float
) -> None:
    found = mean_and_interval(weights)
    top = np.argsort(-found[0], kind="stable")[:n_labels]
    mean, low, high = (each[top] for each in found)
    draw_intervals(ax, Intervals(weights[axis].to_numpy()[top], mean, low, high), colour, label_inches)
    ax.set_xlim(0, 1.08 * high.max())
    ax.locator_params(axis="x", nbins=4)
    named(ax, f"share, by {axis}")


def _draw_whole(ax: Axes, weights: xr.Dataset, axis: str, colour: str, inches: float) -> None:
    labels, places = weights[axis].to_numpy(), np.arange(weights.sizes[axis])
    mean, low, high = mean_and_interval(weights)
    ax.fill_between(places, low, high, color=colour, alpha=0.25, linewidth=0)
    ax.plot(places, mean, color=colour, linewidth=1.5)
    ax.set(xlim=(places[0] - 0.2, places[-1] + 0.2), ylim=(0, 1.08 * high.max()))
    room = max(0.3, *(text_inches(fitted(label, 0.7), SMALL) for label in labels)) + 0.12
    some = places[:: max(1, math.ceil((len(places) - 1) / max(1, int(inches / room))))]
    name_ticks(ax.xaxis, some, [fitted(labels[place], 0.7) for place in some])
    ax.locator_params(axis="y", nbins=4)
    plain_frame(ax, grid="y")
    named(ax, visible(axis), "share")


def _has_order(labels: np.ndarray) -> bool:
    """Labels that are numbers or dates, each above the one before. Places without labels are no such thing."""
    if not all(isinstance(label, str) and _IN_ORDER.fullmatch(label) for label in labels):
        return False
    keys: list[Any] = list(labels)
    with suppress(ValueError):  # dates, whose texts sort as they do
        keys = [float(label) for label in labels]
    return all(one < other for one, other in pairwise(keys))
