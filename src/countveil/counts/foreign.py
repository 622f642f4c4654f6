"""Things of other libraries, recognized without importing these."""

from __future__ import annotations

from typing import Any


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
    """Whether a Series or DataFrame of pandas has labels, which may have another order than the data."""
    if not (comes_from(given, "pandas", "Series") or comes_from(given, "pandas", "DataFrame")):
        return False
    axes = given.index, getattr(given, "columns", given.index)
    return any(type(axis).__name__ != "RangeIndex" or axis.start != 0 or axis.step != 1 for axis in axes)


def refuse_labels(given: Any, name: str) -> None:
    """Refuse what would go by order although it has labels."""
    if has_labels(given):
        kind = type(given).__name__
        raise TypeError(
            f"{name}: expected an array in the order of the data, got a {kind} with labels of its own; to_numpy() "
            "goes by order"
        )
