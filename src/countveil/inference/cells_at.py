"""Single cells of the data: their values and noise, found by bisection in the rows."""

from __future__ import annotations

import numpy as np

from countveil.inference.engines.cpu.rows import MISSING
from countveil.inference.find_cell import find_cell
from countveil.inference.observations import Observations
from countveil.inference.repeated_cells import repeated_cells_at
from countveil.inference.repeated_observations import RepeatedObservations
from countveil.kernels.compiled import compiled


def cells_at(
    data: Observations | RepeatedObservations, rows: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(values, rho) of the named cells: MISSING for a missing one, rho = inf for plain counts.

    Of counts that were released several times each is (cells, releases), see ``repeated_cells_at``.
    """
    if isinstance(data, RepeatedObservations):
        return repeated_cells_at(data, rows, columns)
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


def seen(values: np.ndarray) -> np.ndarray:
    """Which cells are observed, by the values that ``cells_at`` gives."""
    observed = values != MISSING
    return observed if values.ndim == 1 else observed.any(axis=1)


@compiled
def _fill_values(rows, columns, starts, listed, values, missing_starts, missing, out):
    for i in range(len(rows)):
        d, v = rows[i], columns[i]
        at = find_cell(listed, starts[d], starts[d + 1], v)
        if at >= 0:
            out[i] = values[at]
        else:
            out[i] = MISSING if find_cell(missing, missing_starts[d], missing_starts[d + 1], v) >= 0 else 0
