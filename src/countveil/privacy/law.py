"""The cumulative probabilities of the noise and of its digits, each between two integers.

``exp_bounds`` encloses exp(-x). With ``a = exp(-rate)`` the laws give integers ``low <= 2**bits * P(outcome <= k)
<= high``, which close in on the probability as ``bits`` grows. No probability here is a dyadic number: for
rational rate > 0, a is transcendental (Lindemann), and each is a non-constant rational function of a with rational
coefficients. So ``floor(2**bits * P)`` is always decided by enough precision, and a tie between a uniform number
and P is always broken by enough bits.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

BASE = 512  # a digit is one of 0 .. BASE - 1


@lru_cache(maxsize=1024)  # the two halves of a symmetric table ask for the same
def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers ``low <= 2**bits * exp(-x) <= high`` for rational x > 0, a few units apart.

    ``decimal`` gives exp correctly rounded (to nearest, whatever the context says), so the neighbouring
    decimals enclose it; the division before it is rounded outwards.

    >>> exp_bounds(Fraction(1, 3), 16)  # 65536 * 0.71653 = 46958.6
    (46958, 46959)
    """
    digits = bits // 3 + 3  # 10**digits > 2**bits
    down, up = _context(digits, decimal.ROUND_FLOOR), _context(digits, decimal.ROUND_CEILING)
    numerator, denominator = Decimal(x.numerator), Decimal(x.denominator)
    # copy_negate, because a plain minus rounds to the caller's context.
    low = down.next_minus(down.exp(up.divide(numerator, denominator).copy_negate()))
    high = up.next_plus(up.exp(down.divide(numerator, denominator).copy_negate()))
    return _shift(low, bits), -_shift(high.copy_negate(), bits)


def _context(digits: int, rounding: str) -> decimal.Context:
    # Everything is said: what is left out would come from a default that other code can change.
    traps = [decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow]
    return decimal.Context(digits, rounding, decimal.MIN_EMIN, decimal.MAX_EMAX, 1, 0, [], traps)


def _shift(value: Decimal, bits: int) -> int:
    """floor(2**bits * value), exactly."""
    numerator, denominator = value.as_integer_ratio()
    return (numerator << bits) // denominator


def two_sided(rate: Fraction, k: int, bits: int) -> tuple[int, int]:
    """The noise, P(k) = (1-a)/(1+a) * a**abs(k): P(<= k) = a**-k / (1+a) for k < 0, then by symmetry."""
    one = 1 << bits
    if k >= 0:
        low, high = two_sided(rate, -k - 1, bits)
        return one - high, one - low
    power_low, power_high = exp_bounds(-k * rate, bits)
    a_low, a_high = exp_bounds(rate, bits)
    return (power_low << bits) // (one + a_high), -((-power_high << bits) // (one + a_low))


def geometric(rate: Fraction, k: int, bits: int) -> tuple[int, int]:
    """P(k) = (1-a) * a**k on k = 0, 1, ...: P(<= k) = 1 - a**(k+1)."""
    one = 1 << bits
    low, high = exp_bounds((k + 1) * rate, bits)
    return one - high, one - low


def digit(rate: Fraction, k: int, bits: int) -> tuple[int, int]:
    """The same geometric given that it is below BASE: P(<= k) = (1 - a**(k+1)) / (1 - a**BASE)."""
    low, high = geometric(rate, k, bits)
    all_low, all_high = geometric(rate, BASE - 1, bits)
    return (low << bits) // all_high, -((-high << bits) // all_low)
