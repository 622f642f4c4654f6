"""Gamma draws for every shape from 1e-3 up.

Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); a shape below 1 is drawn as
Gamma(shape + 1) * U**(1/shape).

Small shapes underflow: a float64 Gamma(0.01) falls below 2.2e-308 with probability 8e-4, a Gamma(0.001) with
0.49. ``gamma`` then returns ``SMALLEST``, the smallest normal float64, so that logarithms and quotients of
factors stay finite; the law above it is untouched. ``log_gamma`` gives the exact logarithm instead.
"""

from __future__ import annotations

import math

from countveil.kernels.compiled import compiled
from countveil.kernels.exponential import exponential
from countveil.kernels.normal import normal
from countveil.kernels.uniform import uniform

#: What a draw that underflows becomes.
SMALLEST = 2.2250738585072014e-308


@compiled
def _gamma_from_one(stream, shape):
    """Gamma(shape, 1) for shape >= 1: x = d * (1 + c*Z)**3, accepted against the exact density."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        z, stream = normal(stream)
        v = 1.0 + c * z
        if v > 0.0:
            v = v * v * v
            u, stream = uniform(stream)
            square = z * z
            if u < 1.0 - 0.0331 * square * square:
                return d * v, stream
            if math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
                return d * v, stream


@compiled
def gamma(stream, shape, rate):
    """``(g, stream)``, density proportional to g**(shape-1) * exp(-rate*g), never below ``SMALLEST``."""
    if shape >= 1.0:
        g, stream = _gamma_from_one(stream, shape)
    else:
        g, stream = _gamma_from_one(stream, shape + 1.0)
        e, stream = exponential(stream)
        g *= math.exp(-e / shape)
    return max(g / rate, SMALLEST), stream


@compiled
def log_gamma(stream, shape, rate):
    """``(log g, stream)`` for g ~ Gamma(shape, rate): never underflows."""
    if shape >= 1.0:
        g, stream = _gamma_from_one(stream, shape)
        return math.log(g) - math.log(rate), stream
    g, stream = _gamma_from_one(stream, shape + 1.0)
    e, stream = exponential(stream)
    return math.log(g) - e / shape - math.log(rate), stream
