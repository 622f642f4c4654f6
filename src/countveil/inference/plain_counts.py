"""Plain counts: what an ordinary, non-private factorization is fitted to."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from countveil.counts import PrivateCounts
from countveil.counts.contents import Cells, Places


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


def read_plain_counts(counts: Any, labels: Any = None) -> PlainCounts:
    """Plain counts from a numpy array (masked arrays: masked = missing), lists, scipy.sparse, a DataFrame.

    Negative values are refused with a hint: they look like a release.
    """
    if labels is None and hasattr(counts, "columns") and hasattr(counts, "index"):
        labels = ([str(i) for i in counts.index], [str(c) for c in counts.columns])
    if hasattr(counts, "columns") and hasattr(counts, "to_numpy"):
        counts = counts.to_numpy()
    # A release of the same numbers has the same layout; its noise parameter plays no role here.
    held = PrivateCounts(counts, rho=1.0, labels=labels, keep_negative=True)
    if held.negative is not None and len(held.negative.columns):
        raise ValueError(
            "counts: expected counts >= 0, got negative values; if these are released (noisy) counts, "
            "say so: cv.PrivateCounts(values, alpha=...)"
        )
    return PlainCounts(held.shape, held.axes, held.labels, held.positive, held.missing)
