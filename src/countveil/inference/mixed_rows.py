"""Some rows released, some plain: each kind of row by its own engine, and the sums of tokens added up.

A plain row is one with rho = inf (alpha = 0). Given the factors, rows are independent of each other, so that a
sweep may draw the tokens of the released rows by one engine and of the plain rows by another. Rows keep their
places in both, and with them their random streams; a row that is not an engine's own has no memberships there, and
so no tokens.
"""

from __future__ import annotations

import numpy as np

from countveil.inference.engines.cpu.integrated import TopicIntegrated, integrating_pays
from countveil.inference.engines.cpu.plain import TopicPlain
from countveil.inference.engines.cpu.tokens import TopicTokens
from countveil.inference.observations import Observations
from countveil.models.exposure import Exposure
from countveil.models.kept_exposure import KeptExposure
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey
from countveil.models.topic_model import TopicModel, TopicState, TopicSums


class MixedRows:
    """Engine for a TopicModel where ``row_rho`` is infinite for the rows that are plain.

    ``integrate``: whether the released rows may be served by the integrated engine, where that pays.
    """

    def __init__(self, model: TopicModel, observations: Observations, integrate: bool = False) -> None:
        self._model = model
        self._plain_rows = np.isinf(observations.row_rho)
        released = ~self._plain_rows
        # Any noise of the others will do for the plain rows, which have nothing to invert.
        rho = np.where(released, observations.row_rho, observations.row_rho[released].max())
        seen = _only(observations, released)._replace(row_rho=rho)
        integrate = integrate and integrating_pays(seen)
        self._released = TopicIntegrated(model, seen) if integrate else TopicTokens(model, seen)
        known = _only(observations, self._plain_rows)
        self._plain = TopicPlain(model, known._replace(row_rho=np.zeros(0)))

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
            self._exposure(released.exposure),
        )

    def _exposure(self, released: Exposure | KeptExposure) -> Exposure | KeptExposure:
        """Observed cells of plain rows have exposure 1: as if all were kept, or 1 - alpha with alpha = 0."""
        if isinstance(released, Exposure):
            return released
        return released._replace(alpha=np.where(self._plain_rows, 0.0, released.alpha))


def _only(data: Observations, rows: np.ndarray) -> Observations:
    """The listed cells of these rows alone."""
    per_row = np.diff(data.row_starts)
    keep = np.repeat(rows, per_row)
    starts = np.concatenate([[0], np.cumsum(np.where(rows, per_row, 0))]).astype(np.int64)
    found = data._replace(row_starts=starts, columns=data.columns[keep], values=data.values[keep])
    for array in (found.row_starts, found.columns, found.values):
        array.setflags(write=False)  # as in ``observe``: numba compiles anew for arrays that are not
    return found
