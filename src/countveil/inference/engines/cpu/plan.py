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
VISIT = 70.0
VISIT_PER_TOPIC = 0.4


class Plan(NamedTuple):
    """How the columns are served, and the cells that are visited."""

    proposed: np.ndarray  # int32: columns whose positive cells are reached by tokens; so are their others
    visited: np.ndarray  # int32: columns whose positive cells are visited; their others are reached by tokens
    is_proposed: np.ndarray  # bool (columns)
    cells: VisitedCells  # of the visited columns, and of those visited as a whole, which are in neither list


def make_plan(data: Observations, n_topics: int, integrated: bool = False) -> Plan:
    """Visit cells where they cost less than the tokens that would be proposed on them.

    Positive cells receive tokens/alpha proposals; a column's cells x <= 0 share alpha*tokens, which is more than
    visiting them all where counts are large.
    """
    positive, total, noise, others = np.zeros((4, data.width))
    _column_totals(*data[2:], positive, total, noise, others)
    # Unbiased column totals, at least one token.
    tokens = np.maximum(total - noise, 1.0)
    lowest, highest = (
        (data.cell_rho.min(axis=1), data.cell_rho.max(axis=1)) if len(data.cell_rho) else (data.row_rho,) * 2
    )
    visit = VISIT + VISIT_PER_TOPIC * n_topics
    with np.errstate(over="ignore"):
        visited = positive * visit < tokens * np.exp(highest).mean() * PROPOSE
    whole = visited & (others * visit < tokens * np.exp(-lowest).mean() * PROPOSE)
    # Where cells x <= 0 are integrated out nobody visits them.
    return plan_of(data, visited, whole & (not integrated))


def plan_of(data: Observations, visited: np.ndarray, whole: np.ndarray) -> Plan:
    """The plan with this choice of columns."""
    return Plan(
        np.flatnonzero(~visited).astype(np.int32),
        np.flatnonzero(visited & ~whole).astype(np.int32),
        ~visited,
        list_visited(data, visited, whole),
    )


@compiled
def _column_totals(
    row_starts,
    columns,
    values,
    missing_starts,
    missing_columns,
    row_rho,
    cell_rho,
    positive,
    total,
    noise,
    others,
):
    """Per column: positive cells, sum of their values, noise below zero (1/expm1(rho) a cell), the rest."""
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
            others[v] -= 1
    for v in range(len(noise)):
        noise[v] += everywhere
        others[v] += len(row_starts) - 1 - positive[v]
