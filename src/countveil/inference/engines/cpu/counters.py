"""What tokens are counted in: one array for the rows, one per thread for the columns."""

from __future__ import annotations

import numpy as np

from countveil.inference.observations import Observations


def counter_type(data: Observations, theta: np.ndarray, phi: np.ndarray) -> type[np.signedinteger]:
    """int32 where it holds all tokens of a sweep many times over, else int64.

    A true count beyond its release is at most about its rate, so that there are hardly more tokens than the
    releases' sum and the total rate together.
    """
    expected = float(data.values.sum(dtype=np.float64)) + float(theta.sum(axis=0) @ phi.sum(axis=0))
    return np.int32 if expected < 2**28 else np.int64


def added_up(parts: np.ndarray) -> np.ndarray:
    """The sum over the first axis, in the place of its first entry."""
    for part in parts[1:]:
        parts[0] += part
    return parts[0]
