"""Tensors in the CP form at the cost of their tokens, fiber by fiber.

mu[i, f, t] = sum_k a_ik g_fk h_tk: i the first axis, t the last, f all axes between (g the product of their
factors). A fiber is all cells of one (i, f). Its total rate is a single sum over k, and most fibers of a sparse
tensor expect less than one token: a look at the fiber settles all its cells at once. As for topics (``tokens``),
tokens are proposed at rate mu/alpha; those on a positive cell stand or the cell is drawn anew, one on a cell x <= 0
is kept with probability alpha**2, which leaves tokens at rate mu*alpha there.

Row by row, from the row's own stream:

1. tokens of the fibers that expect few (``fiber_tokens``): a component k in proportion to a_ik g_fk H_k,
   H_k = sum_t h_tk, then t in proportion to h_tk, so that no table is longer than the last axis;
2. crowded fibers, which expect many: one exact draw for each cell (``fiber_cells``).

Which way a fiber goes depends on the state and the noise, never on the randomness of the draw. Where alpha varies
within a row, tokens are proposed at its smallest and thinned to that of their cell. Missing cells take no tokens.

Cost: O(K per fiber + tokens/alpha in the fibers that expect few + K per cell of the others).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from countveil.inference.engines.cpu.alias_tables import alias_tables
from countveil.inference.engines.cpu.cell_products import LANES, sums_of_rows
from countveil.inference.engines.cpu.codes import code_matrix, open_codes
from countveil.inference.engines.cpu.counters import added_up, counter_type, released_total
from countveil.inference.engines.cpu.fiber_cells import FIBERS, cell_room, visit
from countveil.inference.engines.cpu.fiber_tokens import (
    accept_or_redraw,
    choose_cells,
    lay_out_fibers,
    room_for,
    scatter,
    token_room,
)
from countveil.inference.engines.cpu.rows import scratch_size
from countveil.inference.observations import Observations
from countveil.kernels import steps
from countveil.kernels.compiled import compiled
from countveil.kernels.philox import open_stream
from countveil.models.cp_form import axis_factors, is_cp, tokens_of_factors
from countveil.models.factor_model import FactorModel, FactorSums
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey

#: A fiber is crowded if it expects more tokens than this per cell.
TOKENS_PER_CELL = 0.3

# Nanoseconds, roughly, as in ``plan``: a look at a fiber, and an entry of the tables that ``tokens`` would need.
_LOOK = 4.0
_ENTRY = 12.0
#: Beyond this rho, proposals at rate mu * exp(rho) cost more than visits to the positive cells (``tokens``).
_HIGHEST_RHO = 2.5


def fibers_pay(model: FactorModel, observations: Observations, shape: tuple[int, ...]) -> bool:
    """Whether this engine serves the model, and is the faster one. It depends on the data alone."""
    if not is_cp(model) or len(shape) < 3 or not observations.noisy:
        return False
    rho = observations.cell_rho if len(observations.cell_rho) else observations.row_rho
    return bool(rho.max() <= _HIGHEST_RHO) and shape[0] * _LOOK < shape[-1] * model.n_topics * _ENTRY


class CpFibers:
    """Engine for a FactorModel in the CP form on three axes or more, and a release, exact method."""

    def __init__(self, model: FactorModel, observations: Observations, shape: tuple[int, ...]) -> None:
        self._model, self._data, self._shape = model, observations, shape
        self._n_components = model.n_topics
        self._released = released_total(observations)
        self._codes = code_matrix(observations)
        by_cell = observations.cell_rho
        self._highest_rho = by_cell.max(axis=1) if len(by_cell) else observations.row_rho
        self._tokens_per_cell = TOKENS_PER_CELL
        self._observed = model.observed(observations.missing_starts, observations.missing_columns, shape)

    def sweep(self, state: Any, key: SweepKey, row_work: RowWork) -> tuple[Any, FactorSums]:
        """Draw all true counts as tokens, then the factors."""
        sums = self.sums(state, key, row_work)
        return self._model.update_from_sums(state, sums, key, row_work), sums

    def sums(self, state: Any, key: SweepKey, row_work: RowWork) -> FactorSums:
        """Draw all true counts: the tokens of every factor."""
        data = self._data
        first, middle, *others = axis_factors(self._model, state)
        last = others.pop()
        for factor in others:
            middle = (middle[:, None] * factor).reshape(-1, middle.shape[1])
        tables = alias_tables(last.T, row_work)
        factors = _lay_out_factors(first, middle, last, *tables)
        counter = counter_type(self._released, factors.first, factors.weights)
        of_first = np.zeros(factors.first.shape, dtype=counter)
        of_middle = np.zeros((row_work.threads, *factors.middle.shape), dtype=counter)
        of_last = np.zeros((row_work.threads, *factors.last.shape), dtype=counter)

        def rows(worker: int, start: int, stop: int) -> None:
            _draw_rows(
                *key, start, stop, self._tokens_per_cell, *factors, self._codes, *data[2:], self._highest_rho,
                of_first, of_middle[worker], of_last[worker],
            )  # fmt: skip

        row_work.run_with_worker(data.n_rows, rows, small=1)
        n, between = self._n_components, added_up(of_middle)
        of_axes = [of_first, *_by_axis(between, self._shape[1:-1]), added_up(of_last)]
        tokens = tokens_of_factors(self._model, [tokens[:, :n] for tokens in of_axes])
        return self._observed._replace(tokens=tokens)


def _by_axis(tokens: np.ndarray, shape: tuple[int, ...]) -> list[np.ndarray]:
    """The tokens of every axis of this shape, of (all its places, components)."""
    if len(shape) == 1:
        return [tokens]
    axes = range(len(shape))
    tokens = tokens.reshape(*shape, -1)
    return [tokens.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]


class Factors(NamedTuple):
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
def _lay_out_factors(first, middle, last, keep, other, mass):
    weights = middle * mass
    return Factors(
        _padded(first), _padded(middle), _padded(last), _padded(last.T), _padded(weights), _padded(weights.T),
        keep, other,
    )  # fmt: skip


@compiled
def _padded(matrix):
    n_rows, n_columns = matrix.shape
    padded = np.zeros((n_rows, -(-n_columns // LANES) * LANES))
    padded[:, :n_columns] = matrix
    return padded


@compiled
def _draw_rows(
    seed, chain, sweep, start, stop, tokens_per_cell,
    first, middle, last, last_by_component, weights, weights_by_component, keep, other,
    code_rows, row_starts, columns, values, missing_starts, missing_columns, row_rho, cell_rho, highest_rho,
    of_first, of_middle, of_last,
):  # fmt: skip
    n_fibers, n_components = middle.shape
    length = len(last)
    listed = len(code_rows) == 0
    buffer = np.zeros(n_fibers * length, dtype=np.uint8)
    proposals = np.zeros(n_fibers * length, dtype=np.int32)
    totals, ends = np.empty(weights_by_component.shape[1]), np.empty(n_fibers)
    crowded = np.empty(n_fibers, dtype=np.int64)
    room, cells = token_room(1024), cell_room(length, n_components)
    scratch = np.empty(scratch_size(n_components))
    for i in range(start, stop):
        stream = open_stream(seed, chain, sweep, steps.COUNTS, i)
        codes = buffer if listed else code_rows[i]
        if listed:
            open_codes(i, row_starts, columns, values, missing_starts, missing_columns, codes)
        sums_of_rows(first, i, weights_by_component, totals)
        n_crowded = lay_out_fibers(math.exp(highest_rho[i]), tokens_per_cell * length, totals, ends, crowded)
        room = room_for(ends[-1], room)
        n, stream = scatter(stream, ends, room.points, room.interval)
        n, stream = choose_cells(
            stream, i, n, first, weights, keep, other, ends, codes, cell_rho, highest_rho[i], room, scratch
        )
        stream = accept_or_redraw(
            stream, i, n, first, middle, last, codes, row_starts, columns, values, row_rho, cell_rho,
            proposals, room, cells, scratch, of_first, of_middle, of_last,
        )  # fmt: skip
        for begin in range(0, n_crowded, FIBERS):
            stream = visit(
                stream, i, crowded[begin : min(begin + FIBERS, n_crowded)], first, middle, last, last_by_component,
                codes, row_starts, columns, values, row_rho, cell_rho, cells, scratch, of_first, of_middle, of_last,
            )  # fmt: skip
