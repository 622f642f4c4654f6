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
SENDER_THREADS, EACH = 8 if SIMULATED else 256, 4
RUN = SENDER_THREADS * EACH
#: Cells whose products are held at a time.
BATCH = 3 if SIMULATED else 64
#: Threads of a block of receivers, which has one actor.
RECEIVER_THREADS = 8 if SIMULATED else 128
#: Registers of a thread.
SENDER_REGISTERS, RECEIVER_REGISTERS = 64, 64
# Sums of a cell or a pair lie an odd number of places apart: threads that have one each then do not meet.
_APART = MOST + 1 - MOST % 2
_SENDER_SUMS, _RECEIVER_SUMS = BATCH * _APART, MOST * _APART
# Threads that go through the products of a cell.
_PARTS = SENDER_THREADS // BATCH
# Places are numbers without signs: those with signs are looked at for one, at every step of a search.
_0, _1 = np.uint64(0), np.uint64(1)


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
        middle = (low + high) >> _1
        if ends[middle] > pair:
            high = middle
        else:
            low = middle + _1
    return low


@cuda.jit(device=True)
def chosen_at(u, sums, first, size):
    """first + c, c in proportion to what sums[first + c] is more than the one before it."""
    last = first + size - _1
    total = sums[last]
    if not total > 0.0:  # all products have underflowed: they count as equal
        return first + np.uint64(min(u * size, size - 1.0))
    point = u * total
    if point >= total:  # by rounding, once in 10**16 times
        point = 0.5 * total
    return first_above(point, sums, first, last)


@cuda.jit(device=True)
def first_above(point, sums, low, high):
    """The first s of low .. high with sums[s] > point."""
    while low < high:
        middle = (low + high) >> _1
        if sums[middle] > point:
            high = middle
        else:
            low = middle + _1
    return low


@kernel(registers=SENDER_REGISTERS)
def give_senders(keys, slots, theta, phi, counts, tokens, of_receivers):
    """Tokens of the true counts, to their senders' communities; not those of very many.

    ``of_receivers`` (j, c) are to have the tokens that j received from c. A block of threads has a run of cells.
    """
    n_listed = cuda.shared.array(1, np.int32)
    senders = cuda.shared.array(RUN, np.int32)
    receivers = cuda.shared.array(RUN, np.int32)
    numbers = cuda.shared.array(RUN, np.int32)
    ends = cuda.shared.array(RUN, np.int32)
    running = cuda.shared.array(SENDER_THREADS, np.int32)
    sums = cuda.shared.array(_SENDER_SUMS, np.float64)
    given = cuda.shared.array(_SENDER_SUMS, np.int32)
    thread = cuda.threadIdx.x
    n, size = theta.shape[1], np.uint64(theta.shape[2])
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
                i, j = place(cell, n)
                senders[s], receivers[s], numbers[s] = i, j, y
    cuda.syncthreads()
    n_all = n_listed[0]
    if n_all == 0:  # of the whole block
        return
    # Where the pairs of tokens of each cell end, laid end to end.
    total = 0
    for turn in range(EACH):
        s = thread * EACH + turn
        if s < n_all:
            total += (numbers[s] + 1) >> 1
    running[thread] = total
    cuda.syncthreads()
    running_sums_of(running, SENDER_THREADS)
    total = running[thread] - total
    for turn in range(EACH):
        s = thread * EACH + turn
        if s < n_all:
            total += (numbers[s] + 1) >> 1
            ends[s] = total
    seed, chain, sweep = keys[slot, 0], keys[slot, 1], keys[slot, 2]
    part, mine = place(thread, BATCH)
    for first in range(0, n_all, BATCH):
        n_here = min(BATCH, n_all - first)
        is_mine = mine < n_here and part < _PARTS
        at, c = np.uint64(mine * _APART), np.uint64(part)
        cuda.syncthreads()
        if is_mine:
            i, j = np.uint64(senders[first + mine]), np.uint64(receivers[first + mine])
            of_sender, of_all = theta[slot, i], phi[slot]
            while c < size:
                sums[at + c] = of_sender[c] * of_all[c, j]
                given[at + c] = 0
                c += np.uint64(_PARTS)
        cuda.syncthreads()
        if is_mine and part == 0:
            so_far, c = 0.0, _0
            while c < size:
                so_far += sums[at + c]
                sums[at + c] = so_far
                c += _1
        cuda.syncthreads()
        low, high = np.uint64(first), np.uint64(first + n_here - 1)
        pair, end = (ends[first - 1] if first > 0 else 0) + thread, ends[high]
        while pair < end:
            s = first_beyond(pair, ends, low, high)
            number = pair - (ends[s - _1] if s > _0 else 0)
            cell = senders[s] * n + receivers[s]
            u, v = two_uniforms(seed, chain, sweep, steps.DEVICE_TOKENS, cell, number)
            of_cell = (s - low) * np.uint64(_APART)
            cuda.atomic.add(given, chosen_at(u, sums, of_cell, size), 1)
            if 2 * number + 1 < numbers[s]:
                cuda.atomic.add(given, chosen_at(v, sums, of_cell, size), 1)
            pair += SENDER_THREADS
        cuda.syncthreads()
        if is_mine:
            i, j, c = senders[first + mine], receivers[first + mine], np.uint64(part)
            while c < size:
                number = given[at + c]
                if number > 0:
                    cuda.atomic.add(tokens, (slot, i, c), number)
                    cuda.atomic.add(of_receivers, (slot, j, c), number)
                c += np.uint64(_PARTS)


@kernel(registers=RECEIVER_REGISTERS)
def give_receivers(keys, slots, theta, pi, of_receivers, tokens, block_tokens):
    """Tokens that every actor received from every community, to the communities that received them.

    A block of threads has one actor of a chain.
    """
    numbers = cuda.shared.array(MOST, np.int32)
    ends = cuda.shared.array(MOST, np.int32)
    sums = cuda.shared.array(_RECEIVER_SUMS, np.float64)
    given = cuda.shared.array(_RECEIVER_SUMS, np.int32)
    thread = cuda.threadIdx.x
    n, size = theta.shape[1], theta.shape[2]
    which, j = place(cuda.blockIdx.x, n)
    slot = slots[which]
    part, d = place(thread, size)
    n_parts = RECEIVER_THREADS // size
    n_communities, apart = np.uint64(size), np.uint64(_APART)
    if thread < size:
        numbers[thread] = of_receivers[slot, j, thread]
    cuda.syncthreads()
    if part < n_parts:
        of_receiver, blocks, mine = theta[slot, j, d], pi[slot], np.uint64(d)
        c = np.uint64(part)
        while c < n_communities:
            given[c * apart + mine] = 0
            sums[c * apart + mine] = blocks[c, mine] * of_receiver
            c += np.uint64(n_parts)
    cuda.syncthreads()
    if thread < size:
        end = 0
        for other in range(thread + 1):
            end += (numbers[other] + 1) >> 1
        ends[thread] = end
        if numbers[thread] > 0:
            so_far, at = 0.0, np.uint64(thread * _APART)
            stop = at + n_communities
            while at < stop:
                so_far += sums[at]
                sums[at] = so_far
                at += _1
    cuda.syncthreads()
    end = ends[size - 1]
    if end == 0:  # of the whole block
        return
    seed, chain, sweep = keys[slot, 0], keys[slot, 1], keys[slot, 2]
    first_row, pair = np.uint64(j * size), thread
    while pair < end:
        c = first_beyond(pair, ends, _0, n_communities - _1)
        number = pair - (ends[c - _1] if c > _0 else 0)
        u, v = two_uniforms(seed, chain, sweep, steps.DEVICE_RECEIVERS, first_row + c, number)
        cuda.atomic.add(given, chosen_at(u, sums, c * apart, n_communities), 1)
        if 2 * number + 1 < numbers[c]:
            cuda.atomic.add(given, chosen_at(v, sums, c * apart, n_communities), 1)
        pair += RECEIVER_THREADS
    cuda.syncthreads()
    if part < n_parts:
        received = 0
        c, mine = np.uint64(part), np.uint64(d)
        while c < n_communities:
            number = given[c * apart + mine]
            if number > 0:
                cuda.atomic.add(block_tokens, (slot, c, mine), number)
                received += number
            c += np.uint64(n_parts)
        if received > 0:
            cuda.atomic.add(tokens, (slot, j, d), received)
