"""The paper's sampler of a true count (the reference method): Bessel draws, and one step through the Skellam law.

Bessel draws: P(m) = (a/2)**(2m+v) / (m! (m+v)! I_v(a)), m = 0, 1, 2, ...

Yuan and Kalbfleisch (2000). The minimum of two independent Poisson counts, given that they differ by v, is
Bessel(v, 2*sqrt(product of the two rates)) (there is no 2 under the root, unlike in the paper's theorem 3).
Successive ratios are P(m)/P(m-1) = (a*a/4) / (m (m+v)), so the law is log-concave (Devroye 2002). The
normaliser I_v(a) overflows and is never formed: a light law is summed outward from its mode, a heavy one is
drawn by rejection.

**The step.** Two-sided geometric noise is a Skellam variable with exponential rates: tau = g_plus - g_minus,
g ~ Poisson(lam), lam ~ exponential with MEAN alpha/(1-alpha). Given x = y + tau the step draws,
with the two rates as state,

1. m ~ Bessel(|x|, 2*sqrt((lam_plus + mu) * lam_minus)), the smaller of y + g_plus and g_minus;
2. the larger is m + |x|;
3. y ~ Binomial(y + g_plus, mu/(mu + lam_plus));
4. lam_plus ~ Gamma(1 + g_plus, rate 1/alpha), lam_minus ~ Gamma(1 + g_minus, rate 1/alpha).

The paper prints other rates in 1 and 4; with those the chain has another law (see tests/test_errata.py).
"""

from __future__ import annotations

import math

import numpy as np

from countveil.kernels.binomial import binomial
from countveil.kernels.gamma import gamma
from countveil.kernels.hat import break_distance, propose
from countveil.kernels.poisson import LARGEST_MEAN, log_factorial_ratio
from countveil.kernels.uniform import exponential, uniform
from countveil.runtime.compiled import compiled, inlined

_NEGLIGIBLE = 1e-18


@inlined
def bessel_mode(v, a):
    """The most likely m: floor((sqrt(a*a + v*v) - v)/2), written without its cancellation."""
    quarter = 0.25 * a * a
    mode = (
        np.int64(math.floor(2.0 * quarter / (math.sqrt(4.0 * quarter + float(v) * v) + v))) if a > 0.0 else 0
    )
    # Rounding may miss by one, and the hat needs the true top.
    while quarter > (mode + 1.0) * (mode + 1.0 + v):
        mode += 1
    while mode > 0 and quarter < float(mode) * (float(mode) + v):
        mode -= 1
    return mode


@inlined
def bessel(stream, v, a):
    """``(m, stream)`` for an integer v >= 0 and real a >= 0; a = 0 gives 0."""
    a = min(a, LARGEST_MEAN)  # beyond, floats have no neighbours among the integers
    quarter = 0.25 * a * a
    if not quarter > 0.0:  # nor is NaN
        return np.int64(0), stream
    mode = bessel_mode(v, a)
    if mode <= 12:
        return _bessel_by_sum(stream, v, quarter, mode)
    return _bessel_by_rejection(stream, v, a, mode)


@inlined
def _bessel_by_sum(stream, v, quarter, mode):
    """Inversion over m = mode, mode+1, ..., then mode-1, mode-2, ... with f(mode) = 1."""
    u, stream = uniform(stream)
    if mode == 0 and u < 1.0 - quarter / (v + 1.0):  # 1/P(0) <= exp(quarter/(v+1))
        return np.int64(0), stream
    total = 0.0
    f = 1.0
    m = mode
    while f > _NEGLIGIBLE:
        total += f
        m += 1
        f *= quarter / (m * (float(m) + v))
    f = 1.0
    for m in range(mode, 0, -1):
        f *= m * (float(m) + v) / quarter
        total += f
    left = u * total
    f = 1.0
    m = mode
    while f > _NEGLIGIBLE:
        if left < f:
            return np.int64(m), stream
        left -= f
        m += 1
        f *= quarter / (m * (float(m) + v))
    f = 1.0
    for m in range(mode, 0, -1):
        f *= m * (float(m) + v) / quarter
        if left < f:
            return np.int64(m - 1), stream
        left -= f
    return np.int64(mode), stream  # rounding led past the end


@compiled
def bessel_log_ratio(m, mode, v, log_quarter):
    """log P(m)/P(mode)."""
    return (m - mode) * log_quarter - log_factorial_ratio(m, mode) - log_factorial_ratio(m + v, mode + v)


@compiled
def _bessel_by_rejection(stream, v, a, mode):
    quarter = 0.25 * a * a
    log_quarter = 2.0 * math.log(0.5 * a)
    variance = 1.0 / (1.0 / (mode + 1.0) + 1.0 / (mode + 1.0 + v))
    distance = break_distance(0.0, variance)
    left = max(mode - distance, 0)
    right = mode + distance
    f_left = math.exp(bessel_log_ratio(left, mode, v, log_quarter))
    q_left = left * (float(left) + v) / quarter
    f_right = math.exp(bessel_log_ratio(right, mode, v, log_quarter))
    q_right = quarter / ((right + 1.0) * (right + 1.0 + v))
    while True:
        m, log_hat, stream = propose(stream, left, right, f_left, q_left, f_right, q_right)
        e, stream = exponential(stream)
        if m >= 0 and -e <= bessel_log_ratio(m, mode, v, log_quarter) - log_hat:
            return np.int64(m), stream


@inlined
def draw_count_by_bessel(stream, x, mu, alpha, lam_plus, lam_minus):
    """``(y, lam_plus, lam_minus, stream)``: y given the rates, then the rates given y."""
    smaller, stream = bessel(stream, abs(x), 2.0 * math.sqrt((lam_plus + mu) * lam_minus))
    if x <= 0:
        y_plus = smaller
        g_minus = smaller - x
    else:
        y_plus = smaller + x
        g_minus = smaller
    y, stream = binomial(stream, y_plus, mu / (mu + lam_plus))
    lam_plus, stream = gamma(stream, 1.0 + (y_plus - y), 1.0 / alpha)
    lam_minus, stream = gamma(stream, 1.0 + g_minus, 1.0 / alpha)
    return y, lam_plus, lam_minus, stream
