"""An alias table for every topic, over all columns: what tokens draw their column from where columns are few."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.kernels.alias import build_alias
from countveil.kernels.compiled import compiled
from countveil.models.row_work import RowWork


class AliasTables(NamedTuple):
    """The tables (``kernels/alias``), a row for every topic, and the sums of the weights."""

    keep: np.ndarray  # (topics, columns)
    other: np.ndarray  # int32 (topics, columns)
    mass: np.ndarray  # (topics)


def alias_tables(weights: np.ndarray, row_work: RowWork) -> AliasTables:
    """Tables for (topics, columns) weights."""
    weights = np.ascontiguousarray(weights)
    tables = AliasTables(
        np.empty(weights.shape), np.empty(weights.shape, dtype=np.int32), np.empty(len(weights))
    )
    row_work.run(len(weights), lambda start, stop: _build(start, stop, weights, *tables), small=1)
    return tables


@compiled
def _build(start, stop, weights, keep, other, mass):
    work = np.empty(weights.shape[1], dtype=np.int32)
    for k in range(start, stop):
        mass[k] = build_alias(weights[k], keep[k], other[k], work)
