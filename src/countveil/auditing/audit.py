"""audit: all checks at once, and their report."""

from __future__ import annotations

from dataclasses import dataclass, replace

from countveil.auditing.check import Check, Mechanism
from countveil.auditing.epsilon import check_epsilon
from countveil.auditing.independence import check_freshness, check_independence
from countveil.auditing.law import check_law, check_release
from countveil.counts.noise_parameter import check_guarantee
from countveil.privacy import Guarantee, add_noise

# The plain case, noise that is drawn digit by digit, and little noise.
USUAL = (Guarantee(1), Guarantee(1, precision=100), Guarantee(3))
MIN_SAMPLES = 10_000


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


def audit(
    guarantee: Guarantee | None = None, samples: int = 10_000_000, *, mechanism: Mechanism = add_noise
) -> AuditReport:
    """Test the installed noise from outside: its law, what neighbours show, independence, fresh bits.

    A right mechanism fails about one audit in 100,000. Wrong ones that are noticed at the usual size: alpha
    off by 10 %, zeros left as they are, noise shared between cells or calls, rounded or clipped Laplace
    noise, a biased sign, a seeded generator. An audit cannot prove a mechanism right.

    Parameters
    ----------
    guarantee
        The guarantee to test the noise of; by default three usual ones.
    samples
        Noisy counts per check and guarantee.
    mechanism
        What to test in place of ``add_noise``: a function of an array of counts and a Guarantee.

    Examples
    --------
    >>> from countveil.auditing import audit
    >>> report = audit(samples=200_000)
    >>> report.passed
    True
    """
    if guarantee is not None:
        check_guarantee(guarantee)
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < MIN_SAMPLES:
        raise ValueError(f"samples: expected a whole number of at least {MIN_SAMPLES:,}, got {samples!r}")
    checks = [
        replace(check, name=f"{_short(one)}: {check.name}")
        for one in (USUAL if guarantee is None else (guarantee,))
        for check in _checks(one, samples, mechanism)
    ]
    return AuditReport(tuple(checks))


def _checks(guarantee: Guarantee, samples: int, mechanism: Mechanism) -> list[Check]:
    found = [
        *check_law(mechanism, guarantee, samples),
        check_epsilon(mechanism, guarantee, samples),
        *check_independence(mechanism, guarantee, samples // 4),
        *check_freshness(mechanism, guarantee),
    ]
    if mechanism is add_noise:
        found.append(check_release(guarantee, samples // 4))
    return found


def _short(guarantee: Guarantee) -> str:
    return f"epsilon {guarantee.epsilon}, precision {guarantee.precision}"
