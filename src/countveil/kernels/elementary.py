"""Logarithm and exponential in plain arithmetic, for loops over arrays.

``math.log`` and ``math.exp`` are calls, one number after the other. These are a few dozen multiplications without a
branch: in a loop over an array the compiler works on several numbers at once, in a quarter of the time. They mean
the same bits on every machine, and are right to about the last digit.

log x: x = 2**n * m with m between sqrt(1/2) and sqrt(2), and log m = 2 artanh(s) = 2 (s + s**3/3 + s**5/5 + ...),
s = (m-1)/(m+1), whose square is at most 0.0295.
exp x: x = n log 2 + r with abs(r) <= 0.347, and exp r = 1 + r + r**2/2 + r**3/6 + ...
"""

from __future__ import annotations

import math

import numpy as np

from countveil.runtime.compiled import inlined

_FRACTION_BITS = np.int64(52)
_BITS_OF_ROOT_HALF = np.float64(math.sqrt(0.5)).view(np.int64)
_EXPONENT_OF_ONE = np.int64(1023)
_LOG_2 = math.log(2.0)
# log 2 in two parts; the first has 32 bits, so that its product with a whole number below 2**20 is exact.
_LOG_2_HIGH = int(_LOG_2 * 2**32) / 2**32
_LOG_2_LOW = 1.9082149292705877e-10
# Added to a number below 2**51, this leaves it rounded to a whole one, in the low bits.
_ROUNDING = 1.5 * 2.0**52
_BITS_OF_ROUNDING = np.float64(_ROUNDING).view(np.int64)
_S = [1.0 / (2 * j + 1) for j in range(11)]
_S1, _S2, _S3, _S4, _S5, _S6, _S7, _S8, _S9, _S10 = _S[1:]
_E = [1.0 / math.factorial(j) for j in range(14)]
_E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9, _E10, _E11, _E12, _E13 = _E[2:]


@inlined
def log_of(x):
    """log x for a positive x that is neither subnormal nor infinite."""
    bits = np.float64(x).view(np.int64)
    n = (bits - _BITS_OF_ROOT_HALF) >> _FRACTION_BITS
    m = np.int64(bits - (n << _FRACTION_BITS)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    series = _S6 + q * (_S7 + q * (_S8 + q * (_S9 + q * _S10)))
    series = q * (_S1 + q * (_S2 + q * (_S3 + q * (_S4 + q * (_S5 + q * series)))))
    return n * _LOG_2 + (2.0 * s + 2.0 * s * series)


@inlined
def exp_of(x):
    """exp x for x from -700 to 700."""
    whole = x * (1.0 / _LOG_2) + _ROUNDING
    n = whole - _ROUNDING
    r = (x - n * _LOG_2_HIGH) - n * _LOG_2_LOW
    series = _E8 + r * (_E9 + r * (_E10 + r * (_E11 + r * (_E12 + r * _E13))))
    series = r * r * (_E2 + r * (_E3 + r * (_E4 + r * (_E5 + r * (_E6 + r * (_E7 + r * series))))))
    exponent = np.float64(whole).view(np.int64) - _BITS_OF_ROUNDING + _EXPONENT_OF_ONE
    return (1.0 + (r + series)) * np.int64(exponent << _FRACTION_BITS).view(np.float64)
