"""A factor on two axes, drawn row after row.

mu_ijt = sum_cd f_ic f_jd w_tcd is linear in row r of f on the cells (r, j, t) and (i, r, t) with i, j != r. Given
the tokens and all other rows, f_rc is Gamma(shape + its tokens on both axes, rate + sum_jt sum_d f_jd (e_rjt w_tcd
+ e_jrt w_tdc)), e = 1 where observed. The other rows are the new ones before r and the old ones after it: drawing
all rows at once given the old ones would not leave the posterior invariant.

On an observed cell (r, r, t) the row meets itself. Its entries are drawn one after the other then, from a gamma
density with a quadratic term.
"""

from __future__ import annotations

import numpy as np

from countveil.kernels import steps
from countveil.kernels.compiled import compiled
from countveil.kernels.gamma import gamma
from countveil.kernels.philox import open_stream
from countveil.models.quadratic_gamma import quadratic_gamma


@compiled
def draw_tied_rows(  # type: ignore[no-untyped-def]
    seed, chain, sweep, first_row, shape, rate, tokens, further, weights, observed,
    out_starts, out_other, out_t, in_starts, in_other, in_t, self_starts, self_t, values,
):  # fmt: skip
    """Draw ``values`` (n, C) in place, given w (T, C, C) and the cells as ``PairCells`` has them.

    ``further`` (n, C) is exposure from elsewhere, added to the rates: of arrays in which the factor stands once.
    """
    n, size = values.shape
    sign = 1.0 if observed else -1.0
    total = np.zeros((size, size))
    if not observed:
        for t in range(len(weights)):
            total += weights[t]
    below = np.zeros((n + 1, size))  # sums of the rows that have not been drawn yet
    for r in range(n - 1, -1, -1):
        for c in range(size):
            below[r, c] = below[r + 1, c] + values[r, c]
    above = np.zeros(size)
    linear = np.empty(size)
    others = np.empty(size)
    own = np.empty((size, size))
    for r in range(n):
        stream = open_stream(seed, chain, sweep, steps.TIED_FACTOR, first_row + r)
        linear[:] = 0.0
        if not observed:
            for c in range(size):
                others[c] = above[c] + below[r + 1, c]
            for c in range(size):
                for d in range(size):
                    linear[c] += (total[c, d] + total[d, c]) * others[d]
        _add_listed(r, out_starts, out_other, out_t, weights, False, sign, values, others, linear)
        _add_listed(r, in_starts, in_other, in_t, weights, True, sign, values, others, linear)
        n_self = self_starts[r + 1] - self_starts[r]
        if not observed:
            n_self = len(weights) - n_self
        if n_self == 0:
            for c in range(size):
                rest = further[r, c] + max(linear[c], 0.0)
                values[r, c], stream = gamma(stream, shape + tokens[r, c], rate + rest)
        else:
            own[:] = total
            for i in range(self_starts[r], self_starts[r + 1]):
                own += sign * weights[self_t[i]]
            for c in range(size):
                met = further[r, c] + max(linear[c], 0.0)
                for d in range(size):
                    if d != c:
                        met += values[r, d] * max(own[c, d] + own[d, c], 0.0)
                values[r, c], stream = quadratic_gamma(
                    stream, shape + tokens[r, c], rate + met, max(own[c, c], 0.0)
                )
        for c in range(size):
            above[c] += values[r, c]


@compiled
def _add_listed(r, starts, other, at, weights, turned, sign, values, together, linear):  # type: ignore[no-untyped-def]
    """Add sign * sum over the listed cells of row r: cells of one t share their multiplication by w_t."""
    size = len(linear)
    i, stop = starts[r], starts[r + 1]
    while i < stop:
        t = at[i]
        together[:] = 0.0
        while i < stop and at[i] == t:
            for d in range(size):
                together[d] += values[other[i], d]
            i += 1
        for c in range(size):
            for d in range(size):
                linear[c] += sign * together[d] * (weights[t, d, c] if turned else weights[t, c, d])
