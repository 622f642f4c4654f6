"""A sheet to draw on: matplotlib without pyplot, places as shares of width and height, text that fits its place."""

from __future__ import annotations

import io
import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from countveil.counts.places import local_path
from countveil.counts.shown_text import visible

DPI = 100
INK = "#222222"
LINE_SPACING = 1.2
ELLIPSIS = "…"
#: Letters of a word, or of a text that is measured: a stranger's label may have a million, and no place has room
#: for so many.
MOST_LETTERS = 400
#: Text of other people: a dollar sign is a dollar sign, and TeX, where a reader has set it, runs none of it.
LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}


class Sheet:
    """``width`` x ``height`` dots; (0, 0) is the lower left corner, (1, 1) the upper right."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        # A figure and canvas of our own: pyplot would keep them alive and might look for a screen.
        self._figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="white")
        self._canvas = FigureCanvasAgg(self._figure)

    def text(
        self,
        x: float,
        y: float,
        words: str | Sequence[str],
        size: float,
        *,
        width: float,
        n_lines: int = 1,
        bold: bool = False,
        colour: str = INK,
        **alignment: Any,
    ) -> None:
        """Set words (a string is split at spaces) at (x, y), in as many lines of a width as are allowed."""
        weight = "bold" if bold else "normal"
        font = FontProperties(size=size, weight=weight)
        renderer = self._canvas.get_renderer()

        def width_of(text: str) -> float:
            return renderer.get_text_width_height_descent(text, font, False)[0]

        # Two spaces tell words of a list apart from words of a sentence.
        pieces, separator = (words.split(), " ") if isinstance(words, str) else (words, "  ")
        lines = fitted_lines(
            [visible(piece) for piece in pieces], width_of, width * self.width, n_lines, separator
        )
        self._figure.text(
            x,
            y,
            "\n".join(lines),
            fontproperties=font,
            color=colour,
            linespacing=LINE_SPACING,
            **LITERAL,
            **({"va": "top", "ha": "left"} | alignment),
        )

    def line_height(self, size: float) -> float:
        """The height of a line of text of this size."""
        return LINE_SPACING * size * DPI / 72 / self.height

    def line(
        self, x: tuple[float, float], y: tuple[float, float], colour: str = INK, thickness: float = 1.0
    ) -> None:
        """A straight line."""
        self._figure.add_artist(
            Line2D(x, y, transform=self._figure.transFigure, color=colour, linewidth=thickness)
        )

    def box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled rectangle."""
        self._figure.add_artist(
            Rectangle((x, y), width, height, transform=self._figure.transFigure, color=colour, linewidth=0)
        )

    def png(self) -> bytes:
        """The finished picture."""
        content = io.BytesIO()
        self._canvas.print_png(content)
        return content.getvalue()


def checked_path(path: str | os.PathLike[str], formats: Sequence[str] = (".png",)) -> Path:
    """A name that ends in one of these formats, in a folder that exists."""
    target = local_path(path)
    if target.suffix.lower() not in formats:
        raise ValueError(f"path: expected a name that ends in {' or '.join(formats)}, got {target.name!r}")
    if target.is_dir():
        raise IsADirectoryError(f"path: expected a file, got the folder {target}")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path: expected an existing folder, got {target.parent}")
    return target


def fitted_lines(
    words: Sequence[str], width_of: Callable[[str], float], width: float, n_lines: int, separator: str = "  "
) -> list[str]:
    """Words set into at most ``n_lines`` lines no wider than ``width``.

    Words that find no room are left out whole, and an ellipsis says so; only a word wider than a line is cut.

    >>> fitted_lines(["alpha", "beta", "gamma", "delta"], len, width=12, n_lines=2)
    ['alpha  beta', 'gamma  delta']
    >>> fitted_lines(["alpha", "beta", "gamma", "delta"], len, width=12, n_lines=1)
    ['alpha  beta…']
    >>> fitted_lines(["alpha", "beta", "gamma", "delta"], len, width=11, n_lines=1)
    ['alpha…']
    >>> fitted_lines(["incomprehensibilities", "beta"], len, width=12, n_lines=2)
    ['incomprehen…', 'beta']
    """
    lines: list[list[str]] = []
    for word in words:
        piece = word if len(word) <= MOST_LETTERS else word[:MOST_LETTERS] + ELLIPSIS
        piece = piece if width_of(piece) <= width else _cut(piece, width_of, width)
        if lines and width_of(separator.join([*lines[-1], piece])) <= width:
            lines[-1].append(piece)
        elif len(lines) < n_lines:
            lines.append([piece])
        else:
            while len(lines[-1]) > 1 and width_of(separator.join(lines[-1]) + ELLIPSIS) > width:
                lines[-1].pop()
            lines[-1] = [_cut(separator.join(lines[-1]), width_of, width)]
            break
    return [separator.join(line) for line in lines]


def _cut(text: str, width_of: Callable[[str], float], width: float) -> str:
    """The text, shortened as far as needed, and an ellipsis."""
    text = text.removesuffix(ELLIPSIS)[:MOST_LETTERS]
    # By halves: a measurement takes milliseconds, and labels may have hundreds of letters.
    beyond = range(1, len(text) + 1)
    n = bisect_left(beyond, True, key=lambda n: width_of(text[:n].rstrip() + ELLIPSIS) > width)
    return text[:n].rstrip() + ELLIPSIS
