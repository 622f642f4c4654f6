"""Whole numbers out of whatever numeric array came in, with faults named by kind only.

True counts pass through here, so no message may carry a value or a position: it would be a leak into logs and
bug reports. The same messages serve released values, where they are merely terse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

# Above this a double no longer holds every whole number, so "whole" would mean nothing.
LARGEST = 2**53


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
