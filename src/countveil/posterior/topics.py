"""Topics as people read them: words with weights and intervals, most prevalent topic first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr


@dataclass(frozen=True, eq=False, repr=False)
class Topics:
    """Topics as distributions over words, most prevalent first.

    ``weights`` is a Dataset over (topic, word) with ``mean``, ``low`` and ``high``; ``prevalence`` the share of
    all expected counts that belongs to each topic; ``agreement`` how alike a topic is in two different draws
    (1 = identical, 0 = no word in common; where it is low the draws do not tell one story, and a mean over
    them says little).

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
        """The heaviest words of every topic: topic, rank (from 0), word, weight, low, high."""
        top = self.top_words()
        n_topics, n_words = top.shape
        topic, rank = np.repeat(np.arange(n_topics), n_words), np.tile(np.arange(n_words), n_topics)
        chosen = (topic, top.reshape(-1))
        mean, low, high = (self.weights[name].to_numpy()[chosen] for name in ("mean", "low", "high"))
        word = self._words()[chosen[1]]
        return pd.DataFrame(
            {"topic": topic, "rank": rank, "word": word, "weight": mean, "low": low, "high": high}
        )

    def top_words(self) -> np.ndarray:
        """Positions of the heaviest words, (topics, n_words); ties go to the first."""
        return np.argsort(-self.weights["mean"].to_numpy(), axis=1, kind="stable")[:, : self.n_words]

    def _words(self) -> np.ndarray:
        return self.weights[self.weights["mean"].dims[1]].to_numpy()

    def __repr__(self) -> str:
        words = self._words()
        lines = ["topic  share  agreement  words"]
        for k, top in enumerate(self.top_words()):
            listed = " ".join(str(words[v]) for v in top)
            lines.append(f"{k:>5}  {self.prevalence[k]:5.1%}  {self.agreement[k]:9.2f}  {listed}")
        return "\n".join(lines)
