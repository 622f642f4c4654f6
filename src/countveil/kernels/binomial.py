"""Binomial draws for any number of trials.

Few expected successes: inversion by a search from 1 up. Many: transformed rejection, Hormann, "The generation
of binomial random variates" (1993, algorithm BTRS), with accurate factorial ratios.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.kernels.compiled import compiled, inlined
from countveil.kernels.log_poisson import log_factorial_ratio
from countveil.kernels.uniform import uniform


@inlined
def binomial(stream, n, p):
    """``(k, stream)``, P(k) = n!/(k! (n-k)!) * p**k * (1-p)**(n-k), for n >= 0 and 0 <= p <= 1."""
    if n <= 0 or p <= 0.0:
        return np.int64(0), stream
    if p >= 1.0:
        return np.int64(n), stream
    if p > 0.5:
        failures, stream = _binomial_half(stream, n, 1.0 - p)
        return np.int64(n) - failures, stream
    return _binomial_half(stream, n, p)


@inlined
def _binomial_half(stream, n, p):
    """The draw for 0 < p <= 1/2."""
    if n * p < 10.0:
        return _binomial_by_search(stream, n, p)
    return _binomial_by_rejection(stream, n, p)


@inlined
def _binomial_by_search(stream, n, p):
    u, stream = uniform(stream)
    if u >= n * p:  # P(k > 0) <= n*p
        return np.int64(0), stream
    not_zero = -math.expm1(n * math.log1p(-p))
    if u >= not_zero:
        return np.int64(0), stream
    odds = p / (1.0 - p)
    k = 1
    mass = n * odds * (1.0 - not_zero)
    while u > mass and k < n and k < 200:
        u -= mass
        mass *= odds * (n - k) / (k + 1)
        k += 1
    return np.int64(k), stream


@compiled
def _binomial_by_rejection(stream, n, p):
    spread = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha = (2.83 + 5.1 / b) * spread
    squeeze = 0.92 - 4.2 / b
    log_odds = math.log(p / (1.0 - p))
    mode = np.int64(math.floor((n + 1) * p))
    while True:
        u, stream = uniform(stream)
        v, stream = uniform(stream)
        u -= 0.5
        us = 0.5 - abs(u)
        k = np.int64(math.floor((2.0 * a / us + b) * u + n * p + 0.5))
        if us >= 0.07 and v <= squeeze:
            return np.int64(k), stream
        if k < 0 or k > n:
            continue
        log_ratio = (
            (k - mode) * log_odds - log_factorial_ratio(k, mode) - log_factorial_ratio(n - k, n - mode)
        )
        if math.log(v * alpha / (a / (us * us) + b)) <= log_ratio:
            return np.int64(k), stream
