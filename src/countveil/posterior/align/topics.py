"""Topics: all draws in one order, only then averaged; and how people read them.

Words with weights and intervals, the most prevalent topic first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
import xarray as xr

from countveil.counts.shown_text import short_label
from countveil.posterior.align.matching import Aligner, axis_draws, fixed_places, in_order
from countveil.posterior.align.memberships import pooling
from countveil.posterior.axes import free_names
from countveil.posterior.diagnostics.summary import interval_dataset, mean_and_interval
from countveil.posterior.states import row_slices

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False, repr=False)
class Topics:
    """Topics as distributions over words, most prevalent first.

    ``weights`` is a Dataset over (topic, word) with ``mean``, ``low`` and ``high`` (of a run that kept no draws of
    them ``mean`` and ``sd``); ``prevalence`` the share of all expected counts that belongs to each topic;
    ``agreement`` how alike a topic is in two different draws (1 = identical, 0 = no word in common; where it is low
    the draws do not tell one story, and a mean over them says little).

    Examples
    --------
    >>> import countveil as cv
    >>> counts = [[90, 60, 0, 0], [80, 70, 0, 0], [0, 0, 90, 10]]
    >>> posterior = cv.fit(cv.TopicModel(2), counts, sweeps=400, seed=1, progress=False)
    >>> topics = posterior.topics(2)
    >>> topics.top_words()
    array([[0, 1],
           [2, 3]])
    >>> topics.table.columns.tolist()
    ['topic', 'rank', 'word', 'weight', 'low', 'high']
    """

    weights: xr.Dataset
    prevalence: np.ndarray
    agreement: np.ndarray
    n_words: int

    @property
    def table(self) -> pd.DataFrame:
        """The heaviest words of every topic: topic, rank (from 0), word, weight, low, high (or ``sd``)."""
        top = self.top_words()
        n_topics, n_words = top.shape
        topic, rank = np.repeat(np.arange(n_topics), n_words), np.tile(np.arange(n_words), n_topics)
        chosen = (topic, top.reshape(-1))
        values = {str(name): each.to_numpy()[chosen] for name, each in self.weights.data_vars.items()}
        columns = {
            "topic": topic,
            "rank": rank,
            "word": self._words()[chosen[1]],
            "weight": values.pop("mean"),
        }
        return pd.DataFrame({**columns, **values})

    def top_words(self) -> np.ndarray:
        """Positions of the heaviest words, (topics, n_words); ties go to the first."""
        return np.argsort(-self.weights["mean"].to_numpy(), axis=1, kind="stable")[:, : self.n_words]

    def _words(self) -> np.ndarray:
        return self.weights[self.weights["mean"].dims[1]].to_numpy()

    def __repr__(self) -> str:
        words = self._words()
        lines = ["topic  share  agreement  words"]
        for k, top in enumerate(self.top_words()):
            listed = " ".join(short_label(words[v]) for v in top)
            lines.append(f"{k:>5}  {self.prevalence[k]:5.1%}  {self.agreement[k]:9.2f}  {listed}")
        lines += [self.weights.attrs["chains"]] if "chains" in self.weights.attrs else []
        return "\n".join(lines)


class AlignedTopics(Aligner):
    """Draws of both factors, and the order of the topics in each: most prevalent first."""

    of_models = "a TopicModel, or of a Factorization such as 'dk,kv->dv'"
    dimension = "topic"

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

    @classmethod
    def of(
        cls, model: Any, fields: Mapping[Any, Any], axes: tuple[str, ...], order: np.ndarray | None = None
    ) -> Self:
        """Of a topic model, or of another factorization of a matrix."""
        theta, columns = axis_draws(model, fields)
        order = fixed_places(model, len(theta)) if order is None else order
        return cls(theta, np.swapaxes(columns, 1, 2), axes, order)

    def topics(self, n_words: int, interval: float, labels: np.ndarray) -> Topics:
        """Distributions over words, sum_v = 1 in every draw, with their means and intervals."""
        n_draws, n_topics, width = self._phi.shape
        mean, low, high = np.empty((3, n_topics, width))
        for k in range(n_topics):
            one = self._phi[np.arange(n_draws), self.alignment.order[:, k]].astype(np.float64)
            one /= np.maximum(one.sum(axis=1, keepdims=True), _TINY)
            mean[k], low[k], high[k] = mean_and_interval(one, interval)
        dims, places = ("topic", self._axes[1]), np.arange(n_topics)
        weights = interval_dataset(dims, (mean, low, high), {"topic": places, dims[1]: labels}, interval)
        return Topics(weights, self._prevalence, self.alignment.agreement, min(n_words, width))

    def memberships(self, rows: np.ndarray, interval: float, labels: np.ndarray) -> xr.Dataset:
        """Share of every topic in the expected counts of every row, with intervals."""
        n_draws, n_topics, _ = self._phi.shape
        mean, low, high, variance = np.empty((4, len(rows), n_topics))
        for block in row_slices(len(rows), n_draws * n_topics):
            share = self._theta[:, rows[block]] * self._phi_sums[:, None, :]
            share /= np.maximum(share.sum(axis=2, keepdims=True), _TINY)
            share = np.take_along_axis(share, self.alignment.order[:, None, :], axis=2)
            mean[block], low[block], high[block] = mean_and_interval(share, interval)
            variance[block] = share.var(axis=0)
        axis, agreement = self._axes[0], ("topic", self.alignment.agreement)
        coordinates = {"topic": np.arange(n_topics), axis: labels, "agreement": agreement}
        found = interval_dataset((axis, "topic"), (mean, low, high), coordinates, interval)
        lost = pooling(mean, variance)
        return found if math.isnan(lost) else found.assign_attrs(pooling=lost)
