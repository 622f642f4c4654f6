"""States of factorizations: a named tuple of the factors."""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=256)
def state_type(factors: tuple[str, ...]) -> Any:
    """The class of the states with these factors.

    >>> state_type(("theta", "pi"))._fields
    ('theta', 'pi')
    """
    found: Any = namedtuple("FactorState", factors)  # type: ignore[misc]

    def reduce(self: Any) -> tuple[Any, ...]:
        return _rebuilt, (factors, *self)

    # Pickle looks a class up by its name, and this name stands for many.
    setattr(found, "__reduce__", reduce)  # noqa: B010 (mypy knows namedtuple's own)
    return found


def _rebuilt(factors: tuple[str, ...], *values: Any) -> Any:
    return state_type(factors)(*values)
