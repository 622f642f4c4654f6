"""Many uniforms at once: the same numbers as one by one, in a quarter of the time.

Blocks of Philox are independent of each other, so the compiler works on several in one vector, which it cannot
where draws wait for each other.
"""

from __future__ import annotations

import numpy as np

from countveil.kernels.compiled import compiled, inlined
from countveil.kernels.elementary import log_of
from countveil.kernels.philox import Stream, open_stream, philox_block
from countveil.kernels.uniform import from_word, uniform

_WORD = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)


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
