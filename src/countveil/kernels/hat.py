"""A hat over any log-concave law on the integers: flat in the middle, geometric at the sides.

Let f be log-concave with f(mode) = 1 (not normalised). Successive ratios fall, so for x > right
f(x) <= f(right) * q**(x - right) with q = f(right+1)/f(right), likewise on the left, and f <= 1 between. The
hat's mass needs two values and two ratios of f, no normaliser: Bessel functions and incomplete gammas, which
overflow, are never formed. With the breaks about 1.1 standard deviations out, 3 of 4 proposals are accepted.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.kernels.uniform import uniform
from countveil.runtime.compiled import compiled


@compiled
def break_distance(slope, variance):
    """How far from a point to put the break when log f falls by slope*d + d*d/(2*variance).

    The d at which it has fallen by 0.6: 1.1 standard deviations at a smooth mode, 0.6/slope at a sharp one.
    """
    return np.int64(math.floor(1.2 / (slope + math.sqrt(slope * slope + 1.2 / variance))))


@compiled
def propose(stream, left, right, f_left, q_left, f_right, q_right):
    """``(x, log_hat(x), stream)`` with x from the hat; ``x`` may be below zero (the caller rejects it).

    ``f_left`` = f(left), ``q_left`` = f(left-1)/f(left); ``f_right``, ``q_right`` likewise upwards.
    """
    middle = right - left + 1.0
    above = f_right * q_right / (1.0 - q_right)
    below = f_left * q_left / (1.0 - q_left)
    u, stream = uniform(stream)
    u *= middle + above + below
    if u < middle:
        return left + min(np.int64(math.floor(u)), right - left), 0.0, stream
    v, stream = uniform(stream)
    if u < middle + above:
        steps = 1 + np.int64(math.floor(math.log(v) / math.log(q_right)))
        return right + steps, math.log(f_right) + steps * math.log(q_right), stream
    steps = 1 + np.int64(math.floor(math.log(v) / math.log(q_left)))
    return left - steps, math.log(f_left) + steps * math.log(q_left), stream
