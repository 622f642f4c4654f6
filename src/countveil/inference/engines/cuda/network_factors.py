"""The factors of a network, of many chains at once: memberships row after row, blocks, and their scales.

The laws are those of ``models.einsum``: ``tied`` (memberships), ``update`` (gamma draws), ``scales`` (trades
between memberships and blocks). A gamma draw is one of rate 1, which needs the tokens alone, over its rate. So all
of them are drawn first, at once, an entry by a thread; and only rates wait for the rows before them: a block of
threads has the rows of one chain. Every sum is made in one order, whichever chains go together.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.engines.cuda.device import SIMULATED, cuda, kernel
from countveil.inference.engines.cuda.factors import gamma_of
from countveil.inference.engines.cuda.halves import place
from countveil.kernels import steps
from countveil.kernels.gamma import SMALLEST
from countveil.kernels.log_scale import draw_log_scale_around, log_scale_mode_by_root
from countveil.kernels.philox import open_stream
from countveil.models.einsum.prior import ROWS_PER_FACTOR
from countveil.runtime.compiled import compiled

#: Threads of a block that has a chain: as many as there may be communities, at least.
THREADS = 8 if SIMULATED else 128
MOST_COMMUNITIES = THREADS


@compiled
def draw_scale(seed, chain, sweep, c, power, up, down, twice_down):
    """The scale that community c trades."""
    stream = open_stream(seed, chain, sweep, steps.SCALE, c)
    mode = log_scale_mode_by_root(power, up, down, twice_down)
    s, stream = draw_log_scale_around(stream, mode, power, up, down, twice_down)
    return math.exp(s)


@kernel
def draw_gammas(keys, slots, shape, symmetric, tokens, block_tokens, rows_drawn, blocks_drawn):
    """Gamma(shape + tokens, 1) for every entry of both factors. A thread has one entry of a chain."""
    n, size = tokens.shape[1], tokens.shape[2]
    which, t = place(cuda.grid(1), (n + size) * size)
    if which < len(slots):
        slot = slots[which]
        seed, chain, sweep = keys[slot, 0], keys[slot, 1], keys[slot, 2]
        r, c = place(t, size)
        if r < n:
            a = shape + tokens[slot, r, c]
            rows_drawn[slot, r, c] = gamma_of(seed, chain, sweep, steps.DEVICE_FACTOR, t, a, 1.0)
        else:
            r -= n
            number = block_tokens[slot, r, c]
            if symmetric and r != c:  # (c, d) and (d, c) are one entry
                number += block_tokens[slot, c, r]
            row = ROWS_PER_FACTOR + t - n * size
            blocks_drawn[slot, r, c] = gamma_of(
                seed, chain, sweep, steps.DEVICE_FACTOR, row, shape + number, 1.0
            )


@cuda.jit(device=True)
def sum_listed(slot, r, c, part, n_parts, starts, others, theta):
    """The sum of theta_.c over the listed others of row r, or over a part of them: those n_parts apart."""
    total = 0.0
    for at in range(starts[r] + part, starts[r + 1], n_parts):
        total += theta[slot, others[at], c]
    return total


@kernel
def draw_rows(
    slots,
    rate,
    lists_observed,
    out_starts,
    out_others,
    in_starts,
    in_others,
    rows_drawn,
    pi,
    turned,
    below,
    theta,
    totals,
):
    """Memberships, row after row: theta_rc = drawn / (rate + sum_d out_d pi_cd + in_d pi_dc).

    out_d is the sum of theta_jd over the observed cells (r, j), in_d over the observed cells (i, r): rows before r
    are new ones, rows after it old ones. Listed are the observed cells, or the missing ones other than (r, r).
    ``totals`` are the sums of all rows.
    """
    outs = cuda.shared.array(THREADS, np.float64)
    ins = cuda.shared.array(THREADS, np.float64)
    parts = cuda.shared.array(THREADS, np.float64)
    more_parts = cuda.shared.array(THREADS, np.float64)
    thread = cuda.threadIdx.x
    slot = slots[cuda.blockIdx.x]
    n, size = theta.shape[1], theta.shape[2]
    n_parts = THREADS // size
    part, c = place(thread, size)
    sign = 1.0 if lists_observed else -1.0
    # Sums over the rows after each: part after part of the rows, each by its own threads.
    length = (n + n_parts - 1) // n_parts
    begin, end = min(part * length, n), min((part + 1) * length, n)
    if part < n_parts:
        total = 0.0
        for r in range(begin, end):
            total += theta[slot, r, c]
        parts[thread] = total
    cuda.syncthreads()
    if part < n_parts:
        total = 0.0
        for other in range(n_parts - 1, part, -1):
            total += parts[other * size + c]
        for r in range(end - 1, begin - 1, -1):
            below[slot, r, c] = total
            total += theta[slot, r, c]
    cuda.syncthreads()
    above, drawn, after, next_drawn, next_after = 0.0, 0.0, 0.0, 0.0, 0.0
    if thread < size:
        next_drawn, next_after = rows_drawn[slot, 0, c], below[slot, 0, c]
    has_lists = len(out_others) + len(in_others) > 0
    for r in range(n):
        if has_lists:
            cuda.syncthreads()  # rows that others have written
            if part < n_parts:
                parts[thread] = sum_listed(slot, r, c, part, n_parts, out_starts, out_others, theta)
                more_parts[thread] = sum_listed(slot, r, c, part, n_parts, in_starts, in_others, theta)
            cuda.syncthreads()
        if thread < size:
            drawn, after = next_drawn, next_after
            if r + 1 < n:  # ahead of time: memory is slow
                next_drawn, next_after = rows_drawn[slot, r + 1, c], below[slot, r + 1, c]
            of_out = 0.0 if lists_observed else above + after
            of_in = of_out
            if has_lists:
                for other in range(n_parts):
                    of_out += sign * parts[other * size + c]
                    of_in += sign * more_parts[other * size + c]
            outs[c], ins[c] = of_out, of_in
        cuda.syncthreads()
        if part < n_parts:
            met = 0.0
            for d in range(part, size, n_parts):
                met += outs[d] * turned[slot, d, c] + ins[d] * pi[slot, d, c]
            parts[thread] = met
        cuda.syncthreads()
        if thread < size:
            met = 0.0
            for other in range(n_parts):
                met += parts[other * size + c]
            x = max(drawn / (rate + max(met, 0.0)), SMALLEST)
            theta[slot, r, c] = x
            above += x
    if thread < size:
        totals[slot, c] = above


@kernel
def fill_exposure(slots, lists_observed, in_starts, in_others, theta, totals, out):
    """out[j, c]: the sum of theta_ic over the observed cells (i, j). A thread has one entry of a chain."""
    n, size = theta.shape[1], theta.shape[2]
    which, t = place(cuda.grid(1), n * size)
    if which < len(slots):
        slot = slots[which]
        j, c = place(t, size)
        listed = sum_listed(slot, j, c, 0, 1, in_starts, in_others, theta)
        if not lists_observed:
            listed = max(totals[slot, c] - theta[slot, j, c] - listed, 0.0)
        out[slot, j, c] = listed


@kernel
def draw_blocks(slots, rate, symmetric, blocks_drawn, exposure, theta, pi):
    """pi_cd = drawn / (rate + sum_j exposure_jc theta_jd); both halves together where pi is symmetric."""
    n, size = theta.shape[1], theta.shape[2]
    which, t = place(cuda.grid(1), size * size)
    if which < len(slots):
        slot = slots[which]
        c, d = place(t, size)
        met = 0.0
        if symmetric and c != d:
            c, d = min(c, d), max(c, d)
            for j in range(n):
                met += exposure[slot, j, c] * theta[slot, j, d] + exposure[slot, j, d] * theta[slot, j, c]
        else:
            for j in range(n):
                met += exposure[slot, j, c] * theta[slot, j, d]
        x = max(blocks_drawn[slot, c, d] / (rate + met), SMALLEST)
        c, d = place(t, size)
        pi[slot, c, d] = x


@kernel
def trade_scales(keys, slots, shape, rate, symmetric, totals, pi, theta):
    """As ``scales.trade_in_blocks``, community after community; a block of threads has a chain."""
    terms = cuda.shared.array(THREADS, np.float64)
    scales = cuda.shared.array(THREADS, np.float64)
    thread = cuda.threadIdx.x
    slot = slots[cuda.blockIdx.x]
    n, size = theta.shape[1], theta.shape[2]
    power = shape * (n - (size + 1 if symmetric else 2 * size))
    for c in range(size):
        if thread < size:
            terms[thread] = pi[slot, c, thread] if symmetric else pi[slot, c, thread] + pi[slot, thread, c]
        cuda.syncthreads()
        if thread == 0:
            down = 0.0
            for d in range(size):
                down += terms[d] if d != c else 0.0
            scales[c] = draw_scale(
                keys[slot, 0], keys[slot, 1], keys[slot, 2], c,
                power, rate * totals[slot, c], rate * down, rate * pi[slot, c, c],
            )  # fmt: skip
        cuda.syncthreads()
        if thread < size:
            # (c, c) is divided twice.
            pi[slot, c, thread] = max(pi[slot, c, thread] / scales[c], SMALLEST)
            pi[slot, thread, c] = max(pi[slot, thread, c] / scales[c], SMALLEST)
        cuda.syncthreads()
    for t in range(thread, n * size, THREADS):
        i, c = place(t, size)
        theta[slot, i, c] = max(theta[slot, i, c] * scales[c], SMALLEST)
