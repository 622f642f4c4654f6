"""Draws of a scale on the log axis: density of s proportional to exp(p*s - a*e**s - b*e**-s - c*e**(-2s)).

Trading a factor e**s between two gamma factors leaves their product unchanged, so only the priors decide about s
(a generalised inverse Gaussian for c = 0). The density is log-concave: the hat is flat around the mode and
exponential beyond two points where the log-density has fallen by about 1, along its tangents there.
"""

from __future__ import annotations

import math

from countveil.kernels.compiled import compiled
from countveil.kernels.exponential import exponential
from countveil.kernels.uniform import uniform


@compiled
def _slope(s, p, a, b, c):
    """Derivative of the log-density; it falls."""
    return p - a * math.exp(s) + b * math.exp(-s) + 2.0 * c * math.exp(-2.0 * s)


@compiled
def _height(s, p, a, b, c):
    return p * s - a * math.exp(s) - b * math.exp(-s) - c * math.exp(-2.0 * s)


@compiled
def log_scale_mode(p, a, b, c):
    """Where the slope is zero: for c = 0 a root of a quadratic, else by bisection."""
    if c == 0.0:
        root = math.sqrt(p * p + 4.0 * a * b)
        # Of the two forms of the root, the one without cancellation.
        at = 0.5 * (p + root) / a if p >= 0.0 else 2.0 * b / (root - p)
        if 0.0 < at < math.inf:
            return math.log(at)
    low, high = -1.0, 1.0
    while _slope(low, p, a, b, c) < 0.0 and low > -300.0:
        low *= 2.0
    while _slope(high, p, a, b, c) > 0.0 and high < 600.0:
        high *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if _slope(middle, p, a, b, c) > 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@compiled
def _break_point(mode, top, direction, p, a, b, c):
    """A point on this side of the mode where the log-density has fallen by 0.5 to 1.5."""
    # A step at which a normal density of the same curvature would have fallen by 0.5.
    curvature = a * math.exp(mode) + b * math.exp(-mode) + 4.0 * c * math.exp(-2.0 * mode)
    step = min(max(1.0 / math.sqrt(curvature), 1e-12), 1.0)
    while top - _height(mode + direction * step, p, a, b, c) < 0.5:
        step *= 2.0
    low, high = 0.0, step
    while top - _height(mode + direction * high, p, a, b, c) > 1.5:
        middle = 0.5 * (low + high)
        if top - _height(mode + direction * middle, p, a, b, c) < 0.5:
            low = middle
        else:
            high = middle
    return mode + direction * high


@compiled
def draw_log_scale(stream, p, a, b, c):
    """``(s, stream)`` for a > 0 and b > 0 or c > 0 (or p > 0, so that the law has a lower tail)."""
    mode = log_scale_mode(p, a, b, c)
    top = _height(mode, p, a, b, c)
    left = _break_point(mode, top, -1.0, p, a, b, c)
    right = _break_point(mode, top, 1.0, p, a, b, c)
    left_slope, right_slope = _slope(left, p, a, b, c), -_slope(right, p, a, b, c)
    left_height = _height(left, p, a, b, c) - top
    right_height = _height(right, p, a, b, c) - top
    below = math.exp(left_height) / left_slope
    above = math.exp(right_height) / right_slope
    while True:
        u, stream = uniform(stream)
        u *= below + (right - left) + above
        e, stream = exponential(stream)
        if u < below:
            v, stream = exponential(stream)
            s = left - v / left_slope
            hat = left_height - v
        elif u < below + above:
            v, stream = exponential(stream)
            s = right + v / right_slope
            hat = right_height - v
        else:
            s = left + (u - below - above)
            hat = 0.0
        if -e <= _height(s, p, a, b, c) - top - hat:
            return s, stream
