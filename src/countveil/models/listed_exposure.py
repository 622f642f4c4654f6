"""Exposure where most cells are missing: sums over the observed ones, at their cost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.kernels.compiled import compiled
from countveil.models.exposure import Exposure


class ListedExposure(NamedTuple):
    """No cell is observed but the listed ones (by rows, as in a CSR matrix)."""

    observed_starts: np.ndarray
    observed_columns: np.ndarray

    def of_rows(self, column_factor: np.ndarray, n_rows: int) -> np.ndarray:
        """sum_v e_dv f_vk for every row d; f is (columns, K)."""
        out = np.zeros((n_rows, column_factor.shape[1]))
        _add_to_rows(self.observed_starts, self.observed_columns, column_factor, out)
        return out

    def of_columns(self, row_factor: np.ndarray, n_columns: int) -> np.ndarray:
        """sum_d e_dv f_dk for every column v; f is (rows, K)."""
        out = np.zeros((n_columns, row_factor.shape[1]))
        _add_to_columns(self.observed_starts, self.observed_columns, row_factor, out)
        return out


def cheaper_exposure(
    missing_starts: np.ndarray, missing_columns: np.ndarray, width: int
) -> Exposure | ListedExposure:
    """Exposure by the missing or by the observed cells, whichever are fewer.

    >>> cheaper_exposure(np.array([0, 2, 3]), np.array([0, 1, 0], dtype=np.int32), 2)
    ListedExposure(observed_starts=array([0, 0, 1]), observed_columns=array([1], dtype=int32))
    """
    n_rows = len(missing_starts) - 1
    if 2 * len(missing_columns) <= n_rows * width:
        return Exposure(missing_starts, missing_columns)
    observed = np.ones((n_rows, width), dtype=bool)
    observed[np.repeat(np.arange(n_rows), np.diff(missing_starts)), missing_columns] = False
    starts = np.concatenate([[0], np.cumsum(observed.sum(axis=1))]).astype(np.int64)
    return ListedExposure(starts, np.nonzero(observed)[1].astype(np.int32))


@compiled
def _add_to_rows(starts, columns, factor, out):  # type: ignore[no-untyped-def]
    for d in range(len(starts) - 1):
        for i in range(starts[d], starts[d + 1]):
            for k in range(out.shape[1]):
                out[d, k] += factor[columns[i], k]


@compiled
def _add_to_columns(starts, columns, factor, out):  # type: ignore[no-untyped-def]
    for d in range(len(starts) - 1):
        for i in range(starts[d], starts[d + 1]):
            for k in range(out.shape[1]):
                out[columns[i], k] += factor[d, k]
