"""Cells chosen along every axis: a block of the array."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from countveil.posterior.selection import positions


class ChosenCells(NamedTuple):
    """Positions along every axis, and the same cells as rows and columns, all axes but the first flattened."""

    places: tuple[np.ndarray, ...]
    columns: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """Positions along the first axis."""
        return self.places[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of positions along every axis."""
        return tuple(map(len, self.places))


def chosen_cells(
    rows: Any, columns: Any, labels: tuple[np.ndarray | None, ...], shape: tuple[int, ...]
) -> ChosenCells:
    """A choice of rows and columns; beyond two axes ``columns`` is None or a tuple of choices, one per axis.

    >>> chosen_cells([1], (None, ["b"]), (None, None, np.array(["a", "b"], dtype=object)), (2, 3, 2)).columns
    array([1, 3, 5])
    """
    others = len(shape) - 1
    if others == 1:
        wanted = [columns]
    elif columns is None:
        wanted = [None] * others
    elif isinstance(columns, tuple) and len(columns) == others:
        wanted = list(columns)
    else:
        raise ValueError(
            f"columns: expected None or a tuple of {others} choices, one for each further axis, "
            f"got {type(columns).__name__}"
        )
    places = [positions("rows", rows, labels[0], shape[0])]
    for axis, choice in enumerate(wanted, start=1):
        places.append(positions("columns", choice, labels[axis], shape[axis]))
    flat = np.zeros(1, dtype=np.int64)
    for axis in range(1, len(shape)):
        flat = (flat[:, None] * shape[axis] + places[axis]).reshape(-1)
    return ChosenCells(tuple(places), flat)
