"""Cells drawn one by one: those that the look has left open, and plain counts.

Most draws are easy: the cell's uniform settles them, by a search from 0 up or as what was released. What is not (a
release far from the rate; very many tokens) needs many registers, and threads that wait for each other: such cells
are listed, and have a kernel of their own.

A block of threads serves as many cells as it has threads, then the next ones. First eight threads per cell add up
the products theta_dk phi_kv, each those of every eighth k: together they read the memory in whole lines. Then one
thread per cell draws the true count from the total, by inversion of the cell's uniform. Last come the tokens of all
these cells, shared among the threads however many a cell has: a point on the line on which the eight sums lie end
to end chooses a sum, then a product within. Tokens are counted by atomic additions of integers, which commute;
everything random is keyed by the cell and the number of the token.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.engines.cuda.device import SIMULATED, cuda, kernel
from countveil.inference.engines.cuda.halves import place
from countveil.inference.engines.cuda.look import EIGHT, LARGE, MISSING, leading_bits, released, words_of
from countveil.kernels import steps
from countveil.kernels.binomial import binomial
from countveil.kernels.noise.geometric import draw_count_at, is_steep, kink_hat
from countveil.kernels.philox import open_stream
from countveil.kernels.poisson import SEARCHED, poisson_at
from countveil.kernels.uniform import from_word, skip_blocks
from countveil.runtime.compiled import compiled, inlined

#: Threads of a block (the simulator runs each as a thread of Python) of easy, hard and plain cells.
EASY_THREADS, HARD_THREADS, PLAIN_THREADS = (32, 32, 32) if SIMULATED else (128, 128, 128)
#: Registers of a thread: with fewer, more threads wait for memory at a time.
EASY_REGISTERS, HARD_REGISTERS, PLAIN_REGISTERS = 64, 80, 48
#: Blocks that go through a list in turn; and through that of hard plain cells, which hardly has any.
BLOCKS, HARD_BLOCKS = (4, 1) if SIMULATED else (132 * 32, 132)
#: Threads that add up the products of a cell.
LANES = 8
_EASY_SUMS, _HARD_SUMS, _PLAIN_SUMS = EASY_THREADS * LANES, HARD_THREADS * LANES, PLAIN_THREADS * LANES
#: Up to so many tokens of a cell are drawn one by one; so many of a block's cells wait for any of its threads.
MANY, WAITING = 400, 1024
# Blocks of a stream that one binomial may use.
_APART = 1024
#: Totals of products in single precision are good from here: below, they may have lost some.
GOOD = 1e-25

_16, _32, _48 = np.uint64(16), np.uint64(32), np.uint64(48)


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
        _, _, above, below = kink_hat(x, z, w)
        return np.int64(x) if u * (1.0 + above + below) < 1.0 else np.int64(-1)
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


@kernel(registers=PLAIN_REGISTERS)
def share_plain_cells(
    key, width, rows, columns, values, theta, phi, row_tokens, column_tokens, n_hard, hard
):  # fmt: skip
    """Counts that are known: all cells with their rows, in single precision; and a list of those that are hard."""
    d_of = cuda.shared.array(PLAIN_THREADS, np.int32)
    v_of = cuda.shared.array(PLAIN_THREADS, np.int32)
    sums = cuda.shared.array(_PLAIN_SUMS, np.float64)
    totals = cuda.shared.array(PLAIN_THREADS, np.float64)
    waiting = cuda.shared.array(1, np.int32)
    base = cuda.shared.array(1, np.int32)
    begins = cuda.shared.array(PLAIN_THREADS, np.int32)
    owners = cuda.shared.array(WAITING, np.int16)
    thread = cuda.threadIdx.x
    seed, chain, sweep = key[0], key[1], key[2]
    for first in range(cuda.blockIdx.x * PLAIN_THREADS, len(columns), cuda.gridDim.x * PLAIN_THREADS):
        n = min(len(columns) - first, PLAIN_THREADS)
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
