"""What tokens are counted in: one array for the rows, one per thread for the columns."""

from __future__ import annotations

import numpy as np

from countveil.inference.observations import Observations
from countveil.models.exposure import ordered_sum


def released_total(data: Observations) -> float:
    """The sum of the positive releases: once, because there may be millions of them."""
    return float(data.values.sum(dtype=np.float64))


def counter_type(released: float, theta: np.ndarray, phi: np.ndarray) -> type[np.signedinteger]:
    """int32 where it holds all tokens of a sweep many times over, else int64.

    A true count beyond its release is at most about its rate, so that there are hardly more tokens than the
    ``released_total`` and the total rate together. theta and phi have a row per row and per column.
    """
    expected = released + float(ordered_sum(theta) @ ordered_sum(phi))
    return np.int32 if expected < 2**28 else np.int64


def added_up(parts: np.ndarray) -> np.ndarray:
    """The sum over the first axis, in the place of its first entry."""
    for part in parts[1:]:
        parts[0] += part
    return parts[0]
