"""Counting and summing the observed cells x <= 0, per distinct rho.

Given alpha, ``max(x, 0)`` is sufficient for the true count: for ``x <= 0`` a Poisson(mu) count has the
posterior Poisson(alpha*mu), whatever x is. So these cells are not kept one by one. Their number follows
from what is kept; the sum of ``|x|``, needed only when alpha is unknown, has to be taken before the values
are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from countveil.counts.contents import Cells, Places, n_rows_and_width, row_indices
from countveil.counts.row_blocks import rows_of


class RhoLevels:
    """The distinct values of rho, and which of them each row or cell has."""

    def __init__(self, rho: np.ndarray, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.values, index = np.unique(rho, return_inverse=True)
        self.index = index.reshape(rho.shape)
        self.per_cell = rho.ndim > 0 and rho.shape == shape

    def sums(self, magnitudes: np.ndarray, start: int) -> np.ndarray:
        """Sum per level of a block (n, width) of magnitudes that begins at row ``start``."""
        stop = start + len(magnitudes)
        if len(self.values) == 1:
            return magnitudes.sum(dtype=np.float64, keepdims=True).reshape(1)
        weights = magnitudes if self.per_cell else magnitudes.sum(axis=1, dtype=np.float64)
        index = rows_of(self.index, start, stop)
        return np.bincount(index.ravel(), weights=weights.ravel(), minlength=len(self.values))

    def listed(self, cells: Cells | Places, weights: np.ndarray | None = None) -> np.ndarray:
        """Number (or sum of ``weights``) of listed cells per level."""
        if len(self.values) == 1:
            total = len(cells.columns) if weights is None else weights.sum(dtype=np.float64)
            return np.array([total])
        if weights is None and not self.per_cell:
            per_row = np.diff(cells.row_starts)
            return np.bincount(self.index.ravel(), weights=per_row, minlength=len(self.values))
        rows = row_indices(cells.row_starts)
        where = rows_of(self.index, 0, self.shape[0])
        index = where[rows, cells.columns] if self.per_cell else where[rows, 0]
        return np.bincount(index, weights=weights, minlength=len(self.values))

    def count(self, elsewhere: Iterable[Cells | Places | None]) -> np.ndarray:
        """Number of cells per level that are in none of the lists (positive, missing)."""
        n_rows, width = n_rows_and_width(self.shape)
        cells_each = 1 if self.per_cell else width if self.index.ndim else n_rows * width
        left = np.bincount(self.index.ravel(), minlength=len(self.values)) * cells_each
        for cells in elsewhere:
            if cells is not None:
                left = left - self.listed(cells)
        return left.astype(np.int64)
