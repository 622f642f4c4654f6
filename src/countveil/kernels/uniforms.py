"""Many uniforms at once: the same numbers as one by one, in a quarter of the time.

Blocks of Philox are independent of each other, so the compiler works on several in one vector, which it cannot
where draws wait for each other.
"""

from __future__ import annotations

import numpy as np

from countveil.kernels.compiled import compiled, inlined
from countveil.kernels.philox import Stream, open_stream, philox_block
from countveil.kernels.uniform import from_word, uniform

_WORD = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ZERO = np.uint64(0)
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
    stream = Stream(
        stream.key0, stream.key1, (stream.block + np.uint64(pairs)) & _WORD,
        stream.counter1, stream.counter2, stream.counter3, stream.spare, stream.has_spare,
    )  # fmt: skip
    if done + 2 * pairs < n:
        out[n - 1], stream = uniform(stream)
    return stream


@inlined
def _fill_pairs(stream, out):
    key0, key1, block = stream.key0, stream.key1, stream.block
    counter1, counter2, counter3 = stream.counter1, stream.counter2, stream.counter3
    for pair in range(np.uint64(len(out)) // _TWO):
        a, b, c, d = philox_block(key0, key1, (block + pair) & _WORD, counter1, counter2, counter3)
        out[_TWO * pair] = from_word((a << _32) | b)
        out[_TWO * pair + np.uint64(1)] = from_word((c << _32) | d)


@compiled
def fill_first_uniforms(seed, chain, sweep, step, rows, out):
    """out[i]: the first uniform of the stream of (seed, chain, sweep, step, rows[i])."""
    for i in range(np.uint64(len(rows))):
        stream = open_stream(seed, chain, sweep, step, rows[i])
        a, b, _, _ = philox_block(
            stream.key0, stream.key1, stream.block, stream.counter1, stream.counter2, stream.counter3
        )
        out[i] = from_word((a << _32) | b)
