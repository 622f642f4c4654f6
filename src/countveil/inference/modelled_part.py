"""The part of the data that a model speaks of: cells it leaves out are missing to it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from countveil.counts.contents import Cells, Places, row_indices
from countveil.inference.plain_counts import PlainCounts


def modelled_part(model: Any, data: Any) -> Any:
    """``data`` without the cells that ``model.left_out`` names, if it names any (a network's diagonal, say)."""
    model = getattr(model, "model", model)  # a model of unknown noise around another
    cells = model.left_out(data.shape) if hasattr(model, "left_out") else None
    if cells is None:
        return data
    part = _without(data, cells) if isinstance(data, PlainCounts) else data.hide(cells)
    if part.n_observed == 0:
        raise ValueError(
            f"data: expected observed counts in the part that {type(model).__name__} models, got none"
        )
    return part


def _without(data: PlainCounts, cells: tuple[np.ndarray, ...]) -> PlainCounts:
    width = math.prod(data.shape[1:])
    hidden = np.ravel_multi_index(cells, data.shape)
    if data.missing is not None:
        before = row_indices(data.missing.row_starts) * width + data.missing.columns
        hidden = np.union1d(hidden, before)
    hidden = np.unique(hidden)
    flat = row_indices(data.positive.row_starts) * width + data.positive.columns
    keep = ~np.isin(flat, hidden)
    rows = flat[keep] // width
    positive = Cells(_starts(rows, data.shape[0]), data.positive.columns[keep], data.positive.values[keep])
    columns = (hidden % width).astype(data.positive.columns.dtype)
    return data._replace(positive=positive, missing=Places(_starts(hidden // width, data.shape[0]), columns))


def _starts(rows: np.ndarray, n_rows: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))]).astype(np.int64)
