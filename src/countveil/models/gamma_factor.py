"""Gamma draws of a factor, row by row, each row from a stream of its own."""

from __future__ import annotations

import numpy as np

from countveil.kernels.compiled import compiled
from countveil.kernels.gamma import SMALLEST, gamma_at, small_gamma_at
from countveil.kernels.philox import open_stream
from countveil.kernels.uniforms import fill_word_pairs, skip_blocks

# Entries that are drawn together, in whole rows.
_CHUNK = 1024


@compiled
def draw_factor_rows(seed, chain, sweep, step, first, start, stop, shape, rate, tokens, exposure, out):
    """out[i, k] ~ Gamma(shape + tokens[i, k], rate + exposure[i, k]) for rows start..stop.

    ``exposure`` has one row per row of ``out``, or a single one for all. Row i has the stream of row ``first`` + i.
    Most entries of a sparse factor have no token and a shape below 1: those are drawn in one loop over the entries
    of many rows (``small_gamma_at``), and the others one by one, from the same words.
    """
    shared = exposure.shape[0] == 1
    n = out.shape[1]
    n_rows = max(1, _CHUNK // max(n, 1))
    one, two = np.empty(n_rows * n, dtype=np.uint64), np.empty(n_rows * n, dtype=np.uint64)
    shapes, drawn = np.empty(n_rows * n), np.empty(n_rows * n)
    for begin in range(start, stop, n_rows):
        end = min(begin + n_rows, stop)
        for i in range(begin, end):
            at = (i - begin) * n
            stream = open_stream(seed, chain, sweep, step, first + i)
            fill_word_pairs(stream, one[at : at + n], two[at : at + n])
            for k in range(n):
                shapes[at + k] = shape + tokens[i, k]
        for e in range((end - begin) * n):
            drawn[e] = small_gamma_at(one[e], two[e], shapes[e])
        for i in range(begin, end):
            at = (i - begin) * n
            stream = skip_blocks(open_stream(seed, chain, sweep, step, first + i), n)
            for k in range(n):
                g = drawn[at + k]
                r = rate + (exposure[0, k] if shared else exposure[i, k])
                if g > 0.0:
                    out[i, k] = max(g / r, SMALLEST)
                else:
                    out[i, k], stream = gamma_at(one[at + k], two[at + k], stream, shapes[at + k], r)
