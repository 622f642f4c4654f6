"""True counts of a network and their tokens, of many chains at once.

mu_ij = sum_c theta_ic phi_jc with phi_jc = sum_d pi_cd theta_jd. A network is small, and all its rates are
computed: a block of threads has a run of cells of one chain. Each cell's uniform settles most of them as y = 0 (see
``look``); the others are listed, so that the threads share the exact draws evenly; then the tokens of all of them
are laid end to end and shared likewise, however many a cell has: a token chooses c by theta_ic phi_jc, then d by
pi_cd theta_jd. Lists may be in any order: everything random is keyed by the cell and the number of the token, and
tokens are counted by atomic additions of integers.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.engines.cuda.cells import tokens_of_component
from countveil.inference.engines.cuda.device import SIMULATED, cuda, kernel
from countveil.inference.engines.cuda.halves import place
from countveil.inference.engines.cuda.look import words_of
from countveil.kernels import steps
from countveil.kernels.noise.geometric import draw_count_at
from countveil.kernels.philox import open_stream
from countveil.kernels.uniform import from_word, skip_blocks
from countveil.runtime.compiled import compiled, inlined

#: Threads of a block, cells that each of them looks at, and all cells of a block.
THREADS, EACH = 8 if SIMULATED else 128, 4
RUN = THREADS * EACH
#: Of a thread: with fewer, more threads wait for memory at a time.
REGISTERS = 80
#: Up to so many tokens of a cell are drawn one by one.
MANY = 20_000

_32 = np.uint64(32)


@inlined
def two_uniforms(seed, chain, sweep, step, row, block):
    """Those of a block of a stream."""
    a, b, c, d = words_of(seed, chain, sweep, step, row, block)
    return from_word((np.uint64(a) << _32) | np.uint64(b)), from_word((np.uint64(c) << _32) | np.uint64(d))


@compiled
def count_of(seed, chain, sweep, cell, u, x, mu, rho, z, w):
    """The true count of a cell that its uniform has left open."""
    if math.isinf(rho):
        return np.int64(x)
    stream = skip_blocks(open_stream(seed, chain, sweep, steps.DEVICE_CELL, cell), 1)
    y, stream = draw_count_at(u, stream, x, mu, rho, z, w)
    return np.int64(y)


@kernel
def open_sweep(keys, slots, theta, pi, phi, turned, tokens, block_tokens):
    """The next sweep: its number, phi (c, j), pi turned, and no tokens yet. A thread has one entry of a chain."""
    n, size = theta.shape[1], theta.shape[2]
    which, t = place(cuda.grid(1), max(n, size) * size)
    if which < len(slots):
        slot = slots[which]
        if t == 0:
            keys[slot, 2] += np.uint64(1)
        if t < size * size:
            c, d = place(t, size)
            block_tokens[slot, c, d] = 0
            turned[slot, c, d] = pi[slot, d, c]
        if t < n * size:
            c, j = place(t, n)
            tokens[slot, j, c] = 0
            total = 0.0
            for d in range(size):
                total += pi[slot, c, d] * theta[slot, j, d]
            phi[slot, c, j] = total


@cuda.jit(device=True)
def noise_at(i, j, row_rho, row_up, row_down, cell_rho):
    """rho of a cell, exp(rho) and exp(-rho)."""
    if cell_rho.shape[0] > 0:
        rho = cell_rho[i, j]
        return rho, math.exp(rho), math.exp(-rho)
    return row_rho[i], row_up[i], row_down[i]


@cuda.jit(device=True)
def running_sums(n, values, ends, parts):
    """ends[s] = values[0] + ... + values[s] for s < n <= RUN: a block's threads together."""
    thread = cuda.threadIdx.x
    total = 0
    for s in range(thread * EACH, min((thread + 1) * EACH, n)):
        total += values[s]
    parts[thread] = total
    cuda.syncthreads()
    step = 1
    while step < THREADS:
        before = parts[thread - step] if thread >= step else 0
        cuda.syncthreads()
        parts[thread] += before
        cuda.syncthreads()
        step *= 2
    running = parts[thread] - total
    for s in range(thread * EACH, min((thread + 1) * EACH, n)):
        running += values[s]
        ends[s] = running
    cuda.syncthreads()


@cuda.jit(device=True)
def owner_of(token, n, ends):
    """The first s with ends[s] > token."""
    low, high = 0, n - 1
    while low < high:
        middle = (low + high) // 2
        if ends[middle] > token:
            high = middle
        else:
            low = middle + 1
    return low


@cuda.jit(device=True)
def community_of_sender(u, mu, slot, i, j, theta, phi):
    """c in proportion to theta_ic phi_jc; the last positive one where rounding leads past the end."""
    size = theta.shape[2]
    if mu <= 0.0:  # all products have underflowed: they count as equal
        return min(int(u * size), size - 1)
    point, found = u * mu, 0
    for c in range(size):
        product = theta[slot, i, c] * phi[slot, c, j]
        if product > 0.0:
            found = c
            if point < product:
                break
            point -= product
    return found


@cuda.jit(device=True)
def community_of_receiver(u, slot, c, j, theta, pi, phi):
    """d in proportion to pi_cd theta_jd."""
    size = theta.shape[2]
    total = phi[slot, c, j]
    if total <= 0.0:
        return min(int(u * size), size - 1)
    point, found = u * total, 0
    for d in range(size):
        product = pi[slot, c, d] * theta[slot, j, d]
        if product > 0.0:
            found = d
            if point < product:
                break
            point -= product
    return found


@cuda.jit(device=True)
def last_positive(slot, of_pairs, c, i, j, theta, pi, phi):
    """The last d (or c) whose product is positive; -1 if there is none."""
    for k in range(theta.shape[2] - 1, -1, -1):
        product = pi[slot, c, k] * theta[slot, j, k] if of_pairs else theta[slot, i, k] * phi[slot, k, j]
        if product > 0.0:
            return k
    return -1


@cuda.jit(device=True)
def share_of(product, left, total, is_last, n_left):
    """What part of the tokens that are left falls on a community with this product."""
    if total <= 0.0:
        return 1.0 / n_left
    if is_last or product >= left:
        return 1.0
    return product / left


@cuda.jit(device=True)
def give_many(
    seed, chain, sweep, cell, y, mu, slot, i, j, theta, pi, phi, tokens, block_tokens
):  # fmt: skip
    """All tokens of a cell that has very many: conditional binomials, c after c, and within each d after d."""
    size = theta.shape[2]
    last, left, n = last_positive(slot, False, 0, i, j, theta, pi, phi), mu, y
    for c in range(size):
        product = theta[slot, i, c] * phi[slot, c, j]
        share = share_of(product, left, mu, c == last, size - c)
        left -= product
        if n == 0 or not (product > 0.0 or mu <= 0.0):
            continue
        mine = tokens_of_component(seed, chain, sweep, cell, c, n, share)
        n -= mine
        if mine == 0:
            continue
        cuda.atomic.add(tokens, (slot, i, c), mine)
        total = phi[slot, c, j]
        last_d, left_d = last_positive(slot, True, c, i, j, theta, pi, phi), total
        for d in range(size):
            product = pi[slot, c, d] * theta[slot, j, d]
            share = share_of(product, left_d, total, d == last_d, size - d)
            left_d -= product
            if mine == 0 or not (product > 0.0 or total <= 0.0):
                continue
            drawn = tokens_of_component(seed, chain, sweep, cell, (1 + c) * size + d, mine, share)
            mine -= drawn
            if drawn > 0:
                cuda.atomic.add(tokens, (slot, j, d), drawn)
                cuda.atomic.add(block_tokens, (slot, c, d), drawn)


@kernel(registers=REGISTERS)
def draw_cells(
    keys,
    slots,
    released,
    row_rho,
    row_up,
    row_down,
    cell_rho,
    theta,
    pi,
    phi,
    tokens,
    block_tokens,
):
    """True counts and their tokens. ``released`` has -1 where a cell is missing; row_up is exp(rho)."""
    n_open = cuda.shared.array(1, np.int32)
    cells = cuda.shared.array(RUN, np.int32)
    uniforms = cuda.shared.array(RUN, np.float64)
    rates = cuda.shared.array(RUN, np.float64)
    counts = cuda.shared.array(RUN, np.int32)
    ends = cuda.shared.array(RUN, np.int32)
    parts = cuda.shared.array(THREADS, np.int32)
    thread = cuda.threadIdx.x
    n, size = theta.shape[1], theta.shape[2]
    n_cells = n * n
    which, run = place(cuda.blockIdx.x, (n_cells + RUN - 1) // RUN)
    slot = slots[which]
    seed, chain, sweep = keys[slot, 0], keys[slot, 1], keys[slot, 2]
    if thread == 0:
        n_open[0] = 0
    cuda.syncthreads()
    for turn in range(EACH):
        cell = run * RUN + turn * THREADS + thread
        if cell < n_cells:
            i, j = place(cell, n)
            x = released[i, j]
            if x >= 0:
                mu = 0.0
                for c in range(size):
                    mu += theta[slot, i, c] * phi[slot, c, j]
                rho, up, down = noise_at(i, j, row_rho, row_up, row_down, cell_rho)
                u, _ = two_uniforms(seed, chain, sweep, steps.DEVICE_CELL, cell, 0)
                if x > 0:
                    is_open = math.isinf(rho) or u < mu * up
                else:
                    is_open = u < mu * down
                if is_open:
                    s = cuda.atomic.add(n_open, 0, 1)
                    cells[s], uniforms[s], rates[s] = cell, u, mu
    cuda.syncthreads()
    n_here = n_open[0]
    for s in range(thread, n_here, THREADS):
        cell, mu = cells[s], rates[s]
        i, j = place(cell, n)
        rho, up, down = noise_at(i, j, row_rho, row_up, row_down, cell_rho)
        x = np.int64(released[i, j])
        y = count_of(seed, chain, sweep, cell, uniforms[s], x, mu, rho, mu * up, mu * down)
        if y > MANY:
            give_many(
                seed, chain, sweep, cell, y, mu, slot, i, j, theta, pi, phi, tokens, block_tokens
            )  # fmt: skip
            y = np.int64(0)
        counts[s] = y
    cuda.syncthreads()
    running_sums(n_here, counts, ends, parts)
    all_tokens = ends[n_here - 1] if n_here > 0 else 0
    for token in range(thread, all_tokens, THREADS):
        s = owner_of(token, n_here, ends)
        cell = cells[s]
        i, j = place(cell, n)
        number = token - (ends[s] - counts[s])
        u, v = two_uniforms(seed, chain, sweep, steps.DEVICE_TOKENS, cell, number)
        c = community_of_sender(u, rates[s], slot, i, j, theta, phi)
        d = community_of_receiver(v, slot, c, j, theta, pi, phi)
        cuda.atomic.add(tokens, (slot, i, c), 1)
        cuda.atomic.add(tokens, (slot, j, d), 1)
        cuda.atomic.add(block_tokens, (slot, c, d), 1)
