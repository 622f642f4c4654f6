"""Rates of a state: of single cells, of blocks of rows, in total, for any model."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from countveil.models.count_model import CountModel, State

#: Cells of a block of rates.
CELLS_PER_BLOCK = 2**20


def row_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices of rows of about CELLS_PER_BLOCK cells."""
    size = max(1, CELLS_PER_BLOCK // max(math.prod(shape[1:]), 1))
    for start in range(0, shape[0], size):
        yield slice(start, min(start + size, shape[0]))


def checked_rates(model: CountModel, state: State, shape: tuple[int, ...], rows: slice) -> np.ndarray:
    """``model.rates`` of these rows as a C-ordered (rows, width) array, or an error about the model."""
    expected = (rows.stop - rows.start, *shape[1:])
    rates = np.asarray(model.rates(state, rows), dtype=np.float64)
    if rates.shape != expected:
        raise ValueError(f"model.rates: expected an array of shape {expected}, got {rates.shape}")
    if not (np.isfinite(rates).all() and (rates >= 0).all()):
        raise ValueError("model.rates: expected finite rates >= 0, got others")
    return np.ascontiguousarray(rates).reshape(expected[0], -1)


def rates_at(
    model: CountModel, state: State, shape: tuple[int, ...], rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Rates of single cells, columns counted over all axes but the first."""
    if hasattr(model, "rates_at"):
        return model.rates_at(state, rows, columns)
    out = np.empty(len(rows))
    for block in row_blocks(shape):
        here = (rows >= block.start) & (rows < block.stop)
        if here.any():
            out[here] = checked_rates(model, state, shape, block)[rows[here] - block.start, columns[here]]
    return out


def total_rate(model: CountModel, state: State, shape: tuple[int, ...]) -> float:
    """The sum of all rates."""
    if hasattr(model, "total_rate"):
        return model.total_rate(state)
    return math.fsum(float(checked_rates(model, state, shape, block).sum()) for block in row_blocks(shape))
