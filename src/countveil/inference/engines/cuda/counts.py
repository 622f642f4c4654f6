"""True counts of a matrix on the device: the data there, and one sweep's tokens.

Noisy counts: bounds of all rates, a look at every cell, exact draws of those that stay open; in blocks of rows, so
that the bounds need little memory. Counts without any noise need neither: every positive cell is visited.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from countveil.inference.engines.cuda import cells, device, halves, look
from countveil.inference.observed import Observed, rows_of

#: Cells whose bounds are held at a time.
CELLS_PER_BLOCK = 2**27


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
        return listed + len(data.columns) * 4
    width = padded(data.width, halves.COLUMNS)
    in_block = rows_per_block(data) * width
    rounded = (data.n_rows + width) * padded(n_components, halves.COMPONENTS) * 2
    return listed + data.n_rows * width + in_block * (2 + 4) + rounded + data.cell_rho.nbytes


class DeviceCounts:
    """See the top of this file. Factors are float64, theta (rows, K) and phi (columns, K)."""

    def __init__(self, data: Observed, n_components: int) -> None:
        self.data = data
        self._starts, self._columns = device.to_device(data.row_starts), device.to_device(data.columns)
        self._values = device.to_device(data.values)
        self.is_plain = data.is_plain
        if self.is_plain:
            self._rows_of_cells = device.to_device(rows_of(data.row_starts).astype(np.int32))
            return
        width = padded(data.width, halves.COLUMNS)
        n_rounded = padded(n_components, halves.COMPONENTS)
        self._block = rows_per_block(data)
        self._codes = device.empty((data.n_rows, width), np.uint8)
        self._bounds = device.empty((self._block, width), np.uint16)
        self._listed = device.empty(self._block * width, np.int32)  # room for every cell: none is ever lost
        self._number = device.empty(1, np.int32)
        self._rows = device.empty((data.n_rows, n_rounded), np.uint16)
        self._rounded_columns = device.empty((width, n_rounded), np.uint16)
        self._multiply = device.multiplier(self._rows, self._rounded_columns, self._bounds)
        # Eight cells at a time, and four.
        self._codes_of_eight = self._codes.view(np.uint64)
        self._bounds_of_four = self._bounds.view(np.uint64)
        self._row_rho, self._cell_rho = device.to_device(data.row_rho), device.to_device(data.cell_rho)
        with np.errstate(over="ignore", under="ignore"):
            self._row_up = device.to_device(np.exp(data.row_rho))
            self._row_down = device.to_device(np.exp(-data.row_rho))
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
        width = self.data.width
        listed = (self._starts, self._columns, self._values)
        if self.is_plain:
            device.launch_blocks(
                cells.share_plain_cells, cells.BLOCKS, cells.THREADS,
                key, width, self._rows_of_cells, *listed[1:], theta, phi, row_tokens, column_tokens,
            )  # fmt: skip
            return
        for factor, divide, rounded in ((theta, False, self._rows), (phi, True, self._rounded_columns)):
            n = rounded.shape[0] * rounded.shape[1]
            device.launch(halves.round_up, n, factor, largest_of_rows, largest_of_columns, divide, rounded)
        n_warps = math.ceil(self._codes.shape[1] / look.GROUP)
        for first in range(0, self.data.n_rows, self._block):
            n_rows = min(self._block, self.data.n_rows - first)
            self._multiply(first, first + n_rows)
            device.launch(look.clear_list, 1, self._number)
            device.launch(
                look.look, n_rows * n_warps * look.WARP,
                key, first, n_rows, self._codes_of_eight, self._bounds_of_four, self._up, self._down,
                self._number, self._listed, threads=look.THREADS,
            )  # fmt: skip
            device.launch_blocks(
                cells.draw_open_cells, cells.BLOCKS, cells.THREADS,
                key, first, width, self._number, self._listed, self._codes, *listed, self._row_rho,
                self._row_up, self._row_down, self._cell_rho, theta, phi, row_tokens, column_tokens,
            )  # fmt: skip
