"""Which columns to visit and which to reach by proposed tokens.

A positive cell can be drawn in two exact ways: visited, at the cost of its rate (K multiplications), or reached by
tokens proposed at rate mu/alpha, which cost nothing where none falls. Visiting pays for columns with many expected
tokens per positive cell: on real text a few columns hold most of the tokens. The choice depends on the data alone,
never on the randomness of a draw nor on measured time, so draws reproduce.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.inference.engines.cpu.visited_cells import VisitedCells, list_visited
from countveil.inference.observations import Observations
from countveil.kernels.compiled import compiled

# Nanoseconds, roughly, on current processors: only their ratio matters, and only for speed.
PROPOSE = 40.0
VISIT = 60.0
VISIT_PER_TOPIC = 1.0


class Plan(NamedTuple):
    """Columns reached by tokens, columns visited, and the positive cells of the visited ones."""

    proposed: np.ndarray  # int32: columns
    visited: np.ndarray  # int32: columns
    cells: VisitedCells


def make_plan(data: Observations, n_topics: int) -> Plan:
    """Visit a column where its positive cells cost less than the tokens that would be proposed on it."""
    positive, total, noise = np.zeros(data.width), np.zeros(data.width), np.zeros(data.width)
    _column_totals(*data[2:], positive, total, noise)
    # Unbiased column totals, at least one token: 1/alpha tokens are proposed for each.
    tokens = np.maximum(total - noise, 1.0)
    rho = data.cell_rho.max(axis=1) if len(data.cell_rho) else data.row_rho
    with np.errstate(over="ignore"):
        proposals = tokens * np.exp(rho).mean()
    visited = positive * (VISIT + VISIT_PER_TOPIC * n_topics) < proposals * PROPOSE
    return Plan(
        np.flatnonzero(~visited).astype(np.int32),
        np.flatnonzero(visited).astype(np.int32),
        list_visited(data, visited),
    )


@compiled
def _column_totals(
    row_starts, columns, values, missing_starts, missing_columns, row_rho, cell_rho, positive, total, noise
):
    """Per column: positive cells, sum of their values, and the noise expected below zero, 1/expm1(rho) a cell."""
    by_cell = len(cell_rho) > 0
    everywhere = 0.0
    for d in range(len(row_starts) - 1):
        each = 0.0 if by_cell else 1.0 / np.expm1(row_rho[d])
        everywhere += each
        if by_cell:
            for v in range(len(noise)):
                noise[v] += 1.0 / np.expm1(cell_rho[d, v])
        for i in range(row_starts[d], row_starts[d + 1]):
            v = columns[i]
            positive[v] += 1
            total[v] += values[i]
            noise[v] -= 1.0 / np.expm1(cell_rho[d, v]) if by_cell else each
        for i in range(missing_starts[d], missing_starts[d + 1]):
            v = missing_columns[i]
            noise[v] -= 1.0 / np.expm1(cell_rho[d, v]) if by_cell else each
    for v in range(len(noise)):
        noise[v] += everywhere
