"""Distribution functions by brute force, sharing nothing with the package's own numerics."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import gammaln, logsumexp


def cdf_of_log_weights(log_weights: np.ndarray, first: int) -> Callable[[np.ndarray], np.ndarray]:
    """The distribution function of the law with these unnormalised log weights on first, first + 1, ..."""
    sums = np.concatenate([[0.0], np.cumsum(np.exp(log_weights - logsumexp(log_weights)))])
    return lambda k: sums[np.clip(np.asarray(k) - first + 1, 0, len(sums) - 1).astype(int)]


def count_given_release_cdf(x: int, mu: float, rho: float) -> Callable[[np.ndarray], np.ndarray]:
    """P(y) ∝ mu**y/y! * exp(-rho*|x-y|) over a window that holds all visible mass."""
    peaks = np.clip([mu * np.exp(min(rho, 30.0)), mu * np.exp(-rho), x], 0, 3e6)
    # The mode lies between the smaller two of the three; a window of 60 spreads around both holds all mass.
    low, high = np.sort(peaks)[:2]
    first = max(int(low - 60 * np.sqrt(low + 1)), 0)
    y = np.arange(first, int(high + 60 * np.sqrt(high + 1)) + 60)
    return cdf_of_log_weights(y * np.log(mu) - gammaln(y + 1) - rho * np.abs(x - y), first)


def bessel_cdf(v: int, a: float) -> Callable[[np.ndarray], np.ndarray]:
    """P(m) ∝ (a/2)**(2m) / (m! (m+v)!)."""
    mode = a * a / (2 * (np.hypot(a, v) + v)) if a else 0.0
    first = max(int(mode - 60 * np.sqrt(mode + 1)), 0)
    m = np.arange(first, int(mode + 60 * np.sqrt(mode + 1)) + 60)
    if a == 0:
        return lambda k: (np.asarray(k) >= 0).astype(float)
    return cdf_of_log_weights(2 * m * np.log(a / 2) - gammaln(m + 1) - gammaln(m + v + 1), first)
