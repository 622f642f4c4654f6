"""Both factors of a matrix, drawn on the device given their tokens, with their scales and what is inferred of them.

The laws are those of ``models.einsum``: ``update`` (gamma draws), ``scales`` (moves that leave every rate as it
is), ``prior`` (fixed gammas, or inferred means). Here a thread draws an entry, a row, or a component, each from a
stream of its own. ``steps`` has the keys; those of single draws are the CPU's.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from countveil.inference.engines.cuda.device import SIMULATED, cuda, kernel
from countveil.inference.engines.cuda.halves import place
from countveil.inference.engines.cuda.sums import THREADS, TWO, bits_of, place_in_block, raise_largest, sum_at
from countveil.kernels import steps
from countveil.kernels.gamma import SMALLEST, gamma
from countveil.kernels.law_shape import draw_law_shape
from countveil.kernels.log_scale import draw_log_scale
from countveil.kernels.philox import open_stream
from countveil.models.einsum.prior import ROWS_PER_FACTOR
from countveil.runtime.compiled import compiled

#: Places of scalars of a chain: shapes of the laws of scales, and the level of the second factor.
ROW_UPPER, ROW_LOWER, COLUMN_UPPER, COLUMN_LOWER, LEVEL = range(5)
#: And of one sweep: by what the level has gone.
MOVED = 5
N_SCALARS = 6
#: Components that one block of ``move_scales`` serves, each a thread, in turns.
MOVE_THREADS = 64
#: Threads that go through a row together, those of a block of such, and the rows of a block.
LANES, ROW_THREADS = 8, 32 if SIMULATED else 128
BLOCK_ROWS = ROW_THREADS // LANES
#: Numbers of a row by which the laws of scales are seen.
N_TERMS = 6
_TERMS = BLOCK_ROWS * N_TERMS
#: Entries that a thread of ``draw_factor`` draws one after the other, and its registers.
TURNS, FACTOR_REGISTERS = 4, 128
#: Scales stay within these, as on the CPU.
LEAST, MOST = 1e-30, 1e30
# Places of the numbers of ``prior.Hyper``.
_LEVEL, _LOG_SHAPE, _LOG_SHAPE_SD, _MEAN_SHAPE = range(4)


class Priors(NamedTuple):
    """Entries are Gamma(shape, top / (scale of the row * mean of the component)); all scalars."""

    row_shape: float
    row_top: float  # the rate where it is fixed, else the shape
    column_shape: float
    column_top: float
    inferred: bool


@compiled
def gamma_of(seed, chain, sweep, step, row, shape, rate):
    """A gamma draw from the stream of this step and row."""
    stream = open_stream(seed, chain, sweep, step, row)
    drawn, stream = gamma(stream, shape, rate)
    return drawn


@compiled
def draw_scale(seed, chain, sweep, k, power, up, down):
    """The scale that component k trades."""
    stream = open_stream(seed, chain, sweep, steps.SCALE, k)
    s, stream = draw_log_scale(stream, power, max(up, SMALLEST), max(down, SMALLEST), 0.0)
    return math.exp(s)


@compiled
def draw_two(seed, chain, sweep, row, shape, rate, shape_factor, further_rate, by_first):
    """g ~ Gamma(shape, rate), then x ~ Gamma(shape_factor, further_rate + by_first * g), from one stream."""
    stream = open_stream(seed, chain, sweep, steps.PRIOR_SCALES, row)
    g, stream = gamma(stream, shape, rate)
    x, stream = gamma(stream, shape_factor, further_rate + by_first * g)
    return g, x


@compiled
def draw_shape(seed, chain, sweep, row, shape, n, sum_of_logs, total, mean, sd):
    """A step of the shape of a law of scales."""
    stream = open_stream(seed, chain, sweep, steps.PRIOR_LAWS, row)
    drawn, stream = draw_law_shape(stream, shape, n, sum_of_logs, total, mean, sd)
    return drawn


@compiled
def draw_level_move(seed, chain, sweep, row, level, n_tokens, rate, of_level):
    """c ~ Gamma(h + tokens, total rate + d m), d ~ Gamma(2h, 1 + m)."""
    stream = open_stream(seed, chain, sweep, steps.PRIOR_LAWS, row)
    d, stream = gamma(stream, 2.0 * of_level, 1.0 + level)
    drawn, stream = gamma(stream, of_level + n_tokens, rate + d * level)
    return max(drawn, LEAST)


@compiled
def draw_level(seed, chain, sweep, row, level, shape, rate, of_level):
    """m ~ Gamma(h + shape, d + rate), d likewise."""
    stream = open_stream(seed, chain, sweep, steps.PRIOR_LAWS, row)
    d, stream = gamma(stream, 2.0 * of_level, 1.0 + level)
    drawn, stream = gamma(stream, of_level + shape, d + rate)
    return min(max(drawn, LEAST), MOST)


@kernel
def start_sweep(key, row_tokens, column_tokens, buffer):
    """The next sweep: its number; no tokens and no sums yet."""
    t = cuda.grid(1)
    if t == 0:
        key[2] += np.uint64(1)
    if t < len(buffer):
        buffer[t] = 0
    n = row_tokens.shape[0] * row_tokens.shape[1]
    i, k = place(t if t < n else t - n, row_tokens.shape[1])
    if t < n:
        row_tokens[i, k] = 0
    elif i < column_tokens.shape[0]:
        column_tokens[i, k] = 0


def rows_of_block(n_components: int) -> int:
    """How many rows a block of threads draws."""
    return TURNS * (THREADS // min(n_components, THREADS))


@kernel(registers=FACTOR_REGISTERS)
def draw_factor(
    key,
    number,
    shape,
    top,
    scales,
    means,
    tokens,
    is_whole,
    other_largest,
    other_halves,
    exposure,
    out,
    weigh,
    weights,
    bits,
):
    """Entries ~ Gamma(shape + tokens, top / (scale * mean) + exposure), and the largest of them.

    Exposures are the sums of the other factor, where every cell is observed. With ``weigh`` the weights of rows
    become top / scale: the rates of their priors, up to the means.
    """
    parts = cuda.shared.array(TWO, np.int64)
    part, lane, n_lanes, k = place_in_block(cuda.blockIdx.x, out.shape[1])
    plain, weighted = 0.0, 0.0
    if k >= 0:
        seed, chain, sweep = key[0], key[1], key[2]
        mean = means[k] if len(means) > 1 else means[0]
        of_all = sum_at(0, k, other_largest, other_halves) if is_whole else 0.0
        for turn in range(TURNS):
            i = (part * TURNS + turn) * n_lanes + lane
            if i < out.shape[0]:
                of_row = top / (scales[i] if len(scales) > 1 else scales[0])
                if weigh and k == 0:
                    weights[i] = of_row
                rate = of_row / mean + (of_all if is_whole else exposure[i, k])
                row = number * ROWS_PER_FACTOR + i * out.shape[1] + k
                x = gamma_of(seed, chain, sweep, steps.DEVICE_FACTOR, row, shape + tokens[i, k], rate)
                out[i, k] = x
                plain = max(plain, x)
                weighted = max(weighted, x * (of_row if weigh else 1.0))
    raise_largest(plain, weighted, k, n_lanes, parts, bits)


@kernel
def move_scales(
    key,
    n_rows,
    n_columns,
    row_shape,
    row_top,
    column_shape,
    column_top,
    inferred,
    hyper,
    row_largest,
    row_halves,
    row_tokens,
    column_largest,
    column_halves,
    met_largest,
    met_halves,
    means,
    scalars,
    row_by,
    column_by,
):
    """By what both factors are multiplied, component by component; and the means of the first one's components.

    First the level of the second factor moves, with its scales (``prior.move_level``); every component trades a
    scale (``scales.trade_scales``); then its mean is drawn anew (``prior``). A single block. ``met`` has the total
    rate that was observed where cells are missing; else it has no entries, and sums of both factors tell.
    """
    moved = cuda.shared.array(1, np.float64)
    parts = cuda.shared.array(MOVE_THREADS, np.float64)
    thread = cuda.threadIdx.x
    seed, chain, sweep = key[0], key[1], key[2]
    n_components = len(row_by)
    total = 0.0
    if inferred:
        for k in range(thread, n_components, MOVE_THREADS):
            total += sum_at(0, k, row_largest, row_halves) * sum_at(0, k, column_largest, column_halves)
    parts[thread] = total
    cuda.syncthreads()
    if thread == 0:
        moved[0] = 1.0
        if inferred:
            n_tokens, rate = np.int64(0), 0.0
            for k in range(n_components):
                n_tokens += row_tokens[k]
            for part in range(MOVE_THREADS):
                rate += parts[part]
            if met_largest.shape[1] > 0:
                rate = sum_at(0, 0, met_largest, met_halves)
            moved[0] = draw_level_move(seed, chain, sweep, 7, scalars[LEVEL], n_tokens, rate, hyper[_LEVEL])
            scalars[LEVEL] *= moved[0]
        scalars[MOVED] = moved[0]
    cuda.syncthreads()
    for k in range(thread, n_components, MOVE_THREADS):
        power = -column_shape * n_columns
        if inferred:
            power -= hyper[_MEAN_SHAPE]
            up, down = 0.0, hyper[_MEAN_SHAPE] / means[k] + sum_at(1, k, column_largest, column_halves)
        else:
            power += row_shape * n_rows
            up = row_top * sum_at(0, k, row_largest, row_halves)
            down = column_top * sum_at(0, k, column_largest, column_halves)
        scale = draw_scale(seed, chain, sweep, k, power, up, down)
        row_by[k] = scale
        column_by[k] = moved[0] / scale
        if inferred:
            rate = hyper[_MEAN_SHAPE] + scale * sum_at(1, k, row_largest, row_halves)
            shape = hyper[_MEAN_SHAPE] + row_shape * n_rows
            inverse = gamma_of(seed, chain, sweep, steps.PRIOR_MEANS, k, shape, rate)
            means[k] = min(max(1.0 / inverse, LEAST), MOST)


@kernel
def multiply(by, factor):
    """Component by component, in place."""
    i, k = place(cuda.grid(1), factor.shape[1])
    if i < factor.shape[0]:
        factor[i, k] = max(factor[i, k] * by[k], SMALLEST)


@cuda.jit(device=True)
def draw_scales_of_block(
    block, key, number, shape, scalars, means, by, factor, scales, terms, bits, sums, of_terms
):
    """Multiply a block's rows of a factor, and draw their scales anew; the laws of scales are seen by ``terms``.

    ``number`` is 0 for the first factor, which has means of its components, 1 for the second, which has a level.
    Eight threads go through a row, one of them draws; a block has ROW_THREADS.
    """
    thread = cuda.threadIdx.x
    row, lane = place(thread, LANES)
    i = block * BLOCK_ROWS + row
    total = 0.0
    if i < factor.shape[0]:
        for k in range(lane, factor.shape[1], LANES):
            x = max(factor[i, k] * by[k], SMALLEST)
            factor[i, k] = x
            total += shape / (means[k] if len(means) > 1 else means[0]) * x
    sums[thread] = total
    if thread < N_TERMS:
        for other in range(BLOCK_ROWS):
            of_terms[other * N_TERMS + thread] = 0.0
    cuda.syncthreads()
    if i < factor.shape[0] and lane == 0:
        for other in range(1, LANES):
            total += sums[thread + other]
        s, t = scalars[2 * number], scalars[2 * number + 1]
        m = scalars[LEVEL] if number == 1 else 1.0
        old = scales[i] * (scalars[MOVED] if number == 1 else 1.0)
        more = s + shape * factor.shape[1]
        g, inverse = draw_two(
            key[0], key[1], key[2], number * ROWS_PER_FACTOR + i, t + s, t + s * m / old, more, total, s * m
        )
        u = min(max(1.0 / inverse, LEAST), MOST)
        scales[i] = u
        # Sums are made of what is not negative: logarithms above and below 0 apart.
        ratio = g / u * m
        at = row * N_TERMS
        logs = math.log(max(ratio, SMALLEST))
        of_terms[at], of_terms[at + 1], of_terms[at + 2] = max(logs, 0.0), max(-logs, 0.0), ratio
        logs = math.log(max(g, SMALLEST))
        of_terms[at + 3], of_terms[at + 4], of_terms[at + 5] = max(logs, 0.0), max(-logs, 0.0), g
    cuda.syncthreads()
    if thread < N_TERMS:
        largest = 0.0
        for other in range(BLOCK_ROWS):
            x = of_terms[other * N_TERMS + thread]
            if block * BLOCK_ROWS + other < factor.shape[0]:
                terms[block * BLOCK_ROWS + other, thread] = x
            largest = max(largest, x)
        if bits_of(largest) > bits[0, thread]:
            cuda.atomic.max(bits, (0, thread), bits_of(largest))


@kernel
def draw_scales(
    key,
    n_first,
    scalars,
    row_shape,
    row_means,
    row_by,
    theta,
    row_scales,
    row_terms,
    row_bits,
    column_shape,
    column_means,
    column_by,
    phi,
    column_scales,
    column_terms,
    column_bits,
):
    """Those of both factors; the first ``n_first`` blocks have those of the first."""
    sums = cuda.shared.array(ROW_THREADS, np.float64)
    of_terms = cuda.shared.array(_TERMS, np.float64)
    if cuda.blockIdx.x < n_first:
        draw_scales_of_block(
            cuda.blockIdx.x, key, 0, row_shape, scalars, row_means, row_by, theta, row_scales, row_terms,
            row_bits, sums, of_terms,
        )  # fmt: skip
    else:
        draw_scales_of_block(
            cuda.blockIdx.x - n_first, key, 1, column_shape, scalars, column_means, column_by, phi,
            column_scales, column_terms, column_bits, sums, of_terms,
        )  # fmt: skip


@kernel
def draw_laws(key, n_rows, n_columns, row_largest, row_halves, column_largest, column_halves, hyper, scalars):
    """Shapes of the laws of both factors' scales, a thread each, and the level: a single block."""
    thread = cuda.threadIdx.x
    seed, chain, sweep = key[0], key[1], key[2]
    if thread < 4:
        number, tail = place(thread, 2)
        first = 3 * tail
        if number == 0:
            n, largest, halves = n_rows, row_largest, row_halves
        else:
            n, largest, halves = n_columns, column_largest, column_halves
        logs = sum_at(0, first, largest, halves) - sum_at(0, first + 1, largest, halves)
        total = sum_at(0, first + 2, largest, halves)
        scalars[thread] = draw_shape(
            seed,
            chain,
            sweep,
            4 * number + tail,
            scalars[thread],
            n,
            logs,
            total,
            hyper[_LOG_SHAPE],
            hyper[_LOG_SHAPE_SD],
        )
    cuda.syncthreads()
    if thread == 0:
        level, upper = scalars[LEVEL], scalars[COLUMN_UPPER]
        rate = upper * sum_at(0, 2, column_largest, column_halves) / level
        scalars[LEVEL] = draw_level(seed, chain, sweep, 6, level, upper * n_columns, rate, hyper[_LEVEL])
