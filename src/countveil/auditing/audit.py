"""audit: all checks at once."""

from __future__ import annotations

from dataclasses import replace

from countveil.auditing.epsilon import check_epsilon
from countveil.auditing.freshness import check_freshness
from countveil.auditing.independence import check_independence
from countveil.auditing.law import check_law
from countveil.auditing.mechanism import Mechanism
from countveil.auditing.release import check_release
from countveil.auditing.report import AuditReport, Check
from countveil.counts.noise_rate import check_guarantee
from countveil.privacy import Guarantee, add_noise

# The plain case, noise that is drawn digit by digit, and little noise.
USUAL = (Guarantee(1), Guarantee(1, precision=100), Guarantee(3))
FEWEST = 10_000


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
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < FEWEST:
        raise ValueError(f"samples: expected a whole number of at least {FEWEST:,}, got {samples!r}")
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
