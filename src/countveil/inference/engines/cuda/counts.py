"""True counts of a matrix on the device: the data there, and one sweep's tokens.

Noisy counts: bounds of all rates, a look at every cell, exact draws of those that stay open; in blocks of rows, so
that the bounds need little memory. Counts without any noise need neither: every positive cell is visited.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from countveil.inference.engines.cuda import cells, device, halves, look, plain_cells
from countveil.inference.engines.cuda.tokens import BLOCKS
from countveil.inference.observed import Observed, rows_of

#: Cells whose bounds are held at a time.
CELLS_PER_BLOCK = 2**27
#: Plain cells are visited in tiles of so many rows and columns: threads of a block then read the same ones.
TILE_ROWS, TILE_COLUMNS = 32, 32
#: Whether easy cells are drawn apart from hard ones; no draw depends on it.
SPLIT = True


def padded(n: int, to: int) -> int:
    """The next multiple."""
    return to * math.ceil(n / to)


def rows_per_block(data: Observed) -> int:
    """How many rows are looked at together."""
    return max(1, min(data.n_rows, CELLS_PER_BLOCK // padded(max(data.width, 1), halves.COLUMNS)))


def bytes_of_counts(data: Observed, n_components: int) -> int:
    """About what they take on the device."""
    listed = len(data.columns) * (4 + data.values.dtype.itemsize) + len(data.missing_columns) * 4
    if data.is_plain:
        return listed + len(data.columns) * 8 + 4 * (data.n_rows + data.width) * n_components
    width = padded(data.width, halves.COLUMNS)
    in_block = rows_per_block(data) * width
    rounded = (data.n_rows + width) * padded(n_components, halves.COMPONENTS) * 2
    return listed + data.n_rows * width + in_block * (2 + 4 + 4) + rounded + data.cell_rho.nbytes


class DeviceCounts:
    """See the top of this file. Factors are float64, theta (rows, K) and phi (columns, K)."""

    def __init__(self, data: Observed, n_components: int) -> None:
        self.data = data
        self.is_plain = data.is_plain
        width = padded(data.width, halves.COLUMNS)
        self._n_rounded = padded(n_components, halves.COMPONENTS)
        self._block = rows_per_block(data)
        # Plain cells are shared out by factors in single precision; those too small for it are hard cells.
        sizes = (data.n_rows, data.width) if self.is_plain else (0, 0)
        self._singles = tuple(device.empty((n, n_components), np.float32) for n in sizes)
        # Of cells that are open, and of hard ones among them.
        n_blocks = 1 if self.is_plain else math.ceil(data.n_rows / self._block)
        self._numbers = device.empty(2 * max(n_blocks, 1), np.int32)
        self._n_open = [self._numbers[2 * block : 2 * block + 1] for block in range(n_blocks)]
        self._n_hard = [self._numbers[2 * block + 1 : 2 * block + 2] for block in range(n_blocks)]
        if self.is_plain:
            self._rows = self._rounded_columns = device.empty((0, self._n_rounded), np.uint16)
            self._cells = tuple(map(device.to_device, _in_tiles(data)))
            self._hard = device.empty(len(data.columns), np.int32)
            return
        self._starts, self._columns = device.to_device(data.row_starts), device.to_device(data.columns)
        self._values = device.to_device(data.values)
        self._codes = device.empty((data.n_rows, width), np.uint8)
        self._bounds = device.empty((self._block, width), np.uint16)
        # Room for every cell: none is ever lost.
        self._listed = device.empty(self._block * width, np.int32)
        self._hard = device.empty(self._block * width, np.int32)
        self._rows = device.empty((data.n_rows, self._n_rounded), np.uint16)
        self._rounded_columns = device.empty((width, self._n_rounded), np.uint16)
        self._multiply = device.multiplier(self._rows, self._rounded_columns, self._bounds)
        # Eight cells at a time, and four.
        self._codes_of_eight = self._codes.view(np.uint64)
        self._bounds_of_four = self._bounds.view(np.uint64)
        with np.errstate(over="ignore", under="ignore"):
            noise_of_cells = data.row_rho, np.exp(data.row_rho), np.exp(-data.row_rho), data.cell_rho
        self._noise = tuple(map(device.to_device, noise_of_cells))
        self._up, self._down = map(device.to_device, look.factors_of(data.highest_rho, data.lowest_rho))
        self._write_codes()

    def _write_codes(self) -> None:
        data = self.data
        device.launch(look.clear_codes, self._codes.shape[0] * self._codes.shape[1], data.width, self._codes)
        device.launch(
            look.write_codes, len(data.columns), self._starts, self._columns, self._values, self._codes
        )
        if len(data.missing_columns):
            missing = device.to_device(data.missing_starts), device.to_device(data.missing_columns)
            everywhere = device.to_device(np.full(1, -1))
            device.launch(look.write_codes, len(data.missing_columns), *missing, everywhere, self._codes)

    def draw(
        self,
        key: Any,
        theta: Any,
        phi: Any,
        largest_of_rows: Any,
        largest_of_columns: Any,
        row_tokens: Any,
        column_tokens: Any,
    ) -> None:
        """Add one sweep's tokens to the counters. ``largest`` are those of every component, (1 or more, K)."""
        width, tokens = self.data.width, (row_tokens, column_tokens)
        n_columns = width if self.is_plain else self._rounded_columns.shape[0]
        device.launch(
            halves.round_both, (self.data.n_rows + n_columns) * self._n_rounded,
            self.data.n_rows, self._n_rounded, theta, phi, largest_of_rows, largest_of_columns,
            self._rows, self._rounded_columns, *self._singles, self._numbers,
        )  # fmt: skip
        if self.is_plain:
            hard = self._n_hard[0], self._hard
            device.launch_blocks(
                plain_cells.share_plain_cells, BLOCKS, plain_cells.THREADS,
                key, width, *self._cells, *self._singles, *tokens, *hard,
            )  # fmt: skip
            device.launch_blocks(
                plain_cells.share_hard_cells, plain_cells.HARD_BLOCKS, plain_cells.THREADS,
                key, width, *self._cells, theta, phi, *tokens, *hard,
            )  # fmt: skip
            return
        n_warps = math.ceil(self._codes.shape[1] / look.GROUP)
        released = self._codes, self._starts, self._columns, self._values
        for block, first in enumerate(range(0, self.data.n_rows, self._block)):
            n_rows = min(self._block, self.data.n_rows - first)
            still_open, hard = (self._n_open[block], self._listed), (self._n_hard[block], self._hard)
            self._multiply(first, first + n_rows)
            device.launch(
                look.look, n_rows * n_warps * look.WARP,
                key, first, n_rows, self._codes_of_eight, self._bounds_of_four, self._up, self._down,
                *still_open, threads=look.THREADS,
            )  # fmt: skip
            if SPLIT:
                device.launch_blocks(
                    cells.draw_easy_cells, BLOCKS, cells.EASY_THREADS,
                    key, first, width, *still_open, self._codes, *self._noise, theta, phi, *tokens, *hard,
                )  # fmt: skip
            device.launch_blocks(
                cells.draw_hard_cells, BLOCKS, cells.HARD_THREADS,
                key, first, width, *(hard if SPLIT else still_open), *released, *self._noise, theta, phi, *tokens,
            )  # fmt: skip


def _in_tiles(data: Observed) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of the listed cells, tile after tile: draws do not depend on the order."""
    rows = rows_of(data.row_starts).astype(np.int32)
    order = np.arange(len(rows))
    tiles = data.columns // TILE_COLUMNS
    tiles = tiles.astype(np.uint16 if tiles.max(initial=0) < 2**16 else np.int64)  # the former in linear time
    for first in range(0, data.n_rows, TILE_ROWS):
        start, stop = data.row_starts[first], data.row_starts[min(first + TILE_ROWS, data.n_rows)]
        order[start:stop] = start + np.argsort(tiles[start:stop], kind="stable")
    return rows[order], np.ascontiguousarray(data.columns[order]), np.ascontiguousarray(data.values[order])
