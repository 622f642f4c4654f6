"""The release as one byte per cell, or as its positive cells, whichever is smaller.

A proposed token must find out quickly what was released in its cell. A byte says it: 0 for x <= 0, the value up
to 253, LARGE for more (looked up in the listed cells then), UNSEEN for a missing cell.
"""

from __future__ import annotations

import numpy as np

from countveil.inference.observations import Observations
from countveil.kernels.compiled import compiled

LARGE = 254
UNSEEN = 255


def code_matrix(data: Observations) -> np.ndarray:
    """All codes (rows, width) where that is smaller than the listed cells; else an empty array (0, 0)."""
    listed = data.columns.nbytes + data.values.nbytes + data.missing_columns.nbytes
    if data.n_rows * data.width > listed:
        return np.zeros((0, 0), dtype=np.uint8)
    codes = np.zeros((data.n_rows, data.width), dtype=np.uint8)
    for d in range(data.n_rows):
        open_codes(d, *data[2:7], codes[d])
    return codes


@compiled
def open_codes(d, row_starts, columns, values, missing_starts, missing_columns, codes):
    """Write row d into ``codes``."""
    codes[:] = 0
    for i in range(row_starts[d], row_starts[d + 1]):
        codes[columns[i]] = min(values[i], LARGE)
    for i in range(missing_starts[d], missing_starts[d + 1]):
        codes[missing_columns[i]] = UNSEEN


@compiled
def value_of(code, d, v, row_starts, columns, values):
    """The released value behind a positive code."""
    if code != LARGE:
        return np.int64(code)
    low, high = row_starts[d], row_starts[d + 1]
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < v:
            low = middle + 1
        else:
            high = middle
    return np.int64(values[low])
