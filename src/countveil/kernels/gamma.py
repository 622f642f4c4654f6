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

from countveil.kernels.elementary import exp_of, log_of
from countveil.kernels.normal import normal_at
from countveil.kernels.philox import next_word
from countveil.kernels.uniform import exponential, from_word
from countveil.runtime.compiled import compiled, inlined

_INVERSE_E = math.exp(-1.0)
#: What a draw that underflows becomes.
SMALLEST = 2.2250738585072014e-308
# As small as ``exp_of`` goes.
_LOG_SMALLEST = -700.0


@inlined
def _gamma_from_one(a, b, stream, shape):
    """Gamma(shape, 1) for shape >= 1: x = d * (1 + c*Z)**3, accepted against the exact density."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        z, stream = normal_at(a, stream)
        v = 1.0 + c * z
        # Asked so that NaN, of a shape that is none, is accepted: the loop ends whatever came.
        if not v <= 0.0:
            v = v * v * v
            u = from_word(b)
            square = z * z
            if u < 1.0 - 0.0331 * square * square:
                return d * v, stream
            if not math.log(u) >= 0.5 * square + d * (1.0 - v + math.log(v)):
                return d * v, stream
        a, b, stream = _two_words(stream)


@inlined
def _log_gamma_below_one(a, b, stream, shape):
    """log Gamma(shape, 1) for shape < 1.

    The hat is x**(shape-1) up to 1 and exp(-x) beyond: p = u * (1 + shape/e) falls into one or the other part.
    """
    if not shape > 0.0:  # else nothing might ever be accepted
        return -math.inf, stream
    top = 1.0 + shape * _INVERSE_E
    while True:
        p = from_word(a) * top
        v = from_word(b)
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
        a, b, stream = _two_words(stream)


@inlined
def _two_words(stream):
    a, stream = next_word(stream)
    b, stream = next_word(stream)
    return a, b, stream


@inlined
def gamma(stream, shape, rate):
    """``(g, stream)``, density proportional to g**(shape-1) * exp(-rate*g), never below ``SMALLEST``."""
    if shape == 1.0:
        g, stream = exponential(stream)  # a single word, and most draws of the paper's sampler
        return max(g / rate, SMALLEST), stream
    a, b, stream = _two_words(stream)
    return gamma_at(a, b, stream, shape, rate)


@inlined
def gamma_at(a, b, stream, shape, rate):
    """``gamma`` where the first two words were drawn by the caller, for many at once. Most draws need no more."""
    if shape < 1.0:
        log_g, stream = _log_gamma_below_one(a, b, stream, shape)
        g = math.exp(log_g)
    elif shape == 1.0:
        g = -math.log(from_word(a))
    else:
        g, stream = _gamma_from_one(a, b, stream, shape)
    return max(g / rate, SMALLEST), stream


@inlined
def small_gamma_at(a, b, shape):
    """What ``gamma_at`` makes of these words at rate 1, in arithmetic that a loop does for many at once.

    0 where it is not so easily seen: that is, for shapes from 1 up, and below for a few draws in a hundred.
    """
    p = from_word(a) * (1.0 + shape * _INVERSE_E)
    log_x = log_of(p) / shape
    within = log_x > _LOG_SMALLEST
    x = exp_of(log_x if within else _LOG_SMALLEST)
    return x if (shape < 1.0) & (p <= 1.0) & within & (from_word(b) <= 1.0 - x) else 0.0


@compiled
def log_gamma(stream, shape, rate):
    """``(log g, stream)`` for g ~ Gamma(shape, rate): never underflows."""
    a, b, stream = _two_words(stream)
    if shape < 1.0:
        log_g, stream = _log_gamma_below_one(a, b, stream, shape)
        return log_g - math.log(rate), stream
    g, stream = _gamma_from_one(a, b, stream, shape)
    return math.log(g) - math.log(rate), stream
