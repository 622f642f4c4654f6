"""The topic model on counts that were released several times, at the cost of tokens and positive cells.

Row by row, from the row's own stream: cells that every release shows as x <= 0 have y ~ Poisson(mu * exp(-sum_r
rho_r)), reached by tokens at that rate. Where masks differ, a cell is shown by some releases only and its sum is
smaller: tokens come at the largest rate in the row and are thinned to that of their cell. Cells with x > 0 in some
release are visited: one exact draw each, from the cell's own stream. Missing cells take no tokens.

Cost: O(alpha * tokens + K per visited cell + (rows + columns) K).
"""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.engines.cpu.alias_tables import alias_tables
from countveil.inference.engines.cpu.crowded_rows import TOKENS_PER_VISIT, is_crowded
from countveil.inference.engines.cpu.rows import allocate, cell_rate, scratch_size
from countveil.inference.repeated_cells import gather
from countveil.inference.repeated_observations import RepeatedObservations
from countveil.kernels import steps
from countveil.kernels.alias import draw_alias
from countveil.kernels.compiled import compiled
from countveil.kernels.multinomial import multinomial
from countveil.kernels.philox import open_stream
from countveil.kernels.poisson import poisson
from countveil.kernels.repeated_counts import draw_count_repeated
from countveil.kernels.uniform import uniform
from countveil.models.exposure import Exposure
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey
from countveil.models.topic_model import TopicModel, TopicState, TopicSums

_CLOSED = -1.0


class TopicRepeated:
    """Engine for a TopicModel and several releases of the same counts, exact method."""

    def __init__(self, model: TopicModel, observations: RepeatedObservations) -> None:
        self._model = model
        self._data = data = observations
        rows = np.repeat(np.arange(data.n_rows), np.diff(data.partial_starts))
        self._partial_rho = (data.partial_shown * data.rho[:, rows].T).sum(axis=1)

    def sweep(self, state: TopicState, key: SweepKey, row_work: RowWork) -> tuple[TopicState, TopicSums]:
        """Draw all true counts, then the factors."""
        sums = self.sums(state, key, row_work)
        return self._model.update_from_sums(state, sums, key, row_work), sums

    def sums(self, state: TopicState, key: SweepKey, row_work: RowWork) -> TopicSums:
        """The sums of allocated tokens of one sweep."""
        data = self._data
        phi = np.ascontiguousarray(state.phi.T)
        keep, other, mass = alias_tables(state.phi, row_work)
        row_topic = np.zeros(state.theta.shape, dtype=np.int64)
        column_topic = np.zeros((row_work.threads, *phi.shape), dtype=np.int64)

        def rows(worker: int, start: int, stop: int) -> None:
            _sweep_rows(
                *key, start, stop, state.theta, phi, keep, other, mass, data.row_starts, data.columns,
                data.values, data.missing_starts, data.missing_columns, data.partial_starts,
                data.partial_columns, self._partial_rho, data.rho, row_topic, column_topic[worker],
            )  # fmt: skip

        row_work.run_with_worker(data.n_rows, rows)
        exposure = Exposure(data.missing_starts, data.missing_columns)
        return TopicSums(row_topic, column_topic.sum(axis=0), exposure)


@compiled
def _sweep_rows(
    seed, chain, sweep, start, stop, theta, phi, keep, other, mass, row_starts, columns, values,
    missing_starts, missing_columns, partial_starts, partial_columns, partial_rho, rho, row_topic, column_topic,
):  # fmt: skip
    width, n_topics = phi.shape
    n_releases = len(rho)
    weights, tokens = np.empty(n_topics), np.empty(n_topics, dtype=np.int64)
    scratch = np.empty(scratch_size(n_topics))
    x, noise, row_rho = np.empty(n_releases, dtype=np.int64), np.empty(n_releases), np.empty(n_releases)
    # What each cell of the row lacks of the whole sum of rho; _CLOSED: tokens do not reach it. 0 between rows.
    lack = np.zeros(width)
    for d in range(start, stop):
        stream = open_stream(seed, chain, sweep, steps.COUNTS, d)
        whole = 0.0
        for r in range(n_releases):
            row_rho[r] = rho[r, d]
            whole += rho[r, d]
        most = 0.0
        for i in range(partial_starts[d], partial_starts[d + 1]):
            lack[partial_columns[i]] = whole - partial_rho[i]
            most = max(most, whole - partial_rho[i])
        for i in range(missing_starts[d], missing_starts[d + 1]):
            lack[missing_columns[i]] = _CLOSED
        for i in range(row_starts[d], row_starts[d + 1]):
            lack[columns[i]] = _CLOSED
        total = 0.0
        for k in range(n_topics):
            total += theta[d, k] * mass[k]
        if is_crowded(math.exp(most - whole) * total, width, TOKENS_PER_VISIT):
            for v in range(width):
                if lack[v] != _CLOSED:
                    mu = cell_rate(d, v, theta, phi)
                    y, stream = poisson(stream, math.exp(lack[v] - whole) * mu)
                    if y > 0:
                        stream = allocate(stream, d, v, y, theta, phi, scratch, row_topic, column_topic)
        else:
            stream = _scatter_tokens(
                stream, d, theta, mass, keep, other, most, whole, lack, row_topic, column_topic
            )
        for i in range(row_starts[d], row_starts[d + 1]):
            v = columns[i]
            stream = open_stream(seed, chain, sweep, steps.VISITED, d * np.int64(width) + v)
            mu = 0.0
            for k in range(n_topics):
                weights[k] = theta[d, k] * phi[v, k]
                mu += weights[k]
            n = gather(values[i], row_rho, x, noise)
            y, stream = draw_count_repeated(stream, x[:n], noise[:n], mu)
            if y > 0:
                tokens[:] = 0
                stream = multinomial(stream, y, weights, tokens)
                for k in range(n_topics):
                    row_topic[d, k] += tokens[k]
                    column_topic[v, k] += tokens[k]
            lack[v] = 0.0
        for i in range(partial_starts[d], partial_starts[d + 1]):
            lack[partial_columns[i]] = 0.0
        for i in range(missing_starts[d], missing_starts[d + 1]):
            lack[missing_columns[i]] = 0.0


@compiled
def _scatter_tokens(stream, d, theta, mass, keep, other, most, whole, lack, row_topic, column_topic):
    """Tokens at the largest rate in the row, thinned to that of their cell."""
    for k in range(theta.shape[1]):
        n, stream = poisson(stream, math.exp(most - whole) * theta[d, k] * mass[k])
        for _ in range(n):
            v, stream = draw_alias(stream, keep[k], other[k])
            stays = lack[v] != _CLOSED
            if stays and lack[v] < most:
                u, stream = uniform(stream)
                stays = u < math.exp(lack[v] - most)
            if stays:
                row_topic[d, k] += 1
                column_topic[v, k] += 1
    return stream
