"""Single cells of counts that were released several times: their values, likelihood, and draws of their counts."""

from __future__ import annotations

import numpy as np

from countveil.inference.engines.cpu.rows import MISSING
from countveil.inference.find_cell import find_cell
from countveil.inference.repeated_observations import RepeatedObservations
from countveil.kernels.compiled import compiled
from countveil.kernels.repeated_counts import log_marginal_repeated


def repeated_cells_at(
    data: RepeatedObservations, rows: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(values, rho) of the named cells, each (cells, R): MISSING where a release does not show the cell."""
    values = np.zeros((len(rows), len(data.rho)), dtype=np.int64)
    _fill(
        rows, columns, data.row_starts, data.columns, data.values, data.missing_starts, data.missing_columns,
        data.partial_starts, data.partial_columns, data.partial_shown, values,
    )  # fmt: skip
    return values, np.ascontiguousarray(data.rho[:, rows].T)


@compiled
def _fill(  # type: ignore[no-untyped-def]
    rows, columns, starts, listed, found, missing_starts, missing, partial_starts, partial, shown, values
):
    for i in range(len(rows)):
        d, v = rows[i], columns[i]
        at = find_cell(listed, starts[d], starts[d + 1], v)
        if at >= 0:
            for r in range(values.shape[1]):
                values[i, r] = found[at, r]
            continue
        if find_cell(missing, missing_starts[d], missing_starts[d + 1], v) >= 0:
            for r in range(values.shape[1]):
                values[i, r] = MISSING
            continue
        at = find_cell(partial, partial_starts[d], partial_starts[d + 1], v)
        if at >= 0:
            for r in range(values.shape[1]):
                values[i, r] = 0 if shown[at, r] else MISSING


@compiled
def gather(values, rho, x, noise):  # type: ignore[no-untyped-def]
    """The releases that show a cell, to the front of ``x`` and ``noise``: how many there are."""
    n = 0
    for r in range(len(values)):
        if values[r] != MISSING:
            x[n] = values[r]
            noise[n] = rho[r]
            n += 1
    return n


@compiled
def repeated_log_likelihoods(values, rates, rho, out):  # type: ignore[no-untyped-def]
    """out[i] = log P(values of cell i | its rate), the true count summed out; 0 where no release shows it."""
    x, noise = np.empty(rho.shape[1], dtype=np.int64), np.empty(rho.shape[1])
    for i in range(len(values)):
        n = gather(values[i], rho[i], x, noise)
        out[i] = log_marginal_repeated(x[:n], noise[:n], rates[i]) if n > 0 else 0.0
