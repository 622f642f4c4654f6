"""Tables: pandas, polars and Arrow, wide (a row and a column per label) or long (a line per count)."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sized
from typing import Any, NamedTuple

import numpy as np

from countveil.counts.foreign import comes_from
from countveil.counts.inputs.arrays import LabelledCounts, ListedCounts, check_shape
from countveil.counts.inputs.forms import FORMS
from countveil.counts.inputs.labels import LabelIndex, label_index, object_array, origin, read_labels
from countveil.counts.inputs.options import InputOptions

_NUMBERS = (int, float, np.integer, np.floating, np.bool_)
# What pandas calls a column without a name: an index that was saved, as a rule.
_SAVED_INDEX, _UNNAMED = (
    re.compile(r"__index_level_\d+__"),
    re.compile(r"[\s\u200b\ufeff]*|Unnamed: \d+([._].*)?"),
)
_WHOLE = re.compile(r"[+-]?\d+")
_KEEP_INDEX = (
    "reset_index() or preserve_index=True makes a column of it, and an array (to_numpy()) goes by order"
)


class Table(NamedTuple):
    """What is needed of a table, whichever library it comes from."""

    names: list[Any]
    column: Callable[[int], np.ndarray]
    length: int
    row_labels: np.ndarray | None  # labels of the rows that are no column, if they have any
    # Numbers from a column of text, where all columns are text, and from the chosen (booleans) lines alone.
    parse: Callable[[int, np.ndarray], np.ndarray] | None = None
    rows_by: str = ""  # the name of those labels
    levels: int = 1  # of how many parts each of them is
    is_numbered: bool = False  # whether its row labels are but 0, 1, 2, ..., as pandas gives them to all
    was_index: tuple[int, ...] = ()  # columns that were the index of a table of pandas: no counts
    lost_index: bool = False  # whether it had an index with a name, or of labels, which is not in it


def as_table(counts: Any) -> Table | None:
    """``counts`` as a table, or None if it is no table of a library known here."""
    if isinstance(counts, Table):
        return counts
    if comes_from(counts, "pandas", "DataFrame"):
        index, names = counts.index, list(counts.columns)
        return Table(
            names,
            lambda i: _pandas_array(counts.iloc[:, i]),
            len(counts),
            _pandas_array(index),
            rows_by=_name_of(index),
            levels=index.nlevels,
            is_numbered=type(index).__name__ == "RangeIndex" and index.name is None,
            was_index=_saved_index(names),
        )
    if comes_from(counts, "polars", "DataFrame"):
        names = counts.columns
        return Table(
            names,
            lambda i: _polars_array(counts.to_series(i)),
            counts.height,
            None,
            was_index=_saved_index(names),
        )
    if comes_from(counts, "pyarrow", "Table"):
        names, described = counts.column_names, counts.schema.pandas_metadata or {}
        index = described.get("index_columns", [])
        # One that only counts the rows is described and no column. Arrow keeps the description where it filters,
        # slices, sorts and joins: it says what the rows were, and not which of them are here.
        ranges = [one for one in index if isinstance(one, dict)]
        saved = [one for one in index if isinstance(one, str)]
        return Table(
            names,
            lambda i: _arrow_array(counts.column(i)),
            counts.num_rows,
            None,
            is_numbered=any(one.get("name") is None for one in ranges),
            was_index=_saved_index(names, saved),
            lost_index=any(one.get("name") is not None for one in ranges) or not set(saved) <= set(names),
        )
    if comes_from(counts, "polars", "LazyFrame"):
        raise TypeError("counts: expected a table, got a polars LazyFrame; collect() it first")
    return None


def _saved_index(names: list[Any], saved: Container[Any] = ()) -> tuple[int, ...]:
    """Of the columns those that were an index, by what pandas says of them, or by the names that it gives."""
    return tuple(
        place
        for place, name in enumerate(names)
        if name in saved or (isinstance(name, str) and _SAVED_INDEX.fullmatch(name))
    )


def _arrow_array(column: Any) -> np.ndarray:
    if hasattr(column.type, "value_type") and hasattr(column.type, "index_type"):  # dictionary-encoded
        column = column.cast(column.type.value_type)
    return object_array(column.to_pylist()) if column.null_count else column.to_numpy()


# A missing value among integers makes floats of all of them, and large ones change: such columns come as objects.


def _polars_array(column: Any) -> np.ndarray:
    return object_array(column.to_list()) if column.null_count() else column.to_numpy()


def _name_of(index: Any) -> str:
    """The name of an index of pandas; of one of several levels all their names."""
    if index.nlevels > 1:
        return str(tuple(map(str, index.names)))
    return "" if index.name is None else str(index.name)


def _pandas_array(column: Any) -> np.ndarray:
    rounds = not isinstance(column.dtype, np.dtype) and column.isna().any()
    return object_array(column.to_list()) if rounds else column.to_numpy()


def read_table(table: Table, options: InputOptions) -> LabelledCounts:
    """Check a table and bring it into the declared rows and columns."""
    options.expect("a table", "long", "index")
    return _wide(table, options) if options.long is None else _long(table, options)


def _wide(table: Table, options: InputOptions) -> LabelledCounts:
    index, rows_by = _index(table, options)
    by_several = index is None and table.levels > 1
    axes, (rows, cols) = options.declared(2, ["row" if by_several else rows_by or "row", "column"])
    rows = list(rows) if isinstance(rows, Iterator) else rows
    cols = list(cols) if isinstance(cols, Iterator) else cols
    public = options.public_labels
    found_rows = labels_of_rows(table, rows, public=public) if index is None else _column(table, index)
    columns = [place for place in range(len(table.names)) if place != index and place not in table.was_index]
    names = [table.names[place] for place in columns]
    check_named(names, cols)
    check_shape((table.length if found_rows is None else 1, len(names)), "counts")
    along_columns = label_index(cols, object_array(names), "column", "columns", public=public, ordered=True)
    to_column = along_columns.places(object_array(names))
    labels: list[Any] = [None, along_columns.labels]
    if found_rows is None:  # rows without names: how many there are is public, as with an array
        to_row, n_rows = np.arange(table.length), table.length
        labels[0] = rows
        if isinstance(rows, Sized) and len(rows) != table.length:
            # Not how many: of a table of links or events, given by mistake, that tells how many there were.
            raise ValueError(
                f"rows: expected a label for each row of the table, got {len(rows)}, another number; index= names "
                "the column that holds row labels, long= those of a long table"
            )
        if rows is not None and (to_column < 0).any():
            # Any of them, wherever it stands: that is known by the names of columns, whatever is in them.
            raise ValueError(
                "rows: expected a table with row labels, or with the declared columns alone, whose rows go by "
                "order, got one without row labels and with other columns, of which one may hold them; index= "
                "names it, and without the others (or as an array) rows go by order"
            )
    else:
        along_rows = label_index(rows, found_rows, "row", "rows", public=public, ordered=True)
        to_row, n_rows, labels[0] = along_rows.places(found_rows), len(along_rows), along_rows.labels
    shape = (n_rows, len(along_columns))
    names_read, labels_read = read_labels(labels, shape, axes)
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
    return table.was_index[0], "" if _SAVED_INDEX.fullmatch(name) else name


def check_named(
    names: list[Any],
    declared: Any = None,
    name: str = "counts",
    advice: str = "index= names it ({}) where it does, columns= where it has counts",
) -> None:
    """Refuse a column without a name: it holds labels of rows, as a rule, and these would pass for counts.

    Where columns are declared it is dropped like all others; but if it is the first, rows would go by their order.
    Errors speak of the parameter ``name``, and ``advice`` says what to do with the column.
    """
    known = set() if declared is None else {str(label) for label in declared}
    for one in names if declared is None else names[:1]:
        if isinstance(one, str) and _UNNAMED.fullmatch(one) and one not in known:
            raise ValueError(
                f"{name}: expected names of all columns, got one without, which may hold labels of rows; "
                + advice.format(repr(one))
            )


def labels_of_rows(
    table: Table, rows: Any, *, public: bool = False, parameter: str = "rows"
) -> np.ndarray | None:
    """What declared rows are found by; None where they go by their order.

    pandas numbers all rows, and nobody need mean these numbers. Declared rows that are others might mean them, and
    all might where the numbers are only described: which rows they belonged to is not known.
    """
    remedy = _KEEP_INDEX if parameter == "labels" else f"index= names a column that holds them, {_KEEP_INDEX}"
    if table.lost_index and (rows is not None or public):
        raise ValueError(
            f"{'counts' if rows is None else parameter}: expected a table that holds its row labels, got "
            f"one whose index is only described, as it was before parts were left out or sorted; {remedy}"
        )
    if not table.is_numbered:
        return table.row_labels
    numbers = _whole_numbers(rows)
    if numbers and table.row_labels is None:
        raise ValueError(
            f"{parameter}: expected labels that are no numbers, for rows that pandas once numbered, got numbers, "
            f"which may mean those, as they were before parts were left out or sorted; {remedy}"
        )
    if numbers and table.row_labels is not None and numbers != [str(i) for i in table.row_labels]:
        raise ValueError(
            f"{parameter}: expected labels that are no numbers, or those of the table in its order, for rows "
            "that pandas numbers, got other numbers, which may mean those or go by order; to find rows by "
            "labels, set_index() them or give the index a name (rename_axis), and to go by order give "
            "to_numpy() or a list"
        )
    return None


def _whole_numbers(rows: Any) -> list[str]:
    """Declared rows as text where all of them are whole numbers, else none."""
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes):
        return []
    texts = [str(row).strip().removesuffix(".0") for row in rows]
    return texts if all(map(_WHOLE.fullmatch, texts)) else []


def _long(table: Table, options: InputOptions) -> LabelledCounts:
    if options.index is not None:
        raise ValueError("index: expected only with a wide table, got it beside long")
    if isinstance(options.long, str) or not isinstance(options.long, tuple | list) or len(options.long) < 2:
        raise ValueError(
            "long: expected the names of the columns with row, column and count, such as "
            f"('sender', 'receiver', 'n'), got {_named(options.long)}"
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
    place = None if count is None else _place(table, count, "long")

    def values(inside: np.ndarray) -> np.ndarray:
        # Without a column of counts every line is one event.
        return np.ones(inside.sum(), np.int64) if place is None else _numbers(table, place, inside)

    shape = tuple(map(len, along))
    names, labels_read = read_labels([each.labels for each in along], shape, axes)
    origins = tuple(origin(labels, found=True) for labels in declared)
    said = str(FORMS["long table"].stability)
    counts = ListedCounts(shape, places, values)
    # Whatever the axes are called here: people as senders and the same as recipients are other rows, of one sum.
    rows_by = str(tuple(map(str, by)))
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
        return table.column(column)
    except Exception as error:
        failed = type(error).__name__
    # Raised out here so that a message that quotes values does not travel along as context.
    raise TypeError(f"counts: expected columns of numbers and labels, got one that cannot be read ({failed})")


def _named(given: Any) -> str:
    """Names that were given; of anything else what it is: it may be counts."""
    if isinstance(given, list | tuple) and all(isinstance(each, str | None) for each in given):
        return repr(given)
    return repr(given) if isinstance(given, str) else f"a {type(given).__name__}"


def _place(table: Table, name: Any, parameter: str) -> int:
    found = [i for i, other in enumerate(table.names) if other == name]
    if len(found) != 1:
        got = "no such column" if not found else f"{len(found)} columns of that name"
        raise ValueError(
            f"{parameter}: expected the name of a column of the table, got {_named(name)}: {got}"
        )
    return found[0]
