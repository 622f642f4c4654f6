"""Engines by name, and seconds per sweep of several of them side by side."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from countveil.inference.engines.choose import choose_engine
from countveil.models import TopicModel
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey


class Run:
    """A chain that can be advanced and timed."""

    def __init__(self, model: TopicModel, data: Any, method: str, state: Any = None, seed: int = 1) -> None:
        self.engine = choose_engine(model, data, method, "auto")
        self.key = SweepKey(np.uint64(seed), 0, 0)
        self.state = model.init(data, self.key.generator()) if state is None else state

    def advance(self, sweeps: int, row_work: RowWork) -> float:
        """Seconds per sweep."""
        began = time.perf_counter()
        for _ in range(sweeps):
            self.key = self.key._replace(sweep=self.key.sweep + 1)
            self.state, _ = self.engine.sweep(self.state, self.key, row_work)
        return (time.perf_counter() - began) / sweeps


def side_by_side(runs: dict[str, tuple[Run, int]], threads: int, rounds: int) -> dict[str, float]:
    """Median seconds per sweep over rounds in which every run has its turn, of the given number of sweeps."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    with RowWork(threads) as row_work:
        for _ in range(rounds):
            for name, (run, sweeps) in runs.items():
                seconds[name].append(run.advance(sweeps, row_work))
    return {name: float(np.median(each)) for name, each in seconds.items()}
