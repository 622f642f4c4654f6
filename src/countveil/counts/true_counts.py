"""The forms in which people have true counts, brought into one: blocks of rows of whole numbers.

Everything here sees what must stay secret. A fault is named by its kind only, after looking at all of it.
Further forms (tables, graphs, texts) join as further branches of ``read_true_counts``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from countveil.counts.row_blocks import row_ranges
from countveil.counts.whole_numbers import check_whole, numeric_array, sparse_rows


class TrueCounts(Protocol):
    """True counts that have been checked."""

    shape: tuple[int, ...]

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows as int64 (n, width), zeros included."""


def read_true_counts(counts: Any) -> TrueCounts:
    """Check true counts in any of the known forms."""
    if isinstance(counts, np.ma.MaskedArray):
        raise TypeError(
            "counts: expected an array without a mask, got a masked array; hide() cells afterwards"
        )
    if sparse.issparse(counts):
        return SparseCounts(counts)
    return DenseCounts(counts)


class DenseCounts:
    """A numpy array or nested lists."""

    def __init__(self, counts: Any) -> None:
        self._counts = numeric_array(counts, "counts")
        self.shape = self._counts.shape
        _check_all(self._counts[start:stop] for start, stop in row_ranges(self.shape))

    def rows(self, start: int, stop: int) -> np.ndarray:
        return self._counts[start:stop].reshape(stop - start, -1).astype(np.int64, copy=False)


class SparseCounts:
    """A scipy.sparse matrix; absent cells are true zeros and get noise like all others."""

    def __init__(self, counts: Any) -> None:
        self._counts = sparse_rows(counts, "counts")
        self.shape = tuple(int(n) for n in self._counts.shape)
        _check_all([self._counts.data])
        self._counts = self._counts.astype(np.int64, copy=False)

    def rows(self, start: int, stop: int) -> np.ndarray:
        return self._counts[start:stop].toarray()


def _check_all(parts: Any) -> None:
    for part in parts:
        check_whole(part, "counts", negative_allowed=False)


def blocks_of(counts: TrueCounts) -> Iterator[tuple[int, int, np.ndarray]]:
    """(start, stop, rows) block by block."""
    for start, stop in row_ranges(counts.shape):
        yield start, stop, counts.rows(start, stop)
