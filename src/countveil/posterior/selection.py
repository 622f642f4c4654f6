"""Rows and columns named by position or by label."""

from __future__ import annotations

from typing import Any

import numpy as np

from countveil.posterior.readable_labels import readable


def positions(name: str, wanted: Any, labels: np.ndarray | None, length: int) -> np.ndarray:
    """Positions of what is wanted along an axis: None (all), a slice, positions, labels, or a boolean mask.

    >>> positions("rows", ["b"], np.array(["a", "b"], dtype=object), 2)
    array([1])
    """
    everything = np.arange(length)
    if wanted is None:
        return everything
    if isinstance(wanted, slice):
        return everything[_checked_slice(name, wanted)]
    # As objects, because fixed-width text drops NULs at the end of a label.
    each = [wanted] if isinstance(wanted, str) or not np.iterable(wanted) else list(wanted)
    if all(isinstance(one, bool | np.bool_) for one in each) and each:
        if len(each) != length:
            raise ValueError(f"{name}: expected a mask of length {length}, got {len(each)}")
        return everything[np.array(each)]
    if all(isinstance(one, int | np.integer) for one in each):
        return _at(name, each, labels, length)
    if not all(isinstance(one, str) for one in each):
        odd = next(one for one in each if not isinstance(one, str))
        raise ValueError(f"{name}: expected positions, labels or a mask, got {odd!r}")
    if labels is None:
        raise ValueError(f"{name}: expected positions (there are no labels), got {str(each[0])!r}")
    where = {label: i for i, label in enumerate(labels)}
    for label in each:
        if readable(label) not in where:
            raise ValueError(f"{name}: expected known labels, got {str(label)!r}")
    return np.array([where[readable(label)] for label in each], dtype=np.int64)


def _at(name: str, wanted: list, labels: np.ndarray | None, length: int) -> np.ndarray:
    for one in wanted:
        if not -length <= one < length:
            hint = "" if labels is None or str(one) not in labels else f"; a label is text: {str(one)!r}"
            raise ValueError(f"{name}: expected positions below {length}, got {one}{hint}")
    return np.arange(length)[np.array(wanted, dtype=np.int64)]


def _checked_slice(name: str, wanted: slice) -> slice:
    for bound in (wanted.start, wanted.stop, wanted.step):
        if bound is not None and not isinstance(bound, int | np.integer):
            raise ValueError(f"{name}: expected a slice of positions, got {bound!r} in it")
    return wanted
