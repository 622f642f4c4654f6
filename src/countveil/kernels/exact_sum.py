"""Sums over rows that do not depend on the order of their terms, because they are sums of integers.

With 2**E above the largest term (a maximum, exact in any order), each term x >= 0 is rounded down to a multiple of
2**(E-60), split into a high and a low half of 30 bits, and added as int64: exact to 2**33 terms. So a draw that
depends on such a sum has the same bits for every number of threads or shards, and every order of rows. Against a
sum in floating point nothing is lost: the error of a term is below 2**-59 of the largest one.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers

_HALF = 30
_LOW = np.int64(2**_HALF - 1)
# The highest that is finite: terms as small as SMALLEST, 2**-1022, still count where all are small.
_HIGHEST_POWER = 1023


def exact_sums(terms: np.ndarray, workers: Workers) -> np.ndarray:
    """Sums of (n, K) terms over n.

    >>> exact_sums(np.array([[0.1, 1e9], [0.2, 1e-9], [0.3, 0.0]]), Workers(1))
    array([6.e-01, 1.e+09])
    """
    if workers.threads == 1 or len(terms) <= workers.SMALL:
        return _exact_sums(terms)
    exponents = exponents_of(terms, workers)
    scale, parts = scales(exponents), np.zeros((workers.threads, 2, terms.shape[1]), dtype=np.int64)
    workers.run_with_worker(
        len(terms), lambda worker, start, stop: _add(start, stop, terms, scale, parts[worker])
    )
    return as_floats(parts.sum(axis=0), exponents)


def exponents_of(terms: np.ndarray, workers: Workers) -> np.ndarray:
    """For every column of (n, K) terms the smallest E with 2**E above all of them, int64 (K)."""
    parts = np.zeros((workers.threads, terms.shape[1]))
    workers.run_with_worker(
        len(terms), lambda worker, start, stop: _find_largest(start, stop, terms, parts[worker])
    )
    return np.frexp(parts.max(axis=0))[1].astype(np.int64)


def scales(exponents: np.ndarray) -> np.ndarray:
    """What terms are multiplied by to become integers below 2**60."""
    return np.ldexp(1.0, np.minimum(2 * _HALF - exponents, _HIGHEST_POWER))


def as_floats(halves: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Sums of halves (2, ..., K), high and low, as numbers."""
    return (halves[0] * math.ldexp(1.0, _HALF) + halves[1]) / scales(exponents)


def halves_of(terms: np.ndarray, exponents: np.ndarray, workers: Workers) -> np.ndarray:
    """High and low halves of all (n, K) terms, int32 (n, 2, K): to be added in lists of chosen rows."""
    scale, out = scales(exponents), np.empty((len(terms), 2, terms.shape[1]), dtype=np.int32)
    workers.run(len(terms), lambda start, stop: _split(start, stop, terms, scale, out))
    return out


@compiled
def _exact_sums(terms):
    """``exact_sums`` by one worker."""
    n = terms.shape[1]
    largest, scale, halves = np.zeros(n), np.empty(n), np.zeros((2, n), dtype=np.int64)
    _find_largest(0, len(terms), terms, largest)
    for k in range(n):
        scale[k] = math.ldexp(1.0, min(2 * _HALF - math.frexp(largest[k])[1], _HIGHEST_POWER))
    _add(0, len(terms), terms, scale, halves)
    for k in range(n):
        largest[k] = (halves[0, k] * 2.0**_HALF + halves[1, k]) / scale[k]
    return largest


@compiled
def _find_largest(start, stop, terms, largest):
    for i in range(start, stop):
        for k in range(len(largest)):
            x = terms[i, k]
            largest[k] = x if x > largest[k] else largest[k]


@compiled
def _add(start, stop, terms, scale, halves):
    high, low = halves[0], halves[1]
    for i in range(start, stop):
        for k in range(len(scale)):
            q = np.int64(terms[i, k] * scale[k])
            high[k] += q >> _HALF
            low[k] += q & _LOW


@compiled
def _split(start, stop, terms, scale, out):
    for i in range(start, stop):
        for k in range(len(scale)):
            q = np.int64(terms[i, k] * scale[k])
            out[i, 0, k] = q >> _HALF
            out[i, 1, k] = q & _LOW
