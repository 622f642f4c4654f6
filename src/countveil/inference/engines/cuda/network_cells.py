"""True counts of a network and their tokens, of many chains at once.

mu_ij = sum_c theta_ic phi_jc with phi_jc = sum_d pi_cd theta_jd. A network is small, and all its rates are
computed: a block of threads has a run of cells of one chain. Each cell's uniform settles most of them as y = 0 (see
``look``); the others are listed, so that the threads share the exact draws evenly. Then the tokens of a run are
laid end to end and shared likewise, however many a cell has: a token chooses c by theta_ic phi_jc, then d by pi_cd
theta_jd. Every fourth product is added up beforehand, so that a token finds its own in a few steps: which of the
four sums, and which product of that sum.

Lists may be in any order: everything random is keyed by the cell and the number of the token, and tokens are
counted by atomic additions of integers, those of a run in shared memory first.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.engines.cuda.device import SIMULATED, cuda, kernel
from countveil.inference.engines.cuda.halves import place
from countveil.inference.engines.cuda.look import words_of
from countveil.inference.engines.cuda.tokens import tokens_of_component
from countveil.kernels import steps
from countveil.kernels.given_release.geometric import count_mode, draw_count_at, is_steep
from countveil.kernels.philox import open_stream
from countveil.kernels.poisson import SEARCHED
from countveil.kernels.uniform import from_word, skip_blocks
from countveil.runtime.compiled import compiled, inlined

#: Threads of a block, cells that each of them looks at, and all cells that a block looks at.
THREADS, EACH = 8 if SIMULATED else 256, 8
RUN = THREADS * EACH
#: Of a thread: with fewer, more threads wait for memory at a time.
REGISTERS, TOKEN_REGISTERS = 80, 64
#: Kinds of draws (``kind_of``); and threads that go together, which do the same: a kind begins with the next such.
KINDS, WARP = 4, 2 if SIMULATED else 32
_PLACES = RUN + KINDS * WARP
#: Sums of products that tokens choose from first.
LANES = 2 if SIMULATED else 4
_SUMS = THREADS * LANES
#: Up to so many tokens of a cell are drawn one by one (``give_tokens``), more of them together (``give_many``).
MANY = 20_000
#: Up to so many communities have their tokens of pi, and of the first two rows of a run, counted in shared memory.
SHARED = 2 if SIMULATED else 32
_SHARED_BLOCKS, _SHARED_ROWS = SHARED * SHARED, 2 * SHARED

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


@inlined
def kind_of(x, z, w):
    """How ``draw_count_at`` goes about a cell: by a search, at a kink, by sums, or by rejection."""
    if x <= 0:
        return 0 if w < SEARCHED else 3
    if is_steep(x, z, w):
        return 1
    if z < SEARCHED and z < x + 1.0:
        return 0
    return 2 if count_mode(x, z, w) <= 12 else 3


@kernel
def open_sweep(keys, slots, theta, pi, phi, phi_parts, turned, tokens, of_receivers, block_tokens, many):
    """The next sweep: its number, phi (c, j) and its parts (c, lane, j), pi turned, and no tokens yet.

    A thread has one entry of a chain. ``phi_parts`` and ``of_receivers`` may have no entries.
    """
    n, size = theta.shape[1], theta.shape[2]
    which, t = place(cuda.grid(1), max(n, size) * size)
    if which < len(slots):
        slot = slots[which]
        if t == 0:
            keys[slot, 2] += np.uint64(1)
            many[slot] = 0
        if t < size * size:
            c, d = place(t, size)
            block_tokens[slot, c, d] = 0
            turned[slot, c, d] = pi[slot, d, c]
        if t < n * size:
            c, j = place(t, n)
            tokens[slot, j, c] = 0
            if of_receivers.shape[1] > 0:
                of_receivers[slot, j, c] = 0
            total = 0.0
            if phi_parts.shape[2] > 0:
                for lane in range(LANES):
                    part = 0.0
                    for d in range(lane, size, LANES):
                        part += pi[slot, c, d] * theta[slot, j, d]
                    phi_parts[slot, c, lane, j] = part
                    total += part
            else:
                blocks, of_receiver, d = pi[slot, c], theta[slot, j], np.uint64(0)
                while d < np.uint64(size):
                    total += blocks[d] * of_receiver[d]
                    d += np.uint64(1)
            phi[slot, c, j] = total


@cuda.jit(device=True)
def noise_at(i, j, row_rho, row_up, row_down, cell_rho):
    """rho of a cell, exp(rho) and exp(-rho)."""
    if cell_rho.shape[0] > 0:
        rho = cell_rho[i, j]
        return rho, math.exp(rho), math.exp(-rho)
    return row_rho[i], row_up[i], row_down[i]


@cuda.jit(device=True)
def rate_at(slot, i, j, theta, phi):
    """The sum of theta_ic phi_jc. Places have no sign: those with one are looked at for it, which takes longer."""
    total = 0.0
    of_sender, of_receivers, at = theta[slot, i], phi[slot], np.uint64(j)
    c, size = np.uint64(0), np.uint64(theta.shape[2])
    while c < size:
        total += of_sender[c] * of_receivers[c, at]
        c += np.uint64(1)
    return total


@cuda.jit(device=True)
def running_sums(ends):
    """ends[s] becomes ends[0] + ... + ends[s]: a block's threads together."""
    thread = cuda.threadIdx.x
    step = 1
    while step < THREADS:
        before = ends[thread - step] if thread >= step else 0
        cuda.syncthreads()
        ends[thread] += before
        cuda.syncthreads()
        step *= 2


@cuda.jit(device=True)
def owner_of(token, ends):
    """The first s with ends[s] > token."""
    low, high = 0, THREADS - 1
    while low < high:
        middle = (low + high) // 2
        if ends[middle] > token:
            high = middle
        else:
            low = middle + 1
    return low


@cuda.jit(device=True)
def community_of_sender(u, sums, first, slot, i, j, theta, phi):
    """c in proportion to theta_ic phi_jc; the last positive one where rounding leads past the end."""
    size = theta.shape[2]
    total = 0.0
    for lane in range(LANES):
        total += sums[first + lane]
    if total <= 0.0:  # all products have underflowed: they count as equal
        return min(int(u * size), size - 1)
    point, chosen = u * total, 0
    for lane in range(LANES):
        part = sums[first + lane]
        if part > 0.0:
            chosen = lane
            if point < part:
                break
            point -= part
    found = chosen
    for c in range(chosen, size, LANES):
        product = theta[slot, i, c] * phi[slot, c, j]
        if product > 0.0:
            found = c
            if point < product:
                break
            point -= product
    return found


@cuda.jit(device=True)
def community_of_receiver(u, slot, c, j, theta, pi, phi, phi_parts):
    """d in proportion to pi_cd theta_jd."""
    size = theta.shape[2]
    total = phi[slot, c, j]
    if total <= 0.0:
        return min(int(u * size), size - 1)
    point, chosen = u * total, 0
    for lane in range(LANES):
        part = phi_parts[slot, c, lane, j]
        if part > 0.0:
            chosen = lane
            if point < part:
                break
            point -= part
    found = chosen
    for d in range(chosen, size, LANES):
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


@kernel(registers=REGISTERS)
def draw_counts(keys, slots, released, row_rho, row_up, row_down, cell_rho, theta, phi, counts, many):
    """True counts of all cells, and whether any is of very many tokens.

    ``released`` has -1 where a cell is missing; row_up is exp(rho), row_down exp(-rho).
    """
    n_open = cuda.shared.array(1, np.int32)
    cells = cuda.shared.array(RUN, np.int32)
    kinds = cuda.shared.array(RUN, np.int8)
    n_of_kind = cuda.shared.array(KINDS, np.int32)
    order = cuda.shared.array(_PLACES, np.int16)
    n_places = cuda.shared.array(1, np.int32)
    uniforms = cuda.shared.array(RUN, np.float64)
    rates = cuda.shared.array(RUN, np.float64)
    thread = cuda.threadIdx.x
    n = theta.shape[1]
    n_cells = n * n
    which, run = place(cuda.blockIdx.x, (n_cells + RUN - 1) // RUN)
    slot = slots[which]
    seed, chain, sweep = keys[slot, 0], keys[slot, 1], keys[slot, 2]
    if thread == 0:
        n_open[0] = 0
        for kind in range(KINDS):
            n_of_kind[kind] = 0
    cuda.syncthreads()
    for turn in range(EACH):
        cell = run * RUN + turn * THREADS + thread
        if cell < n_cells:
            i, j = place(cell, n)
            x = released[i, j]
            is_open = False
            if x >= 0:
                mu = rate_at(slot, i, j, theta, phi)
                rho, up, down = noise_at(i, j, row_rho, row_up, row_down, cell_rho)
                u, _ = two_uniforms(seed, chain, sweep, steps.DEVICE_CELL, cell, 0)
                if x > 0:
                    is_open = math.isinf(rho) or u < mu * up
                else:
                    is_open = u < mu * down
                if is_open:
                    s = cuda.atomic.add(n_open, 0, 1)
                    cells[s], uniforms[s], rates[s] = cell, u, mu
                    kind = kind_of(np.int64(x), mu * up, mu * down)
                    kinds[s] = kind
                    cuda.atomic.add(n_of_kind, kind, 1)
            if not is_open:
                counts[slot, cell] = 0
    cuda.syncthreads()
    if thread == 0:  # where each kind begins
        end = 0
        for kind in range(KINDS):
            number = n_of_kind[kind]
            n_of_kind[kind] = end
            end += (number + WARP - 1) // WARP * WARP
        n_places[0] = end
    cuda.syncthreads()
    for to in range(thread, n_places[0], THREADS):
        order[to] = -1
    cuda.syncthreads()
    for s in range(thread, n_open[0], THREADS):
        order[cuda.atomic.add(n_of_kind, kinds[s], 1)] = s
    cuda.syncthreads()
    for to in range(thread, n_places[0], THREADS):
        s = order[to]
        if s >= 0:
            cell, mu = cells[s], rates[s]
            i, j = place(cell, n)
            rho, up, down = noise_at(i, j, row_rho, row_up, row_down, cell_rho)
            x = np.int64(released[i, j])
            y = count_of(seed, chain, sweep, cell, uniforms[s], x, mu, rho, mu * up, mu * down)
            counts[slot, cell] = y
            if y > MANY:
                many[slot] = 1


@kernel(registers=TOKEN_REGISTERS)
def give_tokens(keys, slots, theta, pi, phi, phi_parts, counts, tokens, block_tokens):
    """Tokens of the true counts, to the counters of the communities on which they fall; not those of very many."""
    ends = cuda.shared.array(THREADS, np.int32)
    sums = cuda.shared.array(_SUMS, np.float64)
    of_blocks = cuda.shared.array(_SHARED_BLOCKS, np.int32)
    of_rows = cuda.shared.array(_SHARED_ROWS, np.int32)
    thread = cuda.threadIdx.x
    n, size = theta.shape[1], theta.shape[2]
    n_cells = n * n
    which, run = place(cuda.blockIdx.x, (n_cells + THREADS - 1) // THREADS)
    slot = slots[which]
    first = run * THREADS
    first_row = first // n
    mine = first + thread
    y = counts[slot, mine] if mine < n_cells else np.int64(0)
    if y > MANY:
        y = np.int64(0)
    ends[thread] = y
    is_small = size <= SHARED
    if is_small:
        for e in range(thread, size * size, THREADS):
            of_blocks[e] = 0
        for e in range(thread, 2 * size, THREADS):
            of_rows[e] = 0
    cuda.syncthreads()
    running_sums(ends)
    if ends[THREADS - 1] == 0:  # of the whole block
        return
    if y > 0:
        i, j = place(mine, n)
        for lane in range(LANES):
            part = 0.0
            for c in range(lane, size, LANES):
                part += theta[slot, i, c] * phi[slot, c, j]
            sums[thread * LANES + lane] = part
    cuda.syncthreads()
    seed, chain, sweep = keys[slot, 0], keys[slot, 1], keys[slot, 2]
    for token in range(thread, ends[THREADS - 1], THREADS):
        s = owner_of(token, ends)
        number = token - (ends[s - 1] if s > 0 else 0)
        cell = first + s
        i, j = place(cell, n)
        u, v = two_uniforms(seed, chain, sweep, steps.DEVICE_TOKENS, cell, number)
        c = community_of_sender(u, sums, s * LANES, slot, i, j, theta, phi)
        d = community_of_receiver(v, slot, c, j, theta, pi, phi, phi_parts)
        cuda.atomic.add(tokens, (slot, j, d), 1)
        if is_small:
            cuda.atomic.add(of_blocks, c * size + d, 1)
        else:
            cuda.atomic.add(block_tokens, (slot, c, d), 1)
        if is_small and i - first_row < 2:
            cuda.atomic.add(of_rows, (i - first_row) * size + c, 1)
        else:
            cuda.atomic.add(tokens, (slot, i, c), 1)
    cuda.syncthreads()
    if is_small:
        for e in range(thread, size * size, THREADS):
            if of_blocks[e] > 0:
                c, d = place(e, size)
                cuda.atomic.add(block_tokens, (slot, c, d), of_blocks[e])
        for e in range(thread, 2 * size, THREADS):
            if of_rows[e] > 0:
                i, c = place(e, size)
                cuda.atomic.add(tokens, (slot, first_row + i, c), of_rows[e])


@kernel
def give_many(keys, slots, theta, pi, phi, counts, many, tokens, block_tokens):
    """Tokens of cells that have very many: conditional binomials, c after c, and within each d after d.

    A block of threads has the cells of a chain: most chains have none.
    """
    slot = slots[cuda.blockIdx.x]
    if many[slot] == 0:
        return
    seed, chain, sweep = keys[slot, 0], keys[slot, 1], keys[slot, 2]
    n, size = theta.shape[1], theta.shape[2]
    for cell in range(cuda.threadIdx.x, n * n, THREADS):
        left = counts[slot, cell]
        if left <= MANY:
            continue
        i, j = place(cell, n)
        mu = 0.0
        for c in range(size):
            mu += theta[slot, i, c] * phi[slot, c, j]
        last, rate = last_positive(slot, False, 0, i, j, theta, pi, phi), mu
        for c in range(size):
            product = theta[slot, i, c] * phi[slot, c, j]
            share = share_of(product, rate, mu, c == last, size - c)
            rate -= product
            if left == 0 or not (product > 0.0 or mu <= 0.0):
                continue
            mine = tokens_of_component(seed, chain, sweep, cell, c, left, share)
            left -= mine
            if mine == 0:
                continue
            cuda.atomic.add(tokens, (slot, i, c), mine)
            total = phi[slot, c, j]
            last_d, rate_d = last_positive(slot, True, c, i, j, theta, pi, phi), total
            for d in range(size):
                product = pi[slot, c, d] * theta[slot, j, d]
                share = share_of(product, rate_d, total, d == last_d, size - d)
                rate_d -= product
                if mine == 0 or not (product > 0.0 or total <= 0.0):
                    continue
                drawn = tokens_of_component(seed, chain, sweep, cell, (1 + c) * size + d, mine, share)
                mine -= drawn
                if drawn > 0:
                    cuda.atomic.add(tokens, (slot, j, d), drawn)
                    cuda.atomic.add(block_tokens, (slot, c, d), drawn)
