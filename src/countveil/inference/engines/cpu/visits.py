"""The true counts of visited cells, a few hundred at a time.

Most visited cells turn out empty, and a first look settles that: the count's draw (``draw_count``) begins with
that of a Poisson variable of mean mu/alpha, for cells x <= 0 mu*alpha, and that is 0 if its uniform is not below
the mean. So all cells of a chunk get their uniform, their rate and the first look in loops without a branch that
depends on a draw; only those still open are drawn one by one, from the same stream, which begins with that uniform.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.engines.cpu.rows import (
    FEW_TOKENS,
    allocate_few,
    allocate_many,
    cell_rate,
    scratch_size,
)
from countveil.kernels import steps
from countveil.kernels.compiled import compiled
from countveil.kernels.count_conditional import draw_count_scaled
from countveil.kernels.philox import open_stream
from countveil.kernels.uniforms import fill_first_uniforms

CHUNK = 512


@compiled
def find_open_cells(
    seed, chain, sweep, width, rows, columns, values, theta, phi, row_rho, cell_rho, cells, rates, places
):
    """Rates of all these cells, and the places of those whose count is not yet known to be 0: how many."""
    n = len(rows)
    for i in range(n):
        cells[i] = rows[i] * np.int64(width) + columns[i]
    uniforms = rates  # each is read before its rate takes its place
    fill_first_uniforms(seed, chain, sweep, steps.VISITED, cells[:n], uniforms)
    by_cell = len(cell_rho) > 0
    n_open = 0
    scale, inverse, last = 1.0, 1.0, 0.0
    for i in range(n):
        d, v = rows[i], columns[i]
        rho = cell_rho[d, v] if by_cell else row_rho[d]
        if rho != last:
            scale, inverse, last = math.exp(-rho), math.exp(rho), rho
        u = uniforms[i]
        mu = cell_rate(d, v, theta, phi)
        rates[i] = mu
        settled = u >= mu * (inverse if values[i] > 0 else scale)
        places[n_open] = i
        n_open += not settled
    return n_open


@compiled
def visit_cells(
    seed, chain, sweep, width, block_starts, rows, columns, values, start, stop,
    theta, phi, row_rho, cell_rho, row_topic, column_topic,
):  # fmt: skip
    """Draw and allocate the true counts of the cells in blocks start..stop."""
    scratch = np.empty(scratch_size(theta.shape[1]))
    cells, rates, places = np.empty(CHUNK, dtype=np.int64), np.empty(CHUNK), np.empty(CHUNK, dtype=np.int64)
    aside, counts = np.empty(CHUNK, dtype=np.int64), np.empty(CHUNK, dtype=np.int64)
    by_cell = len(cell_rho) > 0
    scale, inverse, last = 1.0, 1.0, 0.0
    for begin in range(block_starts[start], block_starts[stop], CHUNK):
        end = min(begin + CHUNK, block_starts[stop])
        n_open = find_open_cells(
            seed, chain, sweep, width, rows[begin:end], columns[begin:end], values[begin:end],
            theta, phi, row_rho, cell_rho, cells, rates, places,
        )  # fmt: skip
        n_aside = 0
        for place in places[:n_open]:
            d, v, mu = rows[begin + place], columns[begin + place], rates[place]
            rho = cell_rho[d, v] if by_cell else row_rho[d]
            if rho != last:
                scale, inverse, last = math.exp(-rho), math.exp(rho), rho
            stream = open_stream(seed, chain, sweep, steps.VISITED, cells[place])
            x = np.int64(values[begin + place])
            y, stream = draw_count_scaled(stream, x, mu, rho, mu * inverse, mu * scale)
            if y > FEW_TOKENS:
                # Put aside, to keep this loop short.
                aside[n_aside] = place
                counts[n_aside] = y
                n_aside += 1
            elif y > 0:
                stream = allocate_few(stream, d, v, y, theta, phi, scratch, row_topic, column_topic)
        for i in range(n_aside):
            place = aside[i]
            d, v = rows[begin + place], columns[begin + place]
            stream = open_stream(seed, chain, sweep, steps.VISITED_MANY, cells[place])
            allocate_many(stream, d, v, counts[i], theta, phi, scratch, row_topic, column_topic)
