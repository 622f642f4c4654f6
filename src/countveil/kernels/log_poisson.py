"""Logarithms of Poisson probabilities and factorial ratios without cancellation.

Loader, "Fast and accurate computation of binomial probabilities" (2000): the saddle-point form
log P(k; mu) = -log(2 pi k)/2 - stirling_error(k) - deviance(k, mu), each term small and accurate.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.kernels.compiled import compiled

# log n! - log(sqrt(2 pi n) (n/e)**n) for n = 0..15; the entry for 0 is never used.
_STIRLING_ERRORS = np.array([
    0.0,
    0.08106146679532725822,
    0.041340695955409294094,
    0.027677925684998339149,
    0.020790672103765093112,
    0.016644691189821192163,
    0.013876128823070747999,
    0.011896709945891770095,
    0.010411265261972096497,
    0.0092554621827127329177,
    0.0083305634333628712565,
    0.007573675487951840795,
    0.0069428401072095298657,
    0.0064089941880042070684,
    0.0059513701127588477356,
    0.005554733551962801371,
])  # fmt: skip
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@compiled
def stirling_error(n):
    """log n! - log(sqrt(2 pi n) (n/e)**n) for an integer n >= 1: the Stirling series beyond a table."""
    if n <= 15:
        return _STIRLING_ERRORS[np.int64(n)]
    s = 1.0 / (float(n) * float(n))
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - (1 / 1188 - s * 691 / 360360) * s) * s) * s) * s) / n


@compiled
def deviance(x, mean):
    """x*log(x/mean) + mean - x >= 0 for x, mean > 0, by series where the terms would cancel."""
    difference = x - mean
    if abs(difference) < 0.1 * (x + mean):
        v = difference / (x + mean)
        total = difference * v
        term = 2.0 * x * v
        square = v * v
        j = 1
        while True:
            term *= square
            following = total + term / (2 * j + 1)
            if following == total:
                return total
            total = following
            j += 1
    return x * math.log(x / mean) + mean - x


@compiled
def log_poisson(k, mean):
    """log(mean**k * exp(-mean) / k!) for an integer k >= 0 and mean >= 0."""
    if k == 0:
        return -mean
    if mean == 0.0:
        return -math.inf
    return -_HALF_LOG_2PI - 0.5 * math.log(k) - stirling_error(k) - deviance(float(k), mean)


@compiled
def log_factorial_ratio(n, m):
    """log(n!/m!) for integers n, m >= 0: accurate relative to itself even where log n! is huge."""
    if n == m:
        return 0.0
    if m == 0:
        return (n + 0.5) * math.log(n) - n + _HALF_LOG_2PI + stirling_error(n)
    if n == 0:
        return -((m + 0.5) * math.log(m) - m + _HALF_LOG_2PI + stirling_error(m))
    d = float(n - m)
    return (m + 0.5) * math.log1p(d / m) + d * math.log(n) - d + (stirling_error(n) - stirling_error(m))
