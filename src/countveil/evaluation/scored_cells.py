"""Rates beside the counts they predict, block of rows after block of rows.

A 10,000 x 10,000 matrix of rates is 800 MB, a hundred draws of it 80 GB: scores must not need them in one
piece. So rates come as an array or as (rows, block) pairs, counts may be sparse, and one block at a time is
dense.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from countveil.counts.true_counts import TrueCounts, read_true_counts

# 16 MB of doubles: a large array is cut so that temporary copies stay small.
CELLS_PER_BLOCK = 1 << 21


def scored_cells(
    rates: Any, counts: Any, cells: Any, *, name: str, n_draws_axes: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rates, counts) of the chosen cells, block by block: shapes (..., n) and (n,).

    The ``n_draws_axes`` leading axes of the rates (0 or 1) stand before the rows.
    """
    truth = _truth(counts)
    chosen = _chosen(cells, truth.shape)
    if isinstance(rates, np.ndarray) or hasattr(rates, "__array__"):
        pairs = _cut(np.asarray(rates), truth.shape, name, n_draws_axes)
    elif isinstance(rates, Iterable) and not sparse.issparse(rates):
        pairs = _checked_pairs(rates, truth.shape, name, n_draws_axes)
    else:
        raise TypeError(
            f"{name}: expected an array or (slice of rows, block) pairs, got {type(rates).__name__}"
        )
    for start, stop, block in pairs:
        values = block.reshape(*block.shape[:n_draws_axes], -1)
        y = truth.rows(start, stop).reshape(-1)
        if chosen is not None:
            here = _dense_rows(chosen, start, stop)
            values, y = values[..., here], y[here]
        values = values.astype(np.float64, copy=False)
        _check_values(values, name)
        yield values, y


def _truth(counts: Any) -> TrueCounts:
    if isinstance(counts, np.ma.MaskedArray):
        raise TypeError(
            "counts: expected an array without a mask, got a masked array; choose cells by `cells`"
        )
    return read_true_counts(counts)


def _chosen(cells: Any, shape: tuple[int, ...]) -> Any:
    """The mask, or None for all cells; sparse masks by rows."""
    if cells is None:
        return None
    mask = sparse.csr_array(cells) if sparse.issparse(cells) else np.asarray(cells)
    if mask.dtype != bool:
        raise TypeError(f"cells: expected booleans, got {mask.dtype}")
    if mask.shape != shape:
        raise ValueError(f"cells: expected the shape of counts, {shape}, got {mask.shape}")
    if not mask.sum():
        raise ValueError("cells: expected at least one chosen cell, got none")
    return mask


def _dense_rows(mask: Any, start: int, stop: int) -> np.ndarray:
    rows = mask[start:stop]
    return (rows.toarray() if sparse.issparse(rows) else rows).reshape(-1)


def _cut(
    rates: np.ndarray, shape: tuple[int, ...], name: str, n_draws_axes: int
) -> Iterator[tuple[int, int, np.ndarray]]:
    """An array, in blocks of rows."""
    _check_block(rates, shape, name, n_draws_axes)
    step = max(1, CELLS_PER_BLOCK // (rates.size // shape[0]))
    for start in range(0, shape[0], step):
        stop = min(start + step, shape[0])
        yield start, stop, rates[(slice(None),) * n_draws_axes + (slice(start, stop),)]


def _checked_pairs(
    pairs: Iterable[Any], shape: tuple[int, ...], name: str, n_draws_axes: int
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Pairs in any order that together hold every row exactly once."""
    seen = np.zeros(shape[0], dtype=bool)
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], slice)):
            raise TypeError(f"{name}: expected (slice of rows, block) pairs, got {type(pair).__name__}")
        start, stop, step = pair[0].indices(shape[0])
        if step != 1 or start >= stop or (pair[0].stop is not None and pair[0].stop > shape[0]):
            raise ValueError(f"{name}: expected slices of consecutive rows below {shape[0]}, got {pair[0]}")
        if seen[start:stop].any():
            raise ValueError(f"{name}: expected every row once, got rows of {pair[0]} twice")
        seen[start:stop] = True
        block = np.asarray(pair[1])
        _check_block(block, (stop - start, *shape[1:]), name, n_draws_axes)
        yield start, stop, block
    if not seen.all():
        raise ValueError(f"{name}: expected all {shape[0]} rows, got {int(seen.sum())}")


def _check_block(block: np.ndarray, shape: tuple[int, ...], name: str, n_draws_axes: int) -> None:
    if block.dtype.kind not in "iuf":
        raise TypeError(f"{name}: expected numbers, got {block.dtype}")
    draws, rest = block.shape[:n_draws_axes], block.shape[n_draws_axes:]
    if rest != shape or math.prod(draws) == 0:
        wanted = ", ".join(["draws"] * n_draws_axes + [str(n) for n in shape])
        raise ValueError(f"{name}: expected shape ({wanted}), got {block.shape}")


def _check_values(values: np.ndarray, name: str) -> None:
    # min() and max() see NaN too, and need no temporary array.
    if values.size and not (values.min() >= 0 and values.max() < np.inf):
        raise ValueError(f"{name}: expected finite rates of at least 0, got negative, infinite or NaN ones")
