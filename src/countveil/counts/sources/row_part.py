"""Rows of a release, or of plain counts, by themselves: what one shard of many has."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from countveil.counts.cells.clamp import RhoLevels
from countveil.counts.cells.layout import Cells, NonPositive, Places
from countveil.counts.files.scratch import is_mapped
from countveil.counts.private_counts import PrivateCounts
from countveil.counts.sources.combine import CombinedReleases
from countveil.counts.sources.plain_counts import PlainCounts

_Listed = TypeVar("_Listed", Cells, Places)
Counts = PrivateCounts | CombinedReleases | PlainCounts


def row_part(data: Counts, start: int, stop: int) -> Counts:
    """Rows ``start`` to ``stop``; views of the arrays where that is possible.

    >>> release = PrivateCounts([[3, -1], [0, 2], [1, 0]], alpha=0.5)
    >>> row_part(release, 1, 3).to_dense()
    array([[0, 2],
           [1, 0]])
    """
    if isinstance(data, CombinedReleases):
        return CombinedReleases(tuple(_part_of_release(one, start, stop) for one in data.releases))
    if isinstance(data, PrivateCounts):
        return _part_of_release(data, start, stop)
    return data._replace(
        shape=(stop - start, *data.shape[1:]),
        labels=_labels(data.labels, start, stop),
        positive=_listed(data.positive, start, stop),
        missing=_missing(data.missing, start, stop),
    )


def part_in_memory(data: Counts, start: int, stop: int) -> Counts:
    """The same; what lies on disk (``files/scratch``) is read into memory."""
    part = row_part(data, start, stop)
    if not isinstance(part, PrivateCounts) or not is_mapped(part.positive.columns):
        return part
    contents = part._contents
    missing = None if contents.missing is None else Places(*map(np.array, contents.missing))
    return PrivateCounts._from_contents(
        contents._replace(positive=Cells(*map(np.array, contents.positive)), missing=missing)
    )


def _part_of_release(data: PrivateCounts, start: int, stop: int) -> PrivateCounts:
    contents = data._contents
    shape = (stop - start, *contents.shape[1:])
    rho = contents.rho if contents.rho.ndim == 0 else contents.rho[start:stop]
    positive = _listed(contents.positive, start, stop)
    missing = _missing(contents.missing, start, stop)
    levels = RhoLevels(rho, shape)
    rows = contents.row_guarantees
    return PrivateCounts._from_contents(
        contents._replace(
            shape=shape,
            labels=_labels(contents.labels, start, stop),
            rho=rho,
            positive=positive,
            missing=missing,
            nonpositive=NonPositive(levels.values, levels.count((positive, missing)), None),
            negative=None,
            row_guarantees=None if rows is None else rows[start:stop],
        )
    )


def _listed(cells: _Listed, start: int, stop: int) -> _Listed:
    starts = cells.row_starts[start : stop + 1]
    parts = (array[starts[0] : starts[-1]] for array in cells[1:])
    return type(cells)(starts - starts[0], *parts)


def _missing(cells: Places | None, start: int, stop: int) -> Places | None:
    found = None if cells is None else _listed(cells, start, stop)
    return found if found is not None and len(found.columns) else None


def _labels(labels: tuple[np.ndarray | None, ...], start: int, stop: int) -> tuple[np.ndarray | None, ...]:
    rows, *others = labels
    return (None if rows is None else rows[start:stop], *others)
