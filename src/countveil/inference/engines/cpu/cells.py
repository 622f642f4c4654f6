"""The topic model, cell by cell: the readable reference.

Every observed cell's true count is drawn given its rate and its release, by the exact conditional or by one
step of the paper's sampler, and its tokens are shared out over the topics. Cost: O(rows * columns * topics).
"""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.engines.cpu.noise_rates import NoiseRates
from countveil.inference.engines.cpu.rows import (
    MISSING,
    allocate,
    factors_by_row,
    fill_rates,
    open_row,
    scratch_size,
)
from countveil.inference.observations import Observations
from countveil.kernels import steps
from countveil.kernels.bessel_inversion import draw_count_by_bessel
from countveil.kernels.compiled import compiled
from countveil.kernels.count_conditional import draw_count
from countveil.kernels.philox import open_stream
from countveil.models.exposure import Exposure
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey
from countveil.models.topic_model import TopicModel, TopicState, TopicSums


class TopicCells:
    """Engine for a TopicModel and a release; with ``bessel`` it carries the noise rates of every cell."""

    def __init__(self, model: TopicModel, observations: Observations, bessel: bool = False) -> None:
        self._model = model
        self._data = observations
        self._noise_rates = NoiseRates(observations, bessel)

    def sweep(self, state: TopicState, key: SweepKey, row_work: RowWork) -> tuple[TopicState, TopicSums]:
        """Draw all true counts, allocate them, then draw the factors."""
        sums = self.sums(state, key, row_work)
        return self._model.update_from_sums(state, sums, key, row_work), sums

    def sums(self, state: TopicState, key: SweepKey, row_work: RowWork) -> TopicSums:
        """The sums of allocated tokens of one sweep."""
        data = self._data
        topics = self._model.n_topics
        theta, phi_by_column = factors_by_row(state)
        phi = np.ascontiguousarray(state.phi)
        row_topic = np.zeros((data.n_rows, topics), dtype=np.int64)
        column_topic = np.zeros((row_work.threads, data.width, topics), dtype=np.int64)
        plus, minus = self._noise_rates.of(key, row_work)

        def rows(worker: int, start: int, stop: int) -> None:
            _sweep_rows(
                *key, start, stop, theta, phi, phi_by_column, *data[2:],
                self._noise_rates.bessel, plus, minus,
                row_topic, column_topic[worker],
            )  # fmt: skip

        row_work.run_with_worker(data.n_rows, rows)
        exposure = Exposure(data.missing_starts, data.missing_columns)
        return TopicSums(row_topic, column_topic.sum(axis=0), exposure)


@compiled
def _sweep_rows(
    seed, chain, sweep, start, stop, theta, phi, phi_by_column,
    row_starts, columns, values, missing_starts, missing_columns, row_rho, cell_rho,
    bessel, plus, minus, row_topic, column_topic,
):  # fmt: skip
    n_topics, width = phi.shape
    rates = np.empty(width)
    released = np.empty(width, dtype=np.int64)
    scratch = np.empty(scratch_size(n_topics))
    for d in range(start, stop):
        stream = open_stream(seed, chain, sweep, steps.COUNTS, d)
        fill_rates(d, theta, phi, rates)
        open_row(d, row_starts, columns, values, missing_starts, missing_columns, released)
        for v in range(width):
            x = released[v]
            if x == MISSING:
                continue
            rho = cell_rho[d, v] if len(cell_rho) else row_rho[d]
            if bessel:
                y, plus[d, v], minus[d, v], stream = draw_count_by_bessel(
                    stream, x, rates[v], math.exp(-rho), plus[d, v], minus[d, v]
                )
            else:
                y, stream = draw_count(stream, x, rates[v], rho)
            if y > 0:
                stream = allocate(stream, d, v, y, theta, phi_by_column, scratch, row_topic, column_topic)
