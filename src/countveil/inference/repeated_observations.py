"""What the engine sees of counts that were released several times.

A cell is *visited* if some release has x > 0 there: its true count is drawn by itself. All other observed cells
have y ~ Poisson(mu * exp(-sum of rho over the releases that show it)), and are reached by tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.counts.combine import CombinedReleases, flat_cells
from countveil.counts.contents import n_rows_and_width
from countveil.inference.engines.cpu.rows import MISSING


class RepeatedObservations(NamedTuple):
    """Rows of cells: the first axis, and all others flattened; R releases."""

    n_rows: int
    width: int
    row_starts: np.ndarray  # int64 (n_rows + 1): visited cells, by rows
    columns: np.ndarray  # int32
    values: np.ndarray  # int64 (cells, R): 0 for x <= 0, MISSING where a release does not show the cell
    missing_starts: np.ndarray  # int64 (n_rows + 1): cells that no release shows
    missing_columns: np.ndarray  # int32
    partial_starts: np.ndarray  # int64 (n_rows + 1): cells x <= 0 that some releases show and some do not
    partial_columns: np.ndarray  # int32
    partial_shown: np.ndarray  # bool (cells, R): which releases do
    rho: np.ndarray  # float64 (R, n_rows)

    @property
    def noisy(self) -> bool:
        """Whether these are released counts."""
        return True


def observe_repeated(data: CombinedReleases) -> RepeatedObservations:
    """Observations of several releases of the same counts."""
    n_rows, width = n_rows_and_width(data.shape)
    if width > np.iinfo(np.int32).max:
        raise ValueError(f"data: expected fewer than 2**31 cells per row, got {width}")
    rho = np.stack([np.broadcast_to(r.rho.reshape(-1), (n_rows,)) for r in data.releases])
    positive = [flat_cells(release.positive, width) for release in data.releases]
    missing = [flat_cells(release.missing, width) for release in data.releases]
    visited = np.unique(np.concatenate(positive))
    values = np.zeros((len(visited), len(rho)), dtype=np.int64)
    for r, release in enumerate(data.releases):
        values[np.searchsorted(visited, positive[r]), r] = release.positive.values
        values[np.isin(visited, missing[r], assume_unique=True), r] = MISSING
    unseen = flat_cells(data.missing, width)
    partial = np.setdiff1d(np.concatenate(missing), np.concatenate([visited, unseen]))
    shown = np.stack([~np.isin(partial, one, assume_unique=True) for one in missing], axis=1)
    return RepeatedObservations(
        n_rows, width, *_by_rows(visited, n_rows, width), values, *_by_rows(unseen, n_rows, width),
        *_by_rows(partial, n_rows, width), shown, rho,
    )  # fmt: skip


def _by_rows(flat: np.ndarray, n_rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.divmod(flat, width)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))]).astype(np.int64)
    return starts, columns.astype(np.int32)
