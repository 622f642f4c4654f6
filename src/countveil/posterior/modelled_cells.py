"""Which cells a model speaks of, and where their counts stand.

A cell that a model leaves out has rate 0 and count 0: a network without self-loops has none. A pair of an
undirected network is one pair: its cell below the diagonal is the one above it again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from countveil.models import CommunityModel


class ModelledCells:
    """The cells of an array of this shape, in the eyes of a model.

    Examples
    --------
    >>> from countveil.models import CommunityModel
    >>> cells = ModelledCells(CommunityModel(2, directed=False), (3, 3))
    >>> cells.outside(np.arange(3), np.array([0, 2]))
    array([[ True, False],
           [False, False],
           [False,  True]])
    >>> cells.counted_at(np.array([2, 0]), np.array([1, 1]))
    (array([1, 0]), array([2, 1]))
    >>> cells.places()
    array([1, 2, 5])
    """

    def __init__(self, model: Any, shape: tuple[int, ...]) -> None:
        self._model = getattr(model, "model", model)  # a model of unknown noise around another
        self._shape = shape
        self.mirrored = isinstance(self._model, CommunityModel) and not self._model.directed

    def counted_at(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The cells at which the counts of these cells stand."""
        return (np.minimum(rows, columns), np.maximum(rows, columns)) if self.mirrored else (rows, columns)

    def outside(self, rows: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray | None:
        """Which cells of these rows and columns (of all axes but the first) have no count; None if all have one."""
        width = math.prod(self._shape[1:])
        across = np.arange(width) if columns is None else columns
        if isinstance(self._model, CommunityModel):  # its list is long
            return None if self._model.self_loops else rows[:, None] == across
        listed = self._listed()
        return None if listed is None else np.isin(rows[:, None] * width + across, listed)

    def places(self) -> np.ndarray | range:
        """Every cell that has a count of its own, by its place in the flat array."""
        cells, listed = math.prod(self._shape), self._listed()
        if listed is None:
            return range(cells)
        inside = np.ones(cells, dtype=bool)
        inside[listed] = False
        return np.flatnonzero(inside)

    def _listed(self) -> np.ndarray | None:
        found = self._model.left_out(self._shape) if hasattr(self._model, "left_out") else None
        return None if found is None else np.ravel_multi_index(found, self._shape)
