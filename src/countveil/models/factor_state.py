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
    return namedtuple("FactorState", factors)
