"""All draws of a topic model in one order of topics; only then are they averaged."""

from __future__ import annotations

import numpy as np
import xarray as xr

from countveil.posterior.alignment import in_order
from countveil.posterior.axis_names import free_names
from countveil.posterior.interval import tails_of
from countveil.posterior.kept_states import blocks_of
from countveil.posterior.topics import Topics

_TINY = np.finfo(np.float64).tiny


class AlignedTopics:
    """Draws of both factors, and the order of the topics in each: most prevalent first."""

    def __init__(
        self, theta: np.ndarray, phi: np.ndarray, axes: tuple[str, ...], order: np.ndarray | None = None
    ) -> None:
        """theta (draws, rows, topics), phi (draws, topics, columns); ``order`` if it is known already."""
        self._theta, self._phi = theta, phi
        self._axes = free_names(axes, {"topic", "mean", "low", "high", "agreement"})
        # Expected counts of each topic, draw by draw: what is left of scale when theta and phi trade it.
        self._phi_sums = phi.sum(axis=2, dtype=np.float64)
        mass = theta.sum(axis=1, dtype=np.float64) * self._phi_sums
        self.alignment, self._prevalence = in_order(phi, mass, order)

    def topics(self, n_words: int, interval: float, labels: np.ndarray) -> Topics:
        """Distributions over words, sum_v = 1 in every draw, with their means and intervals."""
        n_draws, n_topics, width = self._phi.shape
        mean, low, high = np.empty((3, n_topics, width))
        for k in range(n_topics):
            one = self._phi[np.arange(n_draws), self.alignment.order[:, k]].astype(np.float64)
            one /= np.maximum(one.sum(axis=1, keepdims=True), _TINY)
            mean[k] = one.mean(axis=0)
            low[k], high[k] = np.quantile(one, tails_of(interval), axis=0)
        dims = ("topic", self._axes[1])
        weights = _dataset(dims, mean, low, high, interval, {dims[1]: labels})
        return Topics(weights, self._prevalence, self.alignment.agreement, min(n_words, width))

    def memberships(self, rows: np.ndarray, interval: float, labels: np.ndarray) -> xr.Dataset:
        """Share of every topic in the expected counts of every row, with intervals."""
        n_draws, n_topics, _ = self._phi.shape
        mean, low, high = np.empty((3, len(rows), n_topics))
        for block in blocks_of(len(rows), n_draws * n_topics):
            share = self._theta[:, rows[block]] * self._phi_sums[:, None, :]
            share /= np.maximum(share.sum(axis=2, keepdims=True), _TINY)
            share = np.take_along_axis(share, self.alignment.order[:, None, :], axis=2)
            mean[block] = share.mean(axis=0)
            low[block], high[block] = np.quantile(share, tails_of(interval), axis=0)
        dims = (self._axes[0], "topic")
        agreement = ("topic", self.alignment.agreement)
        return _dataset(dims, mean, low, high, interval, {dims[0]: labels, "agreement": agreement})


def _dataset(
    dims: tuple[str, str],
    mean: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    interval: float,
    coordinates: dict,
) -> xr.Dataset:
    n_topics = mean.shape[dims.index("topic")]
    return xr.Dataset(
        {"mean": (dims, mean), "low": (dims, low), "high": (dims, high)},
        coords={"topic": np.arange(n_topics), **coordinates},
        attrs={"interval": interval},
    )
