"""A true count that was released several times: P(y | x_1, ..., x_R, mu) ∝ mu**y/y! * prod_r alpha_r**|x_r - y|.

Releases of one count share it, and their noise is independent. With rho_r = -log(alpha_r) successive ratios are
w(y)/w(y-1) = mu * exp(S(y)) / y, where

    S(y) = sum_r (+rho_r if y <= x_r else -rho_r)

falls with y: the law is log-concave, with a kink at every x_r. A release x_r <= 0 acts like 0. The mode is the
largest y with y <= mu * exp(S(y)): no less than the largest release b that passes this test, and between b and the
next release S does not change. The sum or the hat starts there, as for a single release (geometric).
``x`` and ``rho`` are arrays of equal length, one entry for each release of the cell.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.kernels.given_release.geometric import log_noise_peak
from countveil.kernels.hat import break_distance, propose
from countveil.kernels.long_sum import sum_down, sum_up
from countveil.kernels.poisson import LARGEST_MEAN, log_factorial_ratio, log_poisson, poisson
from countveil.kernels.uniform import exponential, uniform
from countveil.runtime.compiled import compiled

_NEGLIGIBLE = 1e-18
_EVER = np.int64(2**62)  # beyond all counts


@compiled
def pull(y, x, rho):
    """S(y), for y >= 1."""
    total = 0.0
    for r in range(len(x)):
        total += rho[r] if y <= x[r] else -rho[r]
    return total


@compiled
def repeated_mode(x, rho, mu):
    """The most likely true count, for mu > 0."""
    log_mu = math.log(mu)
    passed = np.int64(0)
    for r in range(len(x)):
        # Logarithms, because exp(S) overflows where there is hardly any noise.
        if x[r] > passed and math.log(x[r]) <= log_mu + pull(x[r], x, rho):
            passed = np.int64(x[r])
    beyond = mu * math.exp(pull(passed + 1, x, rho))  # finite: it lies below the next release, or S < 0
    return max(passed, np.int64(math.floor(beyond)))


@compiled
def draw_count_repeated(stream, x, rho, mu):
    """``(y, stream)``: the true count of a cell with rate ``mu``, released as ``x`` with noise ``rho``."""
    if mu <= 0.0:
        return np.int64(0), stream
    highest = np.int64(0)
    for r in range(len(x)):
        highest = max(highest, np.int64(x[r]))
    if highest == 0:
        return poisson(stream, mu * math.exp(pull(1, x, rho)))
    mu = min(mu, LARGEST_MEAN)
    mode = repeated_mode(x, rho, mu)
    if mode <= 12:
        return _by_sum(stream, x, rho, mu, mode)
    return _by_rejection(stream, x, rho, mu, mode)


@compiled
def _by_sum(stream, x, rho, mu, mode):
    """Inversion over y = mode, mode+1, ..., then mode-1, mode-2, ... with f(mode) = 1."""
    u, stream = uniform(stream)
    if mode == 0 and u < 1.0 - mu * math.exp(pull(1, x, rho)):  # 1/P(0) <= exp(of the first ratio)
        return np.int64(0), stream
    left = u * sum_from_mode(x, rho, mu, mode)
    f = 1.0
    y = mode
    while f > _NEGLIGIBLE:
        if left < f:
            return np.int64(y), stream
        left -= f
        y += 1
        f *= mu * math.exp(pull(y, x, rho)) / y
    f = 1.0
    for y in range(mode, 0, -1):
        f *= y / (mu * math.exp(pull(y, x, rho)))
        if left < f:
            return np.int64(y - 1), stream
        left -= f
    return np.int64(mode), stream  # rounding led past the end


@compiled
def sum_from_mode(x, rho, mu, mode):
    """sum_y w(y)/w(mode), outwards from the mode, from release to release, until terms are negligible."""
    log_mu = math.log(mu)
    total, f, y = 1.0, 1.0, np.int64(mode)
    while f > _NEGLIGIBLE * total:
        end = _EVER
        for r in range(len(x)):
            if y < x[r] < end:
                end = np.int64(x[r])
        total += f * sum_up(y, mu * math.exp(pull(y + 1, x, rho)), end - y)
        if end == _EVER:
            break
        y = end
        f = math.exp(repeated_log_ratio(y, mode, x, rho, log_mu))
    f, y = 1.0, np.int64(mode)
    while y > 0 and f > _NEGLIGIBLE * total:
        end = np.int64(0)
        for r in range(len(x)):
            if end < x[r] < y:
                end = np.int64(x[r])
        # The step may be infinite: then there is nothing below.
        total += f * sum_down(y, mu * math.exp(pull(y, x, rho)), y - end)
        y = end
        f = math.exp(repeated_log_ratio(y, mode, x, rho, log_mu))
    return total


@compiled
def repeated_log_ratio(y, mode, x, rho, log_mu):
    """log w(y)/w(mode)."""
    total = (y - mode) * log_mu - log_factorial_ratio(y, mode)
    for r in range(len(x)):
        # A release below 0 acts like 0. Whole numbers: no digits are lost.
        at = max(x[r], 0)
        total -= rho[r] * (abs(at - y) - abs(at - mode))
    return total


@compiled
def _by_rejection(stream, x, rho, mu, mode):
    log_mu = math.log(mu)
    variance = mode + 1.0
    # Upwards from the mode, but not far beyond any kink, where log f falls more steeply; downwards likewise.
    slope = math.log(mode + 1.0) - log_mu - pull(mode + 1, x, rho)
    right = mode + break_distance(max(slope, 0.0), variance)
    slope = log_mu + pull(mode, x, rho) - math.log(mode)
    left = max(mode - break_distance(max(slope, 0.0), variance), 0)
    for r in range(len(x)):
        t = np.int64(x[r])
        if mode < t < right:
            slope = math.log(t + 1.0) - log_mu - pull(t + 1, x, rho)
            right = min(right, t + break_distance(max(slope, 0.0), variance))
        if left < t < mode:
            slope = log_mu + pull(t, x, rho) - math.log(t)
            left = max(left, t - break_distance(max(slope, 0.0), variance))
    f_right = math.exp(repeated_log_ratio(right, mode, x, rho, log_mu))
    q_right = math.exp(log_mu + pull(right + 1, x, rho) - math.log(right + 1.0))
    f_left = math.exp(repeated_log_ratio(left, mode, x, rho, log_mu))
    q_left = math.exp(math.log(left) - log_mu - pull(left, x, rho)) if left > 0 else 0.0
    while True:
        y, log_hat, stream = propose(stream, left, right, f_left, q_left, f_right, q_right)
        e, stream = exponential(stream)
        if y >= 0 and -e <= repeated_log_ratio(y, mode, x, rho, log_mu) - log_hat:
            return np.int64(y), stream


@compiled
def log_marginal_repeated(x, rho, mu):
    """log P(max(x_1, 0), ..., max(x_R, 0) | mu), the true count summed out.

    A clamped zero has probability alpha**y/(1+alpha) given y, any other value c*alpha**|x-y|. All zeros:
    log P = -mu * (1 - exp(-sum_r rho_r)) - sum_r log(1+alpha_r). Else a sum of positive terms from the mode on.
    """
    highest = np.int64(0)
    noise = 0.0
    for r in range(len(x)):
        highest = max(highest, np.int64(x[r]))
        noise += log_noise_peak(rho[r]) if x[r] > 0 else -math.log1p(math.exp(-rho[r]))
    if highest == 0:
        return noise + mu * math.expm1(pull(1, x, rho))
    mode = repeated_mode(x, rho, mu) if mu > 0.0 else np.int64(0)
    for r in range(len(x)):
        noise -= rho[r] * abs(max(x[r], 0) - mode)
    if mu <= 0.0:
        return noise
    return noise + log_poisson(mode, mu) + math.log(sum_from_mode(x, rho, mu, mode))
