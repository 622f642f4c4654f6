"""Uniform draws on the open interval (0, 1) from 63 random bits, and exponential draws of mean 1.

Many at once (``fill_...``): the same numbers as one by one, in a quarter of the time. Blocks of Philox are
independent of each other, so the compiler works on several in one vector, which it cannot where draws wait for
each other.
"""

from __future__ import annotations

import math

import numpy as np

from countveil.kernels.elementary import log_of
from countveil.kernels.philox import Stream, next_word, open_stream, philox_block
from countveil.runtime.compiled import compiled, inlined

_WORD = np.uint64(0xFFFFFFFF)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_32 = np.uint64(32)
_SCALE = 2.0**-63
_BELOW_ONE = 1.0 - 2.0**-53


@inlined
def uniform(stream):
    """``(u, stream)`` with u = (w + 1/2) / 2**63, w of 63 bits, rounded to nearest but never to 1.

    Never 0 or 1, so logarithms are finite; and resolved to 2**-63 near 0, so an event of probability 1e-12
    tested as ``u < 1e-12`` happens that often to eight digits. Put the rare event at the small end.
    """
    word, stream = next_word(stream)
    return from_word(word), stream


@inlined
def from_word(word):
    """The uniform of 64 random bits."""
    # 63 bits, because processors convert signed integers in one instruction and unsigned ones with a branch.
    u = (np.int64(word >> _ONE) + 0.5) * _SCALE
    return u if u < 1.0 else _BELOW_ONE


@inlined
def exponential(stream):
    """``(e, stream)``, P(e > x) = exp(-x), by inversion: e = -log(u)."""
    u, stream = uniform(stream)
    return -math.log(u), stream


@compiled
def fill_uniforms(stream, out, n):
    """Write n draws of ``uniform(stream)`` to ``out``, and return the stream after them."""
    done = 0
    if n > 0 and stream.has_spare != _ZERO:
        out[0], stream = uniform(stream)
        done = 1
    pairs = (n - done) // 2
    _fill_pairs(stream, out[done : done + 2 * pairs])
    stream = skip_blocks(stream, pairs)
    if done + 2 * pairs < n:
        out[n - 1], stream = uniform(stream)
    return stream


@compiled
def fill_exponentials(stream, out, n):
    """Write n exponential variables of mean 1 to ``out``: the draws of ``exponential``, but for the last digit."""
    stream = fill_uniforms(stream, out, n)
    for i in range(np.uint64(n)):
        out[i] = -log_of(out[i])
    return stream


@inlined
def _fill_pairs(stream, out):
    key0, key1, block = stream.key0, stream.key1, stream.block
    counter1, counter2, counter3 = stream.counter1, stream.counter2, stream.counter3
    for pair in range(np.uint64(len(out)) // _TWO):
        a, b, c, d = philox_block(key0, key1, (block + pair) & _WORD, counter1, counter2, counter3)
        out[_TWO * pair] = from_word((a << _32) | b)
        out[_TWO * pair + _ONE] = from_word((c << _32) | d)


@compiled
def fill_word_pairs(stream, first, second):
    """first[i], second[i]: the next two words of a stream that has just been opened, block after block."""
    key0, key1, block = stream.key0, stream.key1, stream.block
    counter1, counter2, counter3 = stream.counter1, stream.counter2, stream.counter3
    for pair in range(np.uint64(len(first))):
        a, b, c, d = philox_block(key0, key1, (block + pair) & _WORD, counter1, counter2, counter3)
        first[pair] = (a << _32) | b
        second[pair] = (c << _32) | d


@inlined
def skip_blocks(stream, blocks):
    """The stream after so many blocks more."""
    return Stream(
        stream.key0, stream.key1, (stream.block + np.uint64(blocks)) & _WORD,
        stream.counter1, stream.counter2, stream.counter3, stream.spare, stream.has_spare,
    )  # fmt: skip


@compiled
def fill_first_uniforms(seed, chain, sweep, step, rows, first, second):
    """The first two uniforms, a block, of the stream of (seed, chain, sweep, step, rows[i])."""
    for i in range(np.uint64(len(rows))):
        stream = open_stream(seed, chain, sweep, step, rows[i])
        a, b, c, d = philox_block(
            stream.key0, stream.key1, stream.block, stream.counter1, stream.counter2, stream.counter3
        )
        first[i] = from_word((a << _32) | b)
        second[i] = from_word((c << _32) | d)
