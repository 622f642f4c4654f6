"""Arrays of whole numbers: true counts that must stay secret, and values that were released elsewhere.

The forms in which people have true counts are brought into one, blocks of rows. Tables, graphs, texts and files
become one of the classes below in modules of their own, see ``read_input``.

True counts pass through here, so a fault is named by its kind only, after looking at all of it. No message may
carry a value or a position: it would be a leak into logs and bug reports. The same messages serve released values,
where they are merely terse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from countveil.counts.cells.layout import (
    Block,
    CellList,
    Cells,
    column_type,
    n_rows_and_width,
    row_ranges,
    shrunk,
)
from countveil.counts.foreign import holds_labels, refuse_labels
from countveil.counts.inputs.forms import FORMS
from countveil.counts.inputs.labels import shares_labels

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
    """True counts that have been checked, their public names, and where both came from."""

    counts: TrueCounts
    axes: tuple[str, ...]
    labels: tuple[np.ndarray | None, ...]
    form: str  # in which they came, such as "long table"
    declared: tuple[str, ...]  # for each axis whether its labels are "declared", "from the data" or "none"
    stability: str  # how many counts one thing in them can move, in a sentence
    rows_by: str = ""  # the columns of a table that its rows are by, under their names there

    @property
    def has_pairs(self) -> bool:
        """Whether a cell belongs to two people: in a network, known by its form or by a label on two axes."""
        return FORMS[self.form].pairs or shares_labels(self.labels)


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
        self._counts = sparse_rows(counts, "counts", negative_allowed=False)
        self.shape = tuple(int(n) for n in self._counts.shape)

    def rows(self, start: int, stop: int) -> np.ndarray:
        return self._counts[start:stop].toarray()

    def positive(self) -> Cells:
        return sparse_cells(self._counts)

    def missing(self, start: int, stop: int) -> None:
        return None


Values = Callable[[np.ndarray], np.ndarray]  # which of the listed (booleans) -> the values of these


class ListedCounts:
    """Counts listed with the place of each along every axis; cells listed twice add up, others are zeros.

    A place of -1 lies outside what was declared (see labels): its entry is dropped, and ``read`` is asked for the
    values of the others alone, so that no fault of an entry that is not released can be told.
    """

    mostly_missing = False

    def __init__(self, shape: tuple[int, ...], places: Sequence[np.ndarray], read: Values) -> None:
        self.shape = shape
        inside = np.logical_and.reduce([place >= 0 for place in places])
        values = read(inside)
        check_kind(values.dtype, "counts")
        values = (
            values.astype(np.float32) if values.dtype == np.float16 else values
        )  # which scipy does not know
        rows, *others = (place[inside] for place in places)
        columns = np.ravel_multi_index(tuple(others), shape[1:]) if others else np.zeros_like(rows)
        listed = sparse.coo_array((values, (rows, columns)), shape=n_rows_and_width(shape))
        self._counts = sparse_rows(listed, "counts", negative_allowed=False)

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
            self._values = sparse_rows(values, name, mask=mask)
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
    refuse_labels(mask, "mask")
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
    if holds_masked(given):
        raise TypeError(
            f"{name}: expected lists of numbers, got masked arrays in a list, whose masks would be lost"
        )
    if holds_labels(given):
        raise TypeError(
            f"{name}: expected lists of numbers, got a list of Series or tables, whose labels would be lost; "
            "pandas.DataFrame(...) makes a table of Series"
        )
    try:
        return np.array(given)
    except (ValueError, OverflowError, TypeError):
        pass
    # Raised out here so that numpy's own message does not travel along as context.
    raise ValueError(f"{name}: expected rows of equal length, got lists that do not form an array")


def holds_masked(given: Any) -> bool:
    """Whether this is a masked array, or lists with one in them: numpy forgets their masks."""
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return any(holds_masked(one) for one in given)
    return isinstance(given, np.ma.MaskedArray)


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
    # As Python's numbers: a float of 16 bits cannot be compared with the limit.
    lowest, highest = values.min().item(), values.max().item()
    if lowest < 0 and not negative_allowed:
        return "negative values"
    # Of a float at the limit nobody knows from which side it was rounded.
    limit = LARGEST - 1 if values.dtype.kind == "f" else LARGEST
    if highest > limit or lowest < -limit:
        return "values beyond 2**53"
    return None


def check_whole(values: np.ndarray, name: str, *, negative_allowed: bool) -> None:
    """Refuse anything but whole numbers, naming the kind of fault only."""
    found = fault(values, negative_allowed=negative_allowed)
    if found:
        expected = "whole numbers" if negative_allowed else "whole numbers of at least 0"
        raise ValueError(f"{name}: expected {expected}, got {found}")


def sparse_rows(
    given: Any, name: str, *, negative_allowed: bool = True, mask: Any = None
) -> sparse.csr_array:
    """A scipy.sparse matrix by rows, whole numbers as int64; absent means 0.

    Entries given twice are added, after each was checked and as int64: a narrow type would wrap around, and a float
    would round. Entries under a ``mask`` are set to 0 and never looked at.
    """
    check_kind(given.dtype, name)
    if given.ndim != 2:
        raise ValueError(f"{name}: expected a sparse matrix with 2 axes, got {given.ndim}")
    check_shape(given.shape, name)
    by_rows = given.format == "csr" and mask is None
    listed = _checked_places(given, name, by_rows)
    entries = listed.data
    if mask is not None:
        entries = np.where(_boolean(mask, given.shape)[listed.coords], entries.dtype.type(0), entries)
    check_whole(entries, name, negative_allowed=negative_allowed)
    exact = entries.astype(np.int64, copy=False)
    if by_rows:
        rows = sparse.csr_array((exact, given.indices, given.indptr), shape=given.shape)
    else:
        rows = sparse.coo_array((exact, listed.coords), shape=given.shape).tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()  # never rearrange the caller's matrix
        rows.sum_duplicates()
    if len(rows.data) < len(exact):
        # A sum that wrapped may look right; the sum of all in floating point, which does not wrap, tells.
        wrapped = np.abs(exact).sum(dtype=np.float64) > 2.0**62
        check_whole(np.array([2.0**62]) if wrapped else rows.data, name, negative_allowed=negative_allowed)
    return rows


def _checked_places(given: Any, name: str, by_rows: bool) -> Any:
    """The matrix, or its entries one by one. What lies outside of it is refused: scipy itself would write there."""
    try:
        if hasattr(given, "indptr"):
            _check_compressed(given)
        if hasattr(given, "offsets"):
            _check_diagonals(given)
        if hasattr(given, "check_format"):
            given.check_format(full_check=True)
        if by_rows:
            return given
        listed = given.tocoo()
        return sparse.coo_array((listed.data, listed.coords), shape=given.shape)
    except Exception:
        pass
    # Raised out here: a message of scipy's could name a place.
    raise ValueError(f"{name}: expected a sparse matrix whose entries lie within it, got a damaged one")


def _check_compressed(given: Any) -> None:
    """Starts and places of rows or columns (or blocks); scipy looks at none where the last start is 0 or below."""
    starts, places = np.asarray(given.indptr), np.asarray(given.indices)
    height, width = getattr(given, "blocksize", (1, 1))
    sides = given.shape[0] // height, given.shape[1] // width
    lines, across = sides if given.format != "csc" else sides[::-1]
    right = starts.shape == (lines + 1,) and places.ndim == 1 and starts[0] == 0 and starts[-1] <= len(places)
    right = right and not (starts[1:] < starts[:-1]).any()
    used = places[: starts[-1]] if right else places[:0]
    if not right or ((used < 0) | (used >= across)).any() or len(given.data) < len(used):
        raise ValueError


def _check_diagonals(given: Any) -> None:
    """Diagonals within the matrix, each of them once; scipy would cut the numbers of others to 32 bits."""
    offsets, lines = np.asarray(given.offsets), np.asarray(given.data)
    right = (
        offsets.ndim == 1 and offsets.dtype.kind in "iu" and lines.ndim == 2 and len(lines) == len(offsets)
    )
    height, width = given.shape
    if not right or len(np.unique(offsets)) < len(offsets):
        raise ValueError
    if ((offsets <= -max(height, 1)) | (offsets >= max(width, 1))).any():
        raise ValueError


def sparse_cells(rows: sparse.csr_array) -> Cells:
    """The cells above 0 of what ``sparse_rows`` gave, none of which is below 0; a copy."""
    if (rows.data == 0).any():
        rows = rows.copy()
        rows.eliminate_zeros()
    columns = rows.indices.astype(column_type(rows.shape[1]))
    return Cells(rows.indptr.astype(np.int64), columns, shrunk(rows.data.copy()))
