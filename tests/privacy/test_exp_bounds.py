"""exp_bounds: encloses exp(-x), tightly, whatever the caller's decimal context."""

import decimal
from fractions import Fraction

import mpmath
import pytest

from countveil.privacy.exp_bounds import exp_bounds


@pytest.mark.parametrize("bits", [64, 128, 500, 3000])
@pytest.mark.parametrize("x", ["1e-12", "1/3", "0.1", "1", "20.7", "1020", Fraction(0.1)])
def test_encloses_and_is_tight(x, bits):
    x = Fraction(x)
    low, high = exp_bounds(x, bits)
    with mpmath.workprec(bits + 100):
        exact = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
        assert low <= exact <= high
    assert high - low <= 4


@pytest.mark.parametrize("off", ["1e-9", "-1e-9"])
def test_encloses_where_decimal_rounds_to_a_whole_number(off):
    """exp(-x) * 2**8 is 128 but for 1e-7, and the few digits used for 8 bits make it 128."""
    low, high = exp_bounds(Fraction("0.693147180559945309") + Fraction(off), 8)
    assert low <= 127
    assert high >= 129


def test_does_not_depend_on_the_callers_decimal_context():
    x = Fraction(123456789, 987654321)
    expected = exp_bounds.__wrapped__(x, 200)
    hostile = decimal.Context(prec=3, rounding=decimal.ROUND_UP, Emin=-5, Emax=5, traps=[decimal.Inexact])
    with decimal.localcontext(hostile):
        assert exp_bounds.__wrapped__(x, 200) == expected
