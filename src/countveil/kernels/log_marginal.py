"""The closed-form likelihood of a release: log P(x | mu), x = Poisson(mu) + two-sided geometric noise.

With alpha = exp(-rho), c = (1-alpha)/(1+alpha), z = mu/alpha, w = mu*alpha:

* x <= 0:     P = c * alpha**(-x) * exp(-mu*(1-alpha));
* x = t > 0:  P = c * (A + B), A the true counts up to t, B those beyond. With the two positive sums
  D(t, z) = sum_{j=0..t} t!/(t-j)! z**-j and U(t, w) = sum_{j>=1} t!/(t+j)! w**j,
  A = Poisson(t; mu) * D(t, z) = alpha**t * exp(z-mu) * Q(t+1, z) and
  B = Poisson(t; mu) * U(t, w) = alpha**-t * exp(w-mu) * P(t+1, w),
  Q and P the regularised incomplete gammas, of which the larger is always 1 minus a sum of the other kind.

Each form is used where its sum converges, so that everything is sums of positive terms. The logarithms of
library incomplete gammas underflow on a third of a wide grid. rho is kept, not alpha.
"""

from __future__ import annotations

import math

from countveil.kernels.compiled import compiled
from countveil.kernels.log_poisson import log_poisson

_NEGLIGIBLE = 1e-18
_LOG_2 = math.log(2.0)


@compiled
def log_noise_peak(rho):
    """log c = log((1-alpha)/(1+alpha)) = log tanh(rho/2), accurate for tiny and huge rho."""
    alpha = math.exp(-rho)
    log_below_one = math.log1p(-alpha) if rho > _LOG_2 else math.log(-math.expm1(-rho))
    return log_below_one - math.log1p(alpha)


@compiled
def sum_down(t, x):
    """D(t, x) = sum_{j=0..t} t!/(t-j)! * x**-j, for x > t: the true counts up to t, relative to t itself."""
    total = 1.0
    term = 1.0
    j = 1
    while j <= t and term > _NEGLIGIBLE * total:
        term *= (t - j + 1.0) / x
        total += term
        j += 1
    return total


@compiled
def sum_up(t, x):
    """U(t, x) = sum_{j>=1} t!/(t+j)! * x**j, for x <= t+1: the true counts beyond t, relative to t itself."""
    total = 0.0
    term = 1.0
    j = 1
    while term > _NEGLIGIBLE * total:
        term *= x / (t + float(j))
        total += term
        j += 1
    return total


@compiled
def log_counts_up_to(t, mu, rho):
    """log A = log sum_{y<=t} Poisson(y; mu) * alpha**(t-y), for t >= 0 and mu > 0."""
    z = mu * math.exp(rho)
    if z > t + 1.0:
        # At z = inf (rho > 709) D is 1.
        return log_poisson(t, mu) + math.log(sum_down(t, z))
    beyond = math.exp(log_poisson(t, z)) * sum_up(t, z)
    return -t * rho + mu * math.expm1(rho) + math.log1p(-beyond)


@compiled
def log_counts_beyond(t, mu, rho):
    """log B = log sum_{y>t} Poisson(y; mu) * alpha**(y-t), for t >= 0 and mu > 0."""
    w = mu * math.exp(-rho)
    if w < t + 1.0:
        beyond = sum_up(t, w)
        # Below the smallest float only the first term counts, and its logarithm is known.
        log_beyond = math.log(beyond) if beyond > 1e-300 else math.log(mu) - rho - math.log(t + 1.0)
        return log_poisson(t, mu) + log_beyond
    up_to = math.exp(log_poisson(t, w)) * sum_down(t, w)
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
