"""What the laws here share: quantiles by bisection, sums over a log-concave law, kernels over arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rv_discrete

# exp(-745) is the smallest positive float64.
_INVISIBLE = -745.0


def quantile(
    cdf: Callable[..., Any],
    q: Any,
    mean: Any,
    variance: Any,
    parameters: tuple[Any, ...],
    lowest: float = -np.inf,
) -> np.ndarray:
    """The smallest integer k >= ``lowest`` with ``cdf(k, *parameters) >= q``, elementwise.

    scipy's own search walks in steps of ten from -1, which never arrives at a mean of a million.
    """
    q, mean, variance, *parameters = np.broadcast_arrays(q, mean, variance, *parameters)  # type: ignore[assignment]
    width = np.ceil(np.sqrt(variance)) + 1
    low = np.maximum(np.floor(mean) - width, lowest - 1)
    high = np.maximum(np.floor(mean) + width, lowest)
    while np.any(outside := (cdf(low, *parameters) >= q) & (low >= lowest)):
        width = np.where(outside, 2 * width, width)
        low = np.where(outside, np.maximum(low - width, lowest - 1), low)
    # q = 1 is reached where the distribution function rounds to 1, which every law here does.
    while np.any(outside := cdf(high, *parameters) < q):
        width = np.where(outside, 2 * width, width)
        high = np.where(outside, high + width, high)
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        enough = cdf(middle, *parameters) >= q
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle)
    return high


class Window(NamedTuple):
    """Probabilities of first, first + 1, ..., and the logarithm of the normaliser relative to the mode."""

    first: int
    probability: np.ndarray
    log_total: float

    def cdf(self, k: np.ndarray) -> np.ndarray:
        """P(K <= k), lower tail accurate relative to itself."""
        sums = np.concatenate([[0.0], np.cumsum(self.probability)])
        return np.minimum(sums[self._position(k)], 1.0)

    def sf(self, k: np.ndarray) -> np.ndarray:
        """P(K > k), upper tail accurate relative to itself."""
        sums = np.concatenate([np.cumsum(self.probability[::-1])[::-1], [0.0]])
        return np.minimum(sums[self._position(k)], 1.0)

    def moments(self) -> tuple[float, float, float, float]:
        """Mean, variance, skewness, excess kurtosis."""
        k = self.first + np.arange(len(self.probability))
        mean = k[0] + float(np.sum((k - k[0]) * self.probability))
        centred = k - mean
        second, third, fourth = (float(np.sum(centred**n * self.probability)) for n in (2, 3, 4))
        if second == 0.0:
            return mean, 0.0, 0.0, 0.0
        return mean, second, third / second**1.5, fourth / second**2 - 3

    def entropy(self) -> float:
        """-sum p log p."""
        p = self.probability[self.probability > 0]
        return -float(np.sum(p * np.log(p)))

    def _position(self, k: np.ndarray) -> np.ndarray:
        return np.clip(np.floor(k) - self.first + 1, 0, len(self.probability)).astype(np.int64)


def window(log_ratio: Callable[[np.ndarray], np.ndarray], mode: int) -> Window:
    """All k around ``mode`` where exp(log_ratio(k)) is visible; ``log_ratio`` is log P(k)/P(mode)."""
    first, last = (_edge(log_ratio, mode, direction) for direction in (-1, 1))
    log_f = log_ratio(np.arange(first, last + 1))
    f = np.exp(log_f)
    total = f.sum()
    return Window(first, f / total, float(np.log(total)))


def _edge(log_ratio: Callable[[np.ndarray], np.ndarray], mode: int, direction: int) -> int:
    distance = 1
    while mode + direction * distance > 0:
        if log_ratio(np.array([mode + direction * distance]))[0] < _INVISIBLE:
            break
        distance *= 2
    return max(mode + direction * distance, 0)


class LogConcaveLaw(rv_discrete):
    """scipy.stats methods for a log-concave law on 0, 1, 2, ... summed over all the mass that a float64 can see.

    A law gives its ``_window`` and ``_log_ratio`` for scalar parameters.
    """

    #: ``_window(*scalars)``: the law's Window.
    _window: Callable[..., Window]
    #: ``_log_ratio(k, *scalars)``: log P(k)/P(mode) for an int64 array of k >= 0.
    _log_ratio: Callable[..., np.ndarray]

    def _get_support(self, *parameters: Any) -> tuple[Any, Any]:
        return 0, np.inf

    def _logpmf(self, k: Any, *parameters: Any) -> np.ndarray:
        def one(values: np.ndarray, *scalars: float) -> np.ndarray:
            return self._log_ratio(values.astype(np.int64), *scalars) - self._window(*scalars).log_total

        return _by_parameters(one, k, parameters)

    def _pmf(self, k: Any, *parameters: Any) -> np.ndarray:
        return np.exp(self._logpmf(k, *parameters))

    def _cdf(self, k: Any, *parameters: Any) -> np.ndarray:
        return _by_parameters(lambda values, *p: self._window(*p).cdf(values), k, parameters)

    def _sf(self, k: Any, *parameters: Any) -> np.ndarray:
        return _by_parameters(lambda values, *p: self._window(*p).sf(values), k, parameters)

    def _ppf(self, q: Any, *parameters: Any) -> np.ndarray:
        mean, variance, _, _ = self._stats(*parameters)
        return quantile(self._cdf, q, mean, variance, parameters, lowest=0)

    def _stats(self, *parameters: Any) -> Any:
        wide = np.broadcast_arrays(*np.atleast_1d(*parameters))
        each = [self._window(*scalars).moments() for scalars in zip(*(p.ravel() for p in wide), strict=True)]
        return tuple(np.array(column).reshape(wide[0].shape) for column in zip(*each, strict=True))

    def _entropy(self, *parameters: Any) -> np.ndarray:
        return _by_parameters(lambda values, *p: self._window(*p).entropy() + 0 * values, 0.0, parameters)


def _by_parameters(function: Callable[..., np.ndarray], k: Any, parameters: tuple[Any, ...]) -> np.ndarray:
    """Apply ``function(values, *scalars)`` to all values that share their parameters."""
    values, *wide = np.broadcast_arrays(k, *parameters)
    out = np.empty(values.shape)
    table = np.stack([p.ravel() for p in wide], axis=1)
    distinct, group = np.unique(table, axis=0, return_inverse=True)
    for i, scalars in enumerate(distinct):
        here = group.reshape(values.shape) == i
        out[here] = function(values[here], *scalars)
    return out


def broadcast_flat(*arrays: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Flat float64 copies of the broadcast arrays, and an output of the broadcast shape."""
    wide = np.broadcast_arrays(*arrays)
    return [np.ascontiguousarray(a, dtype=np.float64).ravel() for a in wide], np.empty(wide[0].shape)


def seed_from(random_state: Any) -> int:
    """A seed for a kernel's stream out of the generator that scipy passes to ``rvs``."""
    return int.from_bytes(random_state.bytes(8), "little")
