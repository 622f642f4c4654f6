"""Tokens of cells that a block of threads has, given to components: what open and plain cells have in common.

A block of threads serves as many cells as it has threads, then the next ones. First eight threads per cell add up
the products theta_dk phi_kv, each those of every eighth k: together they read the memory in whole lines. Then one
thread per cell has its total, and finds out how many tokens there are. Last come the tokens of all these cells,
shared among the threads however many a cell has: a point on the line on which the eight sums lie end to end chooses
a sum, then a product within. Tokens are counted by atomic additions of integers, which commute; everything random
is keyed by the cell and the number of the token.
"""

from __future__ import annotations

import numpy as np

from countveil.inference.engines.cuda.device import SIMULATED, cuda
from countveil.inference.engines.cuda.halves import place
from countveil.inference.engines.cuda.look import words_of
from countveil.kernels import steps
from countveil.kernels.binomial import binomial
from countveil.kernels.philox import open_stream
from countveil.kernels.uniform import from_word, skip_blocks
from countveil.runtime.compiled import compiled, inlined

#: Blocks that go through a list in turn.
BLOCKS = 4 if SIMULATED else 132 * 32
#: Threads that add up the products of a cell.
LANES = 8
#: Up to so many tokens of a cell are drawn one by one; so many of a block's cells wait for any of its threads.
MANY, WAITING = 400, 1024
# Blocks of a stream that one binomial may use.
_APART = 1024

_32 = np.uint64(32)


@inlined
def token_uniform(seed, chain, sweep, cell, number):
    """The uniform of a token, by its number within the cell."""
    a, b, c, d = words_of(seed, chain, sweep, steps.DEVICE_TOKENS, cell, number // 2)
    if number % 2 == 1:
        a, b = c, d
    return from_word((np.uint64(a) << _32) | np.uint64(b))


@compiled
def tokens_of_component(seed, chain, sweep, cell, k, n, share):
    """How many of n tokens fall on component k, given its share of what is left."""
    stream = skip_blocks(open_stream(seed, chain, sweep, steps.DEVICE_TOKENS, cell), _APART * k)
    drawn, stream = binomial(stream, n, share)
    return np.int64(drawn)


@cuda.jit(device=True)
def chosen(point, sums, first, d, v, theta, phi):
    """The component at a point of the line; the last positive one where rounding leads past the end."""
    lane = 0
    for other in range(LANES):
        part = sums[first + other]
        if part > 0.0:
            lane = other
            if point < part:
                break
            point -= part
    found = lane
    for k in range(lane, theta.shape[1], LANES):
        product = theta[d, k] * phi[v, k]
        if product > 0.0:
            found = k
            if point < product:
                break
            point -= product
    return found


@cuda.jit(device=True)
def add_up(rows, columns, n, theta, phi, sums):
    """sums[c * LANES + lane] of n cells, at most as many as threads: a block's threads together."""
    team, lane = place(cuda.threadIdx.x, LANES)
    for c in range(team, n, cuda.blockDim.x // LANES):
        d, v = rows[c], columns[c]
        total = 0.0
        for k in range(lane, theta.shape[1], LANES):
            total += theta[d, k] * phi[v, k]
        sums[c * LANES + lane] = total


@cuda.jit(device=True)
def sum_of_lanes(sums):
    """The total of this thread's cell."""
    total = 0.0
    for lane in range(LANES):
        total += sums[cuda.threadIdx.x * LANES + lane]
    return total


@cuda.jit(device=True)
def give(seed, chain, sweep, cell, number, d, v, total, theta, phi, sums, first, row_tokens, column_tokens):
    """One token of a cell: to the counters of the component on which it falls."""
    u = token_uniform(seed, chain, sweep, cell, number)
    if total > 0.0:
        k = chosen(u * total, sums, first, d, v, theta, phi)
    else:  # all products have underflowed: they count as equal
        k = min(int(u * theta.shape[1]), theta.shape[1] - 1)
    cuda.atomic.add(row_tokens, (d, k), 1)
    cuda.atomic.add(column_tokens, (v, k), 1)


@cuda.jit(device=True)
def give_many(seed, chain, sweep, cell, d, v, y, total, theta, phi, row_tokens, column_tokens):
    """All tokens of a cell that has very many: conditional binomials, component after component."""
    n_components = theta.shape[1]
    last = n_components - 1
    if total > 0.0:
        while theta[d, last] * phi[v, last] <= 0.0:
            last -= 1
    left, n = total, y
    for k in range(last + 1):
        product = theta[d, k] * phi[v, k]
        share = 1.0 / (n_components - k)
        if total > 0.0:
            share = 1.0 if k == last or product >= left else product / left
            left -= product
        if share > 0.0 and n > 0:
            drawn = tokens_of_component(seed, chain, sweep, cell, k, n, share)
            if drawn > 0:
                cuda.atomic.add(row_tokens, (d, k), drawn)
                cuda.atomic.add(column_tokens, (v, k), drawn)
                n -= drawn


@cuda.jit(device=True)
def hand_out(
    seed, chain, sweep, width, y, total, d_of, v_of, sums, totals, waiting, begins, owners,
    theta, phi, row_tokens, column_tokens,
):  # fmt: skip
    """The tokens of a block's cells: y of this thread's, 0 if it has none. All threads come here together."""
    thread = cuda.threadIdx.x
    if thread == 0:
        waiting[0] = 0
    cuda.syncthreads()
    if y > 0:
        d, v = d_of[thread], v_of[thread]
        begin = cuda.atomic.add(waiting, 0, y)
        fits = begin + y <= WAITING
        begins[thread], totals[thread] = begin, total
        for number in range(y):
            if fits:
                owners[begin + number] = thread
            else:  # no room: these are given here and now
                if begin + number < WAITING:
                    owners[begin + number] = -1
                give(
                    seed, chain, sweep, np.int64(d) * width + v, number, d, v, total, theta, phi, sums,
                    thread * LANES, row_tokens, column_tokens,
                )  # fmt: skip
    cuda.syncthreads()
    for token in range(thread, min(waiting[0], WAITING), cuda.blockDim.x):
        c = owners[token]
        if c >= 0:
            d, v = d_of[c], v_of[c]
            give(
                seed, chain, sweep, np.int64(d) * width + v, token - begins[c], d, v, totals[c], theta, phi,
                sums, c * LANES, row_tokens, column_tokens,
            )  # fmt: skip
    cuda.syncthreads()


@cuda.jit(device=True)
def list_hard(is_hard, item, waiting, base, n_hard, hard):
    """Append the items of a block's threads that are hard. All threads come here together; the order is any."""
    if cuda.threadIdx.x == 0:
        waiting[0] = 0
    cuda.syncthreads()
    to = 0
    if is_hard:
        to = cuda.atomic.add(waiting, 0, 1)
    cuda.syncthreads()
    if waiting[0] > 0:  # of the whole block
        if cuda.threadIdx.x == 0:
            base[0] = cuda.atomic.add(n_hard, 0, waiting[0])
        cuda.syncthreads()
        if is_hard:
            hard[base[0] + to] = item
        cuda.syncthreads()
