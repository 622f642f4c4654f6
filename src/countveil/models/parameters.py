"""Checks of a model's parameters: what was expected and what came."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """``value`` as an int, or an error naming the parameter."""
    good = isinstance(value, Integral) and not isinstance(value, bool)
    if not good or value < least or (most is not None and value > most):
        expected = f"a whole number >= {least}" if most is None else f"a whole number from {least} to {most}"
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
    return int(value)


def positive_number(name: str, value: Any, least: float = 0.0) -> float:
    """``value`` as a float, or an error naming the parameter."""
    good = isinstance(value, Real) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or value <= 0 or value < least:
        expected = f"a finite number >= {least:g}" if least else "a finite number > 0"
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
    return float(value)
