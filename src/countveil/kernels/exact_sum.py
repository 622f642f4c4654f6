"""Sums over rows that do not depend on the order of their terms, because they are sums of integers.

With 2**E above the largest term (a maximum, exact in any order), each term x >= 0 is rounded down to a multiple of
2**(E-60), split into a high and a low half of 30 bits, and added as int64: exact to 2**33 terms. So a draw that
depends on such a sum has the same bits for every number of threads or shards, and every order of rows. Against a
sum in floating point nothing is lost: the error of a term is below 2**-59 of the largest one.

Terms may have weights by row, which are multiplied in on the way: an array of the products would take longer to
make than to add up.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.runtime.compiled import compiled, inlined
from countveil.runtime.workers import Workers

_HALF = 30
#: All rows alike.
UNWEIGHTED = np.ones(1)
# The highest that is finite: terms as small as SMALLEST, 2**-1022, still count where all are small.
_HIGHEST_POWER = 1023
# So many terms are added up by one thread, in half a millisecond, before several have taken their blocks.
_FEW = 2**20


def exact_sums(terms: np.ndarray, workers: Workers, weights: np.ndarray = UNWEIGHTED) -> np.ndarray:
    """Sums of (n, K) terms over n; weights are by row, or a single one for all.

    >>> exact_sums(np.array([[0.1, 1e9], [0.2, 1e-9], [0.3, 0.0]]), Workers(1))
    array([6.e-01, 1.e+09])
    """
    if not workers.has_others and (workers.threads == 1 or terms.size <= _FEW):
        return _exact_sums(terms, weights)  # a single call: there are many such sums
    scale = scales_of(terms, workers, weights)
    parts = np.zeros((workers.threads, 2, terms.shape[1]), dtype=np.int64)
    workers.run_with_worker(
        len(terms),
        lambda worker, start, stop: _add(start, stop, terms, weights, scale, parts[worker]),
        small=_few_rows(terms),
    )
    halves = workers.total(parts.sum(axis=0))
    return as_float(halves[0], halves[1], scale)


def scales_of(terms: np.ndarray, workers: Workers, weights: np.ndarray = UNWEIGHTED) -> np.ndarray:
    """For every column of (n, K) terms what they are multiplied by to become numbers below 2**30: a power of 2."""
    parts = np.zeros((workers.threads, terms.shape[1]))
    workers.run_with_worker(
        len(terms),
        lambda worker, start, stop: find_largest(start, stop, terms, weights, parts[worker]),
        small=_few_rows(terms),
    )
    return scales_above(workers.largest(parts.max(axis=0)))


def _few_rows(terms: np.ndarray) -> int:
    """Rows that are not worth another thread."""
    return _FEW // max(1, terms.shape[1])


def signed_sum(terms: np.ndarray, workers: Workers) -> float:
    """The sum of n terms of either sign, the same in any order.

    >>> signed_sum(np.array([0.5, -2.0, 1.0]), Workers(1))
    -0.5
    """
    up, down = exact_sums(np.stack([np.maximum(terms, 0.0), np.maximum(-terms, 0.0)], axis=1), workers)
    return float(up - down)


@compiled
def scales_above(largest):
    """The same, given the largest terms."""
    scale = np.empty(len(largest))
    for k in range(len(largest)):
        power = min(2 * _HALF - math.frexp(largest[k])[1], _HIGHEST_POWER)
        scale[k] = math.ldexp(1.0, power - _HALF)
    return scale


@compiled
def as_float(high, low, scale):
    """A sum of halves as a number; of arrays, those of their entries."""
    return (high * 2.0**_HALF + low) / (scale * 2.0**_HALF)


@compiled
def find_largest(start, stop, terms, weights, largest):
    """The largest term of every column in rows start..stop, if it is above what stands there."""
    for i in range(start, stop):
        weight = weights[i] if len(weights) > 1 else weights[0]
        for k in range(len(largest)):
            x = terms[i, k] * weight
            largest[k] = x if x > largest[k] else largest[k]


@compiled
def split(start, stop, terms, weights, scale, out):
    """High and low halves of the terms of rows start..stop, int32 (n, 2, K): to be added up for chosen rows."""
    for i in range(start, stop):
        weight = weights[i] if len(weights) > 1 else weights[0]
        for k in range(len(scale)):
            out[i, 0, k], out[i, 1, k] = halves_of(terms[i, k] * weight * scale[k])


@compiled
def _exact_sums(terms, weights):
    """``exact_sums`` by one worker."""
    n = terms.shape[1]
    largest, halves = np.zeros(n), np.zeros((2, n), dtype=np.int64)
    find_largest(0, len(terms), terms, weights, largest)
    scale = scales_above(largest)
    _add(0, len(terms), terms, weights, scale, halves)
    for k in range(n):
        largest[k] = as_float(halves[0, k], halves[1, k], scale[k])
    return largest


@compiled
def _add(start, stop, terms, weights, scale, halves):
    high, low = halves[0], halves[1]
    for i in range(start, stop):
        weight = weights[i] if len(weights) > 1 else weights[0]
        for k in range(len(scale)):
            one, other = halves_of(terms[i, k] * weight * scale[k])
            high[k] += one
            low[k] += other


@inlined
def halves_of(x):
    """The halves of a number below 2**30, both int32: processors convert to these several at a time."""
    high = np.int32(x)
    return high, np.int32((x - high) * 2.0**_HALF)
