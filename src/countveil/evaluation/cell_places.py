"""Cells named by a mask or by indices, as (rows, columns) with all axes but the first flattened."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from countveil.counts.hide import _flat_places


def cell_places(cells: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the chosen cells, in order, each once.

    ``cells`` is a boolean array (dense or sparse) of ``shape``, or a tuple with one index array per axis.

    >>> cell_places(([1, 0], [0, 2]), (2, 3))
    (array([0, 1]), array([2, 0]))
    """
    if sparse.issparse(cells):
        if cells.dtype != bool or cells.shape != shape:
            raise ValueError(
                f"cells: expected a boolean mask of shape {shape}, got {cells.dtype} of shape {cells.shape}"
            )
        cells = cells.nonzero()
    chosen = _flat_places(cells, shape)
    if not len(chosen):
        raise ValueError("cells: expected at least one cell, got none")
    rows, columns = np.divmod(chosen, math.prod(shape[1:]))
    return rows, columns
