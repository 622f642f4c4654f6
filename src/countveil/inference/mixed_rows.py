"""Some rows released, some plain: each kind of row by its own engine, and the sums of tokens added up.

A plain row is one with rho = inf (alpha = 0). Given the factors, rows are independent of each other, so that a
sweep may draw the tokens of the released rows by one engine and of the plain rows by another.
"""

from __future__ import annotations

import numpy as np

from countveil.inference.engines.cpu.plain import TopicPlain
from countveil.inference.engines.cpu.tokens import TopicTokens
from countveil.inference.observations import Observations
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey
from countveil.models.topic_model import TopicModel, TopicState, TopicSums


class MixedRows:
    """Engine for a TopicModel where ``row_rho`` is infinite for the rows that are plain."""

    def __init__(self, model: TopicModel, observations: Observations) -> None:
        self._model = model
        self._plain_rows = np.isinf(observations.row_rho)
        # Any finite noise will do for the plain rows: without memberships they get no tokens there.
        rho = np.where(self._plain_rows, 1.0, observations.row_rho)
        self._released = TopicTokens(model, observations._replace(row_rho=rho))
        self._plain = TopicPlain(model, _only(observations, self._plain_rows))

    def sweep(self, state: TopicState, key: SweepKey, row_work: RowWork) -> tuple[TopicState, TopicSums]:
        """Draw or allocate all tokens, then draw the factors."""
        sums = self.sums(state, key, row_work)
        return self._model.update_from_sums(state, sums, key, row_work), sums

    def sums(self, state: TopicState, key: SweepKey, row_work: RowWork) -> TopicSums:
        """The sums of allocated tokens of one sweep."""
        theta = np.where(self._plain_rows[:, None], 0.0, state.theta)
        released = self._released.sums(state._replace(theta=theta), key, row_work)
        plain = self._plain.sums(state, key, row_work)
        return TopicSums(
            released.row_topic + plain.row_topic,
            released.column_topic + plain.column_topic,
            released.exposure,
        )


def _only(data: Observations, rows: np.ndarray) -> Observations:
    """Plain counts with the listed cells of these rows alone."""
    per_row = np.diff(data.row_starts)
    keep = np.repeat(rows, per_row)
    starts = np.concatenate([[0], np.cumsum(np.where(rows, per_row, 0))]).astype(np.int64)
    return data._replace(
        row_starts=starts,
        columns=data.columns[keep],
        values=data.values[keep],
        row_rho=np.zeros(0),
        cell_rho=np.zeros((0, 0)),
    )
