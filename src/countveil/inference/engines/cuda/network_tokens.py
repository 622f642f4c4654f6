"""Tokens of a network in two steps, of many chains at once: senders cell by cell, receivers actor by actor.

Which community d of the receiver j a token falls on depends on j and on the sender's community c alone, by pi_cd
theta_jd. So first the tokens of a cell (i, j) choose c by theta_ic phi_jc, and are added up over the senders; then
those of every pair (j, c) choose d. All products of a few cells, or of an actor, are added up one after the other
in shared memory; a token finds its place there by halving, and is counted there: tokens of a cell fall on few
communities, so that little is left to be added for all. Two tokens have one block of a stream.

Everything random is keyed by the cell (or the pair) and the number of the token, and additions are those of
integers: lists may be in any order.
"""

from __future__ import annotations

import numpy as np

from countveil.inference.engines.cuda.device import SIMULATED, cuda, kernel
from countveil.inference.engines.cuda.halves import place
from countveil.inference.engines.cuda.network_cells import MANY, two_uniforms
from countveil.kernels import steps

#: Up to so many communities: products of more have no room.
MOST = 3 if SIMULATED else 32
#: Threads of a block of senders, cells that each of them looks at, and all cells of a block.
SENDER_THREADS, EACH = 8 if SIMULATED else 256, 2
RUN = SENDER_THREADS * EACH
#: Cells whose products are held at a time.
BATCH = 3 if SIMULATED else 64
#: Threads of a block of receivers, which has one actor.
RECEIVER_THREADS = 8 if SIMULATED else 128
#: Registers of a thread.
SENDER_REGISTERS, RECEIVER_REGISTERS = 64, 64
# Sums of a cell or a pair lie an odd number of places apart: threads that have one each then do not meet.
_APART = MOST + 1 - MOST % 2
_SENDER_SUMS, _GIVEN = BATCH * _APART, BATCH * MOST
_RECEIVER_SUMS, _BLOCKS = MOST * _APART, MOST * MOST


@cuda.jit(device=True)
def running_sums_of(ends, n_threads):
    """ends[s] becomes ends[0] + ... + ends[s]: a block's threads together, each with one place."""
    thread = cuda.threadIdx.x
    step = 1
    while step < n_threads:
        before = ends[thread - step] if thread >= step else 0
        cuda.syncthreads()
        ends[thread] += before
        cuda.syncthreads()
        step *= 2


@cuda.jit(device=True)
def first_beyond(pair, ends, low, high):
    """The first s of low .. high with ends[s] > pair."""
    while low < high:
        middle = (low + high) >> 1
        if ends[middle] > pair:
            high = middle
        else:
            low = middle + 1
    return low


@cuda.jit(device=True)
def chosen_at(u, sums, first, size):
    """c in proportion to what sums[first + c] is more than the one before it."""
    total = sums[first + size - 1]
    if not total > 0.0:  # all products have underflowed: they count as equal
        return min(int(u * size), size - 1)
    point = u * total
    if point >= total:  # by rounding, once in 10**16 times
        point = 0.5 * total
    low, high = 0, size - 1
    while low < high:
        middle = (low + high) >> 1
        if sums[first + middle] > point:
            high = middle
        else:
            low = middle + 1
    return low


@kernel(registers=SENDER_REGISTERS)
def give_senders(keys, slots, theta, phi, counts, tokens, of_receivers):
    """Tokens of the true counts, to their senders' communities; not those of very many.

    ``of_receivers`` (j, c) are to have the tokens that j received from c. A block of threads has a run of cells.
    """
    n_listed = cuda.shared.array(1, np.int32)
    cells = cuda.shared.array(RUN, np.int32)
    numbers = cuda.shared.array(RUN, np.int32)
    ends = cuda.shared.array(RUN, np.int32)
    running = cuda.shared.array(SENDER_THREADS, np.int32)
    sums = cuda.shared.array(_SENDER_SUMS, np.float64)
    given = cuda.shared.array(_GIVEN, np.int32)
    thread = cuda.threadIdx.x
    n, size = theta.shape[1], theta.shape[2]
    n_cells = n * n
    which, run = place(cuda.blockIdx.x, (n_cells + RUN - 1) // RUN)
    slot = slots[which]
    if thread == 0:
        n_listed[0] = 0
    cuda.syncthreads()
    for turn in range(EACH):
        cell = run * RUN + turn * SENDER_THREADS + thread
        if cell < n_cells:
            y = counts[slot, cell]
            if 0 < y <= MANY:
                s = cuda.atomic.add(n_listed, 0, 1)
                cells[s], numbers[s] = cell, y
    cuda.syncthreads()
    n_all = n_listed[0]
    if n_all == 0:  # of the whole block
        return
    # Where the pairs of tokens of each cell end, laid end to end.
    total = 0
    for s in range(thread * EACH, min((thread + 1) * EACH, n_all)):
        total += (numbers[s] + 1) >> 1
    running[thread] = total
    cuda.syncthreads()
    running_sums_of(running, SENDER_THREADS)
    total = running[thread] - total
    for s in range(thread * EACH, min((thread + 1) * EACH, n_all)):
        total += (numbers[s] + 1) >> 1
        ends[s] = total
    seed, chain, sweep = keys[slot, 0], keys[slot, 1], keys[slot, 2]
    for first in range(0, n_all, BATCH):
        n_here = min(BATCH, n_all - first)
        cuda.syncthreads()
        for e in range(thread, n_here * size, SENDER_THREADS):
            c, s = place(e, n_here)
            i, j = place(cells[first + s], n)
            sums[s * _APART + c] = theta[slot, i, c] * phi[slot, c, j]
            given[e] = 0
        cuda.syncthreads()
        for s in range(thread, n_here, SENDER_THREADS):
            so_far = 0.0
            for c in range(size):
                so_far += sums[s * _APART + c]
                sums[s * _APART + c] = so_far
        cuda.syncthreads()
        begin = ends[first - 1] if first > 0 else 0
        for pair in range(begin + thread, ends[first + n_here - 1], SENDER_THREADS):
            s = first_beyond(pair, ends, first, first + n_here - 1)
            number = pair - (ends[s - 1] if s > 0 else 0)
            u, v = two_uniforms(seed, chain, sweep, steps.DEVICE_TOKENS, cells[s], number)
            at = s - first
            c = chosen_at(u, sums, at * _APART, size)
            cuda.atomic.add(given, at * size + c, 1)
            if 2 * number + 1 < numbers[s]:
                c = chosen_at(v, sums, at * _APART, size)
                cuda.atomic.add(given, at * size + c, 1)
        cuda.syncthreads()
        for e in range(thread, n_here * size, SENDER_THREADS):
            number = given[e]
            if number > 0:
                s, c = place(e, size)
                i, j = place(cells[first + s], n)
                cuda.atomic.add(tokens, (slot, i, c), number)
                cuda.atomic.add(of_receivers, (slot, j, c), number)


@kernel(registers=RECEIVER_REGISTERS)
def give_receivers(keys, slots, theta, pi, of_receivers, tokens, block_tokens):
    """Tokens that every actor received from every community, to the communities that received them.

    A block of threads has one actor of a chain.
    """
    numbers = cuda.shared.array(MOST, np.int32)
    ends = cuda.shared.array(MOST, np.int32)
    sums = cuda.shared.array(_RECEIVER_SUMS, np.float64)
    given = cuda.shared.array(_BLOCKS, np.int32)
    thread = cuda.threadIdx.x
    n, size = theta.shape[1], theta.shape[2]
    which, j = place(cuda.blockIdx.x, n)
    slot = slots[which]
    for c in range(thread, size, RECEIVER_THREADS):
        numbers[c] = of_receivers[slot, j, c]
    cuda.syncthreads()
    for e in range(thread, size * size, RECEIVER_THREADS):
        c, d = place(e, size)
        given[e] = 0
        if numbers[c] > 0:
            sums[c * _APART + d] = pi[slot, c, d] * theta[slot, j, d]
    cuda.syncthreads()
    for c in range(thread, size, RECEIVER_THREADS):
        end = 0
        for other in range(c + 1):
            end += (numbers[other] + 1) >> 1
        ends[c] = end
        if numbers[c] > 0:
            so_far = 0.0
            for d in range(size):
                so_far += sums[c * _APART + d]
                sums[c * _APART + d] = so_far
    cuda.syncthreads()
    if ends[size - 1] == 0:  # of the whole block
        return
    seed, chain, sweep = keys[slot, 0], keys[slot, 1], keys[slot, 2]
    for pair in range(thread, ends[size - 1], RECEIVER_THREADS):
        c = first_beyond(pair, ends, 0, size - 1)
        number = pair - (ends[c - 1] if c > 0 else 0)
        u, v = two_uniforms(seed, chain, sweep, steps.DEVICE_RECEIVERS, j * size + c, number)
        d = chosen_at(u, sums, c * _APART, size)
        cuda.atomic.add(given, c * size + d, 1)
        if 2 * number + 1 < numbers[c]:
            d = chosen_at(v, sums, c * _APART, size)
            cuda.atomic.add(given, c * size + d, 1)
    cuda.syncthreads()
    for e in range(thread, size * size, RECEIVER_THREADS):
        if given[e] > 0:
            c, d = place(e, size)
            cuda.atomic.add(block_tokens, (slot, c, d), given[e])
    for d in range(thread, size, RECEIVER_THREADS):
        total = 0
        for c in range(size):
            total += given[c * size + d]
        if total > 0:
            cuda.atomic.add(tokens, (slot, j, d), total)
