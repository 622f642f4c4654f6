"""Cells that are visited one by one, in an order that keeps their factors in the processor's cache.

Every cell has a stream of its own, so the order is free: blocks of a few rows, within a block column by column.
The block's rows of theta stay at hand, and each row of phi is fetched once per block instead of once per cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.inference.observations import Observations
from countveil.kernels.compiled import compiled

ROWS_PER_BLOCK = 32


class VisitedCells(NamedTuple):
    """Cells sorted by (block of rows, column, row)."""

    block_starts: np.ndarray  # int64 (blocks + 1)
    rows: np.ndarray  # int32
    columns: np.ndarray  # int32
    values: np.ndarray  # of the release's type

    @property
    def n_blocks(self) -> int:
        """Number of blocks of rows."""
        return len(self.block_starts) - 1


def list_visited(data: Observations, visited: np.ndarray, whole: np.ndarray) -> VisitedCells:
    """The positive cells of the columns where ``visited`` is True, and all others where ``whole`` is too.

    A cell x <= 0 is listed as 0.
    """
    n_blocks = -(-data.n_rows // ROWS_PER_BLOCK)
    block_starts = np.zeros(n_blocks + 1, dtype=np.int64)
    wholes = np.flatnonzero(whole)
    _count(*data[2:4], *data[5:7], visited, wholes, block_starts)
    n = int(block_starts[-1])
    rows, columns = np.empty((2, n), dtype=np.int32)
    values = np.empty(n, dtype=data.values.dtype)
    _list(*data[2:7], visited, wholes, block_starts, rows, columns, values)
    return VisitedCells(block_starts, rows, columns, values)


@compiled
def _count(row_starts, columns, missing_starts, missing_columns, visited, wholes, block_starts):
    is_whole = np.zeros(len(visited), dtype=np.bool_)
    is_whole[wholes] = True
    for d in range(len(row_starts) - 1):
        cells = len(wholes)
        for i in range(row_starts[d], row_starts[d + 1]):
            cells += visited[columns[i]] and not is_whole[columns[i]]
        for i in range(missing_starts[d], missing_starts[d + 1]):
            cells -= is_whole[missing_columns[i]]
        block_starts[d // ROWS_PER_BLOCK + 1] += cells
    for b in range(1, len(block_starts)):
        block_starts[b] += block_starts[b - 1]


@compiled
def _list(
    row_starts, columns, values, missing_starts, missing_columns, visited, wholes,
    block_starts, out_rows, out_columns, out_values,
):  # fmt: skip
    """A counting sort by column within every block."""
    n_rows, width = len(row_starts) - 1, len(visited)
    at = np.empty(width + 1, dtype=np.int64)
    listed = np.zeros(width, dtype=np.int32)  # the last row (plus one) whose cell here needs no zero
    for b in range(len(block_starts) - 1):
        first, last = b * ROWS_PER_BLOCK, min((b + 1) * ROWS_PER_BLOCK, n_rows)
        at[:] = 0
        for counting in range(2):
            if counting == 1:
                at[0] = block_starts[b]
                for v in range(width):
                    at[v + 1] += at[v]
            for d in range(first, last):
                mark = 2 * d + counting + 1
                for i in range(missing_starts[d], missing_starts[d + 1]):
                    listed[missing_columns[i]] = mark
                for i in range(row_starts[d], row_starts[d + 1]):
                    v = columns[i]
                    listed[v] = mark
                    if visited[v]:
                        _put(counting, v, d, values[i], at, out_rows, out_columns, out_values)
                for v in wholes:
                    if listed[v] != mark:
                        _put(counting, v, d, 0, at, out_rows, out_columns, out_values)


@compiled
def _put(counting, v, d, value, at, out_rows, out_columns, out_values):
    """First pass: count the cell in its column. Second: write it at its place."""
    if counting == 0:
        at[v + 1] += 1
        return
    out_rows[at[v]] = d
    out_columns[at[v]] = v
    out_values[at[v]] = value
    at[v] += 1
