"""Two-sided geometric noise (the discrete Laplace distribution)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rv_discrete

from countveil.distributions.integer_law import quantile


class TwoSidedGeometric(rv_discrete):
    r"""P(k) = tanh(rho/2) * exp(-rho*|k|), k = ..., -1, 0, 1, ...

    With alpha = exp(-rho) this is (1-alpha)/(1+alpha) * alpha**|k| (Ghosh et al. 2012).
    Mean 0, variance 2*alpha/(1-alpha)**2 = 1/(2*sinh(rho/2)**2).

    >>> from countveil.distributions import two_sided_geometric
    >>> round(float(two_sided_geometric.pmf(0, rho=1.0)), 6)
    0.462117
    >>> two_sided_geometric.rvs(1.0, size=5, random_state=0).shape
    (5,)
    """

    def _argcheck(self, rho: Any) -> Any:
        return (rho > 0) & np.isfinite(rho)

    def _logpmf(self, k: Any, rho: Any) -> Any:
        return np.log(np.tanh(rho / 2)) - rho * np.abs(k)

    def _pmf(self, k: Any, rho: Any) -> Any:
        return np.tanh(rho / 2) * np.exp(-rho * np.abs(k))

    def _cdf(self, k: Any, rho: Any) -> Any:
        k = np.floor(k)
        tail = np.exp(-rho * np.where(k < 0, -k, k + 1)) / (1 + np.exp(-rho))
        return np.where(k < 0, tail, 1 - tail)

    def _sf(self, k: Any, rho: Any) -> Any:
        return self._cdf(-np.floor(k) - 1, rho)

    def _ppf(self, q: Any, rho: Any) -> Any:
        return quantile(self._cdf, q, 0 * rho, self._stats(rho)[1], (rho,))

    def _isf(self, q: Any, rho: Any) -> Any:
        return -self._ppf(q, rho)

    def _stats(self, rho: Any) -> Any:
        variance = 1 / (2 * np.sinh(rho / 2) ** 2)
        return 0 * rho, variance, 0 * rho, np.cosh(rho) + 2

    def _entropy(self, rho: Any) -> Any:
        return rho / np.sinh(rho) - np.log(np.tanh(rho / 2))

    def _rvs(self, rho: Any, size: Any = None, random_state: Any = None) -> Any:
        success = -np.expm1(-rho)
        return random_state.geometric(success, size) - random_state.geometric(success, size)


two_sided_geometric = TwoSidedGeometric(a=-np.inf, name="two_sided_geometric")
