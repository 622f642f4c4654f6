"""Table: every uniform number gets its exact outcome; ties are broken by more bits."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from countveil.privacy import geometric, law
from countveil.privacy.thresholds import Table
from privacy.noise_law import repeatable_bits, scripted_bits, threshold


def signed_table(rate):
    return geometric._two_sided_table(Fraction(rate))


def exact_floors(function, count, bits):
    """floor(2**bits * P) by mpmath, for each of the thresholds."""
    with mpmath.workprec(bits + 2000):
        return [int(mpmath.floor(function(i) * mpmath.mpf(2) ** bits)) for i in range(count)]


def digits_and_rest(rate, i):
    """P(<= i) of a digit and of a geometric."""
    x = mpmath.mpf(rate.numerator) / rate.denominator
    rest = -mpmath.expm1(-(i + 1) * x)
    return rest / -mpmath.expm1(-law.BASE * x), rest


# alpha = 1e-9 is rate 20.72; 1000 is the largest rate, where both thresholds are within 2**-64 of 0 and 1.
@pytest.mark.parametrize("rate", ["0.0390625", "0.1", "1", "3", "20.723265836946411", "1000"])
def test_probabilities_of_the_noise_are_exact_to_the_last_of_64_bits(rate):
    """The thresholds say how many of the 2**64 words go to each outcome. With a rate 10 % off they differ."""
    width, table = signed_table(rate)
    rate = Fraction(rate)

    def floors(factor):
        with mpmath.workprec(2200):
            x = factor * mpmath.mpf(rate.numerator) / rate.denominator
        return exact_floors(lambda i: threshold(x, i - width), 2 * width, 64)

    assert table._thresholds.tolist() == floors(1)
    if rate < 40:
        assert table._thresholds.tolist() != floors(1.1)


@pytest.mark.parametrize("rate", ["1e-12", "1e-9", "0.001", "0.039"])
def test_probabilities_of_digits_are_exact_to_the_last_of_64_bits(rate):
    rate = Fraction(rate)
    digit = geometric._digit_table(rate)
    assert digit._thresholds.tolist() == exact_floors(lambda i: digits_and_rest(rate, i)[0], law.BASE - 1, 64)
    while not geometric._fits(rate):
        rate *= law.BASE
    width, rest = geometric._one_sided_table(rate)
    assert rest._thresholds.tolist() == exact_floors(lambda i: digits_and_rest(rate, i)[1], width, 64)


@pytest.mark.parametrize("rate", ["0.0390625", "1", "20.723265836946411", "1000"])
@pytest.mark.parametrize("fill", [0, 2**64 - 1, None])
def test_every_cell_of_16_bits_decides_as_the_whole_word_does(rate, fill):
    _, table = signed_table(rate)
    cells = np.arange(2**16, dtype=np.uint16)
    given = []

    def source(count):
        if count == 2 * cells.size:
            return cells.tobytes()
        fair = np.frombuffer(repeatable_bits()(count), dtype=np.uint64)
        given.append(fair if fill is None else np.full(count // 8, fill, dtype=np.uint64))
        return given[-1].tobytes()

    drawn = table.draw(cells.size, source)
    words = cells.astype(np.uint64) << np.uint64(48)
    unsure = table._cells == -(2**15)
    words[unsure] |= given[0] >> np.uint64(16)
    thresholds = [int(t) for t in table._thresholds]
    tied = np.isin(words, table._thresholds)
    # Also where there is no tie, compare with Python's integers.
    expected = np.array([table.first + sum(t < int(w) for t in thresholds) for w in words[unsure & ~tied]])
    assert np.array_equal(drawn[unsure & ~tied], expected)
    sure = np.searchsorted(table._thresholds, words[~unsure] + np.uint64(2**47)) + table.first
    assert np.array_equal(drawn[~unsure], sure)


def bits_of(number, bits):
    """The 16, 48 and then 64 at a time leading bits of a number in (0, 1), as the table asks for them."""
    answers = [np.uint16(number >> bits - 16).tobytes()]
    low48 = (number >> bits - 64) % 2**48
    answers.append(np.uint64(low48 << 16 | 0xABCD).tobytes())  # the last 16 are not used
    for used in range(128, bits + 1, 64):
        answers.append((number >> bits - used).to_bytes(bits // 8, "big")[-8:])
    return answers


@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
@pytest.mark.parametrize("k", [-4, -1, 0, 1, 5])
@pytest.mark.parametrize("rate", ["0.1", "3"])
def test_ties_are_broken_by_as_many_bits_as_it_takes(rate, k, rounds):
    """A uniform number that shares its first 64 * rounds bits with a threshold."""
    width, table = signed_table(rate)
    bits = 64 * (rounds + 1)
    x = Fraction(rate)
    with mpmath.workprec(bits + 100):
        exact = threshold(mpmath.mpf(x.numerator) / x.denominator, k) * mpmath.mpf(2) ** bits
        floor = int(mpmath.floor(exact))
    assert -width < k < width
    assert 0 < floor % 2**64 < 2**64 - 1
    assert table.draw(1, scripted_bits(bits_of(floor - 1, bits))).tolist() == [k]  # just below: tau <= k
    assert table.draw(1, scripted_bits(bits_of(floor + 1, bits))).tolist() == [k + 1]
    with pytest.raises(StopIteration):  # still a tie: it asks for more
        table.draw(1, scripted_bits(bits_of(floor, bits)))


def test_thresholds_that_share_a_word():
    """Three thresholds, two of them equal in their first 100 bits."""
    thresholds = [Fraction(1, 3), Fraction(1, 3) + Fraction(1, 7 * 2**100), Fraction(2, 3)]

    def bounds(k, bits):
        low = int(thresholds[k] * 2**bits)
        return low, low + 1

    table = Table(bounds, 0, 3)
    assert table._thresholds[0] == table._thresholds[1]
    floors = [int(t * 2**192) for t in thresholds]
    between = (floors[0] + floors[1]) // 2
    for number, outcome in [(floors[0] - 1, 0), (between, 1), (floors[1] + 1, 2)]:
        assert table.draw(1, scripted_bits(bits_of(number, 192))).tolist() == [outcome]
    # A tie with one of them at 128 bits is not yet a tie with the other: it must still ask for more.
    with pytest.raises(StopIteration):
        table.draw(1, scripted_bits(bits_of(floors[1] >> 64, 128)))


def test_precision_grows_until_the_bounds_agree():
    """Bounds so wide that 64 guard bits do not settle the floor."""
    asked = []

    def bounds(k, bits):
        asked.append(bits)
        middle = 2**bits // 3
        return middle - 2**80, middle + 2**80

    table = Table(bounds, 0, 1)
    assert table._thresholds.tolist() == [2**64 // 3]
    assert max(asked) > 64 + 64


@pytest.mark.parametrize(("fill", "outcome"), [(b"\0", -1), (b"\xff", 1)])
def test_ties_at_the_largest_rate(fill, outcome):
    """At rate 1000 a word of zeros is a tie with P(tau <= -1) = exp(-1000) / (1 + exp(-1000)), a word of ones
    with P(tau <= 0); beyond 1443 such bits the noise is not zero."""
    _, table = signed_table("1000")
    start = [2 * fill, 8 * fill]
    assert table.draw(1, scripted_bits([*start, b"\x55" * 8])).tolist() == [0]
    assert table.draw(1, scripted_bits([*start, *[8 * fill] * 21, b"\x55" * 8])).tolist() == [0]
    assert table.draw(1, scripted_bits([*start, *[8 * fill] * 22])).tolist() == [outcome]


def test_a_short_answer_is_an_error():
    _, table = signed_table("1")
    with pytest.raises(ValueError, match="buffer is smaller"):
        table.draw(4, lambda count: b"\x80" * (count - 2))
