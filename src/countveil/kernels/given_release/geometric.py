"""What one release tells of a true count: x = y + two-sided geometric noise, y ~ Poisson(mu).

With rho = -log(alpha) (which is kept, because alpha underflows), c = (1-alpha)/(1+alpha), z = mu*exp(rho) and
w = mu*exp(-rho):

**The likelihood** log P(x | mu), the true count summed out.

* x <= 0:     P = c * alpha**(-x) * exp(-mu*(1-alpha));
* x = t > 0:  P = c * (A + B), A the true counts up to t, B those beyond. With the two positive sums
  D(t, z) = sum_{j=0..t} t!/(t-j)! z**-j and U(t, w) = sum_{j>=1} t!/(t+j)! w**j (``long_sum``),
  A = Poisson(t; mu) * D(t, z) = alpha**t * exp(z-mu) * Q(t+1, z) and
  B = Poisson(t; mu) * U(t, w) = alpha**-t * exp(w-mu) * P(t+1, w),
  Q and P the regularised incomplete gammas, of which the larger is always 1 minus a sum of the other kind.

Each form is used where its sum converges, so that everything is sums of positive terms. The logarithms of
library incomplete gammas underflow on a third of a wide grid.

**The exact conditional** P(y | x, mu) ∝ mu**y/y! * alpha**|x - y|.

* x <= 0: y ~ Poisson(w), whatever the value of x;
* x = t > 0: successive ratios are z/y up to y = t and w/y beyond. Log-concave with mode floor(z) if that is
  at most t, floor(w) if that exceeds t, else t.

No auxiliary variable and no normaliser. The sum or the hat starts at the mode, because a recursion from 0
overflows on real data.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.kernels.hat import break_distance, propose
from countveil.kernels.long_sum import sum_down, sum_up
from countveil.kernels.poisson import (
    LARGEST_MEAN,
    SEARCHED,
    few_at,
    log_factorial_ratio,
    log_poisson,
    poisson,
    poisson_at,
)
from countveil.kernels.uniform import exponential, uniform
from countveil.runtime.compiled import compiled, inlined

#: Counts up to this are shared out token by token, larger ones by binomials: ``few_count_at`` settles no others.
FEW_TOKENS = 16

_NEGLIGIBLE = 1e-18
_ALL = 2**62  # terms of a sum, which ends where they are negligible
_LOG_2 = math.log(2.0)


@compiled
def log_noise_peak(rho):
    """log c = log((1-alpha)/(1+alpha)) = log tanh(rho/2), accurate for tiny and huge rho."""
    alpha = math.exp(-rho)
    log_below_one = math.log1p(-alpha) if rho > _LOG_2 else math.log(-math.expm1(-rho))
    return log_below_one - math.log1p(alpha)


@compiled
def log_counts_up_to(t, mu, rho):
    """log A = log sum_{y<=t} Poisson(y; mu) * alpha**(t-y), for t >= 0 and mu > 0."""
    z = mu * math.exp(rho)
    if z > t + 1.0:
        # At z = inf (rho > 709) D is 1.
        return log_poisson(t, mu) + math.log1p(sum_down(t, z, t))
    beyond = math.exp(log_poisson(t, z)) * sum_up(t, z, _ALL)
    return -t * rho + mu * math.expm1(rho) + math.log1p(-beyond)


@compiled
def log_counts_beyond(t, mu, rho):
    """log B = log sum_{y>t} Poisson(y; mu) * alpha**(y-t), for t >= 0 and mu > 0."""
    w = mu * math.exp(-rho)
    if w < t + 1.0:
        beyond = sum_up(t, w, _ALL)
        # Below the smallest float only the first term counts, and its logarithm is known.
        log_beyond = math.log(beyond) if beyond > 1e-300 else math.log(mu) - rho - math.log(t + 1.0)
        return log_poisson(t, mu) + log_beyond
    up_to = math.exp(log_poisson(t, w)) * (1.0 + sum_down(t, w, t))
    return t * rho + mu * math.expm1(-rho) + math.log1p(-up_to)


@compiled
def log_marginal(x, mu, rho):
    """log P(x | mu) for any integer x, rate mu >= 0 and rho > 0."""
    peak = log_noise_peak(rho)
    if x <= 0 or mu <= 0.0:
        return peak - abs(x) * rho + mu * math.expm1(-rho)
    up_to = log_counts_up_to(x, mu, rho)
    beyond = log_counts_beyond(x, mu, rho)
    high = max(up_to, beyond)
    return peak + high + math.log1p(math.exp(min(up_to, beyond) - high))


@compiled
def log_marginal_clamped(t, mu, rho):
    """log P(max(x, 0) = t | mu): a clamped zero has probability exp(-mu*(1-alpha))/(1+alpha)."""
    if t <= 0:
        return mu * math.expm1(-rho) - math.log1p(math.exp(-rho))
    return log_marginal(t, mu, rho)


# Below such ratios of successive probabilities a geometric hat is accepted nearly always.
_STEEP = 0.8
# A sum from a mode of at most 12 ends long before 80; a multiplication takes a quarter of a division's time.
_RECIPROCAL = 1.0 / np.maximum(np.arange(80), 1)


@inlined
def count_mode(t, z, w):
    """The most likely true count for a release t >= 0, given z = mu/alpha and w = mu*alpha."""
    if z < t + 1.0:
        return np.int64(math.floor(z))
    if w >= t + 1.0:
        return np.int64(math.floor(min(w, LARGEST_MEAN)))
    return t


@inlined
def draw_count(stream, x, mu, rho):
    """``(y, stream)``: the true count of a cell released as ``x`` with rate ``mu`` and noise ``rho``.

    Without noise (rho = inf) it is x itself.
    """
    if math.isinf(rho):
        return np.int64(max(x, 0)), stream
    mu = min(mu, LARGEST_MEAN)
    return draw_count_scaled(stream, x, mu, rho, mu * math.exp(rho), mu * math.exp(-rho))


@inlined
def draw_count_scaled(stream, x, mu, rho, z, w):
    """``draw_count`` where the caller knows z = mu*exp(rho) and w = mu*exp(-rho) without two exponentials."""
    if mu <= 0.0:
        return np.int64(0), stream
    if x <= 0:
        return poisson(stream, w)
    if z < x + 1.0:
        # P(y) is proportional to Poisson(y; z) * h(y), h = 1 up to x and alpha**(2(y - x)) beyond: a proposal up
        # to x, here nearly all of them, is accepted as it is.
        y, stream = poisson(stream, z)
        if y <= x:
            return y, stream
        u, stream = uniform(stream)
        if u < math.exp(-2.0 * rho * (y - x)):
            return y, stream
    return _directly(stream, x, mu, rho, z, w)


@inlined
def draw_count_at(u, stream, x, mu, rho, z, w):
    """``draw_count_scaled`` where the first uniform, u, was drawn by the caller, for many cells at once.

    The count is 0 if u >= z (for x <= 0, if u >= w), so that a caller may settle most cells by that look alone.
    """
    if mu <= 0.0:
        return np.int64(0), stream
    if x <= 0:
        if w < SEARCHED:
            return poisson_at(u, w), stream
        return poisson(stream, w)
    if is_steep(x, z, w):  # z > 1 here, so that no look has settled anything: u is as good as new
        return _count_at_kink(u, stream, x, z, w)
    if z < SEARCHED and z < x + 1.0:
        y = poisson_at(u, z)
        if y <= x:
            return y, stream
        v, stream = uniform(stream)
        if v < math.exp(-2.0 * rho * (y - x)):
            return y, stream
    return _not_steep(stream, x, mu, rho, z, w)


@inlined
def few_count_at(u, x, mean, square):
    """What ``draw_count_at`` makes of u, as a float, in arithmetic that a loop does for many cells at once.

    The mean is z for x > 0, else w, and ``square`` is alpha**2, or NaN if it is not known. At most FEW_TOKENS;
    -1 where it is not so easily seen.
    """
    y = few_at(u, mean)
    stands = (y <= x) & (mean < x + 1.0) & (x >= _STEEP * mean)
    w = mean * square
    known = (x > 0.0) & (x < FEW_TOKENS) & is_steep(x, mean, w)
    near = near_kink(u, x, mean, w)
    return near if known else y if (x <= 0.0) | stands else -1.0


@compiled
def few_counts_at(uniforms, releases, means, square):
    """``few_count_at`` for many cells, in the place of their means."""
    for i in range(len(means)):
        means[i] = few_count_at(uniforms[i], releases[i], means[i], square)


@compiled
def draw_count_directly(stream, t, mu, rho):
    """``draw_count`` for t > 0 without a proposal: for callers that have made one, and rejected it."""
    if mu <= 0.0:
        return np.int64(0), stream
    return _directly(stream, t, mu, rho, mu * math.exp(rho), mu * math.exp(-rho))


@compiled
def _directly(stream, t, mu, rho, z, w):
    if is_steep(t, z, w):
        u, stream = uniform(stream)
        return _count_at_kink(u, stream, t, z, w)
    return _not_steep(stream, t, mu, rho, z, w)


@compiled
def _not_steep(stream, t, mu, rho, z, w):
    if not mu < LARGEST_MEAN:  # nor is NaN: no hat would fit beyond it, and nothing be accepted
        mu, z, w = LARGEST_MEAN, LARGEST_MEAN * math.exp(rho), LARGEST_MEAN * math.exp(-rho)
    mode = count_mode(t, z, w)
    if mode <= 12:
        return _count_by_sum(stream, t, z, w, mode)
    return _count_by_rejection(stream, t, mu, rho, mode)


@inlined
def is_steep(t, z, w):
    """Whether both sides fall steeply from t > 0."""
    return (t < _STEEP * z) & (w < _STEEP * (t + 1.0))


@inlined
def kink_hat(t, z, w):
    """``(up, down, above, below)``: the hat falls like powers of up and down from 1 at t, to these sums."""
    up, down = w / (t + 1.0), t / z
    return up, down, up / (1.0 - up), down / (1.0 - down)


@inlined
def near_kink(u, t, z, w):
    """The count that u makes of the hat at t if it is one step away at most, where the hat is exact; else -1."""
    up, down, above, below = kink_hat(t, z, w)
    u *= 1.0 + above + below
    # The line has t itself first, then what is above in the order of far and near, then what is below likewise.
    step = 0.0 if u < 1.0 else 1.0 if u < 1.0 + above else -1.0
    is_far = (u < 1.0 + above * up) if u < 1.0 + above else (u < 1.0 + above + below * down)
    return -1.0 if (u >= 1.0) & is_far else t + step


@inlined
def _count_at_kink(u, stream, t, z, w):
    """Both sides fall at least like powers of ``up`` and ``down`` from t: those are the hat."""
    up, down, above, below = kink_hat(t, z, w)
    while True:
        near = near_kink(u, t, z, w)
        if near >= 0.0:
            return np.int64(near), stream
        is_above = u * (1.0 + above + below) < 1.0 + above
        ratio = up if is_above else down
        # P(t+m)/P(t) = up**m * (t+1)/(t+1) * ... * (t+1)/(t+m), P(t-m)/P(t) = down**m * t/t * ... * (t-m+1)/t.
        v, stream = uniform(stream)
        n_further = 1 + np.int64(math.log(v) / math.log(ratio))
        v, stream = uniform(stream)
        chance = 1.0
        for j in range(1, n_further + 1):
            chance *= (t + 1.0) / (t + 1.0 + j) if is_above else (t - j) / t
            if chance <= v:
                break
        if chance > v:
            return t + 1 + n_further if is_above else t - 1 - n_further, stream
        u, stream = uniform(stream)


@inlined
def _count_by_sum(stream, t, z, w, mode):
    """Inversion over y = mode, mode+1, ..., then mode-1, mode-2, ... with f(mode) = 1."""
    u, stream = uniform(stream)
    total = 0.0
    f = 1.0
    y = mode
    while f > _NEGLIGIBLE:
        total += f
        y += 1
        f *= (z if y <= t else w) * _RECIPROCAL[y]
    f = 1.0
    for y in range(mode, 0, -1):
        f *= y / (z if y <= t else w)
        total += f
    left = u * total
    f = 1.0
    y = mode
    while f > _NEGLIGIBLE:
        if left < f:
            return np.int64(y), stream
        left -= f
        y += 1
        f *= (z if y <= t else w) * _RECIPROCAL[y]
    f = 1.0
    for y in range(mode, 0, -1):
        f *= y / (z if y <= t else w)
        if left < f:
            return np.int64(y - 1), stream
        left -= f
    return np.int64(mode), stream  # rounding led past the end


@compiled
def count_log_ratio(y, mode, t, log_mu, rho):
    """log P(y)/P(mode): ``log z`` for each step at or below t, ``log w`` for each beyond."""
    low_steps = min(y, t) - min(mode, t)
    high_steps = max(y, t) - max(mode, t)
    return low_steps * (log_mu + rho) + high_steps * (log_mu - rho) - log_factorial_ratio(y, mode)


@compiled
def _count_by_rejection(stream, t, mu, rho, mode):
    log_mu = math.log(mu)
    log_z = log_mu + rho
    log_w = log_mu - rho
    variance = mode + 1.0
    # Upwards from the mode, but not far beyond the kink at t, where log f falls more steeply.
    slope = math.log(mode + 1.0) - (log_z if mode < t else log_w)
    right = mode + break_distance(max(slope, 0.0), variance)
    if mode < t < right:
        slope = math.log(t + 1.0) - log_w
        right = min(right, t + break_distance(max(slope, 0.0), variance))
    # Downwards likewise.
    slope = (log_z if mode <= t else log_w) - math.log(mode)
    left = max(mode - break_distance(max(slope, 0.0), variance), 0)
    if left < t < mode:
        slope = log_z - math.log(t)
        left = max(left, t - break_distance(max(slope, 0.0), variance))
    f_right = math.exp(count_log_ratio(right, mode, t, log_mu, rho))
    q_right = math.exp((log_z if right < t else log_w) - math.log(right + 1.0))
    f_left = math.exp(count_log_ratio(left, mode, t, log_mu, rho))
    q_left = math.exp(math.log(left) - (log_z if left <= t else log_w)) if left > 0 else 0.0
    while True:
        y, log_hat, stream = propose(stream, left, right, f_left, q_left, f_right, q_right)
        e, stream = exponential(stream)
        if y >= 0 and -e <= count_log_ratio(y, mode, t, log_mu, rho) - log_hat:
            return np.int64(y), stream
