"""How much of every cell's rate has been observed: what enters the gamma rates of the factors.

A cell that was observed has exposure 1, a missing one 0. Given tokens, a factor entry's rate is its prior rate
plus the exposure-weighted sum of the other factor: sum_v e_dv phi_kv for theta_dk, sum_d e_dv theta_dk for phi_kv.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.kernels.compiled import compiled


class Exposure(NamedTuple):
    """Every cell is observed but the listed ones (by rows, as in a CSR matrix)."""

    missing_starts: np.ndarray
    missing_columns: np.ndarray

    def of_rows(self, column_factor: np.ndarray, n_rows: int) -> np.ndarray:
        """sum_v e_dv f_vk for every row d; one row for all if nothing is missing. f is (columns, K)."""
        total = ordered_sum(column_factor)[None, :]
        if len(self.missing_columns) == 0:
            return total
        out = np.repeat(total, n_rows, axis=0)
        _subtract_from_rows(self.missing_starts, self.missing_columns, column_factor, out)
        return out

    def of_columns(self, row_factor: np.ndarray, n_columns: int) -> np.ndarray:
        """sum_d e_dv f_dk for every column v; one row for all if nothing is missing. f is (rows, K)."""
        total = ordered_sum(row_factor)[None, :]
        if len(self.missing_columns) == 0:
            return total
        out = np.repeat(total, n_columns, axis=0)
        _subtract_from_columns(self.missing_starts, self.missing_columns, row_factor, out)
        return out


@compiled
def ordered_sum(factor):
    """Column sums of a (n, K) array, added in row order: the same bits however the work is split."""
    total = np.zeros(factor.shape[1])
    for i in range(factor.shape[0]):
        for k in range(factor.shape[1]):
            total[k] += factor[i, k]
    return total


@compiled
def _subtract_from_rows(starts, columns, factor, out):
    for d in range(len(starts) - 1):
        for i in range(starts[d], starts[d + 1]):
            for k in range(out.shape[1]):
                out[d, k] -= factor[columns[i], k]
        for k in range(out.shape[1]):
            # Rounding may leave a hair below zero where everything is missing.
            out[d, k] = max(out[d, k], 0.0)


@compiled
def _subtract_from_columns(starts, columns, factor, out):
    for d in range(len(starts) - 1):
        for i in range(starts[d], starts[d + 1]):
            for k in range(out.shape[1]):
                out[columns[i], k] -= factor[d, k]
    for v in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[v, k] = max(out[v, k], 0.0)
