"""Quantiles of an integer law by bisection on its distribution function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def quantile(
    cdf: Callable[..., Any],
    q: Any,
    mean: Any,
    variance: Any,
    parameters: tuple[Any, ...],
    lowest: float = -np.inf,
) -> np.ndarray:
    """The smallest integer k >= ``lowest`` with ``cdf(k, *parameters) >= q``, elementwise.

    scipy's own search walks in steps of ten from -1, which never arrives at a mean of a million.
    """
    q, mean, variance, *parameters = np.broadcast_arrays(q, mean, variance, *parameters)  # type: ignore[assignment]
    width = np.ceil(np.sqrt(variance)) + 1
    low = np.maximum(np.floor(mean) - width, lowest - 1)
    high = np.maximum(np.floor(mean) + width, lowest)
    while np.any(outside := (cdf(low, *parameters) >= q) & (low >= lowest)):
        width = np.where(outside, 2 * width, width)
        low = np.where(outside, np.maximum(low - width, lowest - 1), low)
    # q = 1 is reached where the distribution function rounds to 1, which every law here does.
    while np.any(outside := cdf(high, *parameters) < q):
        width = np.where(outside, 2 * width, width)
        high = np.where(outside, high + width, high)
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        enough = cdf(middle, *parameters) >= q
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle)
    return high
