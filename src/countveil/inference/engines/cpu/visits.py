"""The true counts of visited cells, a few hundred at a time.

Most visited cells turn out empty, and a first look settles that: the count's draw (``draw_count``) begins with
that of a Poisson variable of mean mu/alpha, for cells x <= 0 mu*alpha, and that is 0 if its uniform is not below
the mean. What the uniform makes of the others is mostly seen by plain arithmetic (``few_counts_at``). So all cells
of a chunk get their uniform, their rate, the look and that arithmetic in loops without a branch that depends on a
draw; only the few that are left are drawn one by one.

Every cell has a stream of its own. The first block has two uniforms, one for the count and one for its first token;
whatever takes more goes on after it.
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
from countveil.kernels import steps
from countveil.kernels.compiled import compiled, inlined
from countveil.kernels.count_conditional import draw_count_at, few_counts_at
from countveil.kernels.philox import open_stream
from countveil.kernels.uniform import uniform
from countveil.kernels.uniforms import fill_first_uniforms, skip_blocks

CHUNK = 512


class Room(NamedTuple):
    """Room for a chunk."""

    cells: np.ndarray  # int64: their numbers, which name their streams
    first: np.ndarray  # uniforms
    second: np.ndarray
    rates: np.ndarray
    # Of the open cells alone:
    places: np.ndarray  # int64: which they are
    uniforms: np.ndarray  # the first ones
    releases: np.ndarray
    means: np.ndarray
    # Of those that are not settled at once:
    hard: np.ndarray  # int64: which of the open cells
    counts: np.ndarray  # int64


@compiled
def room_for_chunk():
    """Room for CHUNK cells."""
    return Room(
        np.empty(CHUNK, dtype=np.int64),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK, dtype=np.int64),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK),
        np.empty(CHUNK, dtype=np.int64),
        np.empty(CHUNK, dtype=np.int64),
    )


@compiled
def find_open_cells(
    seed, chain, sweep, width, rows, columns, values, theta, phi, row_rho, cell_rho,
    cells, first, second, rates, places, uniforms, releases, means,
):  # fmt: skip
    """Uniforms and rates of all these cells; and more on those whose count is not yet known to be 0: how many."""
    n = len(rows)
    for i in range(n):
        cells[i] = rows[i] * np.int64(width) + columns[i]
    fill_first_uniforms(seed, chain, sweep, steps.VISITED, cells[:n], first, second)
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
        n_open += first[i] < mean
    return n_open


@compiled
def visit_cells(
    seed, chain, sweep, width, block_starts, rows, columns, values, start, stop,
    theta, phi, row_rho, cell_rho, row_topic, column_topic,
):  # fmt: skip
    """Draw and allocate the true counts of the cells in blocks start..stop."""
    scratch = np.empty(scratch_size(theta.shape[1]))
    cells, first, second, rates, places, uniforms, releases, means, hard, counts = room_for_chunk()
    by_cell = len(cell_rho) > 0
    scale, inverse, last = 1.0, 1.0, 0.0
    for begin in range(block_starts[start], block_starts[stop], CHUNK):
        end = min(begin + CHUNK, block_starts[stop])
        n_open = find_open_cells(
            seed, chain, sweep, width, rows[begin:end], columns[begin:end], values[begin:end],
            theta, phi, row_rho, cell_rho, cells, first, second, rates, places, uniforms, releases, means,
        )  # fmt: skip
        few_counts_at(uniforms[:n_open], releases[:n_open], means[:n_open])
        n_few, n_hard = sort_out(n_open, means, uniforms, places, counts, hard)
        for q in range(n_few):
            place = places[q]
            # Unsigned, because numba checks a signed index for being negative.
            d, v = np.uint64(rows[begin + place]), np.uint64(columns[begin + place])
            total = lay_out(d, v, theta, phi, scratch)
            u, stream = second[place], after_first_block(seed, chain, sweep, cells[place])
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
            stream = after_first_block(seed, chain, sweep, cells[place])
            x = np.int64(values[begin + place])
            y, stream = draw_count_at(uniforms[q], stream, x, mu, rho, mu * inverse, mu * scale)
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
            stream = open_stream(seed, chain, sweep, steps.VISITED_MANY, cells[place])
            allocate_many(stream, d, v, counts[q], theta, phi, scratch, row_topic, column_topic)


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
def after_first_block(seed, chain, sweep, cell):
    """The stream of a cell whose first two uniforms are known."""
    return skip_blocks(open_stream(seed, chain, sweep, steps.VISITED, cell), 1)
