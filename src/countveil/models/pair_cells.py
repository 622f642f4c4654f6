"""Cells of an array as pairs (i, j) of one set of things, with all other axes flattened to t.

For a factor that stands on two axes: row r of it needs the cells (r, j, t) and (i, r, t), and by themselves the
cells (r, r, t) in which it meets itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.models.exposure import Exposure
from countveil.models.listed_exposure import ListedExposure


class PairCells(NamedTuple):
    """Lists of the observed cells, or else of the missing ones, for every r sorted by t."""

    observed: bool
    out_starts: np.ndarray  # int64 (n + 1): cells (r, j, t), j != r
    out_other: np.ndarray
    out_t: np.ndarray
    in_starts: np.ndarray  # cells (i, r, t), i != r
    in_other: np.ndarray
    in_t: np.ndarray
    self_starts: np.ndarray  # cells (r, r, t)
    self_t: np.ndarray


def pair_cells(
    exposure: Exposure | ListedExposure, shape: tuple[int, ...], first: int, second: int
) -> PairCells:
    """The listed cells of ``exposure`` as pairs of the places along two axes."""
    starts, columns = exposure
    rows = np.repeat(np.arange(shape[0]), np.diff(starts))
    index = np.unravel_index(rows * (np.prod(shape[1:], dtype=np.int64)) + columns, shape)
    i, j = index[first], index[second]
    others = [axis for axis in range(len(shape)) if axis not in (first, second)]
    t = np.zeros(len(i), dtype=np.int64)
    if others:
        t = np.ravel_multi_index([index[a] for a in others], [shape[a] for a in others]).astype(np.int64)
    same = i == j
    n = shape[first]
    return PairCells(
        isinstance(exposure, ListedExposure),
        *_by(i[~same], t[~same], n, j[~same]),
        *_by(j[~same], t[~same], n, i[~same]),
        *_by(i[same], t[same], n),
    )


def _by(r: np.ndarray, t: np.ndarray, n: int, other: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
    order = np.lexsort((t, r))
    starts = np.concatenate([[0], np.cumsum(np.bincount(r, minlength=n))]).astype(np.int64)
    listed = () if other is None else (other[order].astype(np.int64),)
    return (starts, *listed, t[order])
