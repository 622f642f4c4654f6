"""The factors of a network, of many chains at once: memberships row after row, blocks, and their scales.

The laws are those of ``models.einsum``: ``tied`` (memberships), ``update`` (gamma draws), ``scales`` (trades
between memberships and blocks). A gamma draw is one of rate 1, which needs the tokens alone, over its rate. So all
of them are drawn first, at once, an entry by a thread; and only rates wait for the rows before them: a block of
threads has the rows of one chain. Every sum is made in one order, whichever chains go together.

Priors are fixed, or inferred (``network_priors`` has the rest of that). Kernels are made for each kind, so that the
fixed one has no work with what only the other needs.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from countveil.inference.engines.cuda.device import SIMULATED, cuda, kernel
from countveil.inference.engines.cuda.factors import gamma_of
from countveil.inference.engines.cuda.halves import place
from countveil.kernels import steps
from countveil.kernels.gamma import SMALLEST
from countveil.kernels.log_scale import (
    draw_log_scale_around,
    draw_log_scale_between,
    log_scale_height,
    log_scale_mode_by_root,
    log_scale_side,
)
from countveil.kernels.philox import open_stream
from countveil.models.einsum.prior import ROWS_PER_FACTOR
from countveil.runtime.compiled import compiled

#: Places of scalars of a chain: shapes of the laws of memberships' scales and of receiving; the level of blocks.
UPPER, LOWER, RECEIVING_SHAPE, LEVEL = range(4)
N_SCALARS = 4
#: Threads of a block that has a chain: as many as there may be communities, at least.
THREADS = 8 if SIMULATED else 128
MOST_COMMUNITIES = THREADS
#: Scales of up to so many communities are traded by two threads, one for each side of a hat, while blocks lie in
#: shared memory.
MOST_SHORT = 3 if SIMULATED else 32
_SHORT_BLOCKS = MOST_SHORT * MOST_SHORT
#: Rows have kernels with less to wait for where nothing but (r, r) is missing: their threads, and how many blocks
#: of partners a thread holds.
SHORT_THREADS, SHORT_TERMS = 8 if SIMULATED else 128, 4


@compiled
def draw_scale(seed, chain, sweep, c, power, up, down, twice_down):
    """The scale that community c trades."""
    stream = open_stream(seed, chain, sweep, steps.SCALE, c)
    mode = log_scale_mode_by_root(power, up, down, twice_down)
    s, stream = draw_log_scale_around(stream, mode, power, up, down, twice_down)
    return math.exp(s)


@compiled
def side_of_scale(direction, power, up, down, twice_down):
    """The mode of ``draw_scale``, its height, and what the hat is like on this side of it."""
    mode = log_scale_mode_by_root(power, up, down, twice_down)
    top = log_scale_height(mode, power, up, down, twice_down)
    point, slope, height = log_scale_side(mode, top, direction, power, up, down, twice_down)
    return mode, top, point, slope, height


@compiled
def draw_scale_between(
    seed, chain, sweep, c, mode, top, left, left_slope, left_height, right, right_slope, right_height,
    power, up, down, twice_down,
):  # fmt: skip
    """``draw_scale`` by a hat that is known."""
    stream = open_stream(seed, chain, sweep, steps.SCALE, c)
    s, stream = draw_log_scale_between(
        stream, mode, top, left, left_slope, left_height, right, right_slope, right_height,
        power, up, down, twice_down,
    )  # fmt: skip
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
    total, of_chain, mine = 0.0, theta[slot], np.uint64(c)
    # Places without signs, and no range: a device goes through such a loop in a third of the time.
    at, stop = np.uint64(starts[r] + part), np.uint64(starts[r + 1])
    while at < stop:
        total += of_chain[np.uint64(others[at]), mine]
        at += np.uint64(n_parts)
    return total


@cache
def rows_kernel(inferred: bool, receiving: bool) -> Any:
    """``draw_rows`` of a kind of prior."""

    @kernel(kind=("receiving" if receiving else "inferred") if inferred else "fixed")
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
        scales,
        means,
        received,
        receivers,
        below_receivers,
    ):
        """Memberships, row after row: theta_rc = drawn / (rate + sum_d out_d pi_cd + in_d pi_dc).

        out_d is the sum of theta_jd over the observed cells (r, j), in_d over the observed cells (i, r): rows
        before r are new ones, rows after it old ones. Listed are the observed cells, or the missing ones other than
        (r, r). ``totals`` are the sums of all rows.

        If priors are inferred the rate is rate / (scale_r mean_c). With ``received`` partners have the weights of
        ``receivers``, received_j theta_jd, which are kept up to date: out_d is the sum of those, and in_d is
        multiplied by received_r.
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
        partners = receivers if receiving else theta
        # Sums over the rows after each: part after part of the rows, each by its own threads.
        length = (n + n_parts - 1) // n_parts
        begin, end = min(part * length, n), min((part + 1) * length, n)
        if part < n_parts:
            total, weighted = 0.0, 0.0
            for r in range(begin, end):
                total += theta[slot, r, c]
                if receiving:
                    weighted += receivers[slot, r, c]
            parts[thread] = total
            if receiving:
                more_parts[thread] = weighted
        cuda.syncthreads()
        if part < n_parts:
            total, weighted = 0.0, 0.0
            for other in range(n_parts - 1, part, -1):
                total += parts[other * size + c]
                if receiving:
                    weighted += more_parts[other * size + c]
            for r in range(end - 1, begin - 1, -1):
                below[slot, r, c] = total
                total += theta[slot, r, c]
                if receiving:
                    below_receivers[slot, r, c] = weighted
                    weighted += receivers[slot, r, c]
        cuda.syncthreads()
        above, drawn, after, next_drawn, next_after = 0.0, 0.0, 0.0, 0.0, 0.0
        above_receivers, after_receivers, next_receivers = 0.0, 0.0, 0.0
        own, next_own, of_row, next_of_row, of_component = 1.0, 1.0, 0.0, 0.0, 0.0
        if thread < size:
            next_drawn, next_after = rows_drawn[slot, 0, c], below[slot, 0, c]
            if inferred:
                next_of_row, of_component = rate / scales[slot, 0], 1.0 / means[slot, c]
            if receiving:
                next_own, next_receivers = received[slot, 0], below_receivers[slot, 0, c]
        has_lists = len(out_others) + len(in_others) > 0
        for r in range(n):
            if has_lists:
                cuda.syncthreads()  # rows that others have written
                if part < n_parts:
                    parts[thread] = sum_listed(slot, r, c, part, n_parts, out_starts, out_others, partners)
                    more_parts[thread] = sum_listed(slot, r, c, part, n_parts, in_starts, in_others, theta)
                cuda.syncthreads()
            if thread < size:
                drawn, after = next_drawn, next_after
                if inferred:
                    of_row = next_of_row
                if receiving:
                    own, after_receivers = next_own, next_receivers
                if r + 1 < n:  # ahead of time: memory is slow
                    next_drawn, next_after = rows_drawn[slot, r + 1, c], below[slot, r + 1, c]
                    if inferred:
                        next_of_row = rate / scales[slot, r + 1]
                    if receiving:
                        next_own, next_receivers = received[slot, r + 1], below_receivers[slot, r + 1, c]
                of_out = 0.0 if lists_observed else above + after
                of_in = of_out
                if receiving:
                    of_out = 0.0 if lists_observed else above_receivers + after_receivers
                if has_lists:
                    for other in range(n_parts):
                        of_out += sign * parts[other * size + c]
                        of_in += sign * more_parts[other * size + c]
                outs[c], ins[c] = of_out, own * of_in if receiving else of_in
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
                before = of_row * of_component if inferred else rate
                x = max(drawn / (before + max(met, 0.0)), SMALLEST)
                theta[slot, r, c] = x
                above += x
                if receiving:
                    receivers[slot, r, c] = own * x
                    above_receivers += own * x
        if thread < size:
            totals[slot, c] = above

    return draw_rows


def has_short_rows(size: int, lists_observed: bool, n_listed: int) -> bool:
    """Whether ``short_rows_kernel`` serves a network with so many communities and listed cells."""
    fits = size <= min(SHORT_THREADS, SHORT_TERMS * (SHORT_THREADS // max(size, 1)))
    return fits and not lists_observed and n_listed == 0


@cache
def short_rows_kernel(inferred: bool, receiving: bool) -> Any:
    """``draw_rows`` of a kind of prior where no cells are listed, and all but (r, r) are observed."""

    @kernel(kind=("receiving" if receiving else "inferred") if inferred else "fixed")
    def draw_short_rows(
        slots, rate, rows_drawn, pi, below, theta, totals, scales, means, received, receivers, below_receivers
    ):
        """As ``draw_rows``. What rows wait for lies in shared memory and registers, and has been read before."""
        outs = cuda.shared.array(SHORT_THREADS, np.float64)
        ins = cuda.shared.array(SHORT_THREADS, np.float64)
        parts = cuda.shared.array(SHORT_THREADS, np.float64)
        more_parts = cuda.shared.array(SHORT_THREADS, np.float64)
        rates = cuda.shared.array(SHORT_THREADS, np.float64)
        thread = cuda.threadIdx.x
        slot = slots[cuda.blockIdx.x]
        n, size = theta.shape[1], theta.shape[2]
        n_parts = SHORT_THREADS // size
        part, c = place(thread, size)
        # Sums over the rows after each, as in ``draw_rows``.
        length = (n + n_parts - 1) // n_parts
        begin, end = min(part * length, n), min((part + 1) * length, n)
        if part < n_parts:
            total, weighted = 0.0, 0.0
            for i in range(begin, end):
                total += theta[slot, i, c]
                if receiving:
                    weighted += receivers[slot, i, c]
            parts[thread] = total
            if receiving:
                more_parts[thread] = weighted
        cuda.syncthreads()
        if part < n_parts:
            total, weighted = 0.0, 0.0
            for other in range(n_parts - 1, part, -1):
                total += parts[other * size + c]
                if receiving:
                    weighted += more_parts[other * size + c]
            for i in range(end - 1, begin - 1, -1):
                below[slot, i, c] = total
                total += theta[slot, i, c]
                if receiving:
                    below_receivers[slot, i, c] = weighted
                    weighted += receivers[slot, i, c]
        # The blocks that this thread multiplies by, of d = part, part + n_parts, ...; 0 where there are none.
        d0, d1, d2, d3 = part, part + n_parts, part + 2 * n_parts, part + 3 * n_parts
        out0, out1, out2, out3 = 0.0, 0.0, 0.0, 0.0
        in0, in1, in2, in3 = 0.0, 0.0, 0.0, 0.0
        if d0 < size:
            out0, in0 = pi[slot, c, d0], pi[slot, d0, c]
        if d1 < size:
            out1, in1 = pi[slot, c, d1], pi[slot, d1, c]
        if d2 < size:
            out2, in2 = pi[slot, c, d2], pi[slot, d2, c]
        if d3 < size:
            out3, in3 = pi[slot, c, d3], pi[slot, d3, c]
        d0, d1, d2, d3 = min(d0, size - 1), min(d1, size - 1), min(d2, size - 1), min(d3, size - 1)
        cuda.syncthreads()
        above, drawn, next_drawn, next_after, next_scale = 0.0, 0.0, 0.0, 0.0, 1.0
        above_receivers, next_receivers, own, next_own, of_component = 0.0, 0.0, 1.0, 1.0, 0.0
        # Of others than those who wait for the row: they have time to divide.
        has_rate = inferred and part == n_parts - 1
        # Places without signs, and no range: there is less to do at every turn.
        r, last, mine, n_summed = np.uint64(0), np.uint64(n - 1), np.uint64(c), np.uint64(n_parts * size)
        one, two, three = np.uint64(size), np.uint64(2 * size), np.uint64(3 * size)
        all_drawn, all_below, rows = rows_drawn[slot], below[slot], theta[slot]
        all_scales, all_received = scales[slot], received[slot]
        all_receivers, all_below_receivers = receivers[slot], below_receivers[slot]
        if thread < size:
            next_drawn, next_after = all_drawn[r, mine], all_below[r, mine]
            if receiving:
                next_own, next_receivers = all_received[r], all_below_receivers[r, mine]
        if has_rate:
            next_scale, of_component = all_scales[r], 1.0 / means[slot, c]
        while r <= last:
            if thread < size:
                drawn = next_drawn
                of_in = above + next_after
                if receiving:
                    own = next_own
                    outs[mine], ins[mine] = above_receivers + next_receivers, own * of_in
                else:
                    outs[mine], ins[mine] = of_in, of_in
            cuda.syncthreads()
            met = outs[d0] * out0 + ins[d0] * in0
            met += outs[d1] * out1 + ins[d1] * in1
            met += outs[d2] * out2 + ins[d2] * in2
            met += outs[d3] * out3 + ins[d3] * in3
            parts[thread] = met
            following = min(r + np.uint64(1), last)
            if has_rate:
                rates[mine] = rate / next_scale * of_component
                next_scale = all_scales[following]
            if thread < size:  # ahead of time: memory is slow
                next_drawn, next_after = all_drawn[following, mine], all_below[following, mine]
                if receiving:
                    next_own, next_receivers = all_received[following], all_below_receivers[following, mine]
            cuda.syncthreads()
            if thread < size:
                before = rates[mine] if inferred else rate
                met, at = 0.0, mine
                while at + three < n_summed:  # read together, as one after the other would wait
                    p, q, s, t = parts[at], parts[at + one], parts[at + two], parts[at + three]
                    met = met + p + q + s + t
                    at += two + two
                while at < n_summed:
                    met += parts[at]
                    at += one
                x = max(drawn / (before + max(met, 0.0)), SMALLEST)
                rows[r, mine] = x
                above += x
                if receiving:
                    all_receivers[r, mine] = own * x
                    above_receivers += own * x
            r += np.uint64(1)
        if thread < size:
            totals[slot, c] = above

    return draw_short_rows


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


@cuda.jit(device=True)
def met_at(slot, c, d, symmetric, exposure, partners):
    """The sum over observed cells (i, j) of theta_ic and what j weighs as a partner in d; both halves together."""
    met = 0.0
    of_senders, of_partners, j, n = exposure[slot], partners[slot], np.uint64(0), np.uint64(partners.shape[1])
    c, d = np.uint64(c), np.uint64(d)
    if symmetric and c != d:
        while j < n:
            met += of_senders[j, c] * of_partners[j, d] + of_senders[j, d] * of_partners[j, c]
            j += np.uint64(1)
    else:
        while j < n:
            met += of_senders[j, c] * of_partners[j, d]
            j += np.uint64(1)
    return met


@cache
def blocks_kernel(inferred: bool) -> Any:
    """``draw_blocks`` of a kind of prior."""

    @kernel(kind="inferred" if inferred else "fixed")
    def draw_blocks(slots, rate, symmetric, blocks_drawn, exposure, partners, scalars, met_by, pi):
        """pi_cd = drawn / (rate + sum_j exposure_jc partners_jd); both halves together where pi is symmetric.

        If priors are inferred the rate is rate / level, and ``met_by`` keeps the sums.
        """
        size = pi.shape[1]
        which, t = place(cuda.grid(1), size * size)
        if which < len(slots):
            slot = slots[which]
            c, d = place(t, size)
            if symmetric:
                c, d = min(c, d), max(c, d)
            met = met_at(slot, c, d, symmetric, exposure, partners)
            before = rate / scalars[slot, LEVEL] if inferred else rate
            x = max(blocks_drawn[slot, c, d] / (before + met), SMALLEST)
            c, d = place(t, size)
            pi[slot, c, d] = x
            if inferred:
                met_by[slot, c, d] = met

    return draw_blocks


@cache
def trade_kernel(inferred: bool) -> Any:
    """``trade_scales`` of a kind of prior."""

    @kernel(kind="inferred" if inferred else "fixed")
    def trade_scales(keys, slots, shape, rate, mean_shape, symmetric, totals, scalars, means, pi, theta):
        """As ``scales.trade_in_blocks``, community after community; a block of threads has a chain."""
        terms = cuda.shared.array(THREADS, np.float64)
        scales = cuda.shared.array(THREADS, np.float64)
        thread = cuda.threadIdx.x
        slot = slots[cuda.blockIdx.x]
        n, size = theta.shape[1], theta.shape[2]
        n_blocks = size + 1 if symmetric else 2 * size
        power = -shape * n_blocks - mean_shape if inferred else shape * (n - n_blocks)
        of_blocks = rate / scalars[slot, LEVEL] if inferred else rate
        for c in range(size):
            if thread < size:
                terms[thread] = (
                    pi[slot, c, thread] if symmetric else pi[slot, c, thread] + pi[slot, thread, c]
                )
            cuda.syncthreads()
            if thread == 0:
                down = 0.0
                for d in range(size):
                    down += terms[d] if d != c else 0.0
                down *= of_blocks
                up = SMALLEST if inferred else rate * totals[slot, c]
                if inferred:  # the law of the means takes the place of that of the entries
                    down += mean_shape / means[slot, c]
                scales[c] = draw_scale(
                    keys[slot, 0], keys[slot, 1], keys[slot, 2], c,
                    power, up, down, of_blocks * pi[slot, c, c],
                )  # fmt: skip
                if inferred:
                    means[slot, c] *= scales[c]
            cuda.syncthreads()
            if thread < size:
                # (c, c) is divided twice.
                pi[slot, c, thread] = max(pi[slot, c, thread] / scales[c], SMALLEST)
                pi[slot, thread, c] = max(pi[slot, thread, c] / scales[c], SMALLEST)
            cuda.syncthreads()
        for t in range(thread, n * size, THREADS):
            i, c = place(t, size)
            theta[slot, i, c] = max(theta[slot, i, c] * scales[c], SMALLEST)

    return trade_scales


@cache
def short_trade_kernel(inferred: bool) -> Any:
    """``trade_kernel`` for few communities."""

    @kernel(kind="inferred" if inferred else "fixed")
    def trade_few_scales(keys, slots, shape, rate, mean_shape, symmetric, totals, scalars, means, pi, theta):
        """As ``trade_scales``."""
        blocks = cuda.shared.array(_SHORT_BLOCKS, np.float64)
        terms = cuda.shared.array(MOST_SHORT, np.float64)
        scales = cuda.shared.array(MOST_SHORT, np.float64)
        lower = cuda.shared.array(MOST_SHORT, np.float64)
        upper = cuda.shared.array(MOST_SHORT, np.float64)
        right = cuda.shared.array(3, np.float64)
        thread = cuda.threadIdx.x
        slot = slots[cuda.blockIdx.x]
        seed, chain, sweep = keys[slot, 0], keys[slot, 1], keys[slot, 2]
        n, size = theta.shape[1], theta.shape[2]
        n_blocks = size + 1 if symmetric else 2 * size
        power = -shape * n_blocks - mean_shape if inferred else shape * (n - n_blocks)
        of_blocks = rate / scalars[slot, LEVEL] if inferred else rate
        for e in range(thread, size * size, THREADS):
            c, d = place(e, size)
            blocks[e] = pi[slot, c, d]
        if thread < size:  # the law of the means takes the place of that of the entries, if they are inferred
            lower[thread] = mean_shape / means[slot, thread] if inferred else 0.0
            upper[thread] = SMALLEST if inferred else rate * totals[slot, thread]
        cuda.syncthreads()
        for c in range(size):
            if thread < size:
                term = blocks[c * size + thread]
                if not symmetric:
                    term += blocks[thread * size + c]
                terms[thread] = term if thread != c else 0.0
            cuda.syncthreads()
            mode, top, point, slope, height = 0.0, 0.0, 0.0, 0.0, 0.0
            down, up, twice_down = 0.0, upper[c], of_blocks * blocks[c * size + c]
            if thread < 2:  # one has the left of the hat, the other the right
                for d in range(size):
                    down += terms[d]
                down = down * of_blocks + lower[c]
                mode, top, point, slope, height = side_of_scale(
                    2.0 * thread - 1.0, power, up, down, twice_down
                )
                if thread == 1:
                    right[0], right[1], right[2] = point, slope, height
            cuda.syncthreads()
            if thread == 0:
                scales[c] = draw_scale_between(
                    seed, chain, sweep, c, mode, top, point, slope, height, right[0], right[1], right[2],
                    power, up, down, twice_down,
                )  # fmt: skip
            cuda.syncthreads()
            if thread < size:
                # (c, c) is divided twice.
                by = scales[c]
                if thread != c:
                    blocks[c * size + thread] = max(blocks[c * size + thread] / by, SMALLEST)
                    blocks[thread * size + c] = max(blocks[thread * size + c] / by, SMALLEST)
                else:
                    once = max(blocks[c * size + c] / by, SMALLEST)
                    blocks[c * size + c] = max(once / by, SMALLEST)
            cuda.syncthreads()
        for e in range(thread, size * size, THREADS):
            c, d = place(e, size)
            pi[slot, c, d] = blocks[e]
        if inferred and thread < size:
            means[slot, thread] *= scales[thread]
        for t in range(thread, n * size, THREADS):
            i, c = place(t, size)
            theta[slot, i, c] = max(theta[slot, i, c] * scales[c], SMALLEST)

    return trade_few_scales
