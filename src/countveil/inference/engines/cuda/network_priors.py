"""What is inferred about a network, of many chains at once: receiving, means, scales, their laws, and the level.

The laws are those of ``models.einsum.prior``, drawn in the order of the CPU's sweep; draws that topics have, too,
are those of ``factors``, from the CPU's streams. In a directed network mu_ij = received_j sum_cd theta_ic pi_cd
theta_jd. Which communities a token falls on does not depend on received_j: only the rates of cells do, and what
rows, blocks and ``received`` itself meet.

A block of threads has a chain; or a thread has one entry of a chain. Every sum is made in one order.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.engines.cuda.device import SIMULATED, cuda, kernel
from countveil.inference.engines.cuda.factors import (
    LEAST,
    MOST,
    draw_level,
    draw_level_move,
    draw_shape,
    draw_two,
    gamma_of,
)
from countveil.inference.engines.cuda.halves import place
from countveil.inference.engines.cuda.network_factors import LEVEL, LOWER, RECEIVING_SHAPE, THREADS, UPPER
from countveil.kernels import steps
from countveil.kernels.gamma import SMALLEST
from countveil.models.einsum.prior import ROWS_PER_FACTOR

#: Threads of a block of ``draw_receiving``: there are few actors, each with much to add up.
FEW_THREADS = 8 if SIMULATED else 64
# Streams of laws: of the memberships' scales, of the blocks' level and its move, and of receiving.
_OF_SCALES, _OF_LEVEL, _OF_MOVE, _OF_RECEIVING = 0, 6, 7, 8
# Sums that laws are seen by: those of both tails of the memberships' scales, of receiving, and of the blocks.
_LOG_UPPER, _UPPER, _LOG_LOWER, _LOWER, _LOG_RECEIVED, _RECEIVED, _BLOCKS = range(7)
_N_SUMS = 7
_PARTS = _N_SUMS * THREADS


@kernel
def weigh_receivers(slots, received, theta, phi, receivers, weighted_phi):
    """Memberships and phi (c, j) times received_j, by which rates are made. A thread has one entry of a chain."""
    n, size = theta.shape[1], theta.shape[2]
    which, t = place(cuda.grid(1), n * size)
    if which < len(slots):
        slot = slots[which]
        j, c = place(t, size)
        receivers[slot, j, c] = received[slot, j] * theta[slot, j, c]
        c, j = place(t, n)
        weighted_phi[slot, c, j] = received[slot, j] * phi[slot, c, j]


@kernel
def move_level(keys, slots, symmetric, of_level, block_tokens, met_by, scalars, pi):
    """As ``prior.move_level``: blocks and their level by one number, given what they met. A block has a chain."""
    parts = cuda.shared.array(THREADS, np.float64)
    numbers = cuda.shared.array(THREADS, np.int64)
    moved = cuda.shared.array(1, np.float64)
    thread = cuda.threadIdx.x
    slot = slots[cuda.blockIdx.x]
    size = pi.shape[1]
    rate, number = 0.0, np.int64(0)
    for t in range(thread, size * size, THREADS):
        c, d = place(t, size)
        number += block_tokens[slot, c, d]
        if c <= d or not symmetric:
            rate += pi[slot, c, d] * met_by[slot, c, d]
    parts[thread], numbers[thread] = rate, number
    cuda.syncthreads()
    if thread == 0:
        for other in range(1, THREADS):
            rate += parts[other]
            number += numbers[other]
        moved[0] = draw_level_move(
            keys[slot, 0],
            keys[slot, 1],
            keys[slot, 2],
            _OF_MOVE,
            scalars[slot, LEVEL],
            number,
            rate,
            of_level,
        )
        scalars[slot, LEVEL] *= moved[0]
    cuda.syncthreads()
    for t in range(thread, size * size, THREADS):
        c, d = place(t, size)
        pi[slot, c, d] *= moved[0]


@kernel
def draw_receiving(keys, slots, counts, exposure, theta, pi, scalars, tokens, received):
    """received_j ~ Gamma(s + what j received, s + sum over observed (i, j) of theta_ic pi_cd theta_jd).

    ``exposure`` has the sums of theta_ic. A thread has one actor of a chain.
    """
    n, size = theta.shape[1], theta.shape[2]
    which, j = place(cuda.grid(1), n)
    if which < len(slots):
        slot = slots[which]
        # Places without signs, and no range: a device goes through such loops in a third of the time.
        number, of_chain, at = np.int64(0), counts[slot], np.uint64(j)
        while at < np.uint64(n * n):
            number += of_chain[at]
            at += np.uint64(n)
        met, blocks, of_receiver, of_senders = 0.0, pi[slot], theta[slot, j], exposure[slot, j]
        c, n_communities = np.uint64(0), np.uint64(size)
        while c < n_communities:
            of_sender, d = 0.0, np.uint64(0)
            while d < n_communities:
                of_sender += blocks[c, d] * of_receiver[d]
                d += np.uint64(1)
            met += of_senders[c] * of_sender
            c += np.uint64(1)
        s = scalars[slot, RECEIVING_SHAPE]
        row = 2 * ROWS_PER_FACTOR + j
        tokens[slot, j] = number
        received[slot, j] = gamma_of(
            keys[slot, 0], keys[slot, 1], keys[slot, 2], steps.DEVICE_FACTOR, row, s + number, s + met
        )


@kernel
def draw_priors(
    keys,
    slots,
    shape,
    symmetric,
    of_level,
    of_log_shape,
    of_log_shape_sd,
    mean_shape,
    theta,
    pi,
    received,
    means,
    scales,
    scalars,
):
    """As ``prior.draw_means``: means of communities, scales of actors, then all laws. A block has a chain.

    ``received`` has no columns if there is no such factor.
    """
    parts = cuda.shared.array(_PARTS, np.float64)
    weights = cuda.shared.array(THREADS, np.float64)
    thread = cuda.threadIdx.x
    slot = slots[cuda.blockIdx.x]
    seed, chain, sweep = keys[slot, 0], keys[slot, 1], keys[slot, 2]
    n, size = theta.shape[1], theta.shape[2]
    n_parts = THREADS // size
    part, c = place(thread, size)
    total = 0.0
    if part < n_parts:
        for i in range(part, n, n_parts):
            total += shape / scales[slot, i] * theta[slot, i, c]
    parts[thread] = total
    cuda.syncthreads()
    if thread < size:
        for other in range(1, n_parts):
            total += parts[other * size + c]
        inverse = gamma_of(
            seed, chain, sweep, steps.PRIOR_MEANS, c, mean_shape + shape * n, mean_shape + total
        )
        means[slot, c] = min(max(1.0 / inverse, LEAST), MOST)
        weights[c] = shape / means[slot, c]
    cuda.syncthreads()
    s, t = scalars[slot, UPPER], scalars[slot, LOWER]
    log_upper, upper, log_lower, lower = 0.0, 0.0, 0.0, 0.0
    for i in range(thread, n, THREADS):
        total = 0.0
        for d in range(size):
            total += weights[d] * theta[slot, i, d]
        g, inverse = draw_two(
            seed, chain, sweep, i, t + s, t + s / scales[slot, i], s + shape * size, total, s
        )
        u = min(max(1.0 / inverse, LEAST), MOST)
        scales[slot, i] = u
        log_upper += math.log(max(g / u, SMALLEST))
        upper += g / u
        log_lower += math.log(max(g, SMALLEST))
        lower += g
    parts[_LOG_UPPER * THREADS + thread], parts[_UPPER * THREADS + thread] = log_upper, upper
    parts[_LOG_LOWER * THREADS + thread], parts[_LOWER * THREADS + thread] = log_lower, lower
    logs, total = 0.0, 0.0
    for j in range(thread, received.shape[1], THREADS):
        logs += math.log(max(received[slot, j], SMALLEST))
        total += received[slot, j]
    parts[_LOG_RECEIVED * THREADS + thread], parts[_RECEIVED * THREADS + thread] = logs, total
    total = 0.0
    for e in range(thread, size * size, THREADS):
        c, d = place(e, size)
        if c <= d or not symmetric:
            total += pi[slot, c, d]
    parts[_BLOCKS * THREADS + thread] = total
    cuda.syncthreads()
    if thread < _N_SUMS:
        total = 0.0
        for other in range(THREADS):
            total += parts[thread * THREADS + other]
        weights[thread] = total  # done with: now the sums
    cuda.syncthreads()
    if thread < (3 if received.shape[1] > 0 else 2):
        row = _OF_SCALES + thread if thread < 2 else _OF_RECEIVING
        scalars[slot, thread] = draw_shape(
            seed, chain, sweep, row, scalars[slot, thread], n, weights[2 * thread], weights[2 * thread + 1],
            of_log_shape, of_log_shape_sd,
        )  # fmt: skip
    elif thread == LEVEL:
        n_entries = size * (size + 1) // 2 if symmetric else size * size
        inverse = draw_level(
            seed, chain, sweep, _OF_LEVEL, 1.0 / scalars[slot, LEVEL],
            shape * n_entries, shape * weights[_BLOCKS], of_level,
        )  # fmt: skip
        scalars[slot, LEVEL] = 1.0 / inverse
