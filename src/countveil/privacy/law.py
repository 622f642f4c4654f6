"""The cumulative probabilities of the noise and of its digits, each between two integers.

Every function gives integers ``low <= 2**bits * P(outcome <= k) <= high``, with ``a = exp(-rate)``. They
close in on the probability as ``bits`` grows. No probability here is a dyadic number: for rational rate > 0,
a is transcendental (Lindemann), and each is a non-constant rational function of a with rational coefficients.
So ``floor(2**bits * P)`` is always decided by enough precision, and a tie between a uniform number and P is
always broken by enough bits.
"""

from __future__ import annotations

from fractions import Fraction

from countveil.privacy.exp_bounds import exp_bounds

BASE = 512  # a digit is one of 0 .. BASE - 1


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
