"""audit: all checks at once, and their report."""

from __future__ import annotations

from dataclasses import dataclass, replace

from countveil.auditing.calls import OFTEN, check_calls
from countveil.auditing.check import POWER, Check, Mechanism
from countveil.auditing.epsilon import check_epsilon
from countveil.auditing.independence import check_freshness, check_independence
from countveil.auditing.law import check_law
from countveil.auditing.paths import check_paths
from countveil.auditing.strong_noise import STRONG, check_strong_noise
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
            f"Verdict: passed, {len(self.checks)} checks. Each finds what it says with probability {POWER:g}. "
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

    Counts of every size, constant and mixed, go in as arrays of one to three axes, large and small; and through
    ``privatize``, with a guarantee for each row, as sparse matrices, graphs and files. A right mechanism
    fails fewer than one audit in 100,000. Every check says the smallest defect that it finds with probability
    0.99: at the usual size a rate off by 0.5 %, one cell in 170,000 without noise, one in 120,000 with the noise
    of another cell, a seed of 32 bits for each call or each row (26 where calls of other
    shapes or types have noise of their own). A seed that is drawn once for each process is
    not found. An audit cannot prove a mechanism right.

    Parameters
    ----------
    guarantee
        The guarantee to test the noise of; by default three usual ones.
    samples
        Noisy counts per check and guarantee; one call in 50 of them looks for noise that repeats.
    mechanism
        What to test in place of ``add_noise``: a function of an array of counts and a Guarantee. It must follow
        whatever guarantee it gets: faults show best where noise is strong, so stronger ones are asked for too.

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
    tested = USUAL if guarantee is None else (guarantee,)
    checks = [
        *(check for one in tested for check in _named(one, _checks(one, samples, mechanism))),
        *_named(STRONG, check_strong_noise(mechanism, samples // 4, any_type=mechanism is add_noise)),
        *_named(OFTEN, check_calls(mechanism, samples // 50, any_type=mechanism is add_noise)),
    ]
    if mechanism is add_noise:
        checks += check_paths(tested, samples // 20)
    return AuditReport(tuple(checks))


def _checks(guarantee: Guarantee, samples: int, mechanism: Mechanism) -> list[Check]:
    return [
        *check_law(mechanism, guarantee, samples),
        check_epsilon(mechanism, guarantee, samples),
        *check_independence(mechanism, guarantee, samples // 4),
        *check_freshness(mechanism, guarantee),
    ]


def _named(guarantee: Guarantee, checks: list[Check]) -> list[Check]:
    about = f"epsilon {guarantee.epsilon}, precision {guarantee.precision:,}"
    return [replace(check, name=f"{about}: {check.name}") for check in checks]
