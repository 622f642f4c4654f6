"""Tables of pandas, polars and Arrow, seen alike: columns as arrays, and what is known of the labels of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from countveil.counts.foreign import comes_from
from countveil.counts.inputs.spellings import object_array, spoken

#: What pandas calls an index without a name that was saved as a column.
SAVED_INDEX = re.compile(r"__index_level_\d+__")
_FLOATS = ("halffloat", "float", "double")
#: Types that others add to those of Arrow and whose values are known: of others Arrow has numbers that mean
#: something else, as for a month how many there were since 1970.
_KNOWN_TYPES = re.compile(
    r"u?int\d|halffloat|float|double|bool|(large_)?(string|binary)|fixed_size_binary|decimal|date|time|duration|null|"
    r"extension<"
)
_KNOWN_FORMS = ("arrow.uuid", "arrow.bool8", "arrow.json")


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
    has_whole: bool = False  # whether its row labels are whole numbers by their type, and nobody named them
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
            _index_array(index),
            rows_by=_name_of(index),
            levels=index.nlevels,
            is_numbered=type(index).__name__ == "RangeIndex" and index.name is None,
            has_whole=getattr(index.dtype, "kind", "O") in "iu" and index.name is None,
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
        names, index = counts.column_names, _described_index(counts.schema)
        # One that only counts the rows is described and no column. Arrow keeps the description where it filters,
        # slices, sorts and joins: it says what the rows were, and not which of them are here.
        ranges = [one for one in index if isinstance(one, dict)]
        saved = [one for one in index if isinstance(one, str)]
        return Table(
            names,
            lambda i: _known_array(counts.column(i), counts.schema.field(i)),
            counts.num_rows,
            None,
            is_numbered=any(one.get("name") is None for one in ranges),
            was_index=_saved_index(names, saved),
            lost_index=any(one.get("name") is not None for one in ranges) or not set(saved) <= set(names),
        )
    if comes_from(counts, "polars", "LazyFrame"):
        raise TypeError("counts: expected a table, got a polars LazyFrame; collect() it first")
    return None


def _described_index(schema: Any) -> list[Any]:
    """What pandas left word of; nothing where whoever wrote it there left something else."""
    with suppress(ValueError, TypeError, AttributeError, RecursionError):
        return list((schema.pandas_metadata or {}).get("index_columns", []))
    return []


def _saved_index(names: list[Any], saved: Container[Any] = ()) -> tuple[int, ...]:
    """Of the columns those that were an index, by what pandas says of them, or by the names that it gives."""
    return tuple(
        place
        for place, name in enumerate(names)
        if name in saved or (isinstance(name, str) and SAVED_INDEX.fullmatch(name))
    )


def _known_array(column: Any, field: Any) -> np.ndarray:
    """A column, unless it has a form that nobody told Arrow of here, as where pandas was not imported."""
    form = (field.metadata or {}).get(b"ARROW:extension:name", b"").decode(errors="replace")
    if form and form not in _KNOWN_FORMS:
        raise _other_form(form)
    return _arrow_array(column)


def _arrow_array(column: Any) -> np.ndarray:
    if hasattr(column.type, "value_type") and hasattr(column.type, "index_type"):  # dictionary-encoded
        parts = [_of_dictionary(chunk) for chunk in column.chunks]
        return np.concatenate(parts) if parts else np.empty(0, dtype=object)
    if column.type.num_fields:
        raise _several_values()
    kind = str(column.type)
    if (
        _KNOWN_TYPES.match(kind) is None
    ):  # as intervals of the calendar, which are something else beside a hole
        raise _other_form(kind)
    if kind == "time64[ns]":
        column = _whole_microseconds(column)
    form = getattr(column.type, "extension_name", "")  # as ids have: numpy would get their bytes
    if form and form not in _KNOWN_FORMS:
        raise _other_form(form)
    if form or getattr(column.type, "tz", None) or kind.startswith("time32") or kind.startswith("time64"):
        return _each(column)  # numpy has neither zones nor times of day
    # Missing times have a value in numpy, and those that Python does not have, too. A missing value among integers
    # makes floats of all of them, and large ones change: such columns come as objects.
    is_whole = hasattr(column.type, "unit") or kind.startswith("date") or kind in _FLOATS
    return column.to_numpy() if is_whole or not column.null_count else object_array(column.to_pylist())


class OtherFormError(TypeError):
    """A column of a type whose values are not known: that is known by the type alone."""


def _other_form(form: str) -> OtherFormError:
    return OtherFormError(
        f"counts: expected columns of numbers, texts, times or ids, got one of the type {form!r}, of which Arrow "
        "keeps other values; make texts of them first (astype(str))"
    )


def _several_values() -> OtherFormError:
    """By the type alone, too: objects of pandas have none, and lists among them are nobody's labels."""
    return OtherFormError(
        "counts: expected columns of numbers and labels, got one of several values in each line; explode() gives "
        "each a line of its own"
    )


def _of_dictionary(chunk: Any) -> np.ndarray:
    """Every entry once, however often it stands there: it may be long."""
    import pyarrow as pa

    known = entries = _arrow_array(pa.chunked_array([chunk.dictionary]))
    if chunk.null_count and entries.dtype.kind in "mMf":  # by the type alone: a hole makes no objects of them
        missing = np.nan if entries.dtype.kind == "f" else "NaT"
        known = np.append(entries, np.array(missing, entries.dtype))
    elif chunk.null_count:
        known = object_array([*entries.tolist(), None])
    places = chunk.indices.cast(pa.int64()).fill_null(len(entries))  # which narrow integers might not hold
    return known[places.to_numpy(zero_copy_only=False)]


def _whole_microseconds(column: Any) -> Any:
    """Times of day, which Python has to the microsecond: finer ones are missing, and do not become others."""
    import pyarrow as pa
    from pyarrow import compute

    cut = column.cast(pa.time64("us"), safe=False)
    return compute.if_else(compute.equal(cut.cast(column.type), column), cut, None)


def _each(column: Any) -> np.ndarray:
    """Its entries as objects. Times that Python does not have are missing: nothing may tell that they are there."""
    with suppress(Exception):  # all at once, as a rule
        return object_array(column.to_pylist())
    return object_array(map(_object, column))


def _object(entry: Any) -> Any:
    with suppress(Exception):
        return entry.as_py()
    return None


def _polars_array(column: Any) -> np.ndarray:
    form = getattr(column.dtype, "ext_name", None)
    if callable(form) and form() not in _KNOWN_FORMS:
        raise _other_form(form())
    if column.dtype.is_nested():
        raise _several_values()
    if column.dtype.is_temporal():
        import pyarrow as pa

        return _arrow_array(pa.chunked_array([column.to_arrow()]))
    is_long = str(column.dtype) in ("Int128", "UInt128")  # which numpy has not
    is_whole = not is_long and (column.dtype.is_float() or not column.null_count())
    return column.to_numpy() if is_whole else object_array(column.to_list())


def _name_of(index: Any) -> str:
    """The name of an index of pandas; of one of several levels all their names."""
    if index.nlevels > 1:
        return str(tuple(map(str, index.names)))
    return "" if index.name is None else str(index.name)


def _index_array(index: Any) -> np.ndarray:
    """The labels that an index has. Of several levels they are put together here: numbers stay what they are."""
    try:
        if index.nlevels == 1:
            return _pandas_array(index)
        parts = []
        for level, codes in zip(index.levels, index.codes, strict=True):
            known = [*spoken(_pandas_array(level)), None]  # at -1 is what is missing
            parts.append([known[code] for code in codes])
        return object_array(zip(*parts, strict=True))
    except Exception as error:
        failed = type(error).__name__
    # Raised out here so that a message that quotes labels does not travel along as context.
    raise TypeError(f"counts: expected an index of labels, got one that cannot be read ({failed})")


def _pandas_array(column: Any) -> np.ndarray:
    kind = type(column.dtype).__name__
    if kind == "CategoricalDtype":  # each once; and others do not change where one is missing
        values = column.array
        known = [*spoken(_pandas_array(values.categories)), None]  # at -1 is what is missing
        return object_array(known[code] for code in values.codes)
    if kind in ("ArrowDtype", "DatetimeTZDtype"):
        import pyarrow as pa

        found = column.array
        return _arrow_array(
            pa.chunked_array(
                found.__arrow_array__() if kind == "ArrowDtype" else [pa.array(found, from_pandas=True)]
            )
        )
    rounds = not isinstance(column.dtype, np.dtype) and column.isna().any()
    if rounds and getattr(column.dtype, "kind", "") == "f":
        return column.to_numpy(dtype=_width(column.dtype), na_value=np.nan)
    return object_array(column.to_list()) if rounds else column.to_numpy()


def _width(dtype: Any) -> Any:
    """What numpy keeps floats of this type of pandas in, where none is missing."""
    return getattr(dtype, "numpy_dtype", None) or getattr(dtype, "subtype", np.float64)
