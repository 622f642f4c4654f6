"""Where an exact sweep spends its time: milliseconds of each part, on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import countveil as cv
from countveil.runtime.workers import Workers
from engines import Run

#: The function that an engine hands to its threads, and what it does.
PARTS = {
    "_build_words": "tables to draw words from",
    "rows": "proposed tokens, and tokens on cells x <= 0",
    "visits": "visited cells",
    "_draw_rows": "gamma draws of both factors",
    "_draw_scales": "scales of rows and words",
}


class Timed(Workers):
    """One thread that notes how long each kind of work took."""

    def __init__(self) -> None:
        super().__init__(1)
        self.seconds: dict[str, float] = {}

    def run(self, n_rows: int, function: Callable[[int, int], object], small: int = 0) -> None:
        self._note(_part(function), lambda: function(0, n_rows))

    def run_with_worker(
        self, n_rows: int, function: Callable[[int, int, int], object], small: int = 0
    ) -> None:
        self._note(_part(function), lambda: function(0, 0, n_rows))

    def _note(self, part: str, work: Callable[[], object]) -> None:
        began = time.perf_counter()
        work()
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began


def _part(function: Any) -> str:
    """A lambda: what it calls tells its part."""
    named = function.__name__
    return named if named in PARTS else next(n for n in function.__code__.co_names if n in PARTS)


def phases(release: Any, state: Any, n_topics: int, sweeps: int = 10) -> dict[str, float]:
    """Milliseconds per sweep of each part and of the rest, medians over sweeps."""
    run = Run(cv.TopicModel(n_topics), release, "exact", state=state)
    found: dict[str, list[float]] = {}
    for _ in range(sweeps + 1):
        timed = Timed()
        total = run.advance(1, timed)
        parts: dict[str, float] = {}
        for name, seconds in timed.seconds.items():
            parts[PARTS[name]] = parts.get(PARTS[name], 0.0) + 1e3 * seconds
        parts["the rest: zeroing, adding up, scale moves"] = 1e3 * total - sum(parts.values())
        parts["a sweep"] = 1e3 * total
        for name, value in parts.items():
            found.setdefault(name, []).append(value)
    return {name: float(np.median(values[1:])) for name, values in found.items()}
