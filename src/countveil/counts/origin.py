"""Which library an object comes from, told without importing that library."""

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
