"""Plain counts: what an ordinary, non-private factorization is fitted to; and reading what a fit is given."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from countveil.counts.cells.layout import CellList, Cells, Places
from countveil.counts.foreign import comes_from, is_made_up
from countveil.counts.inputs import read_input
from countveil.counts.inputs.arrays import ReleasedValues, check_whole, sparse_cells, sparse_rows
from countveil.counts.inputs.frames import Table, as_table
from countveil.counts.inputs.graphs import GraphCounts
from countveil.counts.inputs.labels import axis_labels, expect_labels, listed, read_labels
from countveil.counts.inputs.labels_of_tables import check_named, labels_of_rows
from countveil.counts.inputs.options import InputOptions
from countveil.counts.inputs.spellings import label_text
from countveil.counts.places import has_lost_slash, scheme_of
from countveil.counts.private_counts import PrivateCounts
from countveil.counts.sources.combine import CombinedReleases


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


def read_counts(
    data: Any, labels: Any = None, name: str = "data"
) -> PrivateCounts | CombinedReleases | PlainCounts:
    """What a model is fitted to: releases as they are, anything else as plain counts.

    Errors speak of the parameter ``name``.
    """
    if not isinstance(data, PrivateCounts | CombinedReleases):
        return read_plain_counts(data, labels, name)
    if labels is not None:
        raise ValueError("labels: expected None for a release, which has its own, got labels")
    return data


def read_plain_counts(counts: Any, labels: Any = None, name: str = "data") -> PlainCounts:
    """Plain counts from a numpy array (masked arrays: masked = missing), lists, scipy.sparse, a table.

    What was read before, and has its labels, stays as it is. ``labels`` are for axes without labels of their own.
    Negative values are refused with a hint: they look like a release. Errors speak of the parameter ``name``.
    """
    if isinstance(counts, PlainCounts):
        return counts
    frame, table = counts, as_table(counts)
    if table is not None:
        _check_columns(table, name)
        counts = _numbers(frame, table, name)
    elif hasattr(counts, "columns") and hasattr(counts, "to_numpy"):  # of a library that is not known here
        counts = counts.to_numpy()
    if sparse.issparse(counts):
        return _from_sparse(counts, labels, name)
    if not isinstance(counts, np.ndarray | list | tuple):
        raise TypeError(
            f"{name}: expected a release, a numpy array, a scipy.sparse matrix or a DataFrame, {_got(counts)}"
        )
    source = ReleasedValues(counts, None, name)
    axes, names = read_labels(labels, source.shape)
    if hasattr(frame, "columns"):
        names = _with_own(frame, table, None if labels is None else names, name)
    positive, missing, negative = CellList(source.shape), CellList(source.shape), False
    for block in source.blocks():
        positive.add_dense(block.start, block.values > 0, block.values)
        if block.missing is not None:
            missing.add_dense(block.start, block.missing)
        negative = negative or bool((block.values < 0).any())
    _refuse_negative(negative, name)
    return PlainCounts(source.shape, axes, names, positive.cells(), missing.places() if missing else None)


def _from_sparse(counts: Any, labels: Any, name: str) -> PlainCounts:
    rows = sparse_rows(counts, name)
    shape = tuple(int(n) for n in rows.shape)
    axes, names = read_labels(labels, shape)
    check_whole(rows.data, name, negative_allowed=True)
    _refuse_negative(bool((rows.data < 0).any()), name)
    return PlainCounts(shape, axes, names, sparse_cells(rows), None)


def read_plain_file(path: str | os.PathLike[str], options: InputOptions) -> PlainCounts:
    """Plain counts from a file as ``privatize`` takes it. What is sparse in the file is never made dense."""
    read = read_input(path, options)
    counts = read.counts
    # A symmetric file has each pair once. Nothing gets noise here, so both of its places may have the count.
    positive = counts.mirrored() if isinstance(counts, GraphCounts) else counts.positive()
    return PlainCounts(counts.shape, *read_labels(read.labels, counts.shape), positive, None)


def _refuse_negative(found: bool, name: str) -> None:
    if found:
        raise ValueError(
            f"{name}: expected counts >= 0, got negative values; if these are released (noisy) counts, "
            "say so: cv.PrivateCounts(values, alpha=...)"
        )


def _check_columns(table: Table, name: str) -> None:
    if len(table.was_index) > 1:
        raise ValueError(f"{name}: expected one column of row labels, got an index of several")
    if table.row_labels is not None and not table.is_numbered:
        return  # its rows have labels: a column without a name is no more than that
    advice = (
        "they belong into the index of a DataFrame, or into labels, and a column of counts ({}) needs a name"
    )
    check_named([table.names[place] for place in _counted(table)], name=name, advice=advice)


def _with_own(
    frame: Any, table: Table | None, given: tuple[np.ndarray | None, ...] | None, name: str
) -> tuple[np.ndarray | None, ...]:
    """The labels of a table, and given ones where it has none. Others would put its counts under other names."""
    joined: list[np.ndarray | None] = []
    own = _own_labels(frame, table, given)
    for axis, (mine, others) in enumerate(zip(own, given or (None, None), strict=True)):
        known = None if mine is None else _texts(mine, f"axis {axis}")
        expect_labels(known, others, f"labels: expected those that {name} has along axis {axis}, or None")
        joined.append(known if others is None else others)
    return tuple(joined)


def _texts(labels: Any, axis: str) -> np.ndarray:
    """As ``privatize`` calls them, and what is missing as pandas does: plain counts have it all the same."""
    each = [str(label) if label_text(label) is None else label for label in listed(labels, axis)]
    return axis_labels([label_text(label) for label in each], axis)


def _own_labels(
    frame: Any, table: Table | None, given: tuple[np.ndarray | None, ...] | None
) -> tuple[Any, Any]:
    """Of rows and of columns. Beside given ones numbers that pandas gives to all are none."""
    if table is None:
        return getattr(frame, "index", None), frame.columns
    is_numbered = given is not None and is_made_up(getattr(frame, "columns", None))
    columns = None if is_numbered else [table.names[place] for place in _counted(table)]
    if table.was_index:
        return table.column(table.was_index[0]), columns
    is_by_order = given is not None and labels_of_rows(table, given[0], parameter="labels") is None
    return None if is_by_order else getattr(frame, "index", None), columns


def _counted(table: Table) -> list[int]:
    """The columns that hold counts."""
    return [place for place in range(len(table.names)) if place not in table.was_index]


def _numbers(counts: Any, table: Table, name: str) -> np.ndarray:
    """The values of a table. Plain counts are no secret here, so a wrong column is named."""
    if comes_from(counts, "pandas") and not table.was_index:
        values = counts.to_numpy()
        if values.dtype.kind in "biuf" or not table.names:
            return values
    columns = _counted(table)
    return _stacked(table, columns, name) if columns else np.zeros((table.length, 0), np.int64)


def _stacked(table: Table, places: Iterable[int], name: str) -> np.ndarray:
    columns = {place: table.column(place) for place in places}
    for place, column in columns.items():
        if column.dtype.kind not in "biuf":
            raise TypeError(
                f"{name}: expected columns of whole numbers, got {table.names[place]!r} with something else or "
                "missing values; labels of rows belong into the index of a DataFrame, or into labels"
            )
    return np.column_stack(list(columns.values()))


def _got(thing: Any) -> str:
    if isinstance(thing, str | os.PathLike):
        if scheme_of(thing) is not None or has_lost_slash(thing):  # which may have credentials in it
            return "got an address; load_release(address) first"
        return f"got a path; load_release({os.fspath(thing)!r}) first"
    got = f"got {type(thing).__name__}"
    if comes_from(thing, "networkx", "Graph"):
        return f"{got}; networkx.to_numpy_array(graph, weight='weight', dtype=int) makes an array of it"
    return got
