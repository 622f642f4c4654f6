"""exp(-x) between two integers, to any precision."""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache


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
