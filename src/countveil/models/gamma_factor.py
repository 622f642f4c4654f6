"""Gamma draws of a factor, row by row, each row from a stream of its own."""

from __future__ import annotations

from countveil.kernels.compiled import compiled
from countveil.kernels.gamma import gamma
from countveil.kernels.philox import open_stream


@compiled
def draw_factor_rows(seed, chain, sweep, step, start, stop, shape, rate, tokens, exposure, out):
    """out[i, k] ~ Gamma(shape + tokens[i, k], rate + exposure[i, k]) for rows start..stop.

    ``exposure`` has one row per row of ``out``, or a single one for all.
    """
    shared = exposure.shape[0] == 1
    for i in range(start, stop):
        stream = open_stream(seed, chain, sweep, step, i)
        for k in range(out.shape[1]):
            e = exposure[0, k] if shared else exposure[i, k]
            out[i, k], stream = gamma(stream, shape + tokens[i, k], rate + e)
