"""One picture that says what privacy costs: scores of several methods, and their topics side by side."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

from countveil.counts.files.atomic import write_file
from countveil.report.method_result import MethodResult, check_results
from countveil.report.sheet import Sheet, checked_path

WIDTH, HEIGHT = 1600, 1000
LEFT, RIGHT = 0.04, 0.96
FAINT, RULE = "#666666", "#d0d0d0"
# Told apart by colour-blind readers too (Okabe and Ito); grey is the yardstick that is not private.
KNOWN_COLOURS = {"non-private": "#7f7f7f", "exact": "#0072b2", "naive": "#d55e00"}
OTHER_COLOURS = ["#009e73", "#cc79a7", "#b8860b", "#5d3a9b"]

# Field, title, and what to wish for.
METRICS = [
    ("mae", "Mean absolute error", "lower is better ↓"),
    ("log_score", "Log score", "higher is better ↑"),
    ("npmi", "NPMI of topics", "higher is better ↑"),
    ("coherence", "Coherence of topics", "higher is better ↑"),
]


def comparison_picture(
    results: Sequence[MethodResult],
    path: str | os.PathLike[str],
    *,
    guarantee: str,
    title: str = "What privacy costs, and what each method makes of it",
) -> Path:
    """Draw the comparison of two to four methods into a PNG file of 1600 x 1000 dots; returns its path.

    Above, a bar for each method and score; a log score of -inf has no bar and says so. Below, one column of
    topics per method; topics in the same row were matched by the caller. Each shows as many words as fit.

    Examples
    --------
    >>> import tempfile
    >>> from countveil.report import MethodResult, comparison_picture
    >>> topics = [["matrix", "vector", "linear"], ["random", "sample", "normal"]]
    >>> results = [
    ...     MethodResult("non-private", 0.024, -0.08, 0.21, -60.0, topics),
    ...     MethodResult("exact", 0.031, -0.10, 0.18, -75.0, topics),
    ...     MethodResult("naive", 0.210, -0.35, 0.02, -140.0, topics),
    ... ]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = comparison_picture(results, f"{folder}/comparison.png", guarantee="Nobody can tell.")
    ...     made.name, made.stat().st_size > 10_000
    ('comparison.png', True)
    """
    target = checked_path(path)
    check_results(results)
    for name, text in (("guarantee", guarantee), ("title", title)):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{name}: expected a sentence, got {text!r}")
    others = iter(OTHER_COLOURS)
    colours = [KNOWN_COLOURS.get(result.name) or next(others) for result in results]
    sheet = Sheet(WIDTH, HEIGHT)
    sheet.text(LEFT, 0.965, title, 22, width=RIGHT - LEFT, bold=True)
    sheet.text(LEFT, 0.912, guarantee, 14, width=RIGHT - LEFT, n_lines=2, colour=FAINT)
    gap = 0.03
    width = (RIGHT - LEFT - 3 * gap) / 4
    for index, metric in enumerate(METRICS):
        _panel(sheet, LEFT + index * (width + gap), width, metric, results, colours)
    _topics(sheet, results, colours)
    write_file(target, sheet.png(), overwrite=True)
    return target


def _panel(
    sheet: Sheet,
    left: float,
    width: float,
    metric: tuple[str, str, str],
    results: Sequence[MethodResult],
    colours: Sequence[str],
) -> None:
    """One score: per method a line with its name, its bar and its value, each in a column of its own."""
    field, title, wish = metric
    values = [float(getattr(result, field)) for result in results]
    drawn = [value if math.isfinite(value) else 0.0 for value in values]
    sheet.text(left, 0.835, title, 15, width=width, bold=True)
    sheet.text(left, 0.806, wish, 13, width=width, colour=FAINT)
    names, numbers, space = 0.068, 0.058, 0.005
    start, stop = left + names + space, left + width - numbers - space
    low, high = min(0.0, *drawn), max(0.0, *drawn)
    scale = (stop - start) / ((high - low) or 1.0)
    zero = start - low * scale
    top, bottom = 0.770, 0.620
    step = (top - bottom) / len(results)
    for row, result in enumerate(results):
        middle = top - (row + 0.5) * step
        sheet.text(left, middle, [result.name], 12.5, width=names, va="center_baseline")
        edge = zero + drawn[row] * scale
        sheet.box(min(zero, edge), middle - 0.32 * step, abs(edge - zero), 0.64 * step, colours[row])
        sheet.text(
            left + width,
            middle,
            shown(values[row]),
            12.5,
            width=1,
            bold=True,
            ha="right",
            va="center_baseline",
        )
    sheet.line((zero, zero), (bottom, top))


def _topics(sheet: Sheet, results: Sequence[MethodResult], colours: Sequence[str]) -> None:
    """One column per method, one row per matched topic."""
    number, gap, bottom = 0.025, 0.03, 0.03
    width = (RIGHT - LEFT - number - gap * (len(results) - 1)) / len(results)
    lefts = [LEFT + number + index * (width + gap) for index in range(len(results))]
    sheet.line((LEFT, RIGHT), (0.585, 0.585), thickness=1.4)
    for left, result, colour in zip(lefts, results, colours, strict=True):
        sheet.text(left, 0.568, f"Topics, {result.name}", 15, width=width, bold=True, colour=colour)
    n_topics = len(results[0].topics)
    top, padding = 0.530, 0.010
    size = 13 if n_topics <= 6 else 11.5
    height = min((top - bottom) / n_topics, 0.1)
    n_lines = int((height - 2 * padding) / sheet.line_height(size) + 0.1)
    for row in range(n_topics):
        y = top - row * height
        sheet.line((LEFT, RIGHT), (y, y), RULE, 0.8)
        sheet.text(LEFT, y - padding, str(row + 1), size, width=number, colour=FAINT)
        for left, result in zip(lefts, results, strict=True):
            sheet.text(left, y - padding, list(result.topics[row]), size, width=width, n_lines=n_lines)


def shown(value: float) -> str:
    """A value with three digits that count, and a true minus sign.

    >>> shown(0.02431), shown(1234.5), shown(0.0)
    ('0.0243', '1234', '0')
    """
    minus = "\N{MINUS SIGN}"
    if value == -math.inf:
        return f"{minus}\N{INFINITY}"
    if value == 0:
        return "0"
    power = math.floor(math.log10(abs(value)))
    text = f"{value:.{max(0, 2 - power)}f}" if -3 <= power <= 5 else f"{value:.1e}"
    return text.replace("-", minus)
