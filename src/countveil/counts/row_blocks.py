"""Going through an array of counts in blocks of whole rows, so that nothing large is ever dense at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from countveil.counts.contents import n_rows_and_width

# 8 MB of int64: large enough for numpy to be quick, small enough to stay out of the way. The seeded stream of
# simulate_release runs block by block, so changing this number changes what a seed gives.
CELLS_PER_BLOCK = 1 << 20


class Block(NamedTuple):
    """Rows ``start`` and following: signed values (n, width), and which of them are missing, if any are."""

    start: int
    values: np.ndarray
    missing: np.ndarray | None


def row_ranges(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """(start, stop) of consecutive blocks of rows."""
    n_rows, width = n_rows_and_width(shape)
    step = max(1, CELLS_PER_BLOCK // width)
    for start in range(0, n_rows, step):
        yield start, min(start + step, n_rows)


def rows_of(array: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Rows of an array that broadcasts against the release: 0-d as it is, else (n, 1) or (n, width)."""
    return array if array.ndim == 0 else array[start:stop].reshape(stop - start, -1)
