"""The topic model at the cost of its tokens: a sweep that never looks at most cells.

For a positive cell x = t, P(y) is proportional to Poisson(y; mu/alpha) * h(y), h = 1 up to t and alpha**(2(y-t))
beyond. Proposing y ~ Poisson(mu/alpha), accepting it with h(y) and else drawing from the exact conditional is
exact; and a proposal of 0 is always accepted, so a cell that receives no proposed token is done, untouched. By
superposition whole rows are proposed at once: for row d and topic k, Poisson(theta_dk Phi_k / alpha) tokens, each
with a column drawn in proportion to phi_k. Tokens arrive already allocated to a topic. A cell with x <= 0 has
y ~ Poisson(alpha*mu), likewise by tokens.

Row by row, from the row's own stream:

1. columns reached by tokens, positive cells: propose at 1/alpha, group by cell, accept or redraw;
2. the same columns, cells x <= 0: tokens at rate alpha;
3. visited columns, cells x <= 0: tokens at rate alpha;
4. visited columns, positive cells: one exact draw each.

Where alpha varies within a row, 1 proposes at the smallest alpha and thins by alpha_min/alpha of the cell, 2 and 3
propose at the largest and thin by alpha/alpha_max. Missing cells take no tokens in any pass.

Cost: O(tokens/alpha on the proposed columns + K per positive cell of the visited ones + (rows + columns) K).
"""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.engines.cpu.codes import UNSEEN, close_codes, code_matrix, open_codes, value_of
from countveil.inference.engines.cpu.plan import make_plan
from countveil.inference.engines.cpu.rows import allocate, weigh
from countveil.inference.engines.cpu.word_tables import word_tables
from countveil.inference.observations import Observations
from countveil.kernels import steps
from countveil.kernels.compiled import compiled
from countveil.kernels.count_conditional import draw_count, draw_count_scaled
from countveil.kernels.philox import open_stream
from countveil.kernels.poisson import poisson
from countveil.kernels.uniform import uniform
from countveil.models.exposure import Exposure
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey
from countveil.models.topic_model import TopicModel, TopicState, TopicSums


class TopicTokens:
    """Engine for a TopicModel and a release, exact method."""

    def __init__(self, model: TopicModel, observations: Observations) -> None:
        self._model = model
        self._data = observations
        self._codes = code_matrix(observations)
        self._plan = make_plan(observations, model.n_topics)
        by_cell = observations.cell_rho
        self._lowest_rho = by_cell.min(axis=1) if len(by_cell) else observations.row_rho
        self._highest_rho = by_cell.max(axis=1) if len(by_cell) else observations.row_rho

    def sweep(self, state: TopicState, key: SweepKey, row_work: RowWork) -> tuple[TopicState, TopicSums]:
        """Draw all true counts as tokens, then the factors."""
        sums = self.sums(state, key, row_work)
        return self._model.update_from_sums(state, sums, key, row_work), sums

    def sums(self, state: TopicState, key: SweepKey, row_work: RowWork) -> TopicSums:
        """The sums of allocated tokens of one sweep."""
        data, plan = self._data, self._plan
        phi = state.phi.T
        proposed = word_tables(phi, plan.proposed, row_work)
        visited = word_tables(phi, plan.visited, row_work)
        row_topic = np.zeros(state.theta.shape, dtype=np.int64)
        column_topic = np.zeros((row_work.threads, *phi.shape), dtype=np.int32)

        def rows(worker: int, start: int, stop: int) -> None:
            _sweep_rows(
                *key, start, stop, state.theta, phi, proposed.mass, proposed.slots, plan.proposed,
                visited.mass, visited.slots, plan.visited, plan.row_starts, plan.columns, plan.values,
                self._codes, *data[2:], self._lowest_rho, self._highest_rho,
                row_topic, column_topic[worker],
            )  # fmt: skip

        row_work.run_with_worker(data.n_rows, rows)
        exposure = Exposure(data.missing_starts, data.missing_columns)
        return TopicSums(row_topic, column_topic.sum(axis=0, dtype=np.int64), exposure)


@compiled
def _draw_tokens(stream, scale, theta_row, mass, slots, columns, token_column, token_topic):
    """All tokens of a row at once: per topic Poisson(scale * theta_k * mass_k), each with a column by weight.

    Nothing here depends on what a token finds in its cell: lookups in the large tables can overlap. Returns
    ``(number of tokens, token_column, token_topic, stream)``; the lists grow as needed.
    """
    n_tokens = 0
    n_columns = len(columns)
    for k in range(len(theta_row)):
        n, stream = poisson(stream, scale * theta_row[k] * mass[k])
        if n_tokens + n > len(token_column):
            more = np.empty(n_tokens + 2 * n, dtype=np.int32)
            token_column = np.concatenate((token_column[:n_tokens], more))
            token_topic = np.concatenate((token_topic[:n_tokens], more))
        for i in range(n_tokens, n_tokens + n):
            u, stream = uniform(stream)
            u *= n_columns
            slot = min(np.int64(u), n_columns - 1)
            own, other = columns[slot], np.int32(slots[k, slot, 1])
            token_column[i] = own if u - slot < slots[k, slot, 0] else other
            token_topic[i] = k
        n_tokens += n
    return n_tokens, token_column, token_topic, stream


@compiled
def _sift(n_tokens, token_column, token_topic, codes, positive):
    """Keep the tokens on positive (or else on non-positive) observed cells; returns how many there are."""
    kept = 0
    for i in range(n_tokens):
        v, k = token_column[i], token_topic[i]
        code = codes[v]
        token_column[kept] = v
        token_topic[kept] = k
        kept += (code != 0) & (code != UNSEEN) if positive else code == 0
    return kept


@compiled
def _thin(stream, n_tokens, token_column, token_topic, rho, rho_row, sign):
    """Where noise varies within a row: keep a token with probability exp(sign * (rho of its cell - rho))."""
    kept = 0
    for i in range(n_tokens):
        v, k = token_column[i], token_topic[i]
        u, stream = uniform(stream)
        if u < math.exp(sign * (rho_row[v] - rho)):
            token_column[kept] = v
            token_topic[kept] = k
            kept += 1
    return kept, stream


@compiled
def _accept_or_redraw(
    stream, d, n_tokens, token_column, token_topic, proposals, theta_row, phi, codes,
    row_starts, columns, values, row_rho, cell_rho, weights, row_topic, column_topic,
):  # fmt: skip
    """A cell's n proposed tokens stand with probability h(n), else it is drawn anew."""
    for i in range(n_tokens):
        proposals[token_column[i]] += 1
    for i in range(n_tokens):
        v = token_column[i]
        n = proposals[v]
        if n > 0:  # the first token of its cell decides for all: -1 they stand, -2 they do not
            t = value_of(codes[v], d, v, row_starts, columns, values)
            stands = n <= t
            rho = cell_rho[d, v] if len(cell_rho) else row_rho[d]
            if not stands:
                u, stream = uniform(stream)
                stands = u < math.exp(-2.0 * rho * (n - t))
            proposals[v] = -1 if stands else -2
            if not stands:
                mu = weigh(theta_row, phi[v], weights)
                y, stream = draw_count(stream, t, mu, rho)
                stream = allocate(stream, y, weights, mu, row_topic, column_topic[v])
        if proposals[v] == -1:
            row_topic[token_topic[i]] += 1
            column_topic[v, token_topic[i]] += 1
    for i in range(n_tokens):
        proposals[token_column[i]] = 0
    return stream


@compiled
def _add_tokens(n_tokens, token_column, token_topic, row_topic, column_topic):
    for i in range(n_tokens):
        row_topic[token_topic[i]] += 1
        column_topic[token_column[i], token_topic[i]] += 1


@compiled
def _sweep_rows(
    seed, chain, sweep, start, stop, theta, phi, proposed_mass, proposed_slots, proposed_columns,
    visited_mass, visited_slots, visited_columns, visited_starts, visited_cells, visited_values,
    code_rows, row_starts, columns, values, missing_starts, missing_columns, row_rho, cell_rho,
    lowest_rho, highest_rho, row_topic, column_topic,
):  # fmt: skip
    width, n_topics = phi.shape
    weights = np.empty(n_topics)
    proposals = np.zeros(width, dtype=np.int32)
    token_column = np.empty(1024, dtype=np.int32)
    token_topic = np.empty(1024, dtype=np.int32)
    buffer = np.zeros(width, dtype=np.uint8)
    listed = len(code_rows) == 0
    by_cell = len(cell_rho) > 0
    for d in range(start, stop):
        stream = open_stream(seed, chain, sweep, steps.COUNTS, d)
        alpha, inverse_alpha = math.exp(-row_rho[d]), math.exp(row_rho[d])
        codes = buffer if listed else code_rows[d]
        if listed:
            open_codes(d, row_starts, columns, values, missing_starts, missing_columns, codes)
        if len(proposed_columns):
            rho = highest_rho[d]
            n, token_column, token_topic, stream = _draw_tokens(
                stream, math.exp(rho), theta[d], proposed_mass, proposed_slots, proposed_columns,
                token_column, token_topic,
            )  # fmt: skip
            n = _sift(n, token_column, token_topic, codes, True)
            if by_cell:
                n, stream = _thin(stream, n, token_column, token_topic, rho, cell_rho[d], 1.0)
            stream = _accept_or_redraw(
                stream, d, n, token_column, token_topic, proposals, theta[d], phi, codes,
                row_starts, columns, values, row_rho, cell_rho, weights, row_topic[d], column_topic,
            )  # fmt: skip
        rho = lowest_rho[d]
        for group in range(2):
            mass, slots, here = (
                (proposed_mass, proposed_slots, proposed_columns)
                if group == 0
                else (visited_mass, visited_slots, visited_columns)
            )
            if len(here):
                n, token_column, token_topic, stream = _draw_tokens(
                    stream, math.exp(-rho), theta[d], mass, slots, here, token_column, token_topic
                )
                n = _sift(n, token_column, token_topic, codes, False)
                if by_cell:
                    n, stream = _thin(stream, n, token_column, token_topic, rho, cell_rho[d], -1.0)
                _add_tokens(n, token_column, token_topic, row_topic[d], column_topic)
        for i in range(visited_starts[d], visited_starts[d + 1]):
            v = visited_cells[i]
            rho = cell_rho[d, v] if len(cell_rho) else row_rho[d]
            mu = weigh(theta[d], phi[v], weights)
            z, w = (mu * math.exp(rho), mu * math.exp(-rho)) if by_cell else (mu * inverse_alpha, mu * alpha)
            y, stream = draw_count_scaled(stream, np.int64(visited_values[i]), mu, rho, z, w)
            if y > 0:
                stream = allocate(stream, y, weights, mu, row_topic[d], column_topic[v])
        if listed:
            close_codes(d, row_starts, columns, missing_starts, missing_columns, codes)
