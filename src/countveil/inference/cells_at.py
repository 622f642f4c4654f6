"""Single cells of the data: their values and noise, found by bisection in the rows."""

from __future__ import annotations

import numpy as np

from countveil.inference.engines.cpu.rows import MISSING
from countveil.inference.observations import Observations
from countveil.kernels.compiled import compiled


def cells_at(data: Observations, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(values, rho) of the named cells: MISSING for a missing one, rho = inf for plain counts."""
    values = np.empty(len(rows), dtype=np.int64)
    _fill_values(
        rows, columns, data.row_starts, data.columns, data.values, data.missing_starts, data.missing_columns,
        values,
    )  # fmt: skip
    if not data.noisy:
        return values, np.full(len(rows), np.inf)
    if len(data.cell_rho):
        return values, data.cell_rho[rows, columns]
    return values, data.row_rho[rows]


@compiled
def _fill_values(rows, columns, starts, listed, values, missing_starts, missing, out):
    for i in range(len(rows)):
        d, v = rows[i], columns[i]
        at = _find(listed, starts[d], starts[d + 1], v)
        if at >= 0:
            out[i] = values[at]
        else:
            out[i] = MISSING if _find(missing, missing_starts[d], missing_starts[d + 1], v) >= 0 else 0


@compiled
def _find(listed, low, high, wanted):
    """Position of ``wanted`` in the increasing part low..high of ``listed``, or -1."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if listed[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and listed[low] == wanted else -1
