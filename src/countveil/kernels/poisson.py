"""Poisson draws for rates from 1e-12 (and 0) to 1e9.

Below 10: inversion by a search from 1 up, with the rare event "not zero" at the small end of the uniform,
where it is finely resolved. From 10: transformed rejection, Hormann, "The transformed rejection method for
generating Poisson random variables" (1993, algorithm PTRS), with Loader's accurate log-probability.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.kernels.compiled import compiled, inlined
from countveil.kernels.elementary import exp_of
from countveil.kernels.log_poisson import log_poisson
from countveil.kernels.uniform import uniform

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
