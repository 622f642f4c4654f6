"""What an audit found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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


@dataclass(frozen=True)
class AuditReport:
    """All checks of an audit. True if every one passed.

    >>> report = AuditReport((Check("two calls", False, "the same noise twice"),))
    >>> bool(report)
    False
    >>> print(report)
    FAILED  two calls: the same noise twice
    Verdict: FAILED, 1 of 1 checks. Do not release anything with this installation.
    """

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """The verdict."""
        return all(check.passed for check in self.checks)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        failed = sum(not check.passed for check in self.checks)
        verdict = (
            f"Verdict: passed, {len(self.checks)} checks. "
            "They look for wrong noise from outside; they cannot prove it right."
            if not failed
            else f"Verdict: FAILED, {failed} of {len(self.checks)} checks. "
            "Do not release anything with this installation."
        )
        return "\n".join([*map(str, self.checks), verdict])
