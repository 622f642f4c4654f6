"""The forms in which people have true counts, brought into one: blocks of rows of whole numbers.

Everything here sees what must stay secret. A fault is named by its kind only, after looking at all of it.
Tables, graphs, texts and files become one of the classes below in modules of their own, see ``read_given``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from countveil.counts.contents import n_rows_and_width
from countveil.counts.row_blocks import row_ranges
from countveil.counts.whole_numbers import check_kind, check_whole, numeric_array, sparse_rows


class TrueCounts(Protocol):
    """True counts that have been checked."""

    shape: tuple[int, ...]
    mostly_missing: bool  # by its form, before anyone looks at the counts

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows as int64 (n, width), zeros included."""

    def missing(self, start: int, stop: int) -> np.ndarray | None:
        """Which cells of these rows are not observed and will not be released, (n, width), if any are."""


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

    mostly_missing = False

    def __init__(self, counts: Any) -> None:
        self._counts = numeric_array(counts, "counts")
        self.shape = self._counts.shape
        _check_all(self._counts[start:stop] for start, stop in row_ranges(self.shape))

    def rows(self, start: int, stop: int) -> np.ndarray:
        return self._counts[start:stop].reshape(stop - start, -1).astype(np.int64, copy=False)

    def missing(self, start: int, stop: int) -> None:
        return None


class SparseCounts:
    """A scipy.sparse matrix; absent cells are true zeros and get noise like all others."""

    mostly_missing = False

    def __init__(self, counts: Any) -> None:
        self._counts = sparse_rows(counts, "counts")
        self.shape = tuple(int(n) for n in self._counts.shape)
        _check_all([self._counts.data])
        self._counts = self._counts.astype(np.int64, copy=False)

    def rows(self, start: int, stop: int) -> np.ndarray:
        return self._counts[start:stop].toarray()

    def missing(self, start: int, stop: int) -> None:
        return None


class ListedCounts:
    """Counts listed with the place of each along every axis; cells listed twice add up, others are zeros.

    A place of -1 lies outside what was declared, and its entry is dropped (see universe).
    """

    mostly_missing = False

    def __init__(self, shape: tuple[int, ...], places: Sequence[np.ndarray], values: np.ndarray) -> None:
        self.shape = shape
        check_kind(values.dtype, "counts")
        _check_all([values])
        inside = np.logical_and.reduce([place >= 0 for place in places])
        rows, *others = (place[inside] for place in places)
        n_rows, width = n_rows_and_width(shape)
        columns = np.ravel_multi_index(tuple(others), shape[1:]) if others else np.zeros_like(rows)
        exact = values[inside].astype(np.int64)
        if exact.sum(dtype=np.float64) > 2.0**62:  # adding up what is listed twice might wrap
            raise ValueError("counts: expected whole numbers of at least 0, got values beyond 2**53")
        self._counts = sparse.coo_array((exact, (rows, columns)), shape=(n_rows, width)).tocsr()
        _check_all([self._counts.data])

    def rows(self, start: int, stop: int) -> np.ndarray:
        return self._counts[start:stop].toarray()

    def missing(self, start: int, stop: int) -> np.ndarray | None:
        return None


def _check_all(parts: Any) -> None:
    for part in parts:
        check_whole(part, "counts", negative_allowed=False)


def blocks_of(counts: TrueCounts) -> Iterator[tuple[int, int, np.ndarray]]:
    """(start, stop, rows) block by block."""
    for start, stop in row_ranges(counts.shape):
        yield start, stop, counts.rows(start, stop)
