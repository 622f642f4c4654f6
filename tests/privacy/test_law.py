"""The laws: their bounds enclose the exact cumulative probabilities and close in on them."""

from fractions import Fraction

import mpmath
import pytest

from countveil.privacy import law
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
