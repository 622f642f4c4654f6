"""The picture of scores by level of noise: a row of panels for every kind of fit, a column for every measure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from countveil.report.canvas import SMALL, USUAL, plain_frame, save_picture
from countveil.report.plot_comparison import KNOWN_COLOURS
from countveil.report.sheet import DPI
from countveil.studies.plan import Measure

COLOURS = {**KNOWN_COLOURS, "robust": "#009e73", "literal": "#b8860b", "bessel": "#cc79a7"}
#: Releases below which no interval is drawn: that of two is so wide that nothing else would be seen.
FEWEST = 3
LINES = {"paper": "-", "inferred": "--", "generating": ":"}


def new_figure(width: float, height: float) -> Figure:
    """A figure of so many inches that needs no screen."""
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write it, complete or not at all."""
    save_picture(figure.axes[0], path, dpi=110)


def draw_scores(
    summary: pd.DataFrame,
    measures: Sequence[Measure],
    kinds: Sequence[tuple[str, dict[str, Any]]],
    path: Path,
    title: str,
    methods: Sequence[str] = ("non-private", "exact", "naive", "robust", "literal"),
) -> None:
    """``kinds`` are rows of panels: what a row is called, and the fields of the summary that its lines have."""
    figure = new_figure(3.1 * len(measures) + 1.6, 2.35 * len(kinds) + 0.7)
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    grid = figure.subplots(len(kinds), len(measures), squeeze=False)
    for row, (kind, fields) in enumerate(kinds):
        part = summary
        for name, value in fields.items():
            part = part[part[name] == value]
        for column, measure in enumerate(measures):
            ax = grid[row][column]
            _draw(ax, part[part["measure"] == measure.name], methods)
            if row == 0:
                wish = f"\n{measure.better} is better" if measure.better else ""
                ax.set_title(f"{measure.title}{wish}", fontsize=USUAL, loc="left")
            if column == 0 and kind:
                ax.set_ylabel(kind, fontsize=USUAL)
            if row == len(kinds) - 1:
                ax.set_xlabel("eps/N: more noise to the right", fontsize=SMALL)
    handles: dict[str, Any] = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=SMALL, frameon=False)
    save_figure(figure, path)


def _draw(ax: Axes, part: pd.DataFrame, methods: Sequence[str]) -> None:
    levels = sorted({float(one) for one in part["level"] if not _missing(one)}, reverse=True)
    place = {level: index for index, level in enumerate(levels)}
    for method in methods:
        for prior, style in LINES.items():
            mine = part[(part["method"] == method) & (part["prior"] == prior)]
            # Where fits of several lengths are there, the longest speak.
            mine = mine.sort_values("sweeps").drop_duplicates("level", keep="last")
            if mine.empty:
                continue
            label = f"{method}, {prior}"
            look: dict[str, Any] = {"color": COLOURS[method], "linestyle": style}
            plain = mine[[_missing(one) for one in mine["level"]]]
            if not plain.empty:
                ax.axhline(float(plain["mean"].iloc[0]), label=label, linewidth=1.2, **look)
                low, high = float(plain["low"].iloc[0]), float(plain["high"].iloc[0])
                if math.isfinite(low) and int(plain["n"].iloc[0]) >= FEWEST:
                    ax.axhspan(low, high, color=look["color"], alpha=0.1, linewidth=0)
                continue
            mine = mine.sort_values("level", ascending=False)
            x = [place[float(one)] for one in mine["level"]]
            y = mine["mean"].to_numpy()
            half = ((mine["high"] - mine["low"]) / 2).where(mine["n"] >= FEWEST).fillna(0).to_numpy()
            ax.errorbar(x, y, yerr=half, marker="o", markersize=3.5, capsize=2, label=label, **look)
    ax.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
    ax.set_xlim(-0.4, max(len(levels), 1) - 0.6)
    plain_frame(ax, grid="y")


def _missing(level: Any) -> bool:
    return level is None or math.isnan(level)
