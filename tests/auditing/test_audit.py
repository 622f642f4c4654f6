"""The audit passes the installed mechanism and catches every wrong one."""

import math
import os
import random
from fractions import Fraction

import numpy as np
import pytest

from countveil.auditing import AuditReport, audit
from countveil.privacy import Guarantee, add_noise

SAMPLES = 1_000_000
ONE = Guarantee(1)
FRESH = np.random.default_rng()  # from the system's entropy: it must not be the seed that gives it away


def failed(report):
    return {check.name.split(": ")[1] for check in report.checks if not check.passed}


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


@pytest.mark.parametrize(
    "guarantee",
    [
        None,
        Guarantee("0.001"),
        Guarantee(2, 7, "person"),
        Guarantee(12),
        Guarantee(900),
        Guarantee("1e-12"),
        Guarantee(10**30, 10**29),
    ],
)
def test_the_installed_mechanism_passes(guarantee):
    report = audit(guarantee, 200_000)
    assert report, report
    assert "Verdict: passed" in str(report)
    assert len(report.checks) >= 8


def another_alpha(factor):
    def mechanism(counts, guarantee):
        return add_noise(counts, Guarantee(-math.log(factor * guarantee.alpha)))

    return mechanism


def zeros_left_alone(counts, guarantee):
    return np.where(counts == 0, 0, add_noise(counts, guarantee))


def large_counts_spared(counts, guarantee):
    return np.where(counts > 1000, counts, add_noise(counts, guarantee))


def neighbours_share(counts, guarantee):
    noise = add_noise(np.zeros_like(counts), guarantee)
    noise[1::20] = noise[0::20][: len(noise[1::20])]
    return counts + noise


def a_block_used_twice(counts, guarantee):
    noise = add_noise(np.zeros_like(counts), guarantee)
    noise[54_321:84_321] = noise[:30_000][: len(noise[54_321:84_321])]
    return counts + noise


class SameEveryCall:
    def __init__(self):
        self.noise = {}

    def __call__(self, counts, guarantee):
        kept = self.noise.setdefault(counts.size, add_noise(np.zeros_like(counts), guarantee))
        return counts + kept


def rounded_laplace(counts, guarantee):
    return counts + np.rint(FRESH.laplace(0, 1 / guarantee.rho, counts.size)).astype(int)


def clipped_noise(counts, guarantee):
    return counts + np.clip(add_noise(np.zeros_like(counts), guarantee), -8, 8)


def clamped(counts, guarantee):
    return np.maximum(add_noise(counts, guarantee), 0)


def rather_positive(counts, guarantee):
    noise = add_noise(np.zeros_like(counts), guarantee)
    return counts + np.where(FRESH.random(counts.size) < 0.02, np.abs(noise), noise)


def geometric(rng, counts, guarantee):
    stay = 1 - guarantee.alpha
    return counts + rng.geometric(stay, counts.size) - rng.geometric(stay, counts.size)


def legacy_numpy(counts, guarantee):
    return geometric(np.random, counts, guarantee)


def new_numpy(counts, guarantee):
    return geometric(np.random.default_rng(), counts, guarantee)


def seeded_from_python(counts, guarantee):
    return geometric(np.random.Generator(np.random.PCG64(random.getrandbits(64))), counts, guarantee)


def state_across_forks(counts, guarantee):
    return geometric(FRESH, counts, guarantee)


WRONG = [
    (another_alpha(1.1), "law of the noise"),
    (another_alpha(0.9), "law of the noise"),
    (another_alpha(0.9), "epsilon from neighbours"),
    (zeros_left_alone, "law of the noise"),
    (zeros_left_alone, "epsilon from neighbours"),
    (large_counts_spared, "law of the noise"),
    (neighbours_share, "neighbouring cells"),
    (a_block_used_twice, "cells at any distance"),
    (SameEveryCall(), "the same cell in two calls"),
    (SameEveryCall(), "two calls"),
    (rounded_laplace, "law of the noise"),
    (clipped_noise, "largest noise"),
    (clamped, "law of the noise"),
    (rather_positive, "sign of the noise"),
    (legacy_numpy, "two calls after seeding"),
    (new_numpy, "two calls after seeding"),
    (seeded_from_python, "two calls after seeding"),
    pytest.param(
        state_across_forks,
        "a forked process",
        marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
    ),
]


@pytest.mark.parametrize(("mechanism", "check"), WRONG)
def test_wrong_mechanisms_are_caught(mechanism, check):
    report = audit(ONE, SAMPLES, mechanism=mechanism)
    assert not report
    assert check in failed(report)
    assert "Verdict: FAILED" in str(report)


@pytest.mark.parametrize("off", ["9/10", "11/10"])
@pytest.mark.parametrize("guarantee", [Guarantee("0.01"), Guarantee("0.1"), Guarantee(1)])
def test_a_rate_off_by_a_tenth_is_caught_whatever_the_rate(guarantee, off):
    def mechanism(counts, given):
        return add_noise(counts, Guarantee(given.epsilon * Fraction(off), given.precision))

    assert "law of the noise" in failed(audit(guarantee, SAMPLES, mechanism=mechanism))


def test_a_privatize_that_forgets_zeros_is_caught(monkeypatch):
    monkeypatch.setattr("countveil.counts.guarantees.add_noise", zeros_left_alone)
    assert failed(audit(ONE, 200_000)) == {"zeros of a sparse matrix"}


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
    report = audit(ONE, 10_000)
    assert isinstance(report, AuditReport)
    assert any("weak" in line for line in str(report).splitlines())  # 10,000 samples notice little
    assert all(isinstance(check.passed, bool) for check in report.checks)
