"""The released count given the Poisson rate of the true one: the closed-form likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import pdtr, pdtrc
from scipy.stats import rv_discrete

from countveil.distributions.integer_law import broadcast_flat, quantile
from countveil.distributions.two_sided_geometric import two_sided_geometric
from countveil.kernels.given_release.geometric import log_counts_beyond, log_counts_up_to, log_marginal
from countveil.runtime.compiled import compiled


class ReleaseGivenRate(rv_discrete):
    r"""x = y + tau, y ~ Poisson(mu), tau ~ two-sided geometric with alpha = exp(-rho).

    For x <= 0: P(x) = c * alpha**(-x) * exp(-mu*(1-alpha)), c = (1-alpha)/(1+alpha). For x > 0: c*(A + B),
    A = sum_{y<=x} Poisson(y; mu) * alpha**(x-y) and B = sum_{y>x} Poisson(y; mu) * alpha**(y-x). The
    distribution function for x >= 0 is Poisson_cdf(x; mu) + (B - alpha*A)/(1+alpha).

    >>> from countveil.distributions import release_given_rate
    >>> round(float(release_given_rate.pmf(2, mu=0.7, rho=1.0)), 6)
    0.151528
    """

    def _argcheck(self, mu: Any, rho: Any) -> Any:
        return (mu >= 0) & np.isfinite(mu) & (rho > 0) & np.isfinite(rho)

    def _logpmf(self, x: Any, mu: Any, rho: Any) -> Any:
        return _log_marginals(x, mu, rho)

    def _pmf(self, x: Any, mu: Any, rho: Any) -> Any:
        return np.exp(self._logpmf(x, mu, rho))

    def _cdf(self, x: Any, mu: Any, rho: Any) -> Any:
        x, mu, rho = np.broadcast_arrays(np.floor(x), mu, rho)
        below = np.exp(_log_marginals(np.minimum(x, 0), mu, rho)) / -np.expm1(-rho)
        difference = self._beyond_less_up_to(x, mu, rho)
        return np.where(x <= 0, below, np.clip(pdtr(np.maximum(x, 0), mu) + difference, 0, 1))

    def _sf(self, x: Any, mu: Any, rho: Any) -> Any:
        x, mu, rho = np.broadcast_arrays(np.floor(x), mu, rho)
        difference = self._beyond_less_up_to(x, mu, rho)
        above = np.clip(pdtrc(np.maximum(x, 0), mu) - difference, 0, 1)
        return np.where(x < 0, 1 - self._cdf(x, mu, rho), above)

    @staticmethod
    def _beyond_less_up_to(x: Any, mu: Any, rho: Any) -> Any:
        """(B - alpha*A)/(1+alpha)."""
        up_to, beyond = _log_marginal_parts(np.maximum(x, 0), mu, rho)
        return (np.exp(beyond) - np.exp(up_to - rho)) / (1 + np.exp(-rho))

    def _ppf(self, q: Any, mu: Any, rho: Any) -> Any:
        mean, variance, _, _ = self._stats(mu, rho)
        return quantile(self._cdf, q, mean, variance, (mu, rho))

    def _stats(self, mu: Any, rho: Any) -> Any:
        # Cumulants of independent parts add; those of a Poisson are all mu.
        noise_variance, noise_kurtosis = two_sided_geometric.stats(rho, moments="vk")
        variance = mu + noise_variance
        return mu, variance, mu / variance**1.5, (mu + noise_kurtosis * noise_variance**2) / variance**2

    def _rvs(self, mu: Any, rho: Any, size: Any = None, random_state: Any = None) -> Any:
        return random_state.poisson(mu, size) + two_sided_geometric.rvs(
            rho, size=size, random_state=random_state
        )


@compiled
def _fill_log_marginal(x, mu, rho, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        out[i] = log_marginal(np.int64(x[i]), mu[i], rho[i])


def _log_marginals(x: Any, mu: Any, rho: Any) -> np.ndarray:
    """``log_marginal`` of every cell."""
    flat, out = broadcast_flat(x, mu, rho)
    _fill_log_marginal(*flat, out.reshape(-1))
    return out


@compiled
def _fill_parts(t, mu, rho, up_to, beyond):  # type: ignore[no-untyped-def]
    for i in range(len(t)):
        up_to[i] = log_counts_up_to(np.int64(t[i]), mu[i], rho[i])
        beyond[i] = log_counts_beyond(np.int64(t[i]), mu[i], rho[i])


def _log_marginal_parts(t: Any, mu: Any, rho: Any) -> tuple[np.ndarray, np.ndarray]:
    """``log_counts_up_to`` and ``log_counts_beyond`` of every cell."""
    flat, up_to = broadcast_flat(t, mu, rho)
    beyond = np.empty_like(up_to)
    _fill_parts(*flat, up_to.reshape(-1), beyond.reshape(-1))
    return up_to, beyond


release_given_rate = ReleaseGivenRate(a=-np.inf, name="release_given_rate")
