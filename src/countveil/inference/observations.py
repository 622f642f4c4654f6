"""What the engines see of the data: one layout for releases and plain counts."""

from __future__ import annotations

import math
from typing import NamedTuple, overload

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.inference.plain_counts import PlainCounts
from countveil.inference.repeated_observations import RepeatedObservations, observe_repeated
from countveil.kernels.philox import ROW_BITS


class Observations(NamedTuple):
    """Rows of cells: the first axis, and all others flattened. The arrays are those of the data, not copies."""

    n_rows: int
    width: int
    row_starts: np.ndarray  # int64 (n_rows + 1): positive cells of row d are row_starts[d]:row_starts[d+1]
    columns: np.ndarray  # int32
    values: np.ndarray  # uint8 or uint16 where they suffice, else int64: few types, few compilations
    missing_starts: np.ndarray  # int64 (n_rows + 1)
    missing_columns: np.ndarray  # int32
    row_rho: np.ndarray  # float64 (n_rows); empty for plain counts
    cell_rho: np.ndarray  # float64 (n_rows, width) if the noise varies by cell, else (0, 0)

    @property
    def noisy(self) -> bool:
        """Whether these are released counts."""
        return len(self.row_rho) > 0


@overload
def observe(data: PrivateCounts | PlainCounts, as_plain: bool = ...) -> Observations: ...
@overload
def observe(data: CombinedReleases, as_plain: bool = ...) -> RepeatedObservations: ...
def observe(
    data: PrivateCounts | CombinedReleases | PlainCounts, as_plain: bool = False
) -> Observations | RepeatedObservations:
    """Observations of ``data``; ``as_plain`` takes released counts for true ones (the naive method)."""
    if isinstance(data, CombinedReleases):
        return observe_repeated(data)
    n_rows, width = data.shape[0], math.prod(data.shape[1:])
    if width > np.iinfo(np.int32).max:
        raise ValueError(f"data: expected fewer than 2**31 cells per row, got {width}")
    if n_rows * width >= 2**ROW_BITS:
        # A cell's stream is named by its number.
        raise ValueError(f"data: expected fewer than 2**{ROW_BITS} cells, got {n_rows * width}")
    row_rho, cell_rho = np.zeros(0), np.zeros((0, 0))
    if isinstance(data, PrivateCounts) and not as_plain:
        if data.rho.shape == data.shape and data.rho.size > n_rows:
            row_rho, cell_rho = np.full(n_rows, np.nan), data.rho.reshape(n_rows, width)
        else:
            row_rho = np.broadcast_to(data.rho.reshape(-1), (n_rows,)).copy()
    missing, values = data.missing, data.positive.values
    observations = Observations(
        n_rows,
        width,
        data.positive.row_starts,
        data.positive.columns.astype(np.int32, copy=False),
        values if values.dtype in (np.uint8, np.uint16) else values.astype(np.int64),
        np.zeros(n_rows + 1, dtype=np.int64) if missing is None else missing.row_starts,
        np.zeros(0, dtype=np.int32) if missing is None else missing.columns.astype(np.int32, copy=False),
        row_rho,
        cell_rho,
    )
    for array in observations[2:]:
        # A release is read-only, and numba compiles anew for arrays that are not: make all alike.
        array.setflags(write=False)
    return observations
