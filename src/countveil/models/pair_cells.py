"""Cells of an array as pairs (i, j) of one set of things, with all other axes flattened to t.

For a factor that stands on two axes: row r of it needs the cells (r, j, t) and (i, r, t), and by themselves the
cells (r, r, t) in which it meets itself.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    return _pairs(isinstance(exposure, ListedExposure), i, j, t, shape[first])


def stacked_pairs(parts: Sequence[PairCells], depths: Sequence[int]) -> PairCells:
    """The cells of several arrays as those of one whose t runs over the t of each, one array after the other.

    ``depths`` are the numbers of t. If some list observed cells and others missing ones, all list observed ones.
    """
    if len(parts) == 1:
        return parts[0]
    if len({part.observed for part in parts}) > 1:
        parts = [
            part if part.observed else _observed(part, depth)
            for part, depth in zip(parts, depths, strict=True)
        ]
    firsts = np.concatenate([[0], np.cumsum(depths)])
    n = len(parts[0].self_starts) - 1

    def together(starts: str, t: str, other: str | None = None) -> tuple[np.ndarray, ...]:
        r = np.concatenate([_rows(getattr(part, starts)) for part in parts])
        at = np.concatenate([getattr(p, t) + first for p, first in zip(parts, firsts, strict=False)])
        others = None if other is None else np.concatenate([getattr(part, other) for part in parts])
        return _by(r, at, n, others)

    return PairCells(
        parts[0].observed,
        *together("out_starts", "out_t", "out_other"),
        *together("in_starts", "in_t", "in_other"),
        *together("self_starts", "self_t"),
    )


def _observed(missing: PairCells, depth: int) -> PairCells:
    """The same cells, the observed ones listed instead."""
    n = len(missing.self_starts) - 1
    seen = np.ones((n, n, depth), dtype=bool)
    seen[_rows(missing.out_starts), missing.out_other, missing.out_t] = False
    here = _rows(missing.self_starts)
    seen[here, here, missing.self_t] = False
    i, j, t = np.nonzero(seen)
    return _pairs(True, i, j, t, n)


def _rows(starts: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _pairs(observed: bool, i: np.ndarray, j: np.ndarray, t: np.ndarray, n: int) -> PairCells:
    same = i == j
    return PairCells(
        observed,
        *_by(i[~same], t[~same], n, j[~same]),
        *_by(j[~same], t[~same], n, i[~same]),
        *_by(i[same], t[same], n),
    )


def _by(r: np.ndarray, t: np.ndarray, n: int, other: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
    order = np.lexsort((t, r))
    starts = np.concatenate([[0], np.cumsum(np.bincount(r, minlength=n))]).astype(np.int64)
    listed = () if other is None else (other[order].astype(np.int64),)
    return (starts, *listed, t[order])
