"""Equal-tailed intervals: the share of the posterior they hold, and where they end."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_interval(interval: Any) -> float:
    """The share of the posterior an interval is to hold, or an error."""
    if not (isinstance(interval, int | float | np.number) and 0 < interval < 1):
        raise ValueError(f"interval: expected a number between 0 and 1, got {interval!r}")
    return float(interval)


def tails_of(interval: float) -> tuple[float, float]:
    """The quantiles at which an equal-tailed interval begins and ends.

    >>> tails_of(0.5)
    (0.25, 0.75)
    """
    return (1 - interval) / 2, (1 + interval) / 2
