"""The true count given its release: the exact conditional that inference draws from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from countveil.distributions.integer_law import LogConcaveLaw, Window, broadcast_flat, seed_from, window
from countveil.kernels.given_release.geometric import count_log_ratio, count_mode, draw_count
from countveil.kernels.philox import open_stream
from countveil.runtime.compiled import compiled


class CountGivenRelease(LogConcaveLaw):
    r"""P(y | x, mu, rho) ∝ mu**y / y! * exp(-rho*|x - y|), y = 0, 1, 2, ...

    ``x`` is the released count, ``mu`` the Poisson rate of the true one, rho = -log(alpha) = epsilon/N. For
    x <= 0 it is Poisson(alpha*mu), whatever the value of x.

    >>> from countveil.distributions import count_given_release
    >>> round(float(count_given_release.pmf(0, x=-1, mu=0.7, rho=1.0)), 3)
    0.773
    """

    def _argcheck(self, x: Any, mu: Any, rho: Any) -> Any:
        return (np.floor(x) == x) & (mu >= 0) & np.isfinite(mu) & (rho > 0) & np.isfinite(rho)

    def _log_ratio(self, k: np.ndarray, x: float, mu: float, rho: float) -> np.ndarray:
        if mu == 0:
            return np.where(k == 0, 0.0, -np.inf)
        t = max(int(x), 0)
        return _count_log_ratios(k, _mode(x, mu, rho), t, math.log(mu), rho)

    def _window(self, x: float, mu: float, rho: float) -> Window:
        return window(lambda k: self._log_ratio(k, x, mu, rho), _mode(x, mu, rho))

    def _rvs(self, x: Any, mu: Any, rho: Any, size: Any = None, random_state: Any = None) -> np.ndarray:
        return _draw_counts(seed_from(random_state), *(np.broadcast_to(p, size) for p in (x, mu, rho)))


def _mode(x: float, mu: float, rho: float) -> int:
    with np.errstate(over="ignore"):
        return count_mode(max(int(x), 0), mu * float(np.exp(rho)), mu * float(np.exp(-rho)))


@compiled
def _count_log_ratios(y, mode, t, log_mu, rho):  # type: ignore[no-untyped-def]
    """log P(y)/P(mode) of the count conditional for an integer array ``y``."""
    out = np.empty(len(y))
    for i in range(len(y)):
        out[i] = count_log_ratio(y[i], mode, t, log_mu, rho)
    return out


@compiled
def _fill_counts(seed, x, mu, rho, out):  # type: ignore[no-untyped-def]
    stream = open_stream(seed, 0, 0, 0, 0)
    for i in range(len(out)):
        out[i], stream = draw_count(stream, np.int64(x[i]), mu[i], rho[i])


def _draw_counts(seed: int, x: Any, mu: Any, rho: Any) -> np.ndarray:
    """``draw_count`` for every cell."""
    flat, out = broadcast_flat(x, mu, rho)
    _fill_counts(np.uint64(seed), *flat, out.reshape(-1))
    return out.astype(np.int64)


count_given_release = CountGivenRelease(name="count_given_release", shapes="x, mu, rho")
