"""Tables: pandas, polars and Arrow, wide (a row and a column per label) or long (a line per count)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from countveil.counts.inputs.arrays import LabelledCounts, ListedCounts, check_kind, check_shape
from countveil.counts.inputs.labels import LabelIndex, label_index, object_array, read_labels
from countveil.counts.inputs.options import InputOptions, comes_from


class Table(NamedTuple):
    """What is needed of a table, whichever library it comes from."""

    names: list[Any]
    column: Callable[[int], np.ndarray]
    length: int
    row_labels: np.ndarray | None  # labels of the rows that are no column, if they have any


def as_table(counts: Any) -> Table | None:
    """``counts`` as a table, or None if it is no table of a library known here."""
    if comes_from(counts, "pandas", "DataFrame"):
        index = counts.index
        numbered = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
        return Table(
            list(counts.columns),
            lambda i: counts.iloc[:, i].to_numpy(),
            len(counts),
            None if numbered else index.to_numpy(),
        )
    if comes_from(counts, "polars", "DataFrame"):
        return Table(counts.columns, lambda i: counts.to_series(i).to_numpy(), counts.height, None)
    if comes_from(counts, "pyarrow", "Table"):
        return Table(counts.column_names, lambda i: _arrow_array(counts.column(i)), counts.num_rows, None)
    if comes_from(counts, "polars", "LazyFrame"):
        raise TypeError("counts: expected a table, got a polars LazyFrame; collect() it first")
    return None


def _arrow_array(column: Any) -> np.ndarray:
    if hasattr(column.type, "value_type") and hasattr(column.type, "index_type"):  # dictionary-encoded
        column = column.cast(column.type.value_type)
    return column.to_numpy()


def read_table(table: Table, options: InputOptions) -> LabelledCounts:
    """Check a table and bring it into the declared rows and columns."""
    options.expect("a table", "long", "index")
    return _wide(table, options) if options.long is None else _long(table, options)


def _wide(table: Table, options: InputOptions) -> LabelledCounts:
    names, columns = list(table.names), list(range(len(table.names)))
    found_rows = table.row_labels
    if options.index is not None:
        place = _place(table, options.index, "index")
        found_rows = _column(table, place)
        del names[place], columns[place]
    check_shape((table.length, len(names)), "counts")
    parts = [_numbers(table, i) for i in columns]
    axes, (rows, cols) = options.declared(2)
    along_columns = label_index(
        cols, object_array(names), "column", "columns", public=options.public_labels, ordered=True
    )
    labels: list[np.ndarray | None] = [None, along_columns.labels]
    if found_rows is None:  # rows without names: how many there are is public, as with an array
        to_row, n_rows = np.arange(table.length), table.length
        labels[0] = None if rows is None else rows
    else:
        along_rows = label_index(rows, found_rows, "row", "rows", public=options.public_labels, ordered=True)
        to_row, n_rows, labels[0] = along_rows.places(found_rows), len(along_rows), along_rows.labels
    shape = (n_rows, len(along_columns))
    names_read, labels_read = read_labels(labels, shape, axes)
    places = [np.tile(to_row, len(parts)), np.repeat(along_columns.places(object_array(names)), table.length)]
    return LabelledCounts(ListedCounts(shape, places, np.concatenate(parts)), names_read, labels_read)


def _long(table: Table, options: InputOptions) -> LabelledCounts:
    if options.index is not None:
        raise ValueError("index: expected only with a wide table, got it beside long")
    if isinstance(options.long, str) or not isinstance(options.long, tuple | list) or len(options.long) < 2:
        raise ValueError(
            "long: expected the names of the columns with row, column and count, such as "
            f"('sender', 'receiver', 'n'), got {options.long!r}"
        )
    *by, count = options.long
    axes, declared = options.declared(len(by))
    axes = tuple(map(str, by)) if axes is None else axes
    parameters = ("rows", "columns") if len(by) == 2 and options.labels is None else ("labels",) * len(by)
    along: list[LabelIndex] = []
    places = []
    for name, axis, labels, parameter in zip(by, axes, declared, parameters, strict=True):
        found = _column(table, _place(table, name, "long"))
        along.append(label_index(labels, found, axis, parameter, public=options.public_labels))
        places.append(along[-1].places(found))
    # Without a column of counts every line is one event.
    values = (
        np.ones(table.length, np.int64) if count is None else _numbers(table, _place(table, count, "long"))
    )
    shape = tuple(map(len, along))
    names, labels_read = read_labels([each.labels for each in along], shape, axes)
    return LabelledCounts(ListedCounts(shape, places, values), names, labels_read)


def _numbers(table: Table, column: int) -> np.ndarray:
    values = _column(table, column)
    if values.dtype.kind not in "biuf":
        # Which column it is stays unsaid: names of columns may be private labels.
        raise TypeError(
            "counts: expected columns of whole numbers, got one of something else or with missing values; "
            "index= names the column that holds row labels, long= those of a long table"
        )
    check_kind(values.dtype, "counts")
    return values


def _column(table: Table, column: int) -> np.ndarray:
    try:
        return table.column(column)
    except Exception as error:
        failed = type(error).__name__
    # Raised out here so that a message that quotes values does not travel along as context.
    raise TypeError(f"counts: expected columns of numbers and labels, got one that cannot be read ({failed})")


def _place(table: Table, name: Any, parameter: str) -> int:
    found = [i for i, other in enumerate(table.names) if other == name]
    if len(found) != 1:
        got = "no such column" if not found else f"{len(found)} columns of that name"
        raise ValueError(f"{parameter}: expected the name of a column of the table, got {name!r}: {got}")
    return found[0]
