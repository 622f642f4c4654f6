"""Philox4x32-10: the counter-based random stream behind every simulated draw.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). A block of four 32-bit
words is a keyed bijection of a 128-bit counter, so any position of any stream is reached at once and draws do
not depend on the number of threads, shards or restarts.

The key is the seed (64 bits). The counter packs, from its most significant word down:

    ========  =====  ===================================================
    field     bits   meaning
    ========  =====  ===================================================
    sweep     32     sweep of the chain
    chain     12     chain
    step      8      which draw within a sweep (see the engine's list)
    row       44     row (or other unit of work) the draw belongs to
    block     32     block number within that stream, counted by itself
    ========  =====  ===================================================

A ``Stream`` is an immutable value. Every sampler takes one and returns ``(draw, stream)``; the caller goes on
with the returned one. Words are 32-bit values held in uint64: products fit, and the same source means the
same in compiled code, on a device, and in plain Python.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.runtime.compiled import inlined

CHAIN_BITS = 12
SWEEP_BITS = 32
STEP_BITS = 8
ROW_BITS = 44
MAX_CHAINS = 2**CHAIN_BITS
MAX_SWEEPS = 2**SWEEP_BITS

_WORD = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint64(0x9E3779B9)
_WEYL_1 = np.uint64(0xBB67AE85)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_STEP_SHIFT = np.uint64(ROW_BITS - 32)
_CHAIN_SHIFT = np.uint64(ROW_BITS - 32 + STEP_BITS)


class SweepKey(NamedTuple):
    """Seed, chain and sweep: the same key gives the same draws, however the work is split."""

    seed: np.uint64
    chain: int
    sweep: int
    #: The number of the first row here among all rows: streams of rows are named by their number there.
    first_row: int = 0


class Stream(NamedTuple):
    """Key, counter, and the half of the last block that has not been used yet."""

    key0: np.uint64
    key1: np.uint64
    block: np.uint64
    counter1: np.uint64
    counter2: np.uint64
    counter3: np.uint64
    spare: np.uint64
    has_spare: np.uint64


@inlined
def philox_block(k0, k1, c0, c1, c2, c3):
    """Ten rounds of Philox4x32 over the counter words ``c0..c3`` with the key words ``k0, k1``."""
    for _ in range(10):
        p0 = _MULTIPLIER_0 * c0
        p1 = _MULTIPLIER_1 * c2
        c0 = (p1 >> _32) ^ c1 ^ k0
        c1 = p1 & _WORD
        c2 = (p0 >> _32) ^ c3 ^ k1
        c3 = p0 & _WORD
        k0 = (k0 + _WEYL_0) & _WORD
        k1 = (k1 + _WEYL_1) & _WORD
    return c0, c1, c2, c3


@inlined
def open_stream(seed, chain, sweep, step, row):
    """The stream of one (seed, chain, sweep, step, row). Widths are the caller's duty: ``check_stream``.

    Open it inside compiled code: numba hands a uint64 back to Python as an int, and takes that for an int64.
    """
    seed = np.uint64(seed)
    row = np.uint64(row)
    packed = (row >> _32) | (np.uint64(step) << _STEP_SHIFT) | (np.uint64(chain) << _CHAIN_SHIFT)
    return Stream(
        seed & _WORD, seed >> _32, _ZERO, row & _WORD, packed, np.uint64(sweep) & _WORD, _ZERO, _ZERO
    )


def check_stream(seed: int, chain: int = 0, sweep: int = 0, step: int = 0, row: int = 0) -> None:
    """Raise ``ValueError`` if a field does not fit its width (two streams would silently be one)."""
    fields = (
        ("seed", seed, 64),
        ("chain", chain, CHAIN_BITS),
        ("sweep", sweep, SWEEP_BITS),
        ("step", step, STEP_BITS),
        ("row", row, ROW_BITS),
    )
    for name, value, bits in fields:
        if not 0 <= value < 2**bits:
            raise ValueError(f"{name}: expected an integer from 0 to 2**{bits} - 1, got {value}")


@inlined
def next_word(stream):
    """64 fresh random bits: ``(uint64, stream)``. A block serves two calls."""
    if stream.has_spare != _ZERO:
        return stream.spare, Stream(
            stream.key0, stream.key1, stream.block,
            stream.counter1, stream.counter2, stream.counter3, _ZERO, _ZERO,
        )  # fmt: skip
    a, b, c, d = philox_block(
        stream.key0, stream.key1, stream.block, stream.counter1, stream.counter2, stream.counter3
    )
    return (a << _32) | b, Stream(
        stream.key0, stream.key1, (stream.block + _ONE) & _WORD,
        stream.counter1, stream.counter2, stream.counter3, (c << _32) | d, _ONE,
    )  # fmt: skip
