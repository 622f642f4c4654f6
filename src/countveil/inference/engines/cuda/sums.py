"""Sums over the rows of a table, as sums of integers (``kernels.exact_sum``), and exposures of missing cells.

Atomic additions and maxima of integers give the same bits in whatever order threads come; a sum of floating-point
numbers would not. Of the largest entries only the exponent is needed, and kept: the bits of a positive float64,
read as an int64, are in the order of the numbers, so a maximum is one of integers, too.

A block of threads has some rows of some components, next to each other: it reduces them in shared memory first, and
comes to the counters of all once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from countveil.inference.engines.cuda.device import SIMULATED, cuda, empty, kernel, launch_blocks
from countveil.inference.engines.cuda.halves import place
from countveil.kernels.exact_sum import as_float, halves_of
from countveil.runtime.compiled import inlined

#: Threads of a block, and rows that it has.
THREADS, ROWS = 32 if SIMULATED else 256, 64
TWO, _FIVE = 2 * THREADS, 5 * THREADS
_HALF, _HIGHEST_POWER = 30, 1023
# Of a float64: its exponent.
_EXPONENT = np.int64(0x7FF0000000000000)


#: Integers that the sums of one component take.
SIZE = 7


class Sums:
    """Of a table (n, K) over n, plain and with weights by row; and the sums of another table, of integers.

    They lie in a part of a buffer (SIZE * K integers), which its owner sets to 0 before they are added up.
    """

    def __init__(self, buffer: Any) -> None:
        k = len(buffer) // SIZE
        self.bits = buffer[: 2 * k].reshape(2, k)
        self.largest = self.bits.view(np.float64)  # the same memory: the bits of numbers
        self.halves = buffer[2 * k : 6 * k].reshape(2, 2, k)
        self.tokens = buffer[6 * k :]

    def find_largest(self, table: Any, weights: Any) -> None:
        """The largest entries. Weights are one for all, or one each."""
        launch_blocks(_find_largest, n_blocks(*table.shape), THREADS, table, weights, self.bits)

    def add(self, table: Any, weights: Any, tokens: Any) -> None:
        """The sums, once the largest are known; ``tokens`` may have no rows."""
        launch_blocks(_add, n_blocks(*table.shape), THREADS, table, weights, *self.sums, tokens, self.tokens)

    @property
    def sums(self) -> tuple[Any, Any]:
        """What ``sum_at`` takes."""
        return self.largest, self.halves


def find_both_largest(first: Sums, table: Any, second: Sums, other: Any) -> None:
    """``find_largest`` of two tables, without weights, in one launch."""
    n = n_blocks(*table.shape)
    launch_blocks(
        _find_both_largest, n + n_blocks(*other.shape), THREADS, n, table, first.bits, other, second.bits
    )


def add_both(first: Sums, table: Any, second: Sums, other: Any) -> None:
    """``add`` of two tables, without weights or tokens, in one launch."""
    n = n_blocks(*table.shape)
    launch_blocks(_add_both, n + n_blocks(*other.shape), THREADS, n, table, *first.sums, other, *second.sums)


def n_blocks(n_rows: int, n_components: int, rows: int = ROWS) -> int:
    """Blocks of threads for a table, of so many rows each."""
    return math.ceil(n_rows / rows) * math.ceil(n_components / THREADS)


def split_buffer(sizes: list[int]) -> tuple[Any, list[Sums]]:
    """A buffer for sums of tables with so many components each, and the sums."""
    buffer, found, start = empty(SIZE * sum(sizes), np.int64), [], 0
    for size in sizes:
        found.append(Sums(buffer[start : start + SIZE * size]))
        start += SIZE * size
    return buffer, found


@cuda.jit(device=True)
def place_in_block(block, n_components):
    """Of a thread: the part of rows of its block, its own row among those at a time, how many, and its component.

    Its component is -1 where it has none.
    """
    thread = cuda.threadIdx.x
    tiles = (n_components + THREADS - 1) // THREADS
    part, tile = place(block, tiles)
    width = min(n_components, THREADS)
    n_lanes = THREADS // width
    lane, at = place(thread, width)
    k = tile * width + at
    return part, lane, n_lanes, k if lane < n_lanes and k < n_components else -1


@cuda.jit(device=True)
def raise_largest(plain, weighted, k, n_lanes, parts, bits):
    """Of a block's threads the largest, component by component; all threads come here together, k < 0 with none.

    ``parts`` are 2 * THREADS integers of shared memory.
    """
    thread = cuda.threadIdx.x
    parts[thread] = bits_of(plain) & _EXPONENT
    parts[THREADS + thread] = bits_of(weighted) & _EXPONENT
    cuda.syncthreads()
    width = min(bits.shape[1], THREADS)
    if thread < width and k >= 0:
        one, other = parts[thread], parts[THREADS + thread]
        for lane in range(1, n_lanes):
            one = max(one, parts[lane * width + thread])
            other = max(other, parts[THREADS + lane * width + thread])
        # Most are not above what stands there already: a look spares them the queue of the atomic.
        if one > bits[0, k]:
            cuda.atomic.max(bits, (0, k), one)
        if other > bits[1, k]:
            cuda.atomic.max(bits, (1, k), other)


@cuda.jit(device=True)
def _largest_of_block(block, table, weights, parts, bits):
    part, lane, n_lanes, k = place_in_block(block, table.shape[1])
    plain, weighted = 0.0, 0.0
    if k >= 0:
        for i in range(part * ROWS + lane, min((part + 1) * ROWS, table.shape[0]), n_lanes):
            x = table[i, k]
            plain = max(plain, x)
            weighted = max(weighted, x * (weights[i] if len(weights) > 1 else weights[0]))
    raise_largest(plain, weighted, k, n_lanes, parts, bits)


@kernel
def _find_largest(table, weights, bits):
    parts = cuda.shared.array(TWO, np.int64)
    _largest_of_block(cuda.blockIdx.x, table, weights, parts, bits)


@kernel
def _find_both_largest(n_first, table, bits, other, other_bits):
    parts = cuda.shared.array(TWO, np.int64)
    if cuda.blockIdx.x < n_first:
        _largest_unweighted(cuda.blockIdx.x, table, parts, bits)
    else:
        _largest_unweighted(cuda.blockIdx.x - n_first, other, parts, other_bits)


@cuda.jit(device=True)
def _largest_unweighted(block, table, parts, bits):
    part, lane, n_lanes, k = place_in_block(block, table.shape[1])
    largest = 0.0
    if k >= 0:
        for i in range(part * ROWS + lane, min((part + 1) * ROWS, table.shape[0]), n_lanes):
            largest = max(largest, table[i, k])
    raise_largest(largest, largest, k, n_lanes, parts, bits)


@cuda.jit(device=True)
def _reduce(k, n_lanes, n, parts, halves, sums_of_tokens):
    """Add up a block's ``n`` parts (5 with weights and tokens, 2 without), component by component."""
    thread = cuda.threadIdx.x
    cuda.syncthreads()
    width = min(halves.shape[2], THREADS)
    if thread < width and k >= 0:
        for which in range(n):
            total = np.int64(0)
            for lane in range(n_lanes):
                total += parts[which * THREADS + lane * width + thread]
            if total > 0:
                if which < 4:
                    cuda.atomic.add(halves, (which // 2, which % 2, k), total)
                else:
                    cuda.atomic.add(sums_of_tokens, k, total)


@kernel
def _add(table, weights, largest, halves, tokens, sums_of_tokens):
    parts = cuda.shared.array(_FIVE, np.int64)
    part, lane, n_lanes, k = place_in_block(cuda.blockIdx.x, table.shape[1])
    high, low, high_, low_, n = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    if k >= 0:
        plain, weighted = scale_above(largest[0, k]), scale_above(largest[1, k])
        for i in range(part * ROWS + lane, min((part + 1) * ROWS, table.shape[0]), n_lanes):
            x = table[i, k]
            one, other = halves_of(x * plain)
            high += one
            low += other
            one, other = halves_of(x * (weights[i] if len(weights) > 1 else weights[0]) * weighted)
            high_ += one
            low_ += other
            if tokens.shape[0] > 0:
                n += tokens[i, k]
    thread = cuda.threadIdx.x
    parts[thread] = high
    parts[THREADS + thread] = low
    parts[2 * THREADS + thread] = high_
    parts[3 * THREADS + thread] = low_
    parts[4 * THREADS + thread] = n
    _reduce(k, n_lanes, 5, parts, halves, sums_of_tokens)


@cuda.jit(device=True)
def _add_unweighted(block, table, largest, halves, parts):
    part, lane, n_lanes, k = place_in_block(block, table.shape[1])
    high, low = np.int64(0), np.int64(0)
    if k >= 0:
        scale = scale_above(largest[0, k])
        for i in range(part * ROWS + lane, min((part + 1) * ROWS, table.shape[0]), n_lanes):
            one, other = halves_of(table[i, k] * scale)
            high += one
            low += other
    parts[cuda.threadIdx.x] = high
    parts[THREADS + cuda.threadIdx.x] = low
    _reduce(k, n_lanes, 2, parts, halves, halves[0, 0])


@kernel
def _add_both(n_first, table, largest, halves, other, other_largest, other_halves):
    parts = cuda.shared.array(TWO, np.int64)
    if cuda.blockIdx.x < n_first:
        _add_unweighted(cuda.blockIdx.x, table, largest, halves, parts)
    else:
        _add_unweighted(cuda.blockIdx.x - n_first, other, other_largest, other_halves, parts)


@inlined
def bits_of(x):
    """Of a float64, as an int64."""
    return np.float64(x).view(np.int64)


@inlined
def scale_above(largest):
    """As ``exact_sum.scales_above``, of one number."""
    power = min(2 * _HALF - math.frexp(largest)[1], _HIGHEST_POWER)
    return math.ldexp(1.0, power - _HALF)


@cuda.jit(device=True)
def sum_at(which, k, largest, halves):
    """The sum of component k: plain (0) or weighted (1)."""
    return as_float(halves[which, 0, k], halves[which, 1, k], scale_above(largest[which, k]))


@kernel
def fill_exposure(starts, others, lists_observed, largest, halves, other_factor, out):
    """out[i, k]: the sum of the other factor over the observed cells of row (or column) i.

    Listed are the missing cells, to be taken from the sum of all, or the observed ones.
    """
    i, k = place(cuda.grid(1), out.shape[1])
    if i < out.shape[0]:
        total = 0.0
        for at in range(starts[i], starts[i + 1]):
            total += other_factor[others[at], k]
        out[i, k] = total if lists_observed else max(sum_at(0, k, largest, halves) - total, 0.0)


@kernel
def fill_met(factor, exposure, out):
    """out[i, 0] = sum_k factor[i, k] exposure[i, k]: the rate that the cells of row i were observed with."""
    i = cuda.grid(1)
    if i < factor.shape[0]:
        total = 0.0
        for k in range(factor.shape[1]):
            total += factor[i, k] * exposure[i, k]
        out[i, 0] = total
