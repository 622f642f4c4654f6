"""Equality of nested tuples that hold arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def same_arrays(one: Any, other: Any) -> bool:
    """True if both have the same structure and equal leaves; arrays need equal shapes and values."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        both = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
        return both and np.array_equal(one, other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same_arrays, one, other))
    return bool(one == other)
