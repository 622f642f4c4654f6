"""One question put to a mechanism that is seen from outside: a function of counts and a guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from countveil.privacy import Guarantee

Mechanism = Callable[[np.ndarray, Guarantee], np.ndarray]

# Per p-value, for a right mechanism. Up to fifty of them: a right one fails less than one audit in 100,000.
FALSE_ALARM = 2e-7
# What a check says it finds, it finds with this probability.
POWER = 0.99
# Samples to expect in every group of a chi-square, so that its tail is as it should be at that level.
MIN_EXPECTED = 100


def noise_on(mechanism: Mechanism, guarantee: Guarantee, counts: np.ndarray) -> np.ndarray:
    """What the mechanism adds to these counts. It gets a copy: it might work in place, unless that is forbidden."""
    given = counts.copy(order="K")  # in the order of memory that it has
    given.setflags(write=counts.flags.writeable)
    released = np.asarray(mechanism(given, guarantee))
    if released.shape != counts.shape:
        raise ValueError(f"mechanism: expected an array of shape {counts.shape}, got {released.shape}")
    if released.dtype.kind not in "iu" and not (
        released.dtype.kind == "f" and np.isfinite(released).all() and (released == np.trunc(released)).all()
    ):
        raise ValueError("mechanism: expected whole numbers, got something else")
    return released.astype(np.int64, copy=False) - counts.astype(np.int64, copy=False)


@dataclass(frozen=True)
class Check:
    """One question put to the mechanism.

    >>> print(Check("law of the noise", True, "fits", {"p_value": 0.41}, finds="rho off by 1 %"))
    ok      law of the noise: fits (p_value 0.41); finds rho off by 1 %
    """

    name: str
    passed: bool
    finding: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    weak: bool = False  # it passed, but so would some wrong mechanisms
    finds: str = ""  # the smallest defect that it finds with probability POWER

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in self.numbers.items())
        mark = "FAILED" if not self.passed else "weak" if self.weak else "ok"
        told = f"{mark:7} {self.name}: {self.finding}" + (f" ({numbers})" if numbers else "")
        return told + (f"; finds {self.finds}" if self.finds else "")


def check_pvalue(
    name: str, pvalue: float, good: str, bad: str, *, finds: str = "", weak: bool = False
) -> Check:
    """A check that passes above the false-alarm rate; the smallest of n p-values comes multiplied by n."""
    passed = pvalue > FALSE_ALARM
    return Check(name, passed, good if passed else bad, {"p-value": min(1.0, pvalue)}, weak, finds)


def excess_pvalue(found: int, expected: float) -> float:
    """P(Poisson(expected) >= found): more of something rare than a right mechanism gives."""
    return float(stats.poisson.sf(found - 1, expected))


def least_excess(expected: float, tests: int) -> float:
    """The mean number of defects for which ``excess_pvalue``, one of so many tests, raises the alarm with POWER.

    The alarm comes from k on, and P(Poisson(m) >= k) = P(Gamma(k) <= m).
    """
    k = stats.poisson.isf(FALSE_ALARM / tests, expected) + 1
    return float(stats.gamma.ppf(POWER, k) - expected)
