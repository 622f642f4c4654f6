"""Arrays of whole numbers: true counts that must stay secret, and values that were released elsewhere.

The forms in which people have true counts are brought into one, blocks of rows. Tables, graphs, texts and files
become one of the classes below in modules of their own, see ``read_input``.

True counts pass through here, so a fault is named by its kind only, after looking at all of it. No message may
carry a value or a position: it would be a leak into logs and bug reports. The same messages serve released values,
where they are merely terse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from countveil.counts.layout import (
    Block,
    CellList,
    Cells,
    column_type,
    n_rows_and_width,
    row_ranges,
    shrunk,
)

# Above this a double no longer holds every whole number, so "whole" would mean nothing.
LARGEST = 2**53


class TrueCounts(Protocol):
    """True counts that have been checked."""

    shape: tuple[int, ...]
    mostly_missing: bool  # by its form, before anyone looks at the counts

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows as int64 (n, width), zeros included."""

    def positive(self) -> Cells:
        """The cells above 0, for a fit of plain counts."""

    def missing(self, start: int, stop: int) -> np.ndarray | None:
        """Which cells of these rows are not observed and will not be released, (n, width), if any are."""


class LabelledCounts(NamedTuple):
    """True counts that have been checked, and their public names."""

    counts: TrueCounts
    axes: tuple[str, ...]
    labels: tuple[np.ndarray | None, ...]


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

    def positive(self) -> Cells:
        cells = CellList(self.shape)
        for start, stop in row_ranges(self.shape):
            rows = self.rows(start, stop)
            cells.add_dense(start, rows > 0, rows)
        return cells.cells()

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

    def positive(self) -> Cells:
        return sparse_cells(self._counts)

    def missing(self, start: int, stop: int) -> None:
        return None


class ListedCounts:
    """Counts listed with the place of each along every axis; cells listed twice add up, others are zeros.

    A place of -1 lies outside what was declared, and its entry is dropped (see labels).
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

    def positive(self) -> Cells:
        return sparse_cells(self._counts)

    def missing(self, start: int, stop: int) -> np.ndarray | None:
        return None


def _check_all(parts: Any) -> None:
    for part in parts:
        check_whole(part, "counts", negative_allowed=False)


class ReleasedValues:
    """Signed released values (dense or sparse) with an optional mask, True = missing."""

    def __init__(self, values: Any, mask: Any, name: str = "values") -> None:
        self._name = name  # the parameter that errors speak of
        if isinstance(values, np.ma.MaskedArray):
            own = np.ma.getmaskarray(values)
            mask = own if mask is None else own | _boolean(mask, values.shape)
            values = values.data
        if sparse.issparse(values):
            self._values = sparse_rows(values, name)
        else:
            if mask is not None:
                values = _without_objects(values, np.asarray(mask))
            self._values = numeric_array(values, name)
        self.shape = tuple(int(n) for n in self._values.shape)
        self._mask = None if mask is None else _boolean(mask, self.shape)

    def blocks(self) -> Iterator[Block]:
        """Checked blocks; missing cells read 0."""
        for start, stop in row_ranges(self.shape):
            rows = self._values[start:stop]
            if sparse.issparse(rows):
                rows = rows.toarray()
            values, missing = rows.reshape(stop - start, -1), None
            if self._mask is not None:
                missing = self._mask[start:stop].reshape(values.shape)
                values = np.where(missing, values.dtype.type(0), values)
            check_whole(values, self._name, negative_allowed=True)
            yield Block(start, values.astype(np.int64, copy=False), missing)


def _boolean(mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(mask)
    if array.dtype != bool:
        raise TypeError(f"mask: expected booleans, True where a cell is missing, got type {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"mask: expected shape {shape}, got {array.shape}")
    return array


def _without_objects(values: Any, mask: np.ndarray) -> Any:
    """Numbers again, where None or another placeholder under the mask made numpy fall back to objects."""
    array = np.asarray(values) if isinstance(values, list | tuple) else values
    if not isinstance(array, np.ndarray) or array.dtype != object or array.shape != mask.shape:
        return values
    return np.where(mask, 0, array).tolist()


def numeric_array(given: Any, name: str) -> np.ndarray:
    """``given`` (array or nested lists) as an array of numbers with at least one axis, none of them empty."""
    if isinstance(given, list | tuple):
        given = _from_lists(given, name)
    if not isinstance(given, np.ndarray):
        raise TypeError(
            f"{name}: expected a numpy array or a scipy.sparse matrix, got {type(given).__name__}"
        )
    check_kind(given.dtype, name)
    check_shape(given.shape, name)
    return given


def _from_lists(given: list | tuple, name: str) -> np.ndarray:
    try:
        return np.array(given)
    except (ValueError, OverflowError, TypeError):
        pass
    # Raised out here so that numpy's own message does not travel along as context.
    raise ValueError(f"{name}: expected rows of equal length, got lists that do not form an array")


def check_kind(dtype: np.dtype, name: str) -> None:
    """Booleans, integers and reals may be counts; text, dates, complex numbers and objects may not."""
    if dtype.kind not in "biuf":
        # The kind only: even a type can tell something of the values, as "<U7" does.
        raise TypeError(f"{name}: expected whole numbers, got non-numeric values ({dtype.type.__name__})")


def check_shape(shape: tuple[int, ...], name: str) -> None:
    """At least one axis, and no axis of length zero."""
    if not shape:
        raise ValueError(f"{name}: expected an array with at least one axis, got a single number")
    if 0 in shape:
        raise ValueError(f"{name}: expected at least one cell, got an empty array of shape {shape}")


def fault(values: np.ndarray, *, negative_allowed: bool) -> str | None:
    """The kind of the first fault among ``values``, in a fixed order, or None."""
    if values.size == 0 or values.dtype.kind == "b":
        return None
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            return "NaN or infinite values"
        if (values != np.trunc(values)).any():
            return "fractional values"
    lowest, highest = values.min(), values.max()
    if lowest < 0 and not negative_allowed:
        return "negative values"
    if highest > LARGEST or lowest < -LARGEST:
        return "values beyond 2**53"
    return None


def check_whole(values: np.ndarray, name: str, *, negative_allowed: bool) -> None:
    """Refuse anything but whole numbers, naming the kind of fault only."""
    found = fault(values, negative_allowed=negative_allowed)
    if found:
        expected = "whole numbers" if negative_allowed else "whole numbers of at least 0"
        raise ValueError(f"{name}: expected {expected}, got {found}")


def sparse_rows(given: Any, name: str) -> sparse.csr_array:
    """A scipy.sparse matrix by rows, entries given twice added up; absent means 0."""
    check_kind(given.dtype, name)
    if given.ndim != 2:
        raise ValueError(f"{name}: expected a sparse matrix with 2 axes, got {given.ndim}")
    check_shape(given.shape, name)
    # Entries given twice are added: in a narrow type such as uint8 they would wrap around.
    wide = given.astype(np.int64) if given.dtype.kind in "biu" and given.dtype.itemsize < 8 else given
    rows = sparse.csr_array(wide)
    if not rows.has_canonical_format:
        rows = rows.copy()  # never rearrange the caller's matrix
        rows.sum_duplicates()
    return rows


def sparse_cells(rows: sparse.csr_array) -> Cells:
    """The cells above 0 of what ``sparse_rows`` gave, none of which is below 0; a copy."""
    if (rows.data == 0).any():
        rows = rows.copy()
        rows.eliminate_zeros()
    columns = rows.indices.astype(column_type(rows.shape[1]))
    return Cells(rows.indptr.astype(np.int64), columns, shrunk(rows.data.copy()))
