"""A sheet to draw on: matplotlib without pyplot, places as shares of width and height, text that fits."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from countveil.report.fitted_text import fitted_lines

DPI = 100
INK = "#222222"
LINE_SPACING = 1.2


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
        lines = fitted_lines(pieces, width_of, width * self.width, n_lines, separator)
        self._figure.text(
            x,
            y,
            "\n".join(lines),
            fontproperties=font,
            color=colour,
            linespacing=LINE_SPACING,
            parse_math=False,  # a word may hold dollar signs
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
