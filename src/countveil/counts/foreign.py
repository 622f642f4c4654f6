"""Things of other libraries, recognized without importing these."""

from __future__ import annotations

from typing import Any

import numpy as np


def comes_from(thing: Any, library: str, name: str | None = None) -> bool:
    """Whether the class of ``thing``, or one it is built on, is defined in ``library`` (and called ``name``).

    >>> from decimal import Decimal
    >>> comes_from(Decimal(1), "decimal", "Decimal"), comes_from(1, "pandas")
    (True, False)
    """
    return any(
        kind.__module__.partition(".")[0] == library and name in (None, kind.__name__)
        for kind in type(thing).__mro__
    )


def has_labels(given: Any) -> bool:
    """Whether a table, a Series or a DataArray has labels of its own, which may have another order than the data.

    Numbers from 0 on, and the names that polars gives to columns, are no labels: libraries make them up.

    >>> class Table:
    ...     columns = ["oil", "gas"]
    >>> has_labels(Table()), has_labels([[1, 2]])
    (True, False)
    """
    # Most that is asked about: entries of long lists.
    if isinstance(given, np.ndarray | np.generic | int | float | str | bytes | list | tuple):
        return False
    return any(not is_made_up(axis) for axis in _axes_of(given))


def _axes_of(given: Any) -> list[Any]:
    """The labels of every axis that has some, as their library has them."""
    if hasattr(given, "dims") and hasattr(given, "coords"):  # of xarray; a number may have a coordinate, too
        return [one.to_numpy() for one in given.coords.values() if one.ndim]
    if hasattr(given, "column_names"):  # of Arrow, whose columns are the data
        return [given.column_names]
    axes = (getattr(given, name, None) for name in ("index", "columns"))
    return [axis for axis in axes if axis is not None and not callable(axis)]


def is_made_up(axis: Any) -> bool:
    """Whether they are but 0, 1, 2, ..., as pandas gives them to an array, or what polars calls its columns."""
    if type(axis).__name__ == "RangeIndex":
        return axis.start == 0 and axis.step == 1
    if not isinstance(axis, np.ndarray | list) or np.ndim(axis) != 1:
        return False
    return list(axis) in (list(range(len(axis))), [f"column_{i}" for i in range(len(axis))])


def holds_labels(given: Any) -> bool:
    """Whether this has labels of its own, or lists hold anything that has: numpy goes by order."""
    if isinstance(given, list | tuple):
        return any(holds_labels(one) for one in given)
    return has_labels(given)


def refuse_labels(given: Any, name: str) -> None:
    """Refuse what would go by order although it has labels."""
    if holds_labels(given):
        kind = type(given).__name__
        got = f"a {kind} of things" if isinstance(given, list | tuple) else f"a {kind}"
        raise TypeError(
            f"{name}: expected an array in the order of the data, got {got} with labels of its own; to_numpy() "
            "goes by order"
        )
