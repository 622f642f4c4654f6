"""From listed cells back to dense arrays."""

from __future__ import annotations

import numpy as np

from countveil.counts.contents import Cells, Contents, Places, n_rows_and_width, row_indices


def dense_rows(contents: Contents, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows ``start`` to ``stop``: clamped values, missing cells 0, and which cells are observed."""
    n_rows, width = n_rows_and_width(contents.shape)
    if not 0 <= start <= stop <= n_rows:
        raise ValueError(f"start, stop: expected 0 <= start <= stop <= {n_rows}, got {start} and {stop}")
    shape = (stop - start, *contents.shape[1:])
    values = np.zeros(shape, dtype=np.int64)
    _put(values, contents.positive, start, stop, width)
    observed = np.ones(shape, dtype=bool)
    if contents.missing is not None:
        observed.reshape(-1)[_flat(contents.missing, start, stop, width)] = False
    return values, observed


def to_dense(contents: Contents, missing: float | None) -> np.ndarray:
    """All values, signed where negatives were kept; missing cells masked, or filled with ``missing``."""
    n_rows, width = n_rows_and_width(contents.shape)
    values, observed = dense_rows(contents, 0, n_rows)
    if contents.negative is not None:
        _put(values, contents.negative, 0, n_rows, width)
        flat = _flat(contents.negative, 0, n_rows, width)
        values.reshape(-1)[flat] *= -1
    if contents.missing is None:
        return values
    if missing is None:
        return np.ma.MaskedArray(values, mask=~observed)
    values = values.astype(np.result_type(np.int64, np.asarray(missing).dtype), copy=False)
    values[~observed] = missing
    return values


def _put(values: np.ndarray, cells: Cells, start: int, stop: int, width: int) -> None:
    listed = slice(cells.row_starts[start], cells.row_starts[stop])
    values.reshape(-1)[_flat(cells, start, stop, width)] = cells.values[listed]


def _flat(cells: Cells | Places, start: int, stop: int, width: int) -> np.ndarray:
    listed = slice(cells.row_starts[start], cells.row_starts[stop])
    return (row_indices(cells.row_starts, start, stop) - start) * width + cells.columns[listed]
