"""How the time of an exact sweep grows when tokens, columns (at fixed tokens) or topics double."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

import countveil as cv
from countveil.runtime.workers import Workers
from engines import Run, side_by_side

RHO = 2.0


def growth(counts: Any, n_topics: int, threads: int, burn_in: int, rounds: int) -> dict[str, float]:
    """Ratios of seconds per sweep to the undoubled problem, all in one run."""
    rng = np.random.default_rng(0)
    problems = {
        "as it is": (counts, n_topics),
        "tokens x 2": (counts * 2, n_topics),
        "columns x 2": (_twice_as_wide(counts, rng), n_topics),
        "topics x 2": (counts, 2 * n_topics),
    }
    runs = {}
    for name, (each, topics) in problems.items():
        run = Run(cv.TopicModel(topics), cv.simulate_release(each, alpha=np.exp(-RHO), seed=2), "exact")
        with Workers(threads) as workers:
            run.advance(burn_in, workers)
        runs[name] = (run, 10)
    seconds = side_by_side(runs, threads, rounds)
    return {name: value / seconds["as it is"] for name, value in seconds.items()}


def _twice_as_wide(counts: Any, rng: np.random.Generator) -> sparse.csr_array:
    """Every token moves to one of two copies of its column: the same tokens, twice the columns."""
    cells = sparse.coo_array(counts)
    first = rng.binomial(cells.data, 0.5)
    shape = (counts.shape[0], 2 * counts.shape[1])
    row, column = cells.coords
    halves = [(first, column), (cells.data - first, column + counts.shape[1])]
    parts = [sparse.coo_array((n, (row, v)), shape).tocsr() for n, v in halves]
    wide = parts[0] + parts[1]
    wide.eliminate_zeros()
    return wide
