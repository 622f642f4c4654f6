"""What the audit says of itself is so: it finds the smallest defects it names with 0.99, and is rarely wrong."""

import re
import secrets

import numpy as np
import pytest
from scipy import stats

from auditing.zoo import geometric
from countveil.auditing import audit
from countveil.auditing.calls import bits_found, check_calls
from countveil.auditing.check import FALSE_ALARM, POWER, excess_pvalue, least_excess
from countveil.auditing.law import fit_pvalue, smallest_error
from countveil.auditing.paths import STRONG as PATHS_STRONG
from countveil.auditing.paths import above_pvalue, noise_below, one_clamped_in
from countveil.auditing.strong_noise import STRONG, copied_pvalue, one_in, raw_pvalue
from countveil.auditing.trials import TYPES
from countveil.privacy import Guarantee
from goodness_of_fit import SEED, fits, rejects

SIZE = 10_000


def found_with_power(alarms):
    """As often as was said, and not much oftener or the statement would be of little worth."""
    assert fits(stats.binomtest(int(np.sum(alarms)), len(alarms), POWER, alternative="less").pvalue)


def test_the_share_of_raw_cells_that_is_named_is_found():
    rng = np.random.default_rng([SEED, 1])
    alarms, half = [], []
    for found, share in ((alarms, 1 / one_in(SIZE, STRONG.rho)), (half, 0.3 / one_in(SIZE, STRONG.rho))):
        for _ in range(200):
            noise = geometric(rng, STRONG.rho, SIZE)
            noise[rng.random(SIZE) < share] = 0
            found.append(raw_pvalue(noise, STRONG.rho) <= FALSE_ALARM)
    found_with_power(alarms)
    assert rejects(stats.binomtest(int(np.sum(half)), len(half), POWER, alternative="less").pvalue)


def test_the_share_of_raw_zeros_that_is_named_is_found():
    """Of a release without negative values: half of the noisy ones are 0, too."""
    rng, tests = np.random.default_rng([SEED, 6]), 30
    alarms, half = [], []
    for found, share in ((alarms, 1.0), (half, 0.5)):
        for _ in range(200):
            noise = geometric(rng, PATHS_STRONG.rho, SIZE)
            noise[rng.random(SIZE) < share / one_clamped_in(SIZE, tests)] = 0
            found.append(above_pvalue(np.maximum(noise, 0)) * tests <= FALSE_ALARM)
    found_with_power(alarms)
    assert rejects(stats.binomtest(int(np.sum(half)), len(half), POWER, alternative="less").pvalue)


@pytest.mark.parametrize("rho", [1e-9, 0.5, 3.0])
def test_noise_in_place_of_what_was_clamped_has_the_whole_law(rho):
    """Whatever the counts are; noise that is clamped otherwise than to 0 has not."""
    rng = np.random.default_rng([SEED, 8])
    counts = rng.poisson(2 / rho, 200_000) * rng.integers(2, size=200_000)
    noise = geometric(rng, rho, counts.shape)
    for missed, is_right in ((0, True), (0.05, False)):
        kept = (counts + noise > 0) & (rng.random(counts.shape) >= missed)
        completed = np.where(kept, noise, noise_below(counts, rho, rng))
        for part in (completed[counts == 0], completed[counts > 0]):
            assert (fits if is_right else rejects)(fit_pvalue(part, rho))


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_bits_of_a_seed_are_found_in_either_order(order):
    """Of calls as the audit makes them, in every shape."""
    calls, rng = 200, np.random.default_rng([SEED, 7])
    states = round(2 ** bits_found(calls))

    def seeded(counts, guarantee):
        own = np.random.default_rng(int(rng.integers(states)))
        return counts + geometric(own, guarantee.rho, counts.size).reshape(counts.shape, order=order)

    found_with_power([not check_calls(seeded, calls)[0].passed for _ in range(100)])


def test_the_share_of_copies_that_is_named_is_found():
    rng = np.random.default_rng([SEED, 2])
    copies = least_excess(SIZE * (SIZE - 1) / 2 * STRONG.rho / 2, 1)
    alarms = []
    for _ in range(200):
        noise = geometric(rng, STRONG.rho, SIZE)
        number = rng.poisson(copies)
        noise[:number] = -noise[SIZE // 2 : SIZE // 2 + number]
        alarms.append(copied_pvalue(noise, STRONG.rho) <= FALSE_ALARM)
    found_with_power(alarms)


@pytest.mark.parametrize("clamped", [False, True])
@pytest.mark.parametrize("rho", [0.01, 1.0, 3.0])
def test_the_error_of_the_rate_that_is_named_is_found(rho, clamped):
    """At the least size at which it is named; without negative values half of the law is drawn anew, as it should be."""
    rng, tests, off = np.random.default_rng([SEED, 3]), 15, 0.02
    sizes = range(10_000, 2_000_000, 10_000)
    size = next(n for n in sizes if (smallest_error(rho, n, tests, clamped=clamped) or 1) <= off)
    for sign in (-1, 1):
        alarms = []
        for _ in range(12):
            noise = geometric(rng, rho * (1 + sign * off), size)
            if clamped:
                noise = np.where(noise > 0, noise, noise_below(np.zeros(size, int), rho, rng))
            alarms.append(fit_pvalue(noise, rho) * tests <= FALSE_ALARM)
        found_with_power(alarms)


def test_no_error_is_named_where_none_would_be_found():
    assert smallest_error(1.0, 2_000, 15) is None
    assert smallest_error(900.0, 10**7, 15) is None


def test_the_bits_of_a_seed_that_are_named_are_found():
    """An audit of usual size makes 200,000 calls and finds 32 bits with 0.99."""
    assert 32 <= bits_found(200_000) < 32.1
    rng = np.random.default_rng([SEED, 4])
    calls = 2_000
    states = round(2 ** bits_found(calls))
    found_with_power([len(np.unique(rng.integers(0, states, calls))) < calls for _ in range(1000)])
    missed = [len(np.unique(rng.integers(0, 8 * states, calls))) < calls for _ in range(1000)]
    assert rejects(stats.binomtest(int(np.sum(missed)), 1000, POWER, alternative="less").pvalue)


@pytest.mark.long
@pytest.mark.parametrize("any_type", [False, True])
def test_the_bits_are_found_where_every_shape_and_type_has_noise_of_its_own(any_type):
    """Noise that is drawn row by row is such: calls of the same seed repeat each other in one shape alone."""

    def checked(bits):
        def seeded(counts, guarantee):
            kind = (*counts.shape, TYPES.index(str(counts.dtype)))
            rng = np.random.default_rng([secrets.randbits(bits), *kind])
            return counts.astype(np.int64) + geometric(rng, guarantee.rho, counts.size).reshape(counts.shape)

        return check_calls(seeded, 2_000, any_type=any_type)[0]

    named = re.search(r"for each of them \((\d+) where", checked(64).finds)
    alone, plain = int(named[1]), int(bits_found(2_000))
    assert alone == (12 if any_type else 15)
    assert checked(64).passed
    found_with_power([not checked(alone).passed for _ in range(40)])
    found = [not checked(plain).passed for _ in range(40)]  # the other figure would say too much
    assert rejects(stats.binomtest(sum(found), 40, POWER, alternative="less").pvalue)


@pytest.mark.parametrize("expected", [1e-6, 0.01, 1.5, 800.0])
def test_the_least_excess_is_where_the_alarm_comes(expected):
    mean = expected + least_excess(expected, 3)
    limit = next(k for k in range(10**4) if 3 * excess_pvalue(k, expected) <= FALSE_ALARM)
    assert stats.poisson.sf(limit - 1, mean) == pytest.approx(POWER)


def test_a_right_mechanism_fails_fewer_than_one_audit_in_100_000():
    checks = audit(samples=10_000).checks
    assert len(checks) * FALSE_ALARM <= 1e-5


@pytest.mark.parametrize("rho", [5.0, 9.0, 12.0])
def test_rare_noise_raises_no_false_alarm(rho):
    """A chi-square that expects less than one sample would raise one in thousands."""
    rng = np.random.default_rng([SEED, 5])
    pvalues = np.array([fit_pvalue(geometric(rng, rho, 20_000), rho) for _ in range(400)])
    for level in (1e-3, 1e-2):
        assert fits(
            stats.binomtest(int((pvalues <= level).sum()), 2_000, level, alternative="greater").pvalue
        )


@pytest.mark.long
def test_pvalues_of_a_right_mechanism_are_no_smaller_than_they_say():
    """All checks of an audit give a smallest p-value below 0.1 / checks in at most a tenth of audits."""
    small = 0
    for _ in range(100):
        pvalues = [
            c.numbers["p-value"] for c in audit(Guarantee(1), 100_000).checks if "p-value" in c.numbers
        ]
        small += min(pvalues) <= 0.1 / len(pvalues)
    assert fits(stats.binomtest(small, 100, 0.1, alternative="greater").pvalue)
