"""Chains of the CPU engine that can be advanced and timed, several of them side by side."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from countveil.inference.carry import Carry
from countveil.inference.engines.cpu.sampler import CpuSampler
from countveil.inference.problem import make_problem
from countveil.runtime.workers import Workers


class Run:
    """A chain that can be advanced and timed."""

    def __init__(
        self, model: Any, data: Any, method: str, state: Any = None, seed: int = 1, algorithm: str = "auto"
    ) -> None:
        self.sampler = CpuSampler(make_problem(model, data, method), seed, 1, algorithm)
        self.sampler.start(0)
        if state is not None:
            self.sampler.load(Carry(0, 0, state._asdict(), self.sampler.carry(0).extra))

    @property
    def state(self) -> Any:
        """Where the chain is."""
        return self.sampler._chains[0].state

    def advance(self, sweeps: int, workers: Workers) -> float:
        """Seconds per sweep."""
        self.sampler._workers = workers
        began = time.perf_counter()
        for _ in range(sweeps):
            self.sampler.sweep(0)
        return (time.perf_counter() - began) / sweeps


def part_of_state(model: Any, state: Any, rows: Any, columns: Any) -> Any:
    """The state of some rows and columns of a matrix."""
    chosen = dict(zip(model.output_dims, (rows, columns), strict=True))
    fields = {}
    for name, value in state._asdict().items():
        value = np.asarray(value)
        for axis, dim in enumerate(model.dims[name]):
            value = np.take(value, chosen[dim], axis=axis) if dim in chosen else value
        fields[name] = value.copy()
    return state._replace(**fields)


def side_by_side(runs: dict[str, tuple[Run, int]], threads: int, rounds: int) -> dict[str, float]:
    """Median seconds per sweep over rounds in which every run has its turn, of the given number of sweeps."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    with Workers(threads) as workers:
        for _ in range(rounds):
            for name, (run, sweeps) in runs.items():
                seconds[name].append(run.advance(sweeps, workers))
    return {name: float(np.median(each)) for name, each in seconds.items()}
