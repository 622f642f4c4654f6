"""What pictures share: axes without pyplot, colours, labels that fit, panels inside axes, files.

Nothing here touches pyplot or writes matplotlib's settings: a picture drawn without ``ax`` has a figure of its own,
and works where there is no screen. What the reader has set (``matplotlib.rcParams``: fonts, a style) is followed.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from countveil.counts.files.atomic import write_file
from countveil.counts.shown_text import visible
from countveil.posterior import Posterior, SharedPosterior
from countveil.posterior.diagnostics.select import selection_of
from countveil.report.sheet import DPI, LITERAL, MOST_LETTERS, checked_path, fitted_lines

#: Told apart by colour-blind readers too (Okabe and Ito).
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5d3a9b", "#7f7f7f")
FAINT, GRID = "#808080", "#d9d9d9"
SMALL, USUAL, LARGE = 8.0, 9.0, 11.0  # sizes of text, in points
#: Below this agreement draws do not tell one story (``Topics``).
LEAST_AGREEMENT = 0.7
#: The formats of ``save_picture``, by the ends of names.
FORMATS = (".png", ".svg", ".pdf")


def axes_for(ax: Any, width: float, height: float) -> Axes:
    """The axes that were given, or new ones on a figure of so many inches."""
    if ax is None:
        figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        return figure.add_subplot()
    if not isinstance(ax, Axes):
        raise TypeError(f"ax: expected matplotlib Axes or None, got {type(ax).__name__}")
    return ax


def mean_and_interval(found: xr.Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, and where intervals begin and end, or an error where the draws for them were not kept."""
    if "low" not in found:
        raise ValueError(
            "keep: expected a fit with keep='all', whose draws the intervals of this picture need, got one that "
            "has kept their means alone"
        )
    mean, low, high = (found[name].to_numpy() for name in ("mean", "low", "high"))
    return mean, low, high


def colour_of(place: int) -> str:
    """A colour for the topic, community or chain at this place; they come again after eight."""
    return PALETTE[place % len(PALETTE)]


def fitted(text: object, inches: float, size: float = SMALL) -> str:
    """The text as people can look at it, cut to a width.

    >>> fitted("word", 1.0), fitted("incomprehensibilities", 0.5).endswith("…")
    ('word', True)
    """
    return fitted_lines([visible(text)], lambda one: text_inches(one, size), inches, 1)[0]


def text_inches(text: str, size: float) -> float:
    """The width of a text, in whatever format it will be drawn; of a very long one that of its beginning."""
    measured = text[: 2 * MOST_LETTERS]
    return TextToPath().get_text_width_height_descent(measured, FontProperties(size=size), False)[0] / 72


def name_ticks(axis: Any, places: Any, names: Sequence[str], **text: Any) -> None:
    """Ticks with names, in which a dollar sign is a dollar sign."""
    axis.set_ticks(places, labels=names, **LITERAL, **{"fontsize": SMALL, **text})


def inches_of(ax: Axes) -> np.ndarray:
    """Width and height of axes, as they are laid out so far."""
    return np.asarray(ax.get_window_extent().size) / ax.figure.dpi


def titled(ax: Axes, text: str, posterior: Posterior | SharedPosterior, **more: Any) -> None:
    """A title on the left, in as many lines as the width of the axes asks for; it says if chains were selected."""
    text = "\n".join(filter(None, (text, selection_of(posterior.tree))))
    inches = float(inches_of(ax)[0])

    def width_of(one: str) -> float:
        return text_inches(one, LARGE)

    lines = [
        line for part in text.split("\n") for line in fitted_lines(part.split(), width_of, inches, 9, " ")
    ]
    ax.set_title("\n".join(lines), loc="left", fontsize=LARGE, **LITERAL, **more)


def named(ax: Axes, x: str = "", y: str = "") -> None:
    """Names of the axes."""
    ax.set_xlabel(visible(x), fontsize=USUAL, **LITERAL)
    ax.set_ylabel(visible(y), fontsize=USUAL, **LITERAL)


def plain_frame(ax: Axes, grid: Literal["x", "y"] | None = "x") -> None:
    """No more lines than needed."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=SMALL)
    if grid is not None:
        ax.grid(axis=grid, color=GRID, linewidth=0.6)
        ax.set_axisbelow(True)


class Intervals(NamedTuple):
    """Means with both ends of their intervals, and what they are of."""

    labels: Sequence[object] | np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def draw_intervals(ax: Axes, found: Intervals, colour: str, label_inches: float) -> None:
    """A line of its own for each, from low to high, a dot at the mean; the first on top."""
    places = np.arange(len(found.mean))
    ax.hlines(places, found.low, found.high, color=colour, linewidth=2.0, alpha=0.45)
    ax.plot(
        found.mean, places, "o", color=colour, markersize=4.0, clip_on=False
    )  # one at 0 is a whole dot, too
    name_ticks(ax.yaxis, places, [fitted(one, label_inches) for one in found.labels])
    ax.set_ylim(len(places) - 0.4, -0.6)
    plain_frame(ax)
    ax.tick_params(axis="y", length=0)


class Grid(NamedTuple):
    """Panels inside axes, row by row; their width, and the room that labels at their left have, in inches."""

    panels: list[Axes]
    panel_inches: float
    label_inches: float


def room_for(labels: Iterable[object], most: float = 1.25) -> float:
    """Inches that labels need at the left of a panel, as far as they may have them."""
    widths = (text_inches(visible(label), SMALL) for label in labels)
    return min(most, max(widths, default=0.0)) + 0.15


def grid_of(ax: Axes, n: int, columns: int, *, labels: float, below: float = 0.3) -> Grid:
    """``n`` panels inside axes, which keep their title, with so much room (inches) at their left and below them.

    What hangs below the last row has its place outside.
    """
    ax.set_axis_off()
    inches = inches_of(ax)
    rows = math.ceil(n / columns)
    cell = inches / (columns, rows)
    left = min(labels, 0.45 * cell[0])
    above, below, beside = min(0.3, 0.2 * cell[1]), min(below, 0.3 * cell[1]), min(0.2, 0.1 * cell[0])
    size = (np.maximum(cell - (left + beside, above + below), 0.1 * cell)) / inches
    panels = []
    for place in range(n):
        row, column = divmod(place, columns)
        corner = (cell * (column, rows - 1 - row) + (left, below)) / inches
        panels.append(ax.inset_axes((*corner, *size)))
    return Grid(panels, float(size[0] * inches[0]), left - 0.1)


def percent(share: float) -> str:
    """A share in words that fit a title.

    >>> percent(0.342), percent(0.004)
    ('34 %', '0.4 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.0095 else f"{100 * share:.1f} %"


def with_interval(interval: float) -> str:
    """The words by which pictures say what their lines are.

    >>> with_interval(0.9)
    'mean and 90 % interval'
    """
    return f"mean and {100 * interval:g} % interval"


def picture_path(path: str | os.PathLike[str]) -> Path:
    """A name that ends in one of FORMATS, in a folder that exists."""
    return checked_path(path, FORMATS)


def save_picture(ax: Axes, path: str | os.PathLike[str], *, dpi: float = 150) -> Path:
    """Write the figure that axes are on as .png, .svg or .pdf; it is complete or not there. Returns its path.

    Equal pictures give equal files: no date is written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = save_picture(axes_for(None, 2, 1), f"{folder}/empty.svg")
    ...     made.read_bytes()[:5]
    b'<?xml'
    """
    target = picture_path(path)
    kind, content = target.suffix.lower()[1:], io.BytesIO()
    date: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    figure: Any = ax.figure.figure  # also of a subfigure
    with mpl.rc_context({"svg.hashsalt": "countveil"}):  # names inside the file, else random
        figure.savefig(content, format=kind, dpi=dpi, metadata=date[kind])
    write_file(target, content.getvalue(), overwrite=True)
    return target
