"""Cells visited one by one: the true counts of a few hundred at a time.

**Order.** Every cell has a stream of its own, so the order is free: blocks of a few rows, within a block column by
column. The block's rows of theta stay at hand, and each row of phi is fetched once per block instead of once per
cell.

**Draws.** Most visited cells turn out empty, and a first look settles that: the count's draw (``draw_count``)
begins with that of a Poisson variable of mean mu/alpha, for cells x <= 0 mu*alpha, and that is 0 if its uniform is
not below the mean. What the uniform makes of the others is mostly seen by plain arithmetic (``few_count_at``). So
all cells of a chunk get their uniform, their rate, the look and that arithmetic in loops without a branch that
depends on a draw; only the few that are left are drawn one by one. A cell's first block has two uniforms, one for
the count and one for its first token (or for whether its tokens are kept); whatever takes more goes on after it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from countveil.inference.engines.cpu.rows import (
    FEW_TOKENS,
    allocate_few,
    allocate_many,
    cell_rate,
    lay_out,
    pick,
    scratch_size,
)
from countveil.inference.observed import Observed
from countveil.kernels import steps
from countveil.kernels.given_release.geometric import draw_count_at, few_count_at
from countveil.kernels.philox import open_stream
from countveil.kernels.uniform import fill_first_uniforms, skip_blocks, uniform
from countveil.runtime.compiled import compiled, inlined

ROWS_PER_BLOCK = 32
CHUNK = 512


class VisitedCells(NamedTuple):
    """Cells sorted by (block of rows, column, row)."""

    block_starts: np.ndarray  # int64 (blocks + 1)
    rows: np.ndarray  # int32
    columns: np.ndarray  # int32
    values: np.ndarray  # of the release's type

    @property
    def n_blocks(self) -> int:
        """Number of blocks of rows."""
        return len(self.block_starts) - 1


def list_visited(data: Observed, visited: np.ndarray, whole: np.ndarray) -> VisitedCells:
    """The positive cells of the columns where ``visited`` is True, and all others where ``whole`` is too.

    A cell x <= 0 is listed as 0. Plain rows have nothing to visit.
    """
    n_blocks = -(-data.n_rows // ROWS_PER_BLOCK)
    block_starts = np.zeros(n_blocks + 1, dtype=np.int64)
    wholes = np.flatnonzero(whole)
    _count(data, visited, wholes, block_starts)
    n = int(block_starts[-1])
    rows, columns = np.empty((2, n), dtype=np.int32)
    values = np.empty(n, dtype=data.values.dtype)
    cells = VisitedCells(block_starts, rows, columns, values)
    _list(data, visited, wholes, cells)
    return cells


@compiled
def _count(data, visited, wholes, block_starts):
    row_starts, columns, row_rho = data.row_starts, data.columns, data.row_rho
    missing_starts, missing_columns = data.missing_starts, data.missing_columns
    is_whole = np.zeros(len(visited), dtype=np.bool_)
    is_whole[wholes] = True
    for d in range(len(row_starts) - 1):
        if math.isinf(row_rho[d]):
            continue
        cells = len(wholes)
        for i in range(row_starts[d], row_starts[d + 1]):
            cells += visited[columns[i]] and not is_whole[columns[i]]
        for i in range(missing_starts[d], missing_starts[d + 1]):
            cells -= is_whole[missing_columns[i]]
        block_starts[d // ROWS_PER_BLOCK + 1] += cells
    for b in range(1, len(block_starts)):
        block_starts[b] += block_starts[b - 1]


@compiled
def _list(data, visited, wholes, cells):
    """A counting sort by column within every block."""
    row_starts, columns, values, row_rho = data.row_starts, data.columns, data.values, data.row_rho
    missing_starts, missing_columns = data.missing_starts, data.missing_columns
    block_starts, out_rows, out_columns, out_values = cells
    n_rows, width = len(row_starts) - 1, len(visited)
    at = np.empty(width + 1, dtype=np.int64)
    listed = np.zeros(width, dtype=np.int32)  # the last row (plus one) whose cell here needs no zero
    for b in range(len(block_starts) - 1):
        first, last = b * ROWS_PER_BLOCK, min((b + 1) * ROWS_PER_BLOCK, n_rows)
        at[:] = 0
        for counting in range(2):
            if counting == 1:
                at[0] = block_starts[b]
                for v in range(width):
                    at[v + 1] += at[v]
            for d in range(first, last):
                if math.isinf(row_rho[d]):
                    continue
                mark = 2 * d + counting + 1
                for i in range(missing_starts[d], missing_starts[d + 1]):
                    listed[missing_columns[i]] = mark
                for i in range(row_starts[d], row_starts[d + 1]):
                    v = columns[i]
                    listed[v] = mark
                    if visited[v]:
                        _put(counting, v, d, values[i], at, out_rows, out_columns, out_values)
                for v in wholes:
                    if listed[v] != mark:
                        _put(counting, v, d, 0, at, out_rows, out_columns, out_values)


@compiled
def _put(counting, v, d, value, at, out_rows, out_columns, out_values):
    """First pass: count the cell in its column. Second: write it at its place."""
    if counting == 0:
        at[v + 1] += 1
        return
    out_rows[at[v]] = d
    out_columns[at[v]] = v
    out_values[at[v]] = value
    at[v] += 1


class ChunkBuffer(NamedTuple):
    """For a chunk of cells."""

    cells: np.ndarray  # int64: their numbers, which name their streams
    first: np.ndarray  # uniforms
    second: np.ndarray
    rates: np.ndarray
    # Of the open cells alone:
    places: np.ndarray  # int64: which they are
    uniforms: np.ndarray  # the first ones
    releases: np.ndarray
    means: np.ndarray
    squares: np.ndarray  # alpha**2
    # Of those that are not settled at once:
    hard: np.ndarray  # int64: which of the open cells
    counts: np.ndarray  # int64


@compiled
def chunk_buffer():
    """For CHUNK cells."""
    return ChunkBuffer(
        np.empty(CHUNK, dtype=np.int64),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK, dtype=np.int64),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK, dtype=np.int64),
        np.empty(CHUNK, dtype=np.int64),
    )


@compiled
def find_open_cells(key, width, rows, columns, values, factors, row_rho, cell_rho, buffer):
    """Uniforms and rates of all these cells; and more on those whose count is not yet known to be 0: how many."""
    theta, phi = factors
    cells, first, second, rates, places, uniforms, releases, means, squares, _, _ = buffer
    n = len(rows)
    for i in range(n):
        cells[i] = (key.first_row + rows[i]) * np.int64(width) + columns[i]
    fill_first_uniforms(key.seed, key.chain, key.sweep, steps.VISITED, cells[:n], first, second)
    by_cell = len(cell_rho) > 0
    n_open = 0
    scale, inverse, last = 1.0, 1.0, 0.0
    for i in range(n):
        d, v = rows[i], columns[i]
        rho = cell_rho[d, v] if by_cell else row_rho[d]
        if rho != last:
            scale, inverse, last = math.exp(-rho), math.exp(rho), rho
        mu = cell_rate(d, v, theta, phi)
        rates[i] = mu
        mean = mu * (inverse if values[i] > 0 else scale)
        places[n_open] = i
        uniforms[n_open] = first[i]
        releases[n_open] = values[i]
        means[n_open] = mean
        squares[n_open] = scale * scale
        n_open += first[i] < mean
    return n_open


@compiled
def visit_cells(key, start, stop, cells, factors, data, integrate, sums):
    """Draw and allocate the true counts of the cells in blocks start..stop.

    With ``integrate`` a positive cell's tokens are dropped with probability alpha**(2*min(y, t)): the rows and
    columns of those that keep them are returned, in the order of the cells, else nothing.
    """
    theta, phi = factors
    row_topic, column_topic = sums
    block_starts, rows, columns, values = cells
    width, row_rho, cell_rho = data.width, data.row_rho, data.cell_rho
    scratch = np.empty(scratch_size(theta.shape[1]))
    buffer = chunk_buffer()
    numbers, _, second, rates, places, uniforms, releases, means, squares, hard, counts = buffer
    by_cell = len(cell_rho) > 0
    n_cells = 0
    if integrate is not None:
        n_cells = block_starts[stop] - block_starts[start]
    kept_rows, kept_columns, n_kept = np.empty(n_cells, np.int32), np.empty(n_cells, np.int32), 0
    is_kept = np.zeros(CHUNK, dtype=np.bool_)
    scale, inverse, last = 1.0, 1.0, 0.0
    for begin in range(block_starts[start], block_starts[stop], CHUNK):
        end = min(begin + CHUNK, block_starts[stop])
        n_open = find_open_cells(
            key,
            width,
            rows[begin:end],
            columns[begin:end],
            values[begin:end],
            factors,
            row_rho,
            cell_rho,
            buffer,
        )
        for q in range(n_open):
            means[q] = few_count_at(uniforms[q], releases[q], means[q], squares[q])
        n_few, n_hard = sort_out(n_open, means, uniforms, places, counts, hard)
        for q in range(n_few):
            place = places[q]
            # Unsigned, because numba checks a signed index for being negative.
            d, v = np.uint64(rows[begin + place]), np.uint64(columns[begin + place])
            u, stream = second[place], after_first_block(key, numbers[place])
            if integrate is not None:
                if is_dropped(u, row_rho[d], counts[q], values[begin + place]):
                    continue
                is_kept[place] = True
                u, stream = uniform(stream)
            total = lay_out(d, v, theta, phi, scratch)
            for token in range(counts[q]):
                if token > 0:
                    u, stream = uniform(stream)
                k = pick(u, total, d, v, theta, phi, scratch)
                row_topic[d, k] += 1
                column_topic[v, k] += 1
        n_aside = 0
        for q in range(n_hard):
            place = hard[q]
            d, v, mu = rows[begin + place], columns[begin + place], rates[place]
            rho = cell_rho[d, v] if by_cell else row_rho[d]
            if rho != last:
                scale, inverse, last = math.exp(-rho), math.exp(rho), rho
            stream = after_first_block(key, numbers[place])
            x = np.int64(values[begin + place])
            y, stream = draw_count_at(uniforms[q], stream, x, mu, rho, mu * inverse, mu * scale)
            if integrate is not None:  # noqa: SIM102 (numba leaves a branch out by a condition of its own)
                if y > 0:
                    if is_dropped(second[place], rho, y, x):
                        continue
                    is_kept[place] = True
            if y > FEW_TOKENS:
                # Put aside, to keep this loop short.
                hard[n_aside] = place
                counts[n_aside] = y
                n_aside += 1
            elif y > 0:
                stream = allocate_few(stream, d, v, y, theta, phi, scratch, row_topic, column_topic)
        for q in range(n_aside):
            place = hard[q]
            d, v = rows[begin + place], columns[begin + place]
            stream = open_stream(key.seed, key.chain, key.sweep, steps.VISITED_MANY, numbers[place])
            allocate_many(stream, d, v, counts[q], theta, phi, scratch, row_topic, column_topic)
        if integrate is not None:
            # In the order of the cells, which does not depend on where chunks begin: sums are made in this order.
            for place in range(end - begin):
                kept_rows[n_kept] = rows[begin + place]
                kept_columns[n_kept] = columns[begin + place]
                n_kept += is_kept[place]
                is_kept[place] = False
    return kept_rows[:n_kept].copy(), kept_columns[:n_kept].copy()


@inlined
def is_dropped(u, rho, y, t):
    """Whether the tokens of a positive cell with count y > 0 are integrated out, by a uniform."""
    return u < math.exp(-2.0 * rho * (y if y < t else t))


@compiled
def sort_out(n_open, drawn, uniforms, cells, counts, hard):
    """Cells with tokens to the front of ``cells``; those yet to be drawn to ``hard``, with their uniforms."""
    n_few, n_hard = np.uint64(0), np.uint64(0)
    for q in range(np.uint64(n_open)):
        cell, y = cells[q], drawn[q]
        hard[n_hard] = cell
        uniforms[n_hard] = uniforms[q]
        n_hard += np.uint64(y < 0.0)
        cells[n_few] = cell
        counts[n_few] = np.int64(y)
        n_few += np.uint64(y > 0.0)
    return np.int64(n_few), np.int64(n_hard)


@inlined
def after_first_block(key, cell):
    """The stream of a cell whose first two uniforms are known."""
    return skip_blocks(open_stream(key.seed, key.chain, key.sweep, steps.VISITED, cell), 1)
