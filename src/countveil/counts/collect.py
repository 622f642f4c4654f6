"""From blocks of signed values to the compact form: positive cells, missing cells, a summary of the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from countveil.counts.contents import (
    Cells,
    NonPositive,
    Places,
    column_type,
    n_rows_and_width,
    shrunk,
)
from countveil.counts.nonpositive import RhoLevels
from countveil.counts.row_blocks import Block


class Collected(NamedTuple):
    """The part of a release's contents that its values decide."""

    positive: Cells
    missing: Places | None
    nonpositive: NonPositive
    negative: Cells | None


class Reserved:
    """Room for a known number of cells, filled from the front until it is full."""

    def __init__(self, n: int, kind: type[np.signedinteger]) -> None:
        self._columns, self._values = np.empty(n, kind), np.empty(n, np.uint8)
        self.used = 0

    def take(self, columns: np.ndarray, values: np.ndarray) -> bool:
        """Take these cells, if there is room for them all."""
        end = self.used + len(columns)
        if end > len(self._columns):
            return False
        needed = np.promote_types(self._values.dtype, shrunk(values).dtype)
        if needed != self._values.dtype:
            self._values = self._values.astype(needed)
        self._columns[self.used : end], self._values[self.used : end] = columns, values
        self.used = end
        return True

    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Columns and values; room that was not needed is given back."""
        columns, values = self._columns[: self.used], self._values[: self.used]
        return (columns, values) if self.used == len(self._columns) else (columns.copy(), values.copy())


class CellList:
    """Grows a list of cells row block by row block."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        n_rows, width = n_rows_and_width(shape)
        self._type = column_type(width)
        self._starts = np.zeros(n_rows + 1, dtype=np.int64)
        self._columns: list[np.ndarray] = []
        self._values: list[np.ndarray] = []
        self._reserved = Reserved(0, self._type)

    def reserve(self, n: int) -> None:
        """Say how many cells will come at most: they get their place at once, and need no second one."""
        if not self:
            self._reserved = Reserved(n, self._type)

    def add_dense(self, start: int, chosen: np.ndarray, values: np.ndarray | None = None) -> None:
        """The chosen cells of a block (n, width)."""
        rows, columns = np.nonzero(chosen)
        self.add(rows + start, columns, None if values is None else values[rows, columns])

    def add(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray | None = None) -> None:
        """Listed cells, in order; a row may go on where the last call stopped."""
        if not len(rows):
            return
        first, last = int(rows[0]), int(rows[-1])
        self._starts[first + 1 : last + 2] += np.bincount(rows - first)
        if values is not None and self._reserved.take(columns, values):
            return
        self._columns.append(columns.astype(self._type))
        if values is not None:
            self._values.append(shrunk(values))

    def __bool__(self) -> bool:
        return bool(self._columns) or self._reserved.used > 0

    def places(self) -> Places:
        columns = np.concatenate(self._columns) if self._columns else np.zeros(0, self._type)
        self._columns.clear()  # both copies together would be the peak of memory
        return Places(np.cumsum(self._starts), columns)

    def cells(self) -> Cells:
        if self._reserved.used:
            columns, values = self._reserved.cells()
            if not self._columns:
                return Cells(np.cumsum(self._starts), columns, values)
            self._columns.insert(0, columns)
            self._values.insert(0, values)
        starts, columns = self.places()
        values = np.concatenate(self._values) if self._values else np.zeros(0, np.uint8)
        self._values.clear()
        return Cells(starts, columns, values)


def collect(
    blocks: Iterable[Block],
    shape: tuple[int, ...],
    rho: np.ndarray,
    *,
    clamped: bool | None,
    keep_negative: bool,
) -> Collected:
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
    return Collected(
        cells,
        holes,
        NonPositive(levels.values, levels.count((cells, holes)), None if unknown else total),
        negative.cells() if keep_negative and not unknown else None,
    )
