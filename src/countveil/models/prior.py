"""The prior of a factor."""

from __future__ import annotations

from typing import NamedTuple


class Prior(NamedTuple):
    """Entries are independent Gamma(shape, rate); those of a symmetric matrix on and above the diagonal."""

    shape: float
    rate: float
    symmetric: bool = False
