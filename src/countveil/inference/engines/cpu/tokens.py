"""The topic model at the cost of its tokens: a sweep that never looks at most cells.

For a positive cell x = t, P(y) is proportional to Poisson(y; mu/alpha) * h(y), h = 1 up to t and alpha**(2(y-t))
beyond. Proposing y ~ Poisson(mu/alpha), accepting it with h(y) and else drawing from the exact conditional is
exact; and a proposal of 0 is always accepted, so a cell that receives no proposed token is done, untouched. By
superposition whole rows are proposed at once: for row d and topic k, Poisson(theta_dk Phi_k / alpha) tokens, each
with a column drawn in proportion to phi_k. Tokens arrive already allocated to a topic. A cell with x <= 0 has
y ~ Poisson(alpha*mu), likewise by tokens.

Row by row, from the row's own stream (pass 4 from the cell's own):

1. columns reached by tokens, positive cells: propose at 1/alpha, group by cell, accept or redraw;
2. the same columns, cells x <= 0: tokens at rate alpha;
3. visited columns, cells x <= 0: tokens at rate alpha;
4. visited columns, positive cells: one exact draw each; in columns with large counts all cells are visited.

A row that expects more tokens in 1, 2 or 3 than it has cells is drawn cell by cell there (``crowded_rows``).

Where alpha varies within a row, 1 proposes at the smallest alpha and thins by alpha_min/alpha of the cell, 2 and 3
propose at the largest and thin by alpha/alpha_max. Missing cells take no tokens in any pass.

Cost: O(tokens/alpha on the proposed columns + K per positive cell of the visited ones + (rows + columns) K).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from countveil.inference.engines.cpu.codes import UNSEEN, code_matrix, open_codes, value_of
from countveil.inference.engines.cpu.counters import added_up, counter_type, released_total
from countveil.inference.engines.cpu.crowded_rows import (
    TOKENS_PER_VISIT,
    is_crowded,
    visit_others,
    visit_positive,
)
from countveil.inference.engines.cpu.plan import make_plan
from countveil.inference.engines.cpu.rows import (
    allocate,
    cell_rate,
    factors_by_row,
    lay_out,
    pick,
    scratch_size,
)
from countveil.inference.engines.cpu.visits import visit_cells
from countveil.inference.engines.cpu.word_tables import choose_slots, word_at, word_tables
from countveil.inference.observations import Observations
from countveil.kernels import steps
from countveil.kernels.compiled import compiled
from countveil.kernels.count_conditional import draw_count_directly
from countveil.kernels.philox import open_stream
from countveil.kernels.poisson import poisson
from countveil.kernels.uniform import uniform
from countveil.kernels.uniforms import fill_uniforms
from countveil.models.exposure import Exposure
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey
from countveil.models.topic_model import TopicModel, TopicState, TopicSums

_STANDS, _FALLS = -1, -2


class TopicTokens:
    """Engine for a TopicModel and a release, exact method."""

    def __init__(self, model: TopicModel, observations: Observations) -> None:
        self._model = model
        self._data = observations
        self._released = released_total(observations)
        self._codes = code_matrix(observations)
        self._tokens_per_visit = TOKENS_PER_VISIT
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
        theta, phi = factors_by_row(state)
        proposed = word_tables(phi, plan.proposed, row_work)
        visited = word_tables(phi, plan.visited, row_work)
        columns = (plan.proposed, plan.visited, plan.is_proposed)
        counter = counter_type(self._released, theta, phi)
        row_topic = np.zeros(theta.shape, dtype=counter)
        column_topic = np.zeros((row_work.threads, *phi.shape), dtype=counter)

        def rows(worker: int, start: int, stop: int) -> None:
            _propose_rows(
                *key, start, stop, self._tokens_per_visit, theta, phi, *columns, *proposed, *visited, self._codes,
                *data[2:], self._lowest_rho, self._highest_rho, row_topic, column_topic[worker],
            )  # fmt: skip

        def visits(worker: int, start: int, stop: int) -> None:
            visit_cells(
                *key, data.width, *plan.cells, start, stop, theta, phi, data.row_rho, data.cell_rho,
                row_topic, column_topic[worker],
            )  # fmt: skip

        row_work.run_with_worker(data.n_rows, rows)
        row_work.run_with_worker(plan.cells.n_blocks, visits, small=1)
        exposure = Exposure(data.missing_starts, data.missing_columns)
        return TopicSums(row_topic, added_up(column_topic), exposure)


class TokenRoom(NamedTuple):
    """Room for the tokens of a row."""

    per_topic: np.ndarray  # int64 (topics)
    uniforms: np.ndarray
    column: np.ndarray  # int32
    topic: np.ndarray  # int32
    fallen: np.ndarray  # int32: columns whose proposals are not accepted


@compiled
def token_room(n_topics, n_tokens):
    """Room for a row with so many topics and tokens."""
    return TokenRoom(
        np.empty(n_topics, dtype=np.int64),
        np.empty(n_tokens),
        np.empty(n_tokens, dtype=np.int32),
        np.empty(n_tokens, dtype=np.int32),
        np.empty(n_tokens, dtype=np.int32),
    )


@compiled
def draw_tokens(
    stream, d, scale, theta, mass, heavy_mass, n_heavy, per_weight, slots, codes, positive, room, scratch
):
    """Tokens of row d, Poisson(scale * theta_dk * mass_k) of topic k, each with a column by weight.

    Only those on positive (or else on non-positive) observed cells are kept. Returns ``(number, room, stream)``;
    the room grows as needed.
    """
    n_topics, n_columns = np.uint64(theta.shape[1]), slots.shape[1]
    masses = mass.reshape(1, -1)
    total = lay_out(np.uint64(d), np.uint64(0), theta, masses, scratch)
    by_topic = scale * total > 0.5 * n_topics
    n_tokens = np.int64(0)
    if by_topic:
        for k in range(n_topics):
            n, stream = poisson(stream, scale * theta[d, k] * mass[k])
            room.per_topic[k] = n
            n_tokens += n
    else:
        # Fewer tokens than topics: their number first, then a topic for each.
        n_tokens, stream = poisson(stream, scale * total)
    if n_tokens > len(room.column):
        grown = token_room(n_topics, 2 * n_tokens)
        grown.per_topic[:] = room.per_topic
        room = grown
    if not by_topic:
        stream = fill_uniforms(stream, room.uniforms, n_tokens)
        room.per_topic[:] = 0
        for i in range(n_tokens):
            k = pick(room.uniforms[i], total, np.uint64(d), np.uint64(0), theta, masses, scratch)
            room.per_topic[k] += 1
    stream = fill_uniforms(stream, room.uniforms, n_tokens)
    begin = np.uint64(0)
    for k in range(n_topics):
        end = begin + np.uint64(room.per_topic[k])
        choose_slots(
            k, begin, end, mass, heavy_mass, n_heavy, per_weight, n_columns, room.uniforms, room.column
        )
        room.topic[begin:end] = k
        begin = end
    for i in range(begin):
        room.column[i] = word_at(np.uint64(room.topic[i]), room.column[i], room.uniforms[i], slots)
    kept = np.uint64(0)
    for i in range(begin):
        v = room.column[i]
        code = codes[np.uint64(v)]
        room.column[kept] = v
        room.topic[kept] = room.topic[i]
        kept += np.uint64((code != 0) & (code != UNSEEN) if positive else code == 0)
    return np.int64(kept), room, stream


@compiled
def _thin(stream, n_tokens, token_column, token_topic, rho, cell_rho, d, sign):
    """Where noise varies within a row: keep a token with probability exp(sign * (rho of its cell - rho))."""
    kept = 0
    for i in range(n_tokens):
        v, k = token_column[i], token_topic[i]
        u, stream = uniform(stream)
        if u < math.exp(sign * (cell_rho[d, v] - rho)):
            token_column[kept] = v
            token_topic[kept] = k
            kept += 1
    return kept, stream


@compiled
def _accept_or_redraw(
    stream, d, n_tokens, room, proposals, theta, phi, codes,
    row_starts, columns, values, row_rho, cell_rho, scratch, row_topic, column_topic,
):  # fmt: skip
    """A cell's n proposed tokens stand with probability h(n), else the cell is drawn anew.

    ``proposals`` counts a cell's tokens; it is all zero before and after. The first token of a cell decides for
    all of them: STANDS or FALLS.
    """
    for i in range(n_tokens):
        proposals[room.column[i]] += 1
    n_fallen = 0
    for i in range(n_tokens):
        v = room.column[i]
        n = proposals[v]
        if n > 1:
            n_excess = n - value_of(codes[v], d, v, row_starts, columns, values)
            n = _STANDS
            if n_excess > 0:
                rho = cell_rho[d, v] if len(cell_rho) else row_rho[d]
                u, stream = uniform(stream)
                if u >= math.exp(-2.0 * rho * n_excess):
                    n = _FALLS
                    room.fallen[n_fallen] = v
                    n_fallen += 1
            proposals[v] = n
        # A single token stands without a look: t >= 1 on every positive cell.
        if n != _FALLS:
            row_topic[d, room.topic[i]] += 1
            column_topic[v, room.topic[i]] += 1
    for i in range(n_tokens):
        proposals[room.column[i]] = 0
    for v in room.fallen[:n_fallen]:
        rho = cell_rho[d, v] if len(cell_rho) else row_rho[d]
        t = value_of(codes[v], d, v, row_starts, columns, values)
        y, stream = draw_count_directly(stream, t, cell_rate(d, v, theta, phi), rho)
        stream = allocate(stream, d, v, y, theta, phi, scratch, row_topic, column_topic)
    return stream


@compiled
def _add_tokens(d, n_tokens, token_column, token_topic, row_topic, column_topic):
    for i in range(n_tokens):
        row_topic[d, token_topic[i]] += 1
        column_topic[token_column[i], token_topic[i]] += 1


@compiled
def _propose_rows(
    seed, chain, sweep, start, stop, tokens_per_visit, theta, phi, proposed, visited, is_proposed,
    proposed_mass, proposed_heavy_mass, proposed_n_heavy, proposed_per_weight, proposed_slots,
    visited_mass, visited_heavy_mass, visited_n_heavy, visited_per_weight, visited_slots,
    code_rows, row_starts, columns, values, missing_starts, missing_columns, row_rho, cell_rho,
    lowest_rho, highest_rho, row_topic, column_topic,
):  # fmt: skip
    """Passes 1 to 3 for rows start..stop."""
    width, n_topics = phi.shape
    scratch = np.empty(scratch_size(n_topics))
    proposals = np.zeros(width, dtype=np.int32)
    room = token_room(n_topics, 1024)
    buffer = np.zeros(width, dtype=np.uint8)
    listed = len(code_rows) == 0
    by_cell = len(cell_rho) > 0
    for d in range(start, stop):
        stream = open_stream(seed, chain, sweep, steps.COUNTS, d)
        codes = buffer if listed else code_rows[d]
        if listed:
            open_codes(d, row_starts, columns, values, missing_starts, missing_columns, codes)
        rho = highest_rho[d]
        expected = math.exp(rho) * cell_rate(d, 0, theta, proposed_mass.reshape(1, -1))
        if is_crowded(expected, row_starts[d + 1] - row_starts[d], tokens_per_visit):
            stream = visit_positive(
                stream, d, is_proposed, theta, phi, row_starts, columns, values, row_rho, cell_rho,
                scratch, row_topic, column_topic,
            )  # fmt: skip
        elif len(proposed):
            n, room, stream = draw_tokens(
                stream, d, math.exp(rho), theta, proposed_mass, proposed_heavy_mass, proposed_n_heavy,
                proposed_per_weight, proposed_slots, codes, True, room, scratch,
            )  # fmt: skip
            if by_cell:
                n, stream = _thin(stream, n, room.column, room.topic, rho, cell_rho, d, 1.0)
            stream = _accept_or_redraw(
                stream, d, n, room, proposals, theta, phi, codes,
                row_starts, columns, values, row_rho, cell_rho, scratch, row_topic, column_topic,
            )  # fmt: skip
        rho = lowest_rho[d]
        for group in range(2):
            mass, heavy_mass, n_heavy, per_weight, slots = (
                (proposed_mass, proposed_heavy_mass, proposed_n_heavy, proposed_per_weight, proposed_slots)
                if group == 0
                else (visited_mass, visited_heavy_mass, visited_n_heavy, visited_per_weight, visited_slots)
            )
            chosen = proposed if group == 0 else visited
            expected = math.exp(-rho) * cell_rate(d, 0, theta, mass.reshape(1, -1))
            if is_crowded(expected, len(chosen), tokens_per_visit):
                stream = visit_others(
                    stream, d, chosen, codes, theta, phi, row_rho, cell_rho, scratch, row_topic, column_topic
                )
            elif len(chosen):
                n, room, stream = draw_tokens(
                    stream, d, math.exp(-rho), theta, mass, heavy_mass, n_heavy, per_weight, slots,
                    codes, False, room, scratch,
                )  # fmt: skip
                if by_cell:
                    n, stream = _thin(stream, n, room.column, room.topic, rho, cell_rho, d, -1.0)
                _add_tokens(d, n, room.column, room.topic, row_topic, column_topic)
