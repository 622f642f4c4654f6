"""What a release consists of: plain named tuples of arrays, rows first.

Every array of counts is seen as ``n_rows`` rows of ``width`` cells: the first axis, and all others flattened
in C order. Cells are listed row by row as in a CSR matrix: row ``d`` owns the entries from ``row_starts[d]``
up to ``row_starts[d + 1]``, its columns strictly increasing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from countveil.privacy import Guarantee


class Cells(NamedTuple):
    """Listed cells and their values."""

    row_starts: np.ndarray  # int64, n_rows + 1
    columns: np.ndarray  # int32 where the width allows, else int64
    values: np.ndarray  # the smallest unsigned type that holds them


class Places(NamedTuple):
    """Listed cells without values."""

    row_starts: np.ndarray
    columns: np.ndarray


class NonPositive(NamedTuple):
    """What is kept of the observed cells x <= 0: per distinct rho their number and the sum of their ``|x|``.

    With known alpha the number alone says everything about the true counts; with unknown alpha both are
    needed. ``total`` is None when the values were clamped before they came here.
    """

    rho: np.ndarray  # float64, increasing
    number: np.ndarray  # int64
    total: np.ndarray | None  # float64: whole numbers, but their sum may pass 2**63


class Contents(NamedTuple):
    """Everything a PrivateCounts holds."""

    shape: tuple[int, ...]
    axes: tuple[str, ...]
    labels: tuple[np.ndarray | None, ...]
    rho: np.ndarray  # 0-d, one per row (n_rows, 1, ...; inf for a plain row), or the full shape
    positive: Cells
    missing: Places | None
    nonpositive: NonPositive
    negative: Cells | None  # values are |x|; None unless they were kept
    guarantee: Guarantee | None  # what holds for every row
    simulated: bool
    row_guarantees: tuple[Guarantee | None, ...] | None = None  # one per row, where rows differ; plain: None


def n_rows_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
    """The two numbers every layout here is built on."""
    return shape[0], math.prod(shape[1:])


def n_plain_rows(contents: Contents) -> int:
    """Number of rows without noise, which nothing protects."""
    return int(np.isinf(contents.rho).sum())


def column_type(width: int) -> type[np.signedinteger]:
    """The index type of a row's cells. The shape alone decides, so equal releases have equal types."""
    return np.int32 if width <= np.iinfo(np.int32).max else np.int64


def shrunk(values: np.ndarray) -> np.ndarray:
    """The same numbers >= 0 in the smallest unsigned type: a release is mostly ones and twos."""
    largest = int(values.max()) if values.size else 0
    return values.astype(np.min_scalar_type(largest), copy=False)


def row_indices(row_starts: np.ndarray, start: int = 0, stop: int | None = None) -> np.ndarray:
    """The row of every listed cell of rows ``start`` to ``stop``."""
    per_row = np.diff(row_starts[start : None if stop is None else stop + 1])
    return np.repeat(np.arange(start, start + len(per_row)), per_row)
