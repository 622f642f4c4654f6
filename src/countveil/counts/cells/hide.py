"""Making cells missing after the fact: held-out cells, diagonals, blocks that must not be used."""

from __future__ import annotations

from typing import Any

import numpy as np

from countveil.counts.cells.clamp import RhoLevels
from countveil.counts.cells.layout import (
    CellList,
    Cells,
    Contents,
    NonPositive,
    flat_cells,
    n_rows_and_width,
    places_at,
    row_indices,
    row_ranges,
)
from countveil.counts.foreign import refuse_labels


def hidden(contents: Contents, cells: Any) -> Contents:
    """The same release with these cells missing too; nothing of their values is kept."""
    hide = np.unique(flat_positions(cells, contents.shape))
    before = contents.missing
    if before is not None:
        hide = np.union1d(hide, flat_cells(before, n_rows_and_width(contents.shape)[1]))
    if len(hide) == (0 if before is None else len(before.columns)):
        return contents
    missing = places_at(hide, contents.shape)
    positive = _without(contents.positive, hide, contents.shape)
    negative = None if contents.negative is None else _without(contents.negative, hide, contents.shape)
    levels = RhoLevels(contents.rho, contents.shape)
    number = levels.count((positive, missing))
    total = contents.nonpositive.total
    if negative is not None:
        total = levels.listed(negative, negative.values)
    elif not np.array_equal(number, contents.nonpositive.number):
        total = None  # what the hidden cells x <= 0 contributed is not known, so neither is what is left
    return contents._replace(
        positive=positive,
        missing=missing,
        negative=negative,
        nonpositive=NonPositive(levels.values, number, total),
    )


def flat_positions(cells: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Positions in C order, from a boolean array, or a tuple of index arrays: those in their own order."""
    if isinstance(cells, tuple):
        return _flat_from_indices(cells, shape)
    refuse_labels(cells, "cells")
    array = np.asarray(cells)
    if array.dtype != bool:
        raise TypeError(
            "cells: expected a boolean array or a tuple with one index array per axis, "
            f"got {type(cells).__name__} of type {array.dtype}"
        )
    if array.shape != shape:
        raise ValueError(f"cells: expected a boolean array of shape {shape}, got shape {array.shape}")
    return np.flatnonzero(array)


def _flat_from_indices(cells: tuple, shape: tuple[int, ...]) -> np.ndarray:
    if len(cells) != len(shape):
        raise ValueError(f"cells: expected {len(shape)} index arrays, one per axis, got {len(cells)}")
    named = [one.index for one in cells if hasattr(one, "index") and not callable(one.index)]  # of pandas
    if any(not np.array_equal(one, named[0]) for one in named[1:]):
        raise TypeError(
            "cells: expected index arrays whose entries go together, got Series with different indexes; to_numpy() "
            "goes by order"
        )
    indices = [np.asarray(index) for index in cells]
    for axis, (index, length) in enumerate(zip(indices, shape, strict=True)):
        if index.size and index.dtype.kind not in "iu":
            raise TypeError(f"cells: expected whole numbers as indices, got type {index.dtype}")
        if index.size and (index.min() < 0 or index.max() >= length):
            wrong = int(index.min() if index.min() < 0 else index.max())
            raise ValueError(f"cells: expected indices from 0 to {length - 1} along axis {axis}, got {wrong}")
    try:
        together = np.broadcast_arrays(*[index.astype(np.int64) for index in indices])
    except ValueError:
        lengths = " and ".join(str(index.shape) for index in indices)
        raise ValueError(f"cells: expected index arrays of equal length, got shapes {lengths}") from None
    return np.ravel_multi_index(tuple(together), shape).ravel()


def _without(cells: Cells, hide: np.ndarray, shape: tuple[int, ...]) -> Cells:
    """The cells that are not among ``hide``, which is not empty."""
    kept = CellList(shape)
    width = n_rows_and_width(shape)[1]
    for start, stop in row_ranges(shape):
        part = slice(cells.row_starts[start], cells.row_starts[stop])
        rows, columns = row_indices(cells.row_starts, start, stop), cells.columns[part]
        flat = rows * width + columns
        at = np.searchsorted(hide, flat)
        keep = hide[np.minimum(at, len(hide) - 1)] != flat
        kept.add(rows[keep], columns[keep], cells.values[part][keep])
    return kept.cells()
