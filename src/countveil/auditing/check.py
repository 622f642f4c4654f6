"""One question put to a mechanism that is seen from outside: a function of counts and a guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from countveil.privacy import Guarantee

Mechanism = Callable[[np.ndarray, Guarantee], np.ndarray]

# Per check, for a right mechanism. Some thirty checks: a right one fails one audit in a hundred thousand.
FALSE_ALARM = 3e-7
# Samples to expect in every group of a chi-square, so that its tail is as it should be at that level.
MIN_EXPECTED = 100


def noise_on(mechanism: Mechanism, guarantee: Guarantee, count: int, size: int) -> np.ndarray:
    """What the mechanism adds to ``size`` cells that all hold ``count``."""
    counts = np.full(size, count, dtype=np.int64)
    released = np.asarray(mechanism(counts, guarantee))
    if released.shape != counts.shape:
        raise ValueError(f"mechanism: expected an array of shape {counts.shape}, got {released.shape}")
    if not np.isfinite(released).all() or (released != np.trunc(released)).any():
        raise ValueError("mechanism: expected whole numbers, got something else")
    return released.astype(np.int64) - count


@dataclass(frozen=True)
class Check:
    """One question put to the mechanism.

    >>> print(Check("law of the noise", True, "fits", {"p_value": 0.41}))
    ok      law of the noise: fits (p_value 0.41)
    """

    name: str
    passed: bool
    finding: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    weak: bool = False  # it passed, but so would some wrong mechanisms

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in self.numbers.items())
        mark = "FAILED" if not self.passed else "weak" if self.weak else "ok"
        return f"{mark:7} {self.name}: {self.finding}" + (f" ({numbers})" if numbers else "")


def check_pvalue(name: str, pvalue: float, good: str, bad: str) -> Check:
    """A check that passes above the false-alarm rate; the smallest of n p-values comes multiplied by n."""
    passed = pvalue > FALSE_ALARM
    return Check(name, passed, good if passed else bad, {"p-value": min(1.0, pvalue)})
