"""The topic model on plain counts: ordinary factorization, and the naive method on clamped releases.

Only non-zero cells have tokens, so a sweep costs O(non-zeros * topics).
"""

from __future__ import annotations

import numpy as np

from countveil.inference.engines.cpu.counters import added_up, counter_type, released_total
from countveil.inference.engines.cpu.rows import (
    FEW_TOKENS,
    allocate_few,
    allocate_many,
    factors_by_row,
    scratch_size,
)
from countveil.inference.observations import Observations
from countveil.kernels import steps
from countveil.kernels.compiled import compiled
from countveil.kernels.philox import open_stream
from countveil.models.exposure import Exposure
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey
from countveil.models.topic_model import TopicModel, TopicState, TopicSums


class TopicPlain:
    """Engine for a TopicModel and plain counts."""

    def __init__(self, model: TopicModel, observations: Observations) -> None:
        self._model = model
        self._data = observations
        self._released = released_total(observations)

    def sweep(self, state: TopicState, key: SweepKey, row_work: RowWork) -> tuple[TopicState, TopicSums]:
        """Allocate all tokens, then draw the factors."""
        sums = self.sums(state, key, row_work)
        return self._model.update_from_sums(state, sums, key, row_work), sums

    def sums(self, state: TopicState, key: SweepKey, row_work: RowWork) -> TopicSums:
        """The sums of allocated tokens of one sweep."""
        data = self._data
        theta, phi = factors_by_row(state)
        counter = counter_type(self._released, theta, phi)
        row_topic = np.zeros(theta.shape, dtype=counter)
        column_topic = np.zeros((row_work.threads, *phi.shape), dtype=counter)

        def rows(worker: int, start: int, stop: int) -> None:
            _allocate_rows(
                *key, start, stop, theta, phi, data.row_starts, data.columns, data.values,
                row_topic, column_topic[worker],
            )  # fmt: skip

        row_work.run_with_worker(data.n_rows, rows)
        exposure = Exposure(data.missing_starts, data.missing_columns)
        return TopicSums(row_topic, added_up(column_topic), exposure)


@compiled
def _allocate_rows(
    seed, chain, sweep, start, stop, theta, phi_by_column, row_starts, columns, values,
    row_topic, column_topic,
):  # fmt: skip
    scratch = np.empty(scratch_size(theta.shape[1]))
    for d in range(start, stop):
        stream = open_stream(seed, chain, sweep, steps.COUNTS, d)
        for i in range(row_starts[d], row_starts[d + 1]):
            if values[i] <= FEW_TOKENS:
                stream = allocate_few(
                    stream, d, columns[i], values[i], theta, phi_by_column, scratch, row_topic, column_topic
                )
        for i in range(row_starts[d], row_starts[d + 1]):
            if values[i] > FEW_TOKENS:
                stream = allocate_many(
                    stream, d, columns[i], np.int64(values[i]), theta, phi_by_column, scratch,
                    row_topic, column_topic,
                )  # fmt: skip
