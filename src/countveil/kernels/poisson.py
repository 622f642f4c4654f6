"""Poisson draws for rates from 1e-12 (and 0) to 1e9, and logarithms of Poisson probabilities without cancellation.

Below 10: inversion by a search from 1 up, with the rare event "not zero" at the small end of the uniform,
where it is finely resolved. From 10: transformed rejection, Hormann, "The transformed rejection method for
generating Poisson random variables" (1993, algorithm PTRS), with Loader's accurate log-probability.

Loader, "Fast and accurate computation of binomial probabilities" (2000): the saddle-point form
log P(k; mu) = -log(2 pi k)/2 - stirling_error(k) - deviance(k, mu), each term small and accurate.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.kernels.elementary import exp_of
from countveil.kernels.uniform import uniform
from countveil.runtime.compiled import compiled, inlined

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
        return _STIRLING_ERRORS[np.int64(max(n, 0))]  # a sum that wrapped must not read outside the table
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


#: Larger means are taken for this one: counts are 64-bit integers, and are added up.
LARGEST_MEAN = 2.0**53
#: Means below this are drawn from a single uniform.
SEARCHED = 10.0


@inlined
def poisson(stream, mean):
    """``(k, stream)``, P(k) = mean**k * exp(-mean) / k!."""
    if mean < SEARCHED:
        return _poisson_by_search(stream, mean)
    return _poisson_by_rejection(stream, mean)


@inlined
def _poisson_by_search(stream, mean):
    u, stream = uniform(stream)
    return poisson_at(u, mean), stream


@inlined
def poisson_at(u, mean):
    """The draw that ``poisson`` makes of the uniform u, for a mean below SEARCHED; 0 wherever u >= mean."""
    if u >= mean:  # 1 - exp(-mean) <= mean, so this is a zero without an exponential
        return np.int64(0)
    if u <= mean * (1.0 - mean):  # at most P(1) = mean * exp(-mean): a one, likewise
        return np.int64(1)
    # Small means are settled but for the rarest u: no need for the digits of expm1, which takes twice as long.
    zero = math.exp(-mean)
    if u >= 1.0 - zero:
        return np.int64(0)
    k = np.int64(1)
    p = mean * zero
    # P(k > 120) < 1e-80 at mean 10; the bound only stops a search that rounding has led past all mass.
    while u > p and k < 120:
        u -= p
        k += 1
        p *= mean / k
    return k


@inlined
def few_at(u, mean):
    """What ``poisson_at`` makes of u, as a float, in arithmetic that a loop does for many at once.

    -1 where it is not so easily seen: for means from 4 up, and draws beyond 8.
    """
    zero = exp_of(-mean if mean < 4.0 else -4.0)
    p = mean * zero
    up_to_k, k = p, 1.0
    for j in range(2, 10):
        k += 1.0 if u > up_to_k else 0.0
        p *= mean * (1.0 / j)
        up_to_k += p
    k = k if u < 1.0 - zero else 0.0
    return k if (mean < 4.0) & (k < 9.0) else -1.0


@compiled
def _poisson_by_rejection(stream, mean):
    if not mean < LARGEST_MEAN:  # nor is NaN: what comes of it must be a count, however wrong the mean is
        mean = LARGEST_MEAN
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = -0.059 + 0.02483 * b
    log_inverse_alpha = math.log(1.1239 + 1.1328 / (b - 3.4))
    squeeze = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u, stream = uniform(stream)
        v, stream = uniform(stream)
        u -= 0.5
        us = 0.5 - abs(u)
        k = np.int64(math.floor((2.0 * a / us + b) * u + mean + 0.43))
        if us >= 0.07 and v <= squeeze:
            return k, stream
        if k < 0 or (us < 0.013 and v > us):
            continue
        if math.log(v) + log_inverse_alpha - math.log(a / (us * us) + b) <= log_poisson(k, mean):
            return k, stream
