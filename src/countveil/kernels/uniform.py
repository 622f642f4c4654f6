"""Uniform draws on the open interval (0, 1), from 64 random bits."""

from __future__ import annotations

from countveil.kernels.compiled import compiled
from countveil.kernels.philox import next_word

_SCALE = 2.0**-64
_BELOW_ONE = 1.0 - 2.0**-53


@compiled
def uniform(stream):
    """``(u, stream)`` with u = (word + 1/2) / 2**64, rounded to nearest but never to 1.

    Never 0 or 1, so logarithms are finite; and resolved to 2**-65 near 0, so an event of probability 1e-12
    tested as ``u < 1e-12`` happens that often to eight digits. Put the rare event at the small end.
    """
    word, stream = next_word(stream)
    return min((word + 0.5) * _SCALE, _BELOW_ONE), stream
