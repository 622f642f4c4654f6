"""Clamping: of signed values only the positive cells are kept, and a summary of the rest.

Given alpha, ``max(x, 0)`` is sufficient for the true count: for ``x <= 0`` a Poisson(mu) count has the
posterior Poisson(alpha*mu), whatever x is. So these cells are not kept one by one. Their number follows
from what is kept; the sum of ``|x|``, needed only when alpha is unknown, has to be taken before the values
are dropped. Both are taken per distinct rho.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from countveil.counts.cells.layout import (
    Block,
    CellList,
    Cells,
    NonPositive,
    Places,
    n_rows_and_width,
    row_indices,
    rows_of,
)


class Clamped(NamedTuple):
    """The part of a release's contents that its values decide."""

    positive: Cells
    missing: Places | None
    nonpositive: NonPositive
    negative: Cells | None


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
        found = np.bincount(index, weights=weights, minlength=len(self.values))
        return (
            found if weights is None else found.astype(np.float64)
        )  # numpy's sum of no weights is an integer

    def count(self, elsewhere: Iterable[Cells | Places | None]) -> np.ndarray:
        """Number of cells per level that are in none of the lists (positive, missing)."""
        n_rows, width = n_rows_and_width(self.shape)
        cells_each = 1 if self.per_cell else width if self.index.ndim else n_rows * width
        left = np.bincount(self.index.ravel(), minlength=len(self.values)) * cells_each
        for cells in elsewhere:
            if cells is not None:
                left = left - self.listed(cells)
        return left.astype(np.int64)


def clamp(
    blocks: Iterable[Block],
    shape: tuple[int, ...],
    rho: np.ndarray,
    *,
    clamped: bool | None,
    keep_negative: bool,
) -> Clamped:
    """Clamp at once: of cells x <= 0 only their number and sum remain (and the values, if asked for).

    ``clamped`` says whether the values were clamped before; None means: exactly if none is negative.
    """
    positive, missing, negative = CellList(shape), CellList(shape), CellList(shape)
    levels = RhoLevels(rho, shape)
    total = np.zeros(len(levels.values))
    for block in blocks:
        positive.add_dense(block.start, block.values > 0, block.values)
        if block.missing is not None:
            missing.add_dense(block.start, block.missing)
        below = np.maximum(-block.values, 0)
        total += levels.sums(below, block.start)
        if keep_negative:
            negative.add_dense(block.start, below > 0, below)
    if np.isinf(levels.values[-1]) and total[-1]:
        raise ValueError(
            "values: expected counts of at least 0 in plain rows (alpha = 0), got negative values"
        )
    if clamped and total.any():
        raise ValueError("clamped: expected no negative values when clamped=True, got some")
    unknown = not total.any() if clamped is None else clamped
    cells, holes = positive.cells(), missing.places() if missing else None
    return Clamped(
        cells,
        holes,
        NonPositive(levels.values, levels.count((cells, holes)), None if unknown else total),
        negative.cells() if keep_negative and not unknown else None,
    )
