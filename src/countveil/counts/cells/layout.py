"""How counts lie in memory: plain named tuples of arrays, rows first; and going through them block by block.

Every array of counts is seen as ``n_rows`` rows of ``width`` cells: the first axis, and all others flattened
in C order. Cells are listed row by row as in a CSR matrix: row ``d`` owns the entries from ``row_starts[d]``
up to ``row_starts[d + 1]``, its columns strictly increasing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from countveil.counts.record import Record
from countveil.privacy import Guarantee

# 8 MB of int64: large enough for numpy to be quick, small enough to stay out of the way. The seeded stream of
# simulate_release runs block by block, so changing this number changes what a seed gives.
CELLS_PER_BLOCK = 1 << 20


class Cells(NamedTuple):
    """Listed cells and their values."""

    row_starts: np.ndarray  # int64, n_rows + 1
    columns: np.ndarray  # int32 where the width allows, else int64
    values: np.ndarray  # the smallest unsigned type that holds them


class Places(NamedTuple):
    """Listed cells without values."""

    row_starts: np.ndarray
    columns: np.ndarray


class NonPositive(NamedTuple):
    """What is kept of the observed cells x <= 0: per distinct rho their number and the sum of their ``|x|``.

    With known alpha the number alone says everything about the true counts; with unknown alpha both are
    needed. ``total`` is None when the values were clamped before they came here.
    """

    rho: np.ndarray  # float64, increasing
    number: np.ndarray  # int64
    total: np.ndarray | None  # float64: whole numbers, but their sum may pass 2**63


class Contents(NamedTuple):
    """Everything a PrivateCounts holds."""

    shape: tuple[int, ...]
    axes: tuple[str, ...]
    labels: tuple[np.ndarray | None, ...]
    rho: np.ndarray  # 0-d, one per row (n_rows, 1, ...; inf for a plain row), or the full shape
    positive: Cells
    missing: Places | None
    nonpositive: NonPositive
    negative: Cells | None  # values are |x|; None unless they were kept
    guarantee: Guarantee | None  # what holds for every row
    simulated: bool
    row_guarantees: tuple[Guarantee | None, ...] | None = None  # one per row, where rows differ; plain: None
    records: tuple[Record, ...] = ()  # of the releases it is made of: one, or as many as were stacked


def read_only(contents: Contents) -> None:
    """Nobody changes them any more."""
    for part in contents:
        for array in part if isinstance(part, tuple) else (part,):
            if isinstance(array, np.ndarray):
                array.setflags(write=False)


def without_cells(
    shape: tuple[int, ...],
    axes: tuple[str, ...],
    labels: tuple[np.ndarray | None, ...],
    rho: np.ndarray,
    guarantee: Guarantee | None,
    row_guarantees: tuple[Guarantee | None, ...] | None,
) -> Contents:
    """A release whose cells are still to come."""
    none = np.zeros(0, np.int64)
    return Contents(
        shape, axes, labels, rho, Cells(none, none, none), None, NonPositive(none, none, None), None,
        guarantee=guarantee, simulated=False, row_guarantees=row_guarantees,
    )  # fmt: skip


def n_rows_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
    """The two numbers every layout here is built on."""
    return shape[0], math.prod(shape[1:])


def n_plain_rows(contents: Contents) -> int:
    """Number of rows without noise, which nothing protects."""
    return int(np.isinf(contents.rho).sum())


def column_type(width: int) -> type[np.signedinteger]:
    """The index type of a row's cells. The shape alone decides, so equal releases have equal types."""
    return np.int32 if width <= np.iinfo(np.int32).max else np.int64


def shrunk(values: np.ndarray) -> np.ndarray:
    """The same numbers >= 0 in the smallest unsigned type: a release is mostly ones and twos."""
    largest = int(values.max()) if values.size else 0
    return values.astype(np.min_scalar_type(largest), copy=False)


def row_indices(row_starts: np.ndarray, start: int = 0, stop: int | None = None) -> np.ndarray:
    """The row of every listed cell of rows ``start`` to ``stop``."""
    per_row = np.diff(row_starts[start : None if stop is None else stop + 1])
    return np.repeat(np.arange(start, start + len(per_row)), per_row)


def flat_cells(
    cells: Cells | Places | None, width: int, start: int = 0, stop: int | None = None
) -> np.ndarray:
    """Positions in C order of the listed cells of rows ``start`` to ``stop``, counted from row ``start``."""
    if cells is None:
        return np.zeros(0, dtype=np.int64)
    starts = cells.row_starts[start : None if stop is None else stop + 1]
    return row_indices(starts) * width + cells.columns[starts[0] : starts[-1]]


def places_at(flat: np.ndarray, shape: tuple[int, ...]) -> Places:
    """The cells at these positions in C order, which are sorted and distinct."""
    n_rows, width = n_rows_and_width(shape)
    rows, columns = np.divmod(flat, width)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))]).astype(np.int64)
    return Places(starts, columns.astype(column_type(width)))


class Block(NamedTuple):
    """Rows ``start`` and following: signed values (n, width), and which of them are missing, if any are."""

    start: int
    values: np.ndarray
    missing: np.ndarray | None


def row_ranges(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """(start, stop) of consecutive blocks of rows, so that nothing large is ever dense at once."""
    n_rows, width = n_rows_and_width(shape)
    step = max(1, CELLS_PER_BLOCK // width)
    for start in range(0, n_rows, step):
        yield start, min(start + step, n_rows)


def rows_of(array: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Rows of an array that broadcasts against the release: 0-d as it is, else (n, 1) or (n, width)."""
    return array if array.ndim == 0 else array[start:stop].reshape(stop - start, -1)


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
        self._count(rows)
        # What comes after cells that did not fit stays after them, even if it would fit.
        if values is not None and not self._columns and self._reserved.take(columns, values):
            return
        self._columns.append(columns.astype(self._type))
        if values is not None:
            self._values.append(shrunk(values))

    def _count(self, rows: np.ndarray) -> None:
        first, last = int(rows[0]), int(rows[-1])
        self._starts[first + 1 : last + 2] += np.bincount(rows - first)

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


def dense_rows(contents: Contents, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows ``start`` to ``stop``: clamped values, missing cells 0, and which cells are observed."""
    n_rows, width = n_rows_and_width(contents.shape)
    if not 0 <= start <= stop <= n_rows:
        raise ValueError(f"start, stop: expected 0 <= start <= stop <= {n_rows}, got {start} and {stop}")
    shape = (stop - start, *contents.shape[1:])
    values = np.zeros(shape, dtype=np.int64)
    starts = contents.positive.row_starts
    listed = contents.positive.values[starts[start] : starts[stop]]
    values.reshape(-1)[flat_cells(contents.positive, width, start, stop)] = listed
    observed = np.ones(shape, dtype=bool)
    if contents.missing is not None:
        observed.reshape(-1)[flat_cells(contents.missing, width, start, stop)] = False
    return values, observed


def to_dense(contents: Contents, missing: float | None) -> np.ndarray:
    """All values, signed where negatives were kept; missing cells masked, or filled with ``missing``."""
    n_rows, width = n_rows_and_width(contents.shape)
    values, observed = dense_rows(contents, 0, n_rows)
    if contents.negative is not None:
        values.reshape(-1)[flat_cells(contents.negative, width)] = -contents.negative.values.astype(np.int64)
    if contents.missing is None:
        return values
    if missing is None:
        return np.ma.MaskedArray(values, mask=~observed)
    values = values.astype(np.result_type(np.int64, np.asarray(missing).dtype), copy=False)
    values[~observed] = missing
    return values


def same_arrays(one: Any, other: Any) -> bool:
    """True if both have the same structure and equal leaves; arrays need equal shapes and values."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        both = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
        return both and np.array_equal(one, other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same_arrays, one, other))
    return bool(one == other)
