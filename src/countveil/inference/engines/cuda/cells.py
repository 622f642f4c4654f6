"""Cells that the look has left open, drawn one by one.

Most draws are easy: the cell's uniform settles them, by a search from 0 up or as what was released. What is not (a
release far from the rate; very many tokens) needs many registers, and threads that wait for each other: such cells
are listed, and have a kernel of their own.

A true count is drawn by inversion of the cell's uniform, given the sum of its products; ``tokens`` has how these
are added up, and what becomes of the count.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.engines.cuda.device import SIMULATED, cuda, kernel
from countveil.inference.engines.cuda.halves import place
from countveil.inference.engines.cuda.look import EIGHT, LARGE, MISSING, leading_bits, released, words_of
from countveil.inference.engines.cuda.tokens import (
    LANES,
    MANY,
    WAITING,
    add_up,
    give_many,
    hand_out,
    list_hard,
    sum_of_lanes,
)
from countveil.kernels import steps
from countveil.kernels.given_release.geometric import draw_count_at, is_steep, near_kink
from countveil.kernels.philox import open_stream
from countveil.kernels.poisson import SEARCHED, poisson_at
from countveil.kernels.uniform import from_word, skip_blocks
from countveil.runtime.compiled import compiled, inlined

#: Threads of a block (the simulator runs each as a thread of Python) of easy and hard cells.
EASY_THREADS, HARD_THREADS = (32, 32) if SIMULATED else (128, 128)
#: Registers of a thread: with fewer, more threads wait for memory at a time.
EASY_REGISTERS, HARD_REGISTERS = 64, 80
_EASY_SUMS, _HARD_SUMS = EASY_THREADS * LANES, HARD_THREADS * LANES

_16, _48 = np.uint64(16), np.uint64(48)


@inlined
def cell_uniform(seed, chain, sweep, block, number, cell):
    """The uniform of a cell whose leading bits are those of ``number`` of the look's ``block``."""
    leading = leading_bits(seed, chain, sweep, block, number)
    a, b, _, _ = words_of(seed, chain, sweep, steps.DEVICE_CELL, cell, 0)
    return from_word((leading << _48) | (np.uint64(a) << _16) | (np.uint64(b) >> _16))


@inlined
def easy_count(u, x, mu, z, w):
    """What ``draw_count_at`` makes of u where u alone settles it, -1 elsewhere."""
    if mu <= 0.0:
        return np.int64(0)
    if x > 0 and is_steep(x, z, w):
        return np.int64(near_kink(u, x, z, w))
    mean = z if x > 0 else w
    if mean >= SEARCHED or (x > 0 and z >= x + 1.0):
        return np.int64(-1)
    y = poisson_at(u, mean)
    return y if y <= x or x <= 0 else np.int64(-1)


@compiled
def true_count(seed, chain, sweep, block, number, cell, x, mu, rho, z, w):
    """The true count of a cell whose leading bits are those of ``number`` of the look's ``block``."""
    if math.isinf(rho) or x < 0:  # a plain count, or a missing one
        return np.int64(max(x, 0))
    u = cell_uniform(seed, chain, sweep, block, number, cell)
    stream = skip_blocks(open_stream(seed, chain, sweep, steps.DEVICE_CELL, cell), 1)
    y, stream = draw_count_at(u, stream, x, mu, rho, z, w)
    return np.int64(y)


@kernel(registers=EASY_REGISTERS)
def draw_easy_cells(
    key,
    first_row,
    width,
    n_listed,
    listed,
    codes,
    row_rho,
    row_up,
    row_down,
    cell_rho,
    theta,
    phi,
    row_tokens,
    column_tokens,
    n_hard,
    hard,
):
    """The listed cells of rows from ``first_row`` on (see ``look``), and a list of those that are hard.

    row_up is exp(rho), row_down exp(-rho).
    """
    d_of = cuda.shared.array(EASY_THREADS, np.int32)
    v_of = cuda.shared.array(EASY_THREADS, np.int32)
    sums = cuda.shared.array(_EASY_SUMS, np.float64)
    totals = cuda.shared.array(EASY_THREADS, np.float64)
    waiting = cuda.shared.array(1, np.int32)
    base = cuda.shared.array(1, np.int32)
    begins = cuda.shared.array(EASY_THREADS, np.int32)
    owners = cuda.shared.array(WAITING, np.int16)
    thread = cuda.threadIdx.x
    seed, chain, sweep = key[0], key[1], key[2]
    padded = np.int32(codes.shape[1])
    all_cells = n_listed[0]
    for first in range(cuda.blockIdx.x * EASY_THREADS, all_cells, cuda.gridDim.x * EASY_THREADS):
        n = min(all_cells - first, EASY_THREADS)
        code = np.int32(MISSING)
        if thread < n:
            d, at = place(listed[first + thread], padded)
            code = np.int32(codes[first_row + d, at])
            # What only fills a row up is missing, and has no rate.
            d_of[thread], v_of[thread] = first_row + d, min(at, width - 1)
        cuda.syncthreads()
        add_up(d_of, v_of, n, theta, phi, sums)
        cuda.syncthreads()
        y, mu = np.int64(0), 0.0
        if code != MISSING:
            d, v = d_of[thread], v_of[thread]
            rho, up, down = row_rho[d], row_up[d], row_down[d]
            if cell_rho.shape[0] > 0:
                rho = cell_rho[d, v]
                up, down = math.exp(rho), math.exp(-rho)
            if math.isinf(rho) or code == LARGE:
                y = np.int64(-1)
            else:
                mu = sum_of_lanes(sums)
                block = np.int64(d) * (padded // EIGHT) + v // EIGHT
                u = cell_uniform(seed, chain, sweep, block, v % EIGHT, np.int64(d) * width + v)
                y = easy_count(u, np.int64(code), mu, mu * up, mu * down)
        list_hard(y < 0, listed[min(first + thread, all_cells - 1)], waiting, base, n_hard, hard)
        hand_out(
            seed, chain, sweep, width, y, mu, d_of, v_of, sums, totals, waiting, begins, owners,
            theta, phi, row_tokens, column_tokens,
        )  # fmt: skip


@kernel(registers=HARD_REGISTERS)
def draw_hard_cells(
    key,
    first_row,
    width,
    n_listed,
    listed,
    codes,
    starts,
    columns,
    values,
    row_rho,
    row_up,
    row_down,
    cell_rho,
    theta,
    phi,
    row_tokens,
    column_tokens,
):
    """The hard ones of them, or any others."""
    d_of = cuda.shared.array(HARD_THREADS, np.int32)
    v_of = cuda.shared.array(HARD_THREADS, np.int32)
    sums = cuda.shared.array(_HARD_SUMS, np.float64)
    totals = cuda.shared.array(HARD_THREADS, np.float64)
    waiting = cuda.shared.array(1, np.int32)
    begins = cuda.shared.array(HARD_THREADS, np.int32)
    owners = cuda.shared.array(WAITING, np.int16)
    thread = cuda.threadIdx.x
    seed, chain, sweep = key[0], key[1], key[2]
    padded = np.int32(codes.shape[1])
    all_cells = n_listed[0]
    for first in range(cuda.blockIdx.x * HARD_THREADS, all_cells, cuda.gridDim.x * HARD_THREADS):
        n = min(all_cells - first, HARD_THREADS)
        if thread < n:
            d, v = place(listed[first + thread], padded)
            d_of[thread], v_of[thread] = first_row + d, min(v, width - 1)
        cuda.syncthreads()
        add_up(d_of, v_of, n, theta, phi, sums)
        cuda.syncthreads()
        y, mu = np.int64(0), 0.0
        if thread < n:
            d, v = d_of[thread], v_of[thread]
            mu = sum_of_lanes(sums)
            at = listed[first + thread] - (d - first_row) * padded
            x = released(d, at, codes, starts, columns, values)
            rho, up, down = row_rho[d], row_up[d], row_down[d]
            if cell_rho.shape[0] > 0:
                rho = cell_rho[d, v]
                up, down = math.exp(rho), math.exp(-rho)
            block = np.int64(d) * (padded // EIGHT) + v // EIGHT
            cell = np.int64(d) * width + v
            y = true_count(seed, chain, sweep, block, v % EIGHT, cell, x, mu, rho, mu * up, mu * down)
            if y > MANY:
                give_many(seed, chain, sweep, cell, d, v, y, mu, theta, phi, row_tokens, column_tokens)
                y = np.int64(0)
        hand_out(
            seed, chain, sweep, width, y, mu, d_of, v_of, sums, totals, waiting, begins, owners,
            theta, phi, row_tokens, column_tokens,
        )  # fmt: skip
