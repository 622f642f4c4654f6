"""The laws: their bounds, and those of exp(-x), enclose the exact values and close in on them."""

import decimal
from fractions import Fraction

import mpmath
import pytest

from countveil.privacy import law
from countveil.privacy.law import exp_bounds
from privacy.noise_law import threshold


def geometric(x, k):
    return -mpmath.expm1(-(k + 1) * x)


def digit(x, k):
    return geometric(x, k) / geometric(x, law.BASE - 1)


LAWS = [(law.two_sided, threshold), (law.geometric, geometric), (law.digit, digit)]


@pytest.mark.parametrize(("bounds", "exact"), LAWS)
@pytest.mark.parametrize("rate", ["0.01", "1/7", "1", "3"])
def test_bounds_enclose_and_close_in(bounds, exact, rate):
    """At few bits, where rounding the wrong way would show."""
    rate = Fraction(rate)
    with mpmath.workprec(400):
        for k in range(-20 if bounds is law.two_sided else 0, 20):
            probability = exact(mpmath.mpf(rate.numerator) / rate.denominator, k)
            for bits in (12, 13, 20, 64, 200):
                low, high = bounds(rate, k, bits)
                assert low <= probability * 2**bits <= high
                assert high - low < 100


@pytest.mark.parametrize("bits", [64, 128, 500, 3000])
@pytest.mark.parametrize("x", ["1e-12", "1/3", "0.1", "1", "20.7", "1020", Fraction(0.1)])
def test_exp_bounds_enclose_and_are_tight(x, bits):
    x = Fraction(x)
    low, high = exp_bounds(x, bits)
    with mpmath.workprec(bits + 100):
        exact = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
        assert low <= exact <= high
    assert high - low <= 4


@pytest.mark.parametrize("off", ["1e-9", "-1e-9"])
def test_exp_bounds_enclose_where_decimal_rounds_to_a_whole_number(off):
    """exp(-x) * 2**8 is 128 but for 1e-7, and the few digits used for 8 bits make it 128."""
    low, high = exp_bounds(Fraction("0.693147180559945309") + Fraction(off), 8)
    assert low <= 127
    assert high >= 129


def test_exp_bounds_do_not_depend_on_the_callers_decimal_context():
    x = Fraction(123456789, 987654321)
    expected = exp_bounds.__wrapped__(x, 200)
    hostile = decimal.Context(prec=3, rounding=decimal.ROUND_UP, Emin=-5, Emax=5, traps=[decimal.Inexact])
    with decimal.localcontext(hostile):
        assert exp_bounds.__wrapped__(x, 200) == expected
