"""Uniform draws on the open interval (0, 1), from 63 random bits."""

from __future__ import annotations

import numpy as np

from countveil.kernels.compiled import inlined
from countveil.kernels.philox import next_word

_ONE = np.uint64(1)
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
