"""The shape s of a gamma law of mean 1, given n draws from it: one step of a slice sampler on l = log s.

With l ~ Normal(mean, sd) before, the log-density is, up to a constant,

    n (s l - lgamma(s)) + s (sum of logs - sum of draws) - ((l - mean) / sd)**2 / 2.

The slice is found by stepping out and shrinking (Neal 2003): any number of evaluations leaves the law as it is.
"""

from __future__ import annotations

import math

from countveil.kernels.uniform import exponential, uniform
from countveil.runtime.compiled import compiled

#: l stays between: shapes that doubles can tell from 0 and from infinity in sums of a billion draws.
FARTHEST = 14.0
# Of the bracket at first. Shrinking by halves from there to the last digit takes fewer steps than this.
_WIDTH = 1.0
_STEPS = 200


@compiled
def log_density_of_shape(log_shape, n, sum_of_logs, total, mean, sd):
    """Up to a constant; minus infinity outside the domain."""
    if abs(log_shape) > FARTHEST:
        return -math.inf
    shape = math.exp(log_shape)
    fit = n * (shape * log_shape - math.lgamma(shape)) + shape * (sum_of_logs - total)
    z = (log_shape - mean) / sd
    return fit - 0.5 * z * z


@compiled
def draw_law_shape(stream, shape, n, sum_of_logs, total, mean, sd):
    """``(shape, stream)``: a step from ``shape``."""
    now = math.log(shape)
    e, stream = exponential(stream)
    height = log_density_of_shape(now, n, sum_of_logs, total, mean, sd) - e
    u, stream = uniform(stream)
    left = now - u * _WIDTH
    right = left + _WIDTH
    while (
        log_density_of_shape(left, n, sum_of_logs, total, mean, sd) > height
    ):  # it ends at the edge of the domain
        left -= _WIDTH
    while log_density_of_shape(right, n, sum_of_logs, total, mean, sd) > height:
        right += _WIDTH
    for _ in range(_STEPS):
        u, stream = uniform(stream)
        proposed = left + u * (right - left)
        if log_density_of_shape(proposed, n, sum_of_logs, total, mean, sd) > height:
            return math.exp(proposed), stream
        if proposed < now:
            left = proposed
        else:
            right = proposed
    return shape, stream  # never seen
