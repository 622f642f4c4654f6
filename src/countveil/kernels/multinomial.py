"""Multinomial draws: share out ``n`` tokens in proportion to weights."""

from __future__ import annotations

import numpy as np

from countveil.kernels.binomial import binomial
from countveil.kernels.compiled import compiled
from countveil.kernels.uniform import uniform


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
