"""Rows and columns named by position or by label."""

from __future__ import annotations

from typing import Any

import numpy as np


def positions(name: str, wanted: Any, labels: np.ndarray | None, length: int) -> np.ndarray:
    """Positions of what is wanted along an axis: None (all), a slice, positions, labels, or a boolean mask."""
    everything = np.arange(length)
    if wanted is None:
        return everything
    if isinstance(wanted, slice):
        return everything[wanted]
    wanted = np.atleast_1d(np.asarray(wanted))
    if wanted.dtype.kind == "b":
        if len(wanted) != length:
            raise ValueError(f"{name}: expected a mask of length {length}, got {len(wanted)}")
        return everything[wanted]
    if wanted.dtype.kind in "iu":
        if wanted.size and (wanted.min() < -length or wanted.max() >= length):
            raise ValueError(f"{name}: expected positions below {length}, got {wanted.max()}")
        return everything[wanted]
    if wanted.size == 0:
        return everything[:0]
    if labels is None:
        raise ValueError(f"{name}: expected positions (there are no labels), got {wanted[0]!r}")
    where = {label: i for i, label in enumerate(labels)}
    for label in wanted:
        if str(label) not in where:
            raise ValueError(f"{name}: expected known labels, got {str(label)!r}")
    return np.array([where[str(label)] for label in wanted])
