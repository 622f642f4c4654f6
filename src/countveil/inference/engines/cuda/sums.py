"""Sums over the rows of a table, as sums of integers (``kernels.exact_sum``), and exposures of missing cells.

Atomic additions and maxima of integers give the same bits in whatever order threads come; a sum of floating-point
numbers would not. The bits of a positive float64, read as an int64, are in the order of the numbers: so a maximum
is one of integers, too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from countveil.inference.engines.cuda.device import cuda, empty, kernel, launch
from countveil.inference.engines.cuda.halves import place
from countveil.kernels.exact_sum import as_float, halves_of
from countveil.runtime.compiled import inlined

#: Rows that one thread looks through for the largest entry, and that one adds up.
_LOOKED, _ROWS = 8, 32
_HALF, _HIGHEST_POWER = 30, 1023


#: Integers that the sums of one component take.
SIZE = 7


class Sums:
    """Of a table (n, K) over n, plain and with weights by row; and the sums of another table, of integers.

    They lie in a part of a buffer (SIZE * K integers), which its owner sets to 0 before they are added up.
    """

    def __init__(self, buffer: Any) -> None:
        k = len(buffer) // SIZE
        self._bits = buffer[: 2 * k].reshape(2, k)
        self.largest = self._bits.view(np.float64)  # the same memory: the bits of numbers
        self.halves = buffer[2 * k : 6 * k].reshape(2, 2, k)
        self.tokens = buffer[6 * k :]

    def find_largest(self, table: Any, weights: Any) -> None:
        """The largest entries. Weights are one for all, or one each."""
        n = table.shape[1] * math.ceil(table.shape[0] / _LOOKED)
        launch(_find_largest, n, table, weights, self._bits)

    def add(self, table: Any, weights: Any, tokens: Any) -> None:
        """These, and the sums; ``tokens`` may have no rows."""
        self.find_largest(table, weights)
        n = table.shape[1] * math.ceil(table.shape[0] / _ROWS)
        launch(_add, n, table, weights, self.largest, tokens, self.halves, self.tokens)


def split_buffer(sizes: list[int]) -> tuple[Any, list[Sums]]:
    """A buffer for sums of tables with so many components each, and the sums."""
    buffer, found, start = empty(SIZE * sum(sizes), np.int64), [], 0
    for size in sizes:
        found.append(Sums(buffer[start : start + SIZE * size]))
        start += SIZE * size
    return buffer, found


@kernel
def _find_largest(table, weights, bits):
    part, k = place(cuda.grid(1), table.shape[1])
    plain, weighted = 0.0, 0.0
    for i in range(part * _LOOKED, min((part + 1) * _LOOKED, table.shape[0])):
        x = table[i, k]
        plain = max(plain, x)
        weighted = max(weighted, x * (weights[i] if len(weights) > 1 else weights[0]))
    # Most are below what stands there already: a look spares them the queue of the atomic.
    if plain > 0.0 and bits_of(plain) > bits[0, k]:
        cuda.atomic.max(bits, (0, k), bits_of(plain))
    if weighted > 0.0 and bits_of(weighted) > bits[1, k]:
        cuda.atomic.max(bits, (1, k), bits_of(weighted))


@kernel
def _add(table, weights, largest, tokens, halves, sums_of_tokens):
    part, k = place(cuda.grid(1), table.shape[1])
    if part * _ROWS < table.shape[0]:
        plain, weighted = scale_above(largest[0, k]), scale_above(largest[1, k])
        high, low, high_, low_, n = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for i in range(part * _ROWS, min((part + 1) * _ROWS, table.shape[0])):
            x = table[i, k]
            one, other = halves_of(x * plain)
            high += one
            low += other
            one, other = halves_of(x * (weights[i] if len(weights) > 1 else weights[0]) * weighted)
            high_ += one
            low_ += other
            if tokens.shape[0] > 0:
                n += tokens[i, k]
        cuda.atomic.add(halves, (0, 0, k), high)
        cuda.atomic.add(halves, (0, 1, k), low)
        cuda.atomic.add(halves, (1, 0, k), high_)
        cuda.atomic.add(halves, (1, 1, k), low_)
        if n > 0:
            cuda.atomic.add(sums_of_tokens, k, n)


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
def fill_exposure_of_all(largest, halves, out):
    """The same where every cell is observed: one row for all."""
    k = cuda.grid(1)
    if k < out.shape[1]:
        out[0, k] = sum_at(0, k, largest, halves)


@kernel
def fill_met(factor, exposure, out):
    """out[i, 0] = sum_k factor[i, k] exposure[i, k]: the rate that the cells of row i were observed with."""
    i = cuda.grid(1)
    if i < factor.shape[0]:
        total = 0.0
        for k in range(factor.shape[1]):
            total += factor[i, k] * exposure[i, k]
        out[i, 0] = total
