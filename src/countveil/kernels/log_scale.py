"""Draws of a scale on the log axis: density of s proportional to exp(p*s - a*e**s - b*e**-s - c*e**(-2s)).

Trading a factor e**s between two gamma factors leaves their product unchanged, so only the priors decide about s
(a generalised inverse Gaussian for c = 0). The density is log-concave: the hat is flat around the mode and
exponential beyond two points where the log-density has fallen by about 1, along its tangents there.

Factors may have underflowed, so that a, b or c are as small as 1e-308 and the density is flat over hundreds of
units. |s| <= 700 is the domain: e**s and e**-s are finite on it, and no factor that matters lies beyond. e**(-2s)
is not finite everywhere, but c*e**-s*e**-s is where it matters.
"""

from __future__ import annotations

import math

from countveil.kernels.uniform import exponential, uniform
from countveil.runtime.compiled import compiled

#: The domain of s.
FARTHEST = 700.0
# To the last digit of any bracket; and far more proposals than a hat that accepts one in three needs.
_BISECTIONS = 100
_PROPOSALS = 10_000


@compiled
def _slope(s, p, a, b, c):
    """Derivative of the log-density; it falls."""
    # 0 * inf is no number: without c its term is left out.
    down = math.exp(-s)
    last = 2.0 * c * down * down if c > 0.0 else 0.0
    return p - a * math.exp(s) + b * down + last


@compiled
def log_scale_height(s, p, a, b, c):
    """The log-density, up to a constant."""
    if abs(s) > FARTHEST:
        return -math.inf
    down = math.exp(-s)
    last = c * down * down if c > 0.0 else 0.0
    return p * s - a * math.exp(s) - b * down - last


@compiled
def log_scale_mode(p, a, b, c):
    """Where the slope is zero: for c = 0 a root of a quadratic, else by bisection."""
    if c == 0.0:
        root = math.sqrt(p * p + 4.0 * a * b)
        # Of the two forms of the root, the one without cancellation.
        at = 0.5 * (p + root) / a if p >= 0.0 else 2.0 * b / (root - p)
        if 0.0 < at < math.inf:
            return min(max(math.log(at), -FARTHEST), FARTHEST)
    low, high = -1.0, 1.0
    while _slope(low, p, a, b, c) < 0.0 and low > -FARTHEST:
        low = max(2.0 * low, -FARTHEST)
    while _slope(high, p, a, b, c) > 0.0 and high < FARTHEST:
        high = min(2.0 * high, FARTHEST)
    for _ in range(60):
        middle = 0.5 * (low + high)
        if _slope(middle, p, a, b, c) > 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@compiled
def log_scale_mode_by_root(p, a, b, c):
    """``log_scale_mode`` in a tenth of the time for c > 0, the same but for the last digits.

    t = e**-s is the positive root of f(t) = 2*c*t**3 + b*t**2 + p*t - a, of which there is one because f(0) < 0 and
    f is convex. Newton's steps fall towards it from any point beyond it, such as the root without the cubic term
    (f is then 2*c*t**3), and, with q = (a/2c)**(1/3) and r = (max(-p, 0)/2c)**(1/2), q + r: there f is at least
    2*c*(t**3 - t*r**2) - a >= 2*c*q**3 - a.
    """
    if c > 0.0:
        half = 0.5 / c
        t = (a * half) ** (1.0 / 3.0) * (1.0 + 1e-12) + math.sqrt(max(-p, 0.0) * half)
        if b > 0.0:
            root = math.sqrt(p * p + 4.0 * a * b)
            t = min(t, 2.0 * a / (p + root) if p >= 0.0 else 0.5 * (root - p) / b)
        if 1e-300 < t < 1e300:
            for _ in range(100):
                slope = (6.0 * c * t + 2.0 * b) * t + p
                step = (((2.0 * c * t + b) * t + p) * t - a) / slope
                if not (slope > 0.0 and step > 1e-14 * t and step < t):
                    break
                t -= step
            s = -math.log(t)
            # Where numbers of very different size meet, only bisection is sure.
            if abs(s) < FARTHEST and abs(_slope(s, p, a, b, c)) <= 1e-9 * (a / t + abs(p)):
                return s
    return log_scale_mode(p, a, b, c)


@compiled
def _break_point(mode, top, direction, p, a, b, c):
    """A point on this side of the mode where the log-density has fallen by 0.5 to 1.5."""
    # A step at which a normal density of the same curvature would have fallen by 0.5.
    down = math.exp(-mode)
    last = 4.0 * c * down * down if c > 0.0 else 0.0
    curvature = a * math.exp(mode) + b * down + last
    step = min(max(1.0 / math.sqrt(curvature), 1e-12), 1.0) if curvature > 0.0 else 1.0
    while (
        top - log_scale_height(mode + direction * step, p, a, b, c) < 0.5
    ):  # it ends: beyond the domain it is -inf
        step *= 2.0
    low, high = 0.0, step
    for _ in range(_BISECTIONS):
        fallen = top - log_scale_height(mode + direction * high, p, a, b, c)
        if fallen <= 1.5:
            break
        middle = 0.5 * (low + high)
        if top - log_scale_height(mode + direction * middle, p, a, b, c) < 0.5:
            low = middle
        else:
            high = middle
    return mode + direction * high


@compiled
def draw_log_scale(stream, p, a, b, c):
    """``(s, stream)`` for a > 0 and b > 0 or c > 0 (or p > 0, so that the law has a lower tail)."""
    return draw_log_scale_around(stream, log_scale_mode(p, a, b, c), p, a, b, c)


@compiled
def draw_log_scale_around(stream, mode, p, a, b, c):
    """``draw_log_scale`` where the caller knows the mode."""
    top = log_scale_height(mode, p, a, b, c)
    left, left_slope, left_height = log_scale_side(mode, top, -1.0, p, a, b, c)
    right, right_slope, right_height = log_scale_side(mode, top, 1.0, p, a, b, c)
    return draw_log_scale_between(
        stream, mode, top, left, left_slope, left_height, right, right_slope, right_height, p, a, b, c
    )


@compiled
def log_scale_side(mode, top, direction, p, a, b, c):
    """``(point, slope, height)``: where the hat begins to fall on this side of the mode, how, and from where."""
    point = _break_point(mode, top, direction, p, a, b, c)
    slope = -direction * _slope(point, p, a, b, c)
    height = log_scale_height(point, p, a, b, c) - top
    # The domain may end before the density has fallen: there is nothing beyond its edge.
    if not (slope > 0.0 and height > -math.inf):
        return direction * FARTHEST, 1.0, -math.inf
    return point, slope, height


@compiled
def draw_log_scale_between(
    stream, mode, top, left, left_slope, left_height, right, right_slope, right_height, p, a, b, c
):
    """``draw_log_scale`` where the caller knows the hat."""
    below = math.exp(left_height) / left_slope
    above = math.exp(right_height) / right_slope
    for _ in range(_PROPOSALS):
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
        if -e <= log_scale_height(s, p, a, b, c) - top - hat:
            return s, stream
    return mode, stream  # never seen
