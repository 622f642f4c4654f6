"""Exposure when most cells are integrated out: 1 - alpha everywhere, and alpha more where tokens were kept.

A cell x <= 0 has likelihood exp(-(1-alpha)*mu): no tokens, exposure 1 - alpha. A positive cell whose tokens were
dropped has the same; one whose tokens were kept has exposure 1. Alpha may differ between rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.kernels.compiled import compiled
from countveil.models.exposure import Exposure


class KeptExposure(NamedTuple):
    """1 - alpha on every observed cell, plus alpha on the kept ones, listed in a fixed order."""

    observed: Exposure
    alpha: np.ndarray  # (rows)
    kept_rows: np.ndarray  # int32
    kept_columns: np.ndarray  # int32

    def of_rows(self, column_factor: np.ndarray, n_rows: int) -> np.ndarray:
        """sum_v e_dv f_vk for every row d; f is (columns, K)."""
        out = (1.0 - self.alpha)[:, None] * self.observed.of_rows(column_factor, n_rows)
        _add_to_rows(self.kept_rows, self.kept_columns, self.alpha, column_factor, out)
        return out

    def of_columns(self, row_factor: np.ndarray, n_columns: int) -> np.ndarray:
        """sum_d e_dv f_dk for every column v; f is (rows, K)."""
        shared = self.observed.of_columns((1.0 - self.alpha)[:, None] * row_factor, n_columns)
        out = np.repeat(shared, n_columns, axis=0) if len(shared) == 1 else shared
        _add_to_columns(self.kept_rows, self.kept_columns, self.alpha, row_factor, out)
        return out


@compiled
def _add_to_rows(rows, columns, alpha, factor, out):
    for i in range(len(rows)):
        to, of, weight = out[rows[i]], factor[columns[i]], alpha[rows[i]]
        for k in range(len(to)):
            to[k] += weight * of[k]


@compiled
def _add_to_columns(rows, columns, alpha, factor, out):
    for i in range(len(rows)):
        to, of, weight = out[columns[i]], factor[rows[i]], alpha[rows[i]]
        for k in range(len(to)):
            to[k] += weight * of[k]
