"""Where the bits come from, and the health test of that source.

A dead source would let true counts through: bytes that are all 0x80 give the noise 0 at every rate, and any other
constant gives one noise for all cells. So noise is drawn between two health tests, and nothing is released
unless both pass. They are the repetition count test of NIST SP 800-90B (section 4.4: the same sample twice in
a row, here before and after a draw) and, in place of its adaptive proportion test, a count of distinct bytes.

The bytes that are tested are thrown away. A test of the bytes that make the noise would cut from its law
whatever it refuses; like this a refusal has nothing to do with the noise or the counts.

They see a source that is stuck at a constant, gives the same block at every call, runs in a circle of at most
4 bytes, or knows at most 4 different bytes, if it is so when a draw begins or when it ends. They cannot see a
source that is dead for a part of one draw only, a longer circle, a counter, a generator whose state somebody
knows, or one that a copied virtual machine shares with its copy: such bytes look fair.
"""

from __future__ import annotations

import os
from collections.abc import Callable

Source = Callable[[int], bytes]  # so many fresh, independent, fair bytes

_SAMPLE = 16  # bytes; two fair samples agree with chance 2**-128
_FEW = 4  # a fair sample has so few distinct bytes with chance below C(256, 4) * (4/256)**16 < 2**-68


def system_bits(count: int) -> bytes:
    """``count`` bytes from the operating system's cryptographic generator.

    Nothing is buffered here or by any caller: every byte is asked for by the draw that uses it, so a forked
    or copied process has no leftover bytes to use a second time.
    """
    return os.urandom(count)


def check_source(source: Source, earlier: bytes = b"") -> bytes:
    """The health test: refuse a source that is plainly dead. Gives its sample, for the next test to compare with.

    >>> sample = check_source(system_bits)
    >>> check_source(bytes)
    Traceback (most recent call last):
    ValueError: bits: expected fresh ones from the system, got a dead source; nothing was released
    """
    sample = source(_SAMPLE)
    if sample == earlier or len(set(sample)) <= _FEW:
        raise dead_source()
    return sample


def dead_source() -> ValueError:
    """What to raise where a source cannot be fair."""
    return ValueError("bits: expected fresh ones from the system, got a dead source; nothing was released")
