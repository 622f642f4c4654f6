"""Binomial draws for any number of trials, and multinomial ones: n tokens shared out in proportion to weights.

Few expected successes: inversion by a search from 1 up. Many: transformed rejection, Hormann, "The generation
of binomial random variates" (1993, algorithm BTRS), with accurate factorial ratios.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.kernels.poisson import log_factorial_ratio
from countveil.kernels.uniform import uniform
from countveil.runtime.compiled import compiled, inlined


@inlined
def binomial(stream, n, p):
    """``(k, stream)``, P(k) = n!/(k! (n-k)!) * p**k * (1-p)**(n-k), for n >= 0 and 0 <= p <= 1."""
    if n <= 0 or not p > 0.0:  # nor is NaN, of which no draw would be accepted
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


@compiled
def categorical(stream, weights, total):
    """``(k, stream)``, P(k) = weights[k]/total, where ``total`` is the sum of the weights.

    A weight of zero is never drawn. If all weights have underflowed to zero they count as equal: nothing is
    known of the shares then, and a token must go somewhere.
    """
    u, stream = uniform(stream)
    if total <= 0.0:
        return np.int64(u * len(weights)), stream
    left = u * total
    last = 0
    for k in range(len(weights)):
        if weights[k] > 0.0:
            if left < weights[k]:
                return np.int64(k), stream
            left -= weights[k]
            last = k
    return np.int64(last), stream  # rounding led past the end


@compiled
def multinomial(stream, n, weights, out):
    """Add a multinomial draw of ``n`` tokens with the given weights to ``out``; returns the stream.

    Few tokens are drawn one by one; many by conditional binomials, out[k] ~ Binomial(n left, w_k / w left).
    """
    size = len(weights)
    total = 0.0
    last = 0
    for k in range(size):
        total += weights[k]
        if weights[k] > 0.0:
            last = k
    if n <= 4:
        for _ in range(n):
            k, stream = categorical(stream, weights, total)
            out[k] += 1
        return stream
    left = total
    for k in range(size):
        if total <= 0.0:
            share = 1.0 / (size - k)
        elif weights[k] > 0.0:
            # The last positive weight takes the rest whatever rounding has left in `left`.
            share = 1.0 if k == last or weights[k] >= left else weights[k] / left
            left -= weights[k]
        else:
            continue
        drawn, stream = binomial(stream, n, share)
        out[k] += drawn
        n -= drawn
        if n == 0:
            break
    return stream
