"""Any factorization whose first axis has a factor of its own, by the engines for topic models.

mu[d, rest] = sum_l F[d, l] Phi[l, rest]: true counts are drawn and allocated to l as for topics, at the cost of
their tokens; what the other factors need is shared out from the sums.
"""

from __future__ import annotations

from typing import Any

from countveil.inference.engines.cpu.cells import TopicCells
from countveil.inference.engines.cpu.plain import TopicPlain
from countveil.inference.engines.cpu.tokens import TopicTokens
from countveil.inference.observations import Observations
from countveil.models.factor_model import FactorModel, FactorSums
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey
from countveil.models.topic_model import TopicModel


class Unfolded:
    """Engine for a FactorModel that unfolds, and any kind of data and method."""

    def __init__(
        self,
        model: FactorModel,
        observations: Observations,
        shape: tuple[int, ...],
        bessel: bool = False,
        cells: bool = False,
        engine: Any = None,
    ) -> None:
        """``engine`` serves the topic model with ``model.n_topics`` topics; by default one for the data."""
        self._model = model
        topics = TopicModel(model.n_topics)
        self._engine: Any
        if engine is not None:
            self._engine = engine
        elif not observations.noisy:
            self._engine = TopicPlain(topics, observations)
        elif bessel or cells:
            self._engine = TopicCells(topics, observations, bessel)
        else:
            self._engine = TopicTokens(topics, observations)
        self._observed = model.observed(observations.missing_starts, observations.missing_columns, shape)

    def sweep(self, state: Any, key: SweepKey, row_work: RowWork) -> tuple[Any, FactorSums]:
        """Draw all true counts, share them out, then draw the factors."""
        sums = self.sums(state, key, row_work)
        return self._model.update_from_sums(state, sums, key, row_work), sums

    def sums(self, state: Any, key: SweepKey, row_work: RowWork) -> FactorSums:
        """Draw all true counts and share them out: the tokens of every factor."""
        unfolded = self._engine.sums(self._model.unfold(state), key, row_work)
        return self._model.share(state, unfolded, self._observed, key, row_work)
