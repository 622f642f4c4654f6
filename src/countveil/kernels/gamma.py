"""Gamma draws for every shape from 1e-3 up.

From shape 1: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). Below: Ahrens and
Dieter, "Computer methods for sampling from gamma, beta, Poisson and binomial distributions" (1974, algorithm GS),
which gives the logarithm of the draw.

Small shapes underflow: a float64 Gamma(0.01) falls below 2.2e-308 with probability 8e-4, a Gamma(0.001) with
0.49. ``gamma`` then returns ``SMALLEST``, the smallest normal float64, so that logarithms and quotients of
factors stay finite; the law above it is untouched. ``log_gamma`` gives the exact logarithm instead.
"""

from __future__ import annotations

import math

from countveil.kernels.compiled import compiled, inlined
from countveil.kernels.exponential import exponential
from countveil.kernels.normal import normal
from countveil.kernels.uniform import uniform

_INVERSE_E = math.exp(-1.0)
#: What a draw that underflows becomes.
SMALLEST = 2.2250738585072014e-308


@inlined
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


@inlined
def _log_gamma_below_one(stream, shape):
    """log Gamma(shape, 1) for shape < 1.

    The hat is x**(shape-1) up to 1 and exp(-x) beyond: p = u * (1 + shape/e) falls into one or the other part.
    """
    top = 1.0 + shape * _INVERSE_E
    while True:
        u, stream = uniform(stream)
        p = u * top
        v, stream = uniform(stream)
        if p <= 1.0:
            log_x = math.log(p) / shape
            x = math.exp(log_x)
            # exp(-x) >= 1 - x decides nearly always.
            if v <= 1.0 - x or v <= math.exp(-x):
                return log_x, stream
        else:
            log_x = math.log(-math.log((top - p) / shape))
            if math.log(v) <= (shape - 1.0) * log_x:
                return log_x, stream


@inlined
def gamma(stream, shape, rate):
    """``(g, stream)``, density proportional to g**(shape-1) * exp(-rate*g), never below ``SMALLEST``."""
    if shape < 1.0:
        log_g, stream = _log_gamma_below_one(stream, shape)
        g = math.exp(log_g)
    elif shape == 1.0:
        g, stream = exponential(stream)
    else:
        g, stream = _gamma_from_one(stream, shape)
    return max(g / rate, SMALLEST), stream


@compiled
def log_gamma(stream, shape, rate):
    """``(log g, stream)`` for g ~ Gamma(shape, rate): never underflows."""
    if shape < 1.0:
        log_g, stream = _log_gamma_below_one(stream, shape)
        return log_g - math.log(rate), stream
    g, stream = _gamma_from_one(stream, shape)
    return math.log(g) - math.log(rate), stream
