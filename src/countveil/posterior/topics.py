"""Topics and memberships: aligned, with intervals, and with a word on how well the draws agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from countveil.posterior.alignment import Alignment, align


@dataclass(frozen=True)
class Topics:
    """Topics as distributions over words, most prevalent first.

    ``weights`` is a Dataset over (topic, word) with ``mean``, ``low`` and ``high``; ``prevalence`` the share of
    all expected counts that belongs to each topic; ``agreement`` how alike a topic is in all draws (1 =
    identical; below about 0.7 the draws do not tell one story, and a mean over them says little).
    """

    weights: xr.Dataset
    prevalence: np.ndarray
    agreement: np.ndarray
    n_words: int

    @property
    def table(self) -> pd.DataFrame:
        """The heaviest words of every topic: topic, rank, word, weight, low, high."""
        mean, low, high = (self.weights[name].to_numpy() for name in ("mean", "low", "high"))
        words = self.weights[self.weights["mean"].dims[1]].to_numpy()
        rows = [
            (topic, rank, words[v], mean[topic, v], low[topic, v], high[topic, v])
            for topic in range(len(mean))
            for rank, v in enumerate(self.top_words()[topic])
        ]
        return pd.DataFrame(rows, columns=["topic", "rank", "word", "weight", "low", "high"])

    def top_words(self) -> np.ndarray:
        """Positions of the heaviest words, (topics, n_words); ties go to the first."""
        return np.argsort(-self.weights["mean"].to_numpy(), axis=1, kind="stable")[:, : self.n_words]

    def __str__(self) -> str:
        words = self.weights[self.weights["mean"].dims[1]].to_numpy()
        lines = ["topic  share  agreement  words"]
        for k, top in enumerate(self.top_words()):
            listed = " ".join(str(words[v]) for v in top)
            lines.append(f"{k:>5}  {self.prevalence[k]:5.1%}  {self.agreement[k]:9.2f}  {listed}")
        return "\n".join(lines)


class AlignedTopics:
    """All draws of a topic model in one order of topics."""

    def __init__(self, theta: np.ndarray, phi: np.ndarray, axes: tuple[str, str]) -> None:
        """theta (draws, rows, topics), phi (draws, topics, columns)."""
        self._theta, self._phi, self._axes = theta, phi, axes
        alignment = align(phi)
        # Expected counts of each topic, draw by draw: what is left of scale when theta and phi trade it.
        mass = theta.sum(axis=1, dtype=np.float64) * phi.sum(axis=2, dtype=np.float64)
        aligned = np.take_along_axis(mass, alignment.order, axis=1)
        share = (aligned / aligned.sum(axis=1, keepdims=True)).mean(axis=0)
        places = np.argsort(-share, kind="stable")
        self.alignment = Alignment(alignment.order[:, places], alignment.agreement[places])
        self._prevalence = share[places]

    def topics(self, n_words: int, interval: float, labels: np.ndarray) -> Topics:
        """Distributions over words, sum_v = 1 in every draw, with their means and intervals."""
        n_draws, n_topics, width = self._phi.shape
        mean, low, high = np.empty((3, n_topics, width))
        for k in range(n_topics):
            one = self._phi[np.arange(n_draws), self.alignment.order[:, k]].astype(np.float64)
            one /= np.maximum(one.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
            mean[k] = one.mean(axis=0)
            low[k], high[k] = np.quantile(one, _tails(interval), axis=0)
        dims = ("topic", self._axes[1])
        weights = xr.Dataset(
            {"mean": (dims, mean), "low": (dims, low), "high": (dims, high)},
            coords={"topic": np.arange(n_topics), dims[1]: labels},
            attrs={"interval": interval},
        )
        return Topics(weights, self._prevalence, self.alignment.agreement, min(n_words, width))

    def memberships(self, rows: np.ndarray, interval: float, labels: np.ndarray) -> xr.Dataset:
        """Share of every topic in the expected counts of every row, with intervals."""
        n_topics = self._phi.shape[1]
        mass = self._phi.sum(axis=2, dtype=np.float64)
        mean, low, high = np.empty((3, len(rows), n_topics))
        for start in range(0, len(rows), 1024):
            block = slice(start, start + 1024)
            share = self._theta[:, rows[block]] * mass[:, None, :]
            share /= np.maximum(share.sum(axis=2, keepdims=True), np.finfo(np.float64).tiny)
            share = np.take_along_axis(share, self.alignment.order[:, None, :], axis=2)
            mean[block] = share.mean(axis=0)
            low[block], high[block] = np.quantile(share, _tails(interval), axis=0)
        dims = (self._axes[0], "topic")
        return xr.Dataset(
            {"mean": (dims, mean), "low": (dims, low), "high": (dims, high)},
            coords={
                dims[0]: labels,
                "topic": np.arange(n_topics),
                "agreement": ("topic", self.alignment.agreement),
            },
            attrs={"interval": interval},
        )


def _tails(interval: float) -> list[float]:
    return [(1 - interval) / 2, (1 + interval) / 2]
