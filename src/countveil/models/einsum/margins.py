"""Where scales start: the totals of rows and columns that the data tell, less what is noise about them.

A chain that starts with all rows and all columns alike takes thousands of sweeps to find the rare words of a noisy
release: their tokens are almost as many as their rate expects, whatever that is. Their totals over all cells tell
more, but are noisy themselves: estimates with a known variance. So their distribution is found first (the
nonparametric maximum likelihood of Kiefer and Wolfowitz 1956, by EM on a grid), then every total is its mean given
its estimate. This is a start and no part of the model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.runtime.workers import Workers

_POINTS = 60
_DECADES = 5.0
_ROUNDS = 200
#: Totals from which the distribution is found, spread evenly.
_SAMPLE = 4096


class Margins(NamedTuple):
    """Estimated totals of the true counts, unbiased, with their variances: of rows, and of columns (flattened)."""

    rows: np.ndarray
    row_variances: np.ndarray
    columns: np.ndarray
    column_variances: np.ndarray

    def of_axis(self, axis: int, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Totals and variances along one axis of the data."""
        if axis == 0:
            return self.rows, self.row_variances
        others = tuple(a for a in range(len(shape) - 1) if a != axis - 1)
        rest = shape[1:]
        return self.columns.reshape(rest).sum(axis=others), self.column_variances.reshape(rest).sum(
            axis=others
        )


def relative_totals(totals: np.ndarray, variances: np.ndarray, workers: Workers | None = None) -> np.ndarray:
    """Totals without their noise, divided by their mean; all positive.

    >>> relative_totals(np.array([100.0, 100.0, 400.0, -20.0]), np.zeros(4)).round(1)
    array([0.7, 0.7, 2.6, 0.1])
    >>> noisy = np.random.default_rng(0).normal(50.0, 100.0, 1000)  # nothing but noise about 50
    >>> bool(relative_totals(noisy, np.full(1000, 1e4)).std() < 0.3)
    True
    """
    workers = Workers(1) if workers is None else workers
    highest = max(float(workers.largest(totals.max(keepdims=True))[0]) * 1.2, 1.0)
    grid = highest * 10.0 ** np.linspace(-_DECADES, 0.0, _POINTS)
    n, first = workers.number(len(totals)), workers.first_row
    chosen = np.unique(np.linspace(0, n - 1, min(n, _SAMPLE)).astype(np.int64))
    mine = chosen[(chosen >= first) & (chosen < first + len(totals))] - first
    likelihood = _likelihood(workers.joined(totals[mine]), workers.joined(variances[mine]), grid)
    weights = np.full(_POINTS, 1.0 / _POINTS)
    for _ in range(_ROUNDS):
        share = likelihood * weights
        weights = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
    found = np.empty(len(totals))
    for start in range(0, len(totals), _SAMPLE):
        block = slice(start, start + _SAMPLE)
        share = _likelihood(totals[block], variances[block], grid) * weights
        found[block] = (share * grid).sum(axis=1) / share.sum(axis=1)
    return found / max(float(weights @ grid), grid[0])


def _likelihood(totals: np.ndarray, variances: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Normal densities of every total at every point, up to a factor; a count's own variance is its mean."""
    spread = variances[:, None] + np.maximum(grid, 1.0)
    logs = -0.5 * (totals[:, None] - grid) ** 2 / spread - 0.5 * np.log(spread)
    return np.exp(logs - logs.max(axis=1, keepdims=True)) + 1e-300
