"""The mechanism under audit: a function of counts and a guarantee, seen from outside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from countveil.privacy import Guarantee

Mechanism = Callable[[np.ndarray, Guarantee], np.ndarray]

# Per check, for a right mechanism. Some thirty checks: a right one fails one audit in a hundred thousand.
FALSE_ALARM = 3e-7
# Samples to expect in every group of a chi-square, so that its tail is as it should be at that level.
FEWEST = 100


def noise_on(mechanism: Mechanism, guarantee: Guarantee, count: int, size: int) -> np.ndarray:
    """What the mechanism adds to ``size`` cells that all hold ``count``."""
    counts = np.full(size, count, dtype=np.int64)
    released = np.asarray(mechanism(counts, guarantee))
    if released.shape != counts.shape:
        raise ValueError(f"mechanism: expected an array of shape {counts.shape}, got {released.shape}")
    if not np.isfinite(released).all() or (released != np.trunc(released)).any():
        raise ValueError("mechanism: expected whole numbers, got something else")
    return released.astype(np.int64) - count
