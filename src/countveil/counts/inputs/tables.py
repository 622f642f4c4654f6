"""Tables: pandas, polars and Arrow, wide (a row and a column per label) or long (a line per count)."""

from __future__ import annotations

from itertools import compress
from typing import Any

import numpy as np

from countveil.counts.inputs.arrays import LabelledCounts, ListedCounts, check_shape
from countveil.counts.inputs.forms import FORMS
from countveil.counts.inputs.frames import SAVED_INDEX, OtherFormError, Table
from countveil.counts.inputs.labels import (
    LabelIndex,
    label_index,
    listed,
    origin,
    read_labels,
    tell_of_unlabelled,
)
from countveil.counts.inputs.labels_of_tables import check_columns, check_named, check_totals, labels_of_rows
from countveil.counts.inputs.options import InputOptions
from countveil.counts.inputs.spellings import object_array
from countveil.privacy.guarantee import shown

_NUMBERS = (int, float, np.integer, np.floating, np.bool_)


def read_table(table: Table, options: InputOptions) -> LabelledCounts:
    """Check a table and bring it into the declared rows and columns."""
    options.expect("a table", "long", "index")
    return _wide(table, options) if options.long is None else _long(table, options)


def _wide(table: Table, options: InputOptions) -> LabelledCounts:
    index, rows_by = _index(table, options)
    by_several = index is None and table.levels > 1
    axes, (rows, cols) = options.declared(2, ["row" if by_several else rows_by or "row", "column"])
    rows = None if rows is None else listed(rows, "row")
    cols = None if cols is None else listed(cols, "column")
    public = options.public_labels
    found_rows = _labels(table, index, rows, public)
    columns = [place for place in range(len(table.names)) if place != index and place not in table.was_index]
    names = [table.names[place] for place in columns]
    check_named(names, cols)
    check_columns(names, cols)
    check_shape((table.length if found_rows is None else 1, len(names)), "counts")
    along_columns = label_index(cols, object_array(names), "column", "columns", public=public, ordered=True)
    to_column = along_columns.places(object_array(names))
    if cols is None:
        tell_of_unlabelled(to_column, "columns")
    labels: list[Any] = [None, along_columns.labels]
    if found_rows is None:  # rows without names: how many there are is public, as with an array
        to_row, n_rows = np.arange(table.length), table.length
        labels[0] = rows
        if rows is not None and len(rows) != table.length:
            # Not how many: of a table of links or events, given by mistake, that tells how many there were.
            raise ValueError(
                f"rows: expected a label for each row of the table, got {len(rows)}, another number; index= names "
                "the column that holds row labels, long= those of a long table"
            )
        if rows is not None and (cols is None or (to_column < 0).any()):
            # Any of them, wherever it stands: that is known by the names of columns, whatever is in them.
            raise ValueError(
                "rows: expected a table with row labels, or with the declared columns alone, whose rows go by "
                "order, got one without row labels and with other columns, of which one may hold them; index= "
                "names it, and without the others (or as an array) rows go by order"
            )
    else:
        along_rows = label_index(rows, found_rows, "row", "rows", public=public, ordered=True)
        to_row, n_rows, labels[0] = along_rows.places(found_rows), len(along_rows), along_rows.labels
        if rows is None:
            tell_of_unlabelled(to_row, "rows")
    shape = (n_rows, len(along_columns))
    names_read, labels_read = read_labels(labels, shape, axes)
    check_totals(labels_read, ("rows", "columns"))
    places = [np.tile(to_row, len(names)), np.repeat(to_column, table.length)]

    def values(inside: np.ndarray) -> np.ndarray:
        by_column = inside.reshape(len(names), table.length)
        return np.concatenate(
            [_numbers(table, i, lines) for i, lines in zip(columns, by_column, strict=True)]
        )

    declared = (origin(rows, found=found_rows is not None), origin(cols, found=True))
    said = str(FORMS["wide table"].stability)
    counts = ListedCounts(shape, places, values)
    return LabelledCounts(counts, names_read, labels_read, "wide table", declared, said, rows_by)


def _labels(table: Table, index: int | None, rows: Any, public: bool) -> np.ndarray | None:
    """The labels by which rows are found, if they go by labels.

    Of an index without a name that was saved, the same is asked as of one that was not.
    """
    if index is None:
        return labels_of_rows(table, rows, public=public)
    found = _column(table, index)
    if found.dtype.kind in "iu" and SAVED_INDEX.fullmatch(str(table.names[index])):
        saved = table._replace(row_labels=found, has_whole=True, is_numbered=False, lost_index=False)
        return labels_of_rows(saved, rows, public=public)
    return found


def _index(table: Table, options: InputOptions) -> tuple[int | None, str]:
    """The column with the labels of the rows, and what they are called."""
    if options.index is not None:
        return _place(table, options.index, "index"), str(options.index)
    if len(table.was_index) > 1:
        raise ValueError(
            "counts: expected one column of row labels, got an index of several; index= names one of them, long= "
            "the columns of a long table"
        )
    if not table.was_index:
        return None, table.rows_by
    name = str(table.names[table.was_index[0]])
    return table.was_index[0], "" if SAVED_INDEX.fullmatch(name) else name


def _long(table: Table, options: InputOptions) -> LabelledCounts:
    if options.index is not None:
        raise ValueError("index: expected only with a wide table, got it beside long")
    if isinstance(options.long, str) or not isinstance(options.long, tuple | list) or len(options.long) < 2:
        raise ValueError(
            "long: expected the names of the columns with row, column and count, such as "
            f"('sender', 'receiver', 'n'), got {shown(options.long, numbers=False)}"
        )
    *by, count = options.long
    axes, declared = options.declared(len(by), [str(name) for name in by])
    axes = tuple(map(str, by)) if axes is None else axes
    parameters = ("rows", "columns") if len(by) == 2 and options.labels is None else ("labels",) * len(by)
    along: list[LabelIndex] = []
    places = []
    for name, axis, labels, parameter in zip(by, axes, declared, parameters, strict=True):
        found = _column(table, _place(table, name, "long"))
        along.append(label_index(labels, found, axis, parameter, public=options.public_labels))
        places.append(along[-1].places(found))
    is_declared = [labels is not None for labels in declared]
    inside = np.all([each >= 0 for each in compress(places, is_declared)], axis=0)
    for each, parameter, known in zip(places, parameters, is_declared, strict=True):
        if not known:
            tell_of_unlabelled(each[inside], parameter)
    place = None if count is None else _place(table, count, "long")

    def values(inside: np.ndarray) -> np.ndarray:
        # Without a column of counts every line is one event.
        return np.ones(inside.sum(), np.int64) if place is None else _numbers(table, place, inside)

    shape = tuple(map(len, along))
    names, labels_read = read_labels([each.labels for each in along], shape, axes)
    check_totals(labels_read, parameters)
    origins = tuple(origin(labels, found=True) for labels in declared)
    said = str(FORMS["long table"].stability)
    counts = ListedCounts(shape, places, values)
    # Whatever the axes are called here: people as senders and the same as recipients are other rows, of one sum.
    # A column called 1 is not the one called "1".
    rows_by = str(tuple(name if isinstance(name, str) else f"<{name}>" for name in by))
    return LabelledCounts(counts, names, labels_read, "long table", origins, said, rows_by)


def _numbers(table: Table, column: int, lines: np.ndarray) -> np.ndarray:
    """The numbers in the chosen lines (booleans) of a column. What stands in other lines is never looked at."""
    if not lines.any():
        return np.zeros(0, np.int64)
    values = _column(table, column)[lines] if table.parse is None else table.parse(column, lines)
    if values.dtype == object and all(isinstance(value, _NUMBERS) for value in values):
        values = np.array(values.tolist())  # something else in another line made numpy fall back to objects
    if values.dtype.kind not in "biuf":
        # Which column it is stays unsaid: names of columns may be private labels.
        raise TypeError(
            "counts: expected columns of whole numbers, got one of something else or with missing values; "
            "index= names the column that holds row labels, long= those of a long table"
        )
    return values


def _column(table: Table, column: int) -> np.ndarray:
    try:
        found = table.column(column)
    except OtherFormError:
        raise
    except Exception as error:
        failed = type(error).__name__
    else:
        if found.ndim == 1:
            return found
        failed = "several values in a line"
    # Raised out here so that a message that quotes values does not travel along as context.
    raise TypeError(f"counts: expected columns of numbers and labels, got one that cannot be read ({failed})")


def _place(table: Table, name: Any, parameter: str) -> int:
    found = [i for i, other in enumerate(table.names) if other == name]
    if len(found) != 1:
        got = "no such column" if not found else f"{len(found)} columns of that name"
        raise ValueError(
            f"{parameter}: expected the name of a column of the table, got {shown(name, numbers=False)}: {got}"
        )
    return found[0]
