"""Tensors in the CP form at the cost of their tokens, fiber by fiber.

mu[i, f, t] = sum_k a_ik g_fk h_tk: i the first axis, t the last, f all axes between (g the product of their
factors). A fiber is all cells of one (i, f). Its total rate is a single sum over k, and most fibers of a sparse
tensor expect less than one token: a look at the fiber settles all its cells at once. As for topics (``tokens``),
tokens are proposed at rate mu/alpha; those on a positive cell stand or the cell is drawn anew, one on a cell x <= 0
is kept with probability alpha**2, which leaves tokens at rate mu*alpha there.

Row by row, from the row's own stream:

1. tokens of the fibers that expect few: a component k in proportion to a_ik g_fk H_k,
   H_k = sum_t h_tk, then t in proportion to h_tk, so that no table is longer than the last axis;
2. crowded fibers, which expect many: one exact draw for each cell (``fiber_visits``).

Which way a fiber goes depends on the state and the noise, never on the randomness of the draw. Where alpha varies
within a row, tokens are proposed at its smallest and thinned to that of their cell. Missing cells take no tokens.

Cost: O(K per fiber + tokens/alpha in the fibers that expect few + K per cell of the others).

The fibers of a row lie end to end on a line, each as long as the number of tokens it expects; the tokens are the
points of a Poisson process of rate 1 on that line. Where in its fiber's interval a point lies says which component
it belongs to, and the component draws the place on the last axis.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from countveil.inference.engines.cpu.alias_tables import alias_tables
from countveil.inference.engines.cpu.choose import TOKENS_PER_CELL
from countveil.inference.engines.cpu.fiber_visits import FIBERS, cell_buffer, pass_on, visit, weigh
from countveil.inference.engines.cpu.products import LANES, sums_of_rows
from countveil.inference.engines.cpu.proposals import REJECTED, accept_or_reject
from countveil.inference.engines.cpu.rows import (
    UNSEEN,
    added_up,
    allocate,
    cell_rate,
    code_matrix,
    counter_type,
    lay_out,
    of_all_rows,
    open_codes,
    pick,
    released_total,
    scratch_size,
    value_of,
)
from countveil.inference.observed import Observed
from countveil.kernels import steps
from countveil.kernels.given_release.geometric import draw_count_directly
from countveil.kernels.philox import SweepKey, open_stream
from countveil.kernels.uniform import fill_exponentials, fill_uniforms
from countveil.models.einsum.exposure import exposure_of
from countveil.models.einsum.model import EinsumModel
from countveil.models.einsum.update import Statistics
from countveil.runtime.compiled import compiled, inlined
from countveil.runtime.workers import Workers

_ZERO, _ONE = np.uint64(0), np.uint64(1)


class Fibers:
    """For a model in the CP form on three axes or more, and cells that were released once, exact method."""

    def __init__(
        self,
        model: EinsumModel,
        data: Observed,
        shape: tuple[int, ...],
        tokens_per_cell: float = TOKENS_PER_CELL,
        workers: Workers | None = None,
    ) -> None:
        self._model, self._data, self._shape = model, data, shape
        self._released = released_total(data)
        self._options = _Options(code_matrix(data), data.highest_rho, tokens_per_cell)
        self._exposure = exposure_of(data.missing_starts, data.missing_columns, data.width, workers)

    def statistics(self, state: Any, key: SweepKey, workers: Workers) -> Statistics:
        """Draw all true counts: the tokens of every factor."""
        data = self._data
        first, middle, *others = self._model.axis_factors(state)
        last = others.pop()
        for factor in others:
            middle = (middle[:, None] * factor).reshape(-1, middle.shape[1])
        tables = alias_tables(last.T, workers)
        factors = _lay_out_factors(first, middle, last, tables)
        counter = counter_type(self._released, factors.first, factors.weights)
        of_first = np.zeros(factors.first.shape, dtype=counter)
        of_middle = np.zeros((workers.threads, *factors.middle.shape), dtype=counter)
        of_last = np.zeros((workers.threads, *factors.last.shape), dtype=counter)

        def rows(worker: int, start: int, stop: int) -> None:
            _draw_rows(
                key, start, stop, factors, data, self._options, (of_first, of_middle[worker], of_last[worker])
            )

        workers.run_with_worker(data.n_rows, rows, small=1)
        n = self._model.n_components
        parts = [
            (of_first[:, :n], self._shape[:1]),
            (of_all_rows(added_up(of_middle), workers)[:, :n], self._shape[1:-1]),
            (of_all_rows(added_up(of_last), workers)[:, :n], self._shape[-1:]),
        ]
        return self._model.tokens_of_axes(parts, self._exposure)


class _Options(NamedTuple):
    codes: np.ndarray
    highest_rho: np.ndarray
    tokens_per_cell: float


class FiberFactors(NamedTuple):
    """The factors as compiled code needs them, and what tokens need of the last axis.

    Rows are as long as whole vectors, with zeros at the end: those are added up faster than what is left of one.
    """

    first: np.ndarray  # (rows, components)
    middle: np.ndarray  # (fibers of a row, components)
    last: np.ndarray  # (length of a fiber, components)
    last_by_component: np.ndarray  # the same, (components but for zeros, length)
    weights: np.ndarray  # (fibers of a row, components): g_fk H_k
    weights_by_component: np.ndarray  # the same, (components but for zeros, fibers)
    keep: np.ndarray  # (components, length): an alias table for every component
    other: np.ndarray  # int32, likewise


@compiled
def _lay_out_factors(first, middle, last, tables):
    weights = middle * tables.mass
    return FiberFactors(
        _padded(first), _padded(middle), _padded(last), _padded(last.T), _padded(weights), _padded(weights.T),
        tables.keep, tables.other,
    )  # fmt: skip


@compiled
def _padded(matrix):
    n_rows, n_columns = matrix.shape
    padded = np.zeros((n_rows, -(-n_columns // LANES) * LANES))
    padded[:, :n_columns] = matrix
    return padded


@compiled
def _draw_rows(key, start, stop, factors, data, options, sums):
    first, middle, last = factors.first, factors.middle, factors.last
    code_rows, highest_rho, tokens_per_cell = options
    n_fibers, n_components = middle.shape
    length = len(last)
    listed = len(code_rows) == 0
    row_codes = np.zeros(n_fibers * length, dtype=np.uint8)
    proposals = np.zeros(n_fibers * length, dtype=np.int32)
    totals, ends = np.empty(factors.weights_by_component.shape[1]), np.empty(n_fibers)
    crowded = np.empty(n_fibers, dtype=np.int64)
    points, cells = point_buffer(1024), cell_buffer(length, n_components)
    scratch = np.empty(scratch_size(n_components))
    for i in range(start, stop):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.COUNTS, key.first_row + i)
        codes = row_codes if listed else code_rows[i]
        if listed:
            open_codes(i, data, codes)
        sums_of_rows(first, i, factors.weights_by_component, totals)
        n_crowded = _lay_out_fibers(math.exp(highest_rho[i]), tokens_per_cell * length, totals, ends, crowded)
        points = _room_for(ends[-1], points)
        n, stream = _scatter(stream, ends, points.points, points.interval)
        n, stream = _choose_cells(
            stream, i, n, factors, ends, codes, data.cell_rho, highest_rho[i], points, scratch
        )
        stream = _settle(stream, i, n, factors, codes, data, proposals, points, cells, scratch, sums)
        for begin in range(0, n_crowded, FIBERS):
            some = crowded[begin : min(begin + FIBERS, n_crowded)]
            stream = visit(stream, i, some, factors, codes, data, cells, scratch, sums)


@inlined
def _settle(stream, i, n_tokens, factors, codes, data, proposals, points, cells, scratch, sums):
    """Count the tokens that stand, and draw the cells anew whose proposals are rejected; the stream."""
    first, middle, last = factors.first, factors.middle, factors.last
    row_starts, columns, values = data.row_starts, data.columns, data.values
    row_rho, cell_rho = data.row_rho, data.cell_rho
    of_first, of_middle, of_last = sums
    _, fibers, components, token_columns, rejected = points
    length = len(last)
    n_rejected, _, stream = accept_or_reject(
        stream, i, n_tokens, token_columns, codes, data, None, proposals, rejected, rejected, 0, None
    )
    row = np.uint64(i)
    for a in range(n_tokens):
        f, k, v = np.uint64(fibers[a]), np.uint64(components[a]), np.uint64(token_columns[a])
        if proposals[v] > REJECTED:
            of_first[row, k] += 1
            of_middle[f, k] += 1
            of_last[v - f * np.uint64(length), k] += 1
            proposals[v] = 0
    theta, of_fibers = cells.theta, cells.tokens
    for a in rejected[:n_rejected]:
        f, v = fibers[a], token_columns[a]
        proposals[v] = 0
        rho = cell_rho[i, v] if len(cell_rho) else row_rho[i]
        x, t = value_of(codes[v], i, v, row_starts, columns, values), v - f * length
        weigh(i, f, 0, first, middle, theta)
        y, stream = draw_count_directly(stream, x, cell_rate(0, t, theta, last), rho)
        if y > 0:
            stream = allocate(stream, 0, t, y, theta, last, scratch, of_fibers, of_last)
            pass_on(i, f, 0, of_fibers, of_first, of_middle)
    return stream


class PointBuffer(NamedTuple):
    """For tokens: points on a line."""

    points: np.ndarray
    interval: np.ndarray  # int32: the one in which a point lies
    component: np.ndarray  # int32
    column: np.ndarray  # int32
    rejected: np.ndarray  # int32: a token of every cell whose proposals are rejected


@compiled
def point_buffer(n_tokens):
    """For so many tokens."""
    return PointBuffer(
        np.empty(n_tokens),
        np.empty(n_tokens, dtype=np.int32),
        np.empty(n_tokens, dtype=np.int32),
        np.empty(n_tokens, dtype=np.int32),
        np.empty(n_tokens, dtype=np.int32),
    )


@compiled
def _lay_out_fibers(boost, limit, totals, ends, crowded):
    """Put the fibers end to end on a line, each as long as its expected tokens; crowded ones are left out.

    Returns how many are crowded.
    """
    n_crowded, end = 0, 0.0
    for f in range(len(ends)):
        expected = boost * totals[f]
        is_crowded = not expected <= limit  # so is inf * 0, where boost has overflowed
        crowded[n_crowded] = f
        n_crowded += is_crowded
        end += 0.0 if is_crowded else expected
        ends[f] = end
    return n_crowded


@compiled
def _room_for(expected, room):
    """A buffer for as many tokens as may come where so many are expected: more have a probability below 1e-50."""
    n = np.int64(2.0 * expected) + 100
    return room if n <= len(room.points) else point_buffer(2 * n)


@compiled
def _scatter(stream, ends, points, interval):
    """Points of a Poisson process of rate 1 on the line, in order, and the interval of each.

    Intervals lie end to end; an empty one gets none. ``(number of points, stream)``.
    """
    length = ends[-1]
    at, n_points = 0.0, np.int64(0)
    while at < length and n_points < len(points):
        # Gaps are exponential: probably enough of them, at once.
        n = min(np.int64(length - at + 2.0 * math.sqrt(length - at)) + 2, len(points) - n_points)
        gaps = points[n_points : n_points + n]
        stream = fill_exponentials(stream, gaps, n)
        for a in range(n):
            at += gaps[a]
            gaps[a] = at
        n_points += n
    while n_points > 0 and not points[n_points - 1] < length:
        n_points -= 1
    find_intervals(points, n_points, ends, interval)
    return n_points, stream


@compiled
def find_intervals(points, n_points, ends, interval):
    """The interval of every point; both are in order.

    From both ends at once: either search waits for itself alone, and a processor does the two side by side.
    """
    one, place = np.uint64(0), np.uint64(0)
    other, other_place = np.uint64(max(n_points, 1) - 1), np.uint64(len(ends) - 1)
    while one < other:
        inside = points[one] < ends[place]
        interval[one] = place
        one += np.uint64(inside)
        place += np.uint64(not inside)
        # The first interval has no end before it, and all that is left: its points never go further back.
        outside = (points[other] < ends[other_place - _ONE]) if other_place > _ZERO else False
        interval[other] = other_place
        other -= np.uint64(not outside)
        other_place -= np.uint64(outside)
    if n_points > 0:
        while not points[one] < ends[place]:
            place += _ONE
        interval[one] = place


@compiled
def _choose_cells(stream, i, n_tokens, factors, ends, codes, cell_rho, highest_rho, room, scratch):
    """Component and column of every token; those that do not stay are left out.

    Tokens came at rate mu * exp(highest_rho): mu * exp(rho) stay on positive cells, mu * exp(-rho) on others.
    """
    points, fibers, components, columns, _ = room
    first, weights, keep, other = factors.first, factors.weights, factors.keep, factors.other
    row = np.uint64(i)
    before, whole, begin, end = -1, 0.0, 0.0, 0.0
    for a in range(n_tokens):
        f = np.uint64(fibers[a])
        if fibers[a] != before:
            before = fibers[a]
            whole = lay_out(row, f, first, weights, scratch)
            begin, end = ends[before - 1] if before > 0 else 0.0, ends[before]
        components[a] = pick((points[a] - begin) / (end - begin), whole, row, f, first, weights, scratch)
    stream = fill_uniforms(stream, points, n_tokens)
    length = keep.shape[1]
    by_cell = len(cell_rho) > 0
    stays_on_others = math.exp(-2.0 * highest_rho)
    n_kept = np.uint64(0)
    for a in range(n_tokens):
        k = np.uint64(components[a])
        u = points[a] * length
        t = np.int64(u)
        t = t if t < length else length - 1  # rounding
        # The slot's interval is cut in two at ``share``: within its part, u is as good as a new uniform.
        u -= t
        share = keep[k, np.uint64(t)]
        own = u < share
        within, part = (u, share) if own else (u - share, 1.0 - share)
        v = fibers[a] * length + (t if own else other[k, np.uint64(t)])
        code = codes[np.uint64(v)]
        stays = 1.0 if code > 0 else stays_on_others
        if by_cell:
            rho = cell_rho[i, v]
            stays = math.exp((rho if code > 0 else -rho) - highest_rho)
        fibers[n_kept] = fibers[a]
        components[n_kept] = components[a]
        columns[n_kept] = v
        n_kept += np.uint64((within < stays * part) & (code != UNSEEN))
    return np.int64(n_kept), stream
