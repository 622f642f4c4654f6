"""Cells whose counts are known: their tokens alone are drawn.

Factors in single precision are read in half the time. What these are too small for, and cells of very many tokens,
are listed as hard and shared out in double precision.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.engines.cuda.device import SIMULATED, cuda, kernel
from countveil.inference.engines.cuda.tokens import (
    LANES,
    MANY,
    WAITING,
    add_up,
    give_many,
    hand_out,
    list_hard,
    sum_of_lanes,
    token_uniform,
)

#: Threads of a block, and registers of a thread: with fewer, more threads wait for memory at a time.
THREADS, REGISTERS = 32 if SIMULATED else 128, 48
#: Blocks that go through the list of hard cells, which hardly has any.
HARD_BLOCKS = 1 if SIMULATED else 132
#: Totals of products in single precision are good from here: below, they may have lost some.
GOOD = 1e-25
_SUMS = THREADS * LANES


@kernel(registers=REGISTERS)
def share_plain_cells(
    key, width, rows, columns, values, theta, phi, row_tokens, column_tokens, n_hard, hard
):  # fmt: skip
    """Counts that are known: all cells with their rows, in single precision; and a list of those that are hard."""
    d_of = cuda.shared.array(THREADS, np.int32)
    v_of = cuda.shared.array(THREADS, np.int32)
    sums = cuda.shared.array(_SUMS, np.float64)
    totals = cuda.shared.array(THREADS, np.float64)
    waiting = cuda.shared.array(1, np.int32)
    base = cuda.shared.array(1, np.int32)
    begins = cuda.shared.array(THREADS, np.int32)
    owners = cuda.shared.array(WAITING, np.int16)
    thread = cuda.threadIdx.x
    seed, chain, sweep = key[0], key[1], key[2]
    for first in range(cuda.blockIdx.x * THREADS, len(columns), cuda.gridDim.x * THREADS):
        n = min(len(columns) - first, THREADS)
        y, total = np.int64(0), 0.0
        if thread < n:
            d_of[thread], v_of[thread] = rows[first + thread], columns[first + thread]
            y = np.int64(values[first + thread])
        cuda.syncthreads()
        add_up(d_of, v_of, n, theta, phi, sums)
        cuda.syncthreads()
        if thread < n:
            total = sum_of_lanes(sums)
        is_hard = y > MANY or (y > 0 and not (total >= GOOD and total < math.inf))
        list_hard(is_hard, first + thread, waiting, base, n_hard, hard)
        hand_out(
            seed, chain, sweep, width, np.int64(0) if is_hard else y, total, d_of, v_of, sums, totals, waiting,
            begins, owners, theta, phi, row_tokens, column_tokens,
        )  # fmt: skip


@kernel
def share_hard_cells(
    key, width, rows, columns, values, theta, phi, row_tokens, column_tokens, n_hard, hard
):  # fmt: skip
    """The hard ones of them, in double precision: a cell by a thread."""
    seed, chain, sweep = key[0], key[1], key[2]
    for at in range(cuda.grid(1), n_hard[0], cuda.gridsize(1)):
        i = hard[at]
        d, v, y = rows[i], columns[i], np.int64(values[i])
        total = 0.0
        for k in range(theta.shape[1]):
            total += theta[d, k] * phi[v, k]
        cell = np.int64(d) * width + v
        if y > MANY:
            give_many(seed, chain, sweep, cell, d, v, y, total, theta, phi, row_tokens, column_tokens)
            continue
        for number in range(y):
            u = token_uniform(seed, chain, sweep, cell, number)
            found, point = -1, u * total
            if total > 0.0:
                for k in range(theta.shape[1]):
                    product = theta[d, k] * phi[v, k]
                    if product > 0.0:
                        found = k
                        if point < product:
                            break
                        point -= product
            else:  # all products have underflowed: they count as equal
                found = min(int(u * theta.shape[1]), theta.shape[1] - 1)
            cuda.atomic.add(row_tokens, (d, found), 1)
            cuda.atomic.add(column_tokens, (v, found), 1)
