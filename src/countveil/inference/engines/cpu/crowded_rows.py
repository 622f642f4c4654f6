"""Rows that expect more tokens than they have cells: drawn cell by cell.

A heavy document, or a state far from the data (the first sweeps, a weak prior where a row is mostly missing):
tokens would then cost more than a look at every cell, without a bound. Whether a row is crowded depends on the
state and the data, never on the randomness of the draw: both ways are exact, and the same for every split of rows.
"""

from __future__ import annotations

import math

from countveil.inference.engines.cpu.rows import allocate, cell_rate
from countveil.kernels.compiled import compiled, inlined
from countveil.kernels.count_conditional import draw_count
from countveil.kernels.poisson import poisson

#: About how many tokens can be proposed in the time of a visit.
TOKENS_PER_VISIT = 2.5


@inlined
def is_crowded(n_tokens, n_cells, tokens_per_visit):
    """Whether so many expected tokens cost more than visits to so many cells."""
    return n_tokens > tokens_per_visit * (n_cells + 1)


@compiled
def visit_positive(
    stream, d, is_chosen, theta, phi, row_starts, columns, values, row_rho, cell_rho,
    scratch, row_topic, column_topic,
):  # fmt: skip
    """The positive cells of row d in the chosen columns, each by an exact draw; returns the stream."""
    for i in range(row_starts[d], row_starts[d + 1]):
        v = columns[i]
        if is_chosen[v]:
            rho = cell_rho[d, v] if len(cell_rho) else row_rho[d]
            y, stream = draw_count(stream, values[i], cell_rate(d, v, theta, phi), rho)
            if y > 0:
                stream = allocate(stream, d, v, y, theta, phi, scratch, row_topic, column_topic)
    return stream


@compiled
def visit_others(stream, d, chosen, codes, theta, phi, row_rho, cell_rho, scratch, row_topic, column_topic):
    """The observed cells x <= 0 of row d in the chosen columns: y ~ Poisson(alpha*mu); returns the stream."""
    for v in chosen:
        if codes[v] == 0:
            rho = cell_rho[d, v] if len(cell_rho) else row_rho[d]
            y, stream = poisson(stream, math.exp(-rho) * cell_rate(d, v, theta, phi))
            if y > 0:
                stream = allocate(stream, d, v, y, theta, phi, scratch, row_topic, column_topic)
    return stream
