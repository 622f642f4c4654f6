"""Plain counts: what an ordinary, non-private factorization is fitted to."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from countveil.counts.contents import Cells, Places
from countveil.counts.plain_values import read_plain_values


class PlainCounts(NamedTuple):
    """True counts in the layout of a release: positive cells by rows, missing cells by rows."""

    shape: tuple[int, ...]
    axes: tuple[str, ...]
    labels: tuple[np.ndarray | None, ...]
    positive: Cells
    missing: Places | None

    @property
    def n_observed(self) -> int:
        """Number of cells that are not missing."""
        return math.prod(self.shape) - (0 if self.missing is None else len(self.missing.columns))

    def total(self) -> float:
        """The sum of all counts."""
        return float(self.positive.values.sum(dtype=np.float64))


def read_plain_counts(counts: Any, labels: Any = None, name: str = "data") -> PlainCounts:
    """Plain counts from a numpy array (masked arrays: masked = missing), lists, scipy.sparse, a DataFrame.

    Negative values are refused with a hint: they look like a release. Errors speak of the parameter ``name``.
    """
    held = read_plain_values(counts, labels, name)
    return PlainCounts(held.shape, held.axes, held.labels, held.positive, held.missing)
