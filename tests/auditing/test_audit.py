"""The audit passes the installed mechanism, says what it tried and finds, and leaves no trace."""

import random

import numpy as np
import pytest

from countveil.auditing import AuditReport, audit
from countveil.privacy import Guarantee, add_noise

ONE = Guarantee(1)


@pytest.mark.long
def test_the_installed_mechanism_passes_at_full_size():
    """99.9 % lower bounds on epsilon: too high once in some 1e5 runs, so in two runs never."""
    reports = [audit(ONE) for _ in range(2)]
    bounds = []
    for report in reports:
        assert report
        assert report.passed
        assert not any(check.weak for check in report.checks)
        bounds += [c.numbers["lower bound"] for c in report.checks if "neighbours" in c.name]
    assert min(bounds) >= 0.9
    assert min(bounds) <= 1.0
    told = str(reports[0])
    assert (
        "finds a seed of 32 bits for each of them (26 where other shapes or types have noise of their own)"
        in told
    )
    assert "finds a seed of 32 bits for each of them, a seed of 32 bits for long ones" in told  # rows
    assert "Each finds what it says with probability 0.99." in told


@pytest.mark.parametrize(
    "guarantee",
    [
        None,
        Guarantee(900),
        *(
            pytest.param(each, marks=pytest.mark.long)
            for each in (
                Guarantee("0.001"),
                Guarantee(2, 7, "person"),
                Guarantee(12),
                Guarantee("1e-12"),
                Guarantee(10**30, 10**29),
            )
        ),
    ],
)
def test_the_installed_mechanism_passes(guarantee):
    report = audit(guarantee, 100_000)
    assert report, report
    assert "Verdict: passed" in str(report)
    assert len(report.checks) >= 19
    assert sum("; finds " in line for line in str(report).splitlines()) >= 10


def test_a_mechanism_that_works_in_place_passes():
    def mechanism(counts, guarantee):
        counts += add_noise(np.zeros_like(counts), guarantee)
        return counts

    assert audit(ONE, 50_000, mechanism=mechanism)


def test_seeding_for_the_audit_is_undone():
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = random.random(), np.random.rand()  # noqa: NPY002
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    original = np.random.default_rng
    audit(ONE, 10_000)
    assert np.random.default_rng is original
    assert (random.random(), np.random.rand()) == expected  # noqa: NPY002


def test_bad_input():
    with pytest.raises(TypeError, match="guarantee: expected a Guarantee, got int"):
        audit(1)
    for samples in (9_999, 1e7, True, "many"):
        with pytest.raises(ValueError, match="samples: expected a whole number of at least 10,000, got"):
            audit(samples=samples)
    with pytest.raises(ValueError, match="mechanism: expected an array of shape"):
        audit(ONE, 10_000, mechanism=lambda counts, _: counts[:-1])
    with pytest.raises(ValueError, match="mechanism: expected whole numbers"):
        audit(ONE, 10_000, mechanism=lambda counts, _: counts + 0.5)


def test_reports_are_plain_values():
    report = audit(Guarantee(12), 10_000)
    assert isinstance(report, AuditReport)
    # One noisy count in 80,000: 10,000 samples cannot show odds of exp(12), whatever was drawn.
    assert any("weak" in line for line in str(report).splitlines())
    assert all(isinstance(check.passed, bool) for check in report.checks)
