"""The collapsed pass: topics find their words sooner where tokens move with both factors integrated out.

A word that topic k has not used has phi_kv ~ Gamma(0.1, ...), next to nothing, so that its tokens hardly ever go
there: ordinary sweeps take hundreds of rounds to share words out. With theta and the shares of phi integrated out
(as in latent Dirichlet allocation, Griffiths and Steyvers 2004), given Phi_k = sum_v phi_kv, a token of cell (d,
v) goes to topic k, all others staying where they are, in proportion to

    (a + n_dk) / (A_dk + E_dk)  *  (a + n_kv) / (B_vk + E_vk)  *  Phi_k / S_k

with S_k = sum_v (a + n_kv) / (B_vk + E_vk), A and B the rates of the factors' priors, E the exposures, n without
the token. With a fixed rate and no missing cell the last two are (a + n_kv) Phi_k / (V a + n_k): exact. Otherwise
it is close: S_k is what Phi_k would be given the tokens. It is part of burn-in alone.

In the first part of burn-in a sweep lists its tokens, each with a topic (from theta phi, as ever), passes over
them some times, and draws the factors from their sums. Nothing is held from one sweep to the next. Rows are passed
over in parts, side by side: each sees its own moves at once and those of the others after the pass (Newman et al.
2009). Parts depend on the problem alone, and every row has streams of its own, so that draws do not depend on
threads.

The order of a pass must not depend on the topics (tokens that stand topic by topic lead to a wrong posterior):
those of a row are shuffled first.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from countveil.inference.engines.cpu.alias_tables import word_tables
from countveil.inference.engines.cpu.proposals import draw_tokens, token_buffer
from countveil.inference.engines.cpu.rows import (
    Factors,
    cell_rate,
    lay_out,
    open_codes,
    pick,
    released_total,
    scratch_size,
)
from countveil.inference.observed import Observed
from countveil.inference.problem import Problem
from countveil.inference.settings import Settings
from countveil.kernels import steps
from countveil.kernels.gamma import SMALLEST
from countveil.kernels.given_release.geometric import draw_count
from countveil.kernels.philox import SweepKey, open_stream
from countveil.kernels.uniform import uniform
from countveil.models.einsum.exposure import exposure_of, ordered_sum
from countveil.models.einsum.model import EinsumModel, MatrixTokens
from countveil.models.einsum.prior import PriorRates, prior_rates
from countveil.models.einsum.update import Statistics
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers

#: The part of burn-in that has passes, and how many a sweep has.
UNTIL, PASSES = 0.25, 3
#: The strongest noise: with more, listing tokens costs more than a sweep, and what words say is mostly noise.
LOWEST_RHO = 2.5
#: Tokens that are listed, at least and at most: few are shared out soon without it, which saves its compilation.
FEWEST_TOKENS, MOST_TOKENS = 2000, 2**24
#: Parts of the rows, of so many tokens at least; their tables take so many bytes at most.
MOST_PARTS, TOKENS_OF_PART, TABLE_BYTES = 8, 50_000, 2**28


class Listed(NamedTuple):
    """Tokens of rows one after the other, in an order that does not depend on their topics."""

    starts: np.ndarray  # int64 (rows + 1)
    column: np.ndarray  # int32
    topic: np.ndarray  # int32


class _Weights(NamedTuple):
    """What a pass knows of the factors."""

    shape: float  # of the rows' factor
    column_shape: float
    totals: np.ndarray  # Phi_k
    rates: PriorRates  # of the rows' factor
    exposure: np.ndarray  # of the rows, (rows, K) or (1, K)
    per_token: np.ndarray  # 1 / (B_vk + E_vk)


def collapsed_of(problem: Problem, settings: Settings) -> Collapsed | None:
    """The passes that suit a problem; None where there are none, or too little burn-in for them."""
    if settings.start != "collapsed" or not collapsed_sweeps(settings.burn_in) or problem.alpha is not None:
        return None
    view = problem.views.get("")
    if view is None or view.method == "bessel" or not isinstance(view.model, EinsumModel):
        return None
    model, data = view.model, view.observed
    # Whoever gives factors, fixed or to start with, knows better.
    if model.matrix_fields is None or model._fixed or model._start or model.has_tied_factors:
        return None
    if data.is_repeated or len(data.cell_rho) or data.row_rho.min(initial=np.inf) < LOWEST_RHO:
        return None
    if model.n_components == 1 or not FEWEST_TOKENS <= released_total(data) <= MOST_TOKENS:
        return None
    return Collapsed(model, data, settings.burn_in)


def collapsed_sweeps(burn_in: int) -> range:
    """The sweeps that have passes: the first of burn-in."""
    return range(1, math.floor(UNTIL * burn_in) + 1)


class Collapsed:
    """Ask ``collapsed_of`` for one."""

    def __init__(self, model: EinsumModel, data: Observed, burn_in: int) -> None:
        self._model, self._data, self.sweeps = model, data, collapsed_sweeps(burn_in)
        fields = model.matrix_fields
        assert fields is not None
        self._row, self._column = fields
        self._exposure = exposure_of(data.missing_starts, data.missing_columns, data.width)
        most = min(
            released_total(data) / TOKENS_OF_PART, TABLE_BYTES / (12 * data.width * model.n_components)
        )
        n_parts = max(1, min(MOST_PARTS, int(most)))
        self._ends = [data.n_rows * (part + 1) // n_parts for part in range(n_parts)]

    def statistics(self, state: Any, key: SweepKey, workers: Workers) -> Statistics:
        """The sufficient statistics of a sweep with passes, in place of the ordinary ones."""
        model, held = self._model, self._model._hold(state)
        factors = Factors(model._row_matrix(held), model._column_matrix(held))
        tokens = self._listed(factors, key, workers)
        weights = _Weights(
            model._prior(self._row).shape,
            model._prior(self._column).shape,
            ordered_sum(factors.phi),
            prior_rates(self._row, model._prior(self._row), model._inferred.get(self._row), held),
            self._exposure.of_rows(factors.phi),
            self._per_token(held, factors, workers),
        )
        by_row = np.zeros(factors.theta.shape, dtype=np.int32)
        by_column = np.zeros(factors.phi.shape, dtype=np.int32)
        _count(tokens, by_row, by_column)
        for number in range(PASSES):
            by_column = self._passed(key, number, tokens, weights, by_row, by_column, workers)
        return model.tokens_of_matrix(state, MatrixTokens(by_row, by_column, self._exposure), key, workers)

    def _listed(self, factors: Factors, key: SweepKey, workers: Workers) -> Listed:
        """The tokens of all rows, with topics in proportion to theta_dk phi_kv."""
        data, found = self._data, {}
        if data.is_plain:

            def rows(start: int, stop: int) -> None:
                found[start] = _list_known(key, start, stop, factors, data)
        else:
            tables = word_tables(factors.phi, np.arange(data.width, dtype=np.int32), workers)

            def rows(start: int, stop: int) -> None:
                found[start] = _list_drawn(key, start, stop, factors, tables, data)

        workers.run(data.n_rows, rows)
        numbers, columns, topics = zip(*(found[start] for start in sorted(found)), strict=True)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(numbers))])
        return Listed(starts, np.concatenate(columns), np.concatenate(topics))

    def _per_token(self, held: dict[str, np.ndarray], factors: Factors, workers: Workers) -> np.ndarray:
        name, model = self._column, self._model
        prior = prior_rates(name, model._prior(name), model._inferred.get(name), held)
        seen = self._exposure.of_columns(factors.theta, self._data.width, workers)
        return 1.0 / (prior.of_rows[:, None] * prior.of_components + seen + np.zeros(factors.phi.shape))

    def _passed(
        self,
        key: SweepKey,
        number: int,
        tokens: Listed,
        weights: _Weights,
        by_row: np.ndarray,
        by_column: np.ndarray,
        workers: Workers,
    ) -> np.ndarray:
        """One pass, in place but for the sums of the columns, which are handed back."""
        n_parts = len(self._ends)
        own = np.repeat(by_column[None], n_parts, axis=0)

        def parts(start: int, stop: int) -> None:
            for part in range(start, stop):
                rows = (self._ends[part - 1] if part else 0, self._ends[part])
                _pass_over(key, number, rows, tokens, weights, by_row, own[part])

        workers.run(n_parts, parts, small=1)
        return by_column + (own - by_column).sum(axis=0, dtype=np.int32)


@compiled
def _list_known(key, start, stop, factors, data):
    """Plain rows: ``(number of tokens of every row, their columns, their topics)``."""
    theta, phi = factors
    scratch = np.empty(scratch_size(theta.shape[1]))
    n_tokens = np.int64(0)
    for i in range(data.row_starts[start], data.row_starts[stop]):
        n_tokens += np.int64(data.values[i])
    number = np.zeros(stop - start, np.int64)
    column, topic = np.empty(n_tokens, np.int32), np.empty(n_tokens, np.int32)
    n = np.int64(0)
    for d in range(start, stop):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.COUNTS, d)
        first = n
        for i in range(data.row_starts[d], data.row_starts[d + 1]):
            stream = _list_cell(
                stream, d, data.columns[i], np.int64(data.values[i]), theta, phi, scratch, n, column, topic
            )
            n += np.int64(data.values[i])
        number[d - start] = n - first
        _shuffle(stream, first, n, column, topic)
    return number, column, topic


@compiled
def _list_drawn(key, start, stop, factors, tables, data):
    """Rows with noise, plain ones among them: the same, of true counts that are drawn."""
    theta, phi = factors
    n_topics = theta.shape[1]
    scratch = np.empty(scratch_size(n_topics))
    codes, proposed = np.zeros(len(phi), dtype=np.uint8), token_buffer(n_topics, 1024)
    number = np.zeros(stop - start, np.int64)
    column, topic = np.empty(4096, np.int32), np.empty(4096, np.int32)
    n = 0
    for d in range(start, stop):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.COUNTS, d)
        rho, first = data.row_rho[d], n
        for i in range(data.row_starts[d], data.row_starts[d + 1]):
            v = data.columns[i]
            y, stream = draw_count(stream, np.int64(data.values[i]), cell_rate(d, v, theta, phi), rho)
            if y > 0:
                column, topic = _with_room(column, n, y), _with_room(topic, n, y)
                stream = _list_cell(stream, d, v, y, theta, phi, scratch, n, column, topic)
                n += y
        if not math.isinf(rho):
            open_codes(d, data, codes)
            more, proposed, stream = draw_tokens(
                stream, d, math.exp(-rho), theta, tables, codes, False, proposed, scratch
            )
            column, topic = _with_room(column, n, more), _with_room(topic, n, more)
            for i in range(more):
                column[n + i] = proposed.column[i]
                topic[n + i] = proposed.component[i]
            n += more
        number[d - start] = n - first
        _shuffle(stream, first, n, column, topic)
    return number, column[:n].copy(), topic[:n].copy()


@compiled
def _list_cell(stream, d, v, count, theta, phi, scratch, n, column, topic):
    """A cell's tokens, from place n on."""
    row, word = np.uint64(d), np.uint64(v)
    total = lay_out(row, word, theta, phi, scratch)
    for i in range(n, n + count):
        u, stream = uniform(stream)
        column[i] = v
        topic[i] = pick(u, total, row, word, theta, phi, scratch)
    return stream


@compiled
def _with_room(listed, n, n_more):
    if n + n_more <= len(listed):
        return listed
    grown = np.empty(2 * (n + n_more), dtype=listed.dtype)
    grown[:n] = listed[:n]
    return grown


@compiled
def _shuffle(stream, first, end, column, topic):
    """Tokens first..end in any order, all as probable."""
    for i in range(end - 1, first, -1):
        u, stream = uniform(stream)
        j = first + min(int(u * (i - first + 1)), i - first)
        column[i], column[j] = column[j], column[i]
        topic[i], topic[j] = topic[j], topic[i]


@compiled
def _count(tokens, by_row, by_column):
    starts, column, topic = tokens
    for d in range(len(starts) - 1):
        for i in range(starts[d], starts[d + 1]):
            by_row[d, topic[i]] += 1
            by_column[column[i], topic[i]] += 1


@compiled
def _pass_over(key, number, rows, tokens, weights, by_row, by_column):
    """Draw the topic of every token of these rows anew, in place; ``by_column`` has those of all rows."""
    starts, column, topic = tokens
    shape, column_shape, totals, rates, exposure, per_token = weights
    n_topics = by_row.shape[1]
    scratch = np.empty(scratch_size(n_topics))
    here, size, fixed = np.empty((1, n_topics)), np.zeros(n_topics), np.empty(n_topics)
    there = np.empty(by_column.shape)
    for v in range(len(there)):
        for k in range(n_topics):
            there[v, k] = (column_shape + by_column[v, k]) * per_token[v, k]
            size[k] += there[v, k]
    zero = np.uint64(0)
    for d in range(rows[0], rows[1]):
        stream = open_stream(
            key.seed, key.chain, key.sweep, steps.COLLAPSED, number * (len(starts) - 1) + d
        )  # fmt: skip
        of_row = rates.of_rows[d] if len(rates.of_rows) > 1 else rates.of_rows[0]
        group = rates.group_of[d] if len(rates.group_of) > 1 else rates.group_of[0]
        seen = d if len(exposure) > 1 else 0
        for k in range(n_topics):
            fixed[k] = totals[k] / (of_row * rates.of_components[group * n_topics + k] + exposure[seen, k])
            here[0, k] = (shape + by_row[d, k]) * fixed[k] / size[k]
        for i in range(starts[d], starts[d + 1]):
            word, old = np.uint64(column[i]), np.uint64(topic[i])
            by_row[d, old] -= 1
            by_column[word, old] -= 1
            size[old] = max(size[old] - per_token[word, old], SMALLEST)
            there[word, old] = (column_shape + by_column[word, old]) * per_token[word, old]
            here[0, old] = (shape + by_row[d, old]) * fixed[old] / size[old]
            total = lay_out(zero, word, here, there, scratch)
            u, stream = uniform(stream)
            new = pick(u, total, zero, word, here, there, scratch)
            by_row[d, new] += 1
            by_column[word, new] += 1
            size[new] += per_token[word, new]
            there[word, new] = (column_shape + by_column[word, new]) * per_token[word, new]
            here[0, new] = (shape + by_row[d, new]) * fixed[new] / size[new]
            topic[i] = new
