"""A line that nobody declared moves no other: whatever its label is, and whichever library holds the column.

A label of its own may make numbers, or other numbers, of all in its column: integers become floats, categories
objects, a short float a long one. What the others are called must not change with it: a release would tell that
the line is there, by all that the others lose.
"""

import datetime as dt
import decimal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv

import countveil as cv
from counts.spellings import BERLIN

#: A column of labels, and what may stand in a line that nobody declared.
COLUMNS = {
    "intervals": (pd.cut(pd.Series([5, 15, 25]), [0, 10, 20, 30]), [99]),
    "days": (pd.Series(pd.to_datetime(["2025-01-01", "2025-01-02", "2025-01-03"])), [None, "x"]),
    "dates": (pd.Series([dt.date(2025, 1, day) for day in (1, 2, 3)]), [None, "x"]),
    "hours": (pd.Series(pd.date_range("2025-01-01", periods=3, freq="h")), [None, "x"]),
    "zoned hours": (pd.Series(pd.date_range("2025-01-01", periods=3, freq="h", tz=BERLIN)), [None, "x"]),
    "whole numbers": (pd.Series([1, 2, 3]), [None, "x", 0.5]),
    "small whole numbers": (pd.Series(np.array([1, 2, 3], np.uint8)), [None, "x", 0.5, -1]),
    "round numbers": (pd.Series([10**5, 2 * 10**5, 10**14]), [None, "x"]),
    "large numbers": (pd.Series([10**14, 10**14 + 1, 7]), [None, "x"]),
    "short floats": (pd.Series(np.array([0.1, 0.55, 17 / 1024], np.float32)), [None, "x"]),
    "floats": (pd.Series([0.1, 0.55, 1e-05]), [None, "x", 3]),
    "truths": (pd.Series([True, False, True]), [None, "x"]),
    "texts": (pd.Series(["a", "007", "b"]), [None, 7, "'", "\u00e9"]),
    "numbers as texts": (pd.Series(["1", "2", "10"]), [None, "x", 0.5]),
    "durations": (pd.Series(pd.to_timedelta(["1h", "2h", "1D"])), [None, "x"]),
    "categories": (pd.Series([1, 2, 3]).astype("category"), [None]),
    "months": (pd.Series(pd.period_range("2025-01", periods=3, freq="M")), [None, "x"]),
}


def longer(name, other):
    """The column, and one label more."""
    column, _ = COLUMNS[name]
    if name == "intervals":
        return pd.cut(pd.Series([5, 15, 25, other]), [0, 10, 20, 30])
    if name == "categories":
        return pd.Series([*column, other]).astype("category")
    return pd.concat([column, pd.Series([other])], ignore_index=True)


def lines(column):
    return pd.DataFrame({"by": column, "word": "tea", "n": 100})


def in_arrow(column):
    return pa.Table.from_pandas(lines(column), preserve_index=False)


#: Long tables, by what holds them.
LONG = {
    "pandas": lambda column, folder: lines(column),
    "types of pandas": lambda column, folder: lines(column).convert_dtypes(),
    "types of Arrow": lambda column, folder: in_arrow(column).to_pandas(types_mapper=pd.ArrowDtype),
    "Arrow": lambda column, folder: in_arrow(column),
    "polars": lambda column, folder: pl.from_arrow(in_arrow(column)),
    "Parquet": lambda column, folder: lines(column).to_parquet(folder / "by.parquet") or folder / "by.parquet",
    "CSV of pandas": lambda column, folder: (
        lines(column).to_csv(folder / "by.csv", index=False) or folder / "by.csv"
    ),
    "CSV of polars": lambda column, folder: (
        pl.from_arrow(in_arrow(column)).write_csv(folder / "by.csv") or folder / "by.csv"
    ),
    "CSV of Arrow": lambda column, folder: csv.write_csv(in_arrow(column), folder / "by.csv") or folder / "by.csv",
}  # fmt: skip


def index(labels):
    return pd.DataFrame({"tea": 100}, index=labels)


#: Wide ones, by where their labels are: the table, and what is declared of it.
WIDE = {
    "index": lambda labels, rows: (index(pd.Index(labels, name="by")), {"rows": rows, "columns": ["tea"]}),
    "level": lambda labels, rows: (
        index(pd.MultiIndex.from_arrays([labels, ["q"] * len(labels)], names=["by", "part"])),
        {"rows": [(one, "q") for one in rows], "columns": ["tea"]},
    ),
    "columns": lambda labels, rows: (
        pd.DataFrame([[100] * len(labels)], pd.Index(["ann"], name="who"), pd.Index(labels)),
        {"rows": ["ann"], "columns": rows},
    ),
}

#: What such a column is not kept in, or only as something else: numbers of months, or fewer digits.
NOT_THERE = {
    "intervals": {"Arrow", "types of Arrow", "polars", "Parquet", "CSV of polars", "CSV of Arrow"},
    "months": {"Arrow", "types of Arrow", "polars", "Parquet", "CSV of polars", "CSV of Arrow"},
    "durations": {"CSV of polars", "CSV of Arrow"},
    "short floats": {"CSV of pandas", "CSV of polars", "CSV of Arrow", "level"},
}
#: Those that hold labels by their type: no two types in a column. Their files are as they are.
TYPED = {"Arrow", "types of Arrow", "polars", "Parquet", "CSV of polars", "CSV of Arrow"}


@pytest.mark.parametrize(
    ("name", "holder"),
    [
        (name, holder)
        for name in COLUMNS
        for holder in (*LONG, *WIDE)
        if holder not in NOT_THERE.get(name, ())
    ],
)
def test_a_line_that_nobody_declared_moves_no_other(name, holder, tmp_path):
    column, others = COLUMNS[name]
    known = list(dict.fromkeys(column.tolist()))

    def found(labels, rows):
        if holder in LONG:
            options = {"long": ("by", "word", "n"), "rows": rows, "columns": ["tea"]}
            return cv.privatize(LONG[holder](labels, tmp_path), epsilon=900, **options).to_dense()
        table, options = WIDE[holder](labels[~labels.duplicated()], rows)
        return cv.privatize(table, epsilon=900, **options).to_dense()

    # Declared as text, too; texts of files are other texts where a table is written otherwise.
    for rows in (known, [str(one) for one in known])[: 1 if "CSV" in holder else 2]:
        if holder == "columns" and name == "truths" and rows is not known:
            continue  # names that pandas only numbers, to those who declare texts
        before = found(column, rows)
        assert (before > 0).all(), rows
        for other in others:
            if (
                holder in TYPED
                and other is not None
                and (type(other) is not type(column[0]) or name == "dates")
            ):
                continue
            assert np.array_equal(found(longer(name, other), rows), before), (rows, other)


@pytest.mark.parametrize("kind", ["months", "intervals"])
def test_types_that_arrow_keeps_as_other_values_are_refused(kind, tmp_path):
    """Of a month it has how many there were since 1970: another name of one row, to the ledger, too."""
    column = COLUMNS[kind][0]
    for holder in NOT_THERE[kind] & {"Arrow", "types of Arrow", "polars", "Parquet"}:
        try:
            table = LONG[holder](column, tmp_path)
        except pa.ArrowNotImplementedError:  # categories of intervals in Parquet
            continue
        with pytest.raises(TypeError, match=r"of the type 'pandas\.|several values"):
            cv.privatize(table, epsilon=900, long=("by", "word", "n"), public_labels=True)


def test_such_types_are_refused_where_arrow_does_not_know_them():
    """As in a process that did not import what registers them."""
    field = pa.field("by", pa.int64(), metadata={"ARROW:extension:name": "pandas.period"})
    table = pa.table(
        [pa.array([660]), pa.array(["tea"]), pa.array([1])],
        pa.schema([field, ("word", "string"), ("n", "int64")]),
    )
    with pytest.raises(TypeError, match=r"one of the type 'pandas\.period'"):
        cv.privatize(table, epsilon=900, long=("by", "word", "n"), public_labels=True)


def test_rows_that_were_put_together_are_not_added_up_from_files_either(tmp_path):
    month = pd.DataFrame({"tea": [10, 20]})
    both = pd.concat([month, month])
    both.to_parquet(tmp_path / "both.parquet")
    for table in (both, pa.Table.from_pandas(both), tmp_path / "both.parquet"):
        for options in ({"public_labels": True}, {"rows": [0, 1], "columns": ["tea"]}):
            with pytest.raises(ValueError, match="numbers that come again"):
                cv.privatize(table, epsilon=900, **options)
    apart = both.set_axis([3, 1, 2, 0])
    apart.to_parquet(tmp_path / "apart.parquet")
    found = cv.privatize(tmp_path / "apart.parquet", epsilon=900, rows=[0, 1, 2, 3], columns=["tea"])
    assert found.to_dense().ravel().tolist() == [20, 20, 10, 10]
    with pytest.raises(ValueError, match="expected labels that are numbers"):
        cv.privatize(tmp_path / "apart.parquet", epsilon=900, rows=["ann", "bo"], columns=["tea"])


LONG_NUMBER, LONG_FLOAT = 2**64 + 1, 1234567890123456.0


def outcome(counts, rows):
    wide = {"columns": ["tea"]} if isinstance(counts, pd.DataFrame) and "n" not in counts else {
        "columns": ["tea"], "long": ("by", "word", "n"),
    }  # fmt: skip
    try:
        return cv.privatize(counts, epsilon=900, rows=rows, **wide).to_dense().tolist()
    except (TypeError, ValueError) as error:
        return str(error)


@pytest.mark.parametrize(
    ("table", "rows", "refused"),
    [
        (
            lambda hole: pl.DataFrame({
                "by": ["ann", "bo"] + ["zoe"] * hole,
                "word": "tea",
                "n": pl.Series([100, 100] + [None] * hole, dtype=pl.Int128),
            }),
            ["ann", "bo"],
            None,
        ),
        (
            lambda hole: pl.DataFrame({
                "by": pl.Series([LONG_NUMBER, 5] + [None] * hole, dtype=pl.Int128), "word": "tea", "n": 100,
            }),
            [str(LONG_NUMBER), "5"],
            None,
        ),
        *(
            (
                lambda hole, holder=holder: holder(
                    pd.Series(pd.array([12345678.0, 5.0] + [pd.NA] * hole, dtype="Float32"), name="by")
                ),
                ["12345678", "5"],
                "long numbers",
            )
            for holder in (lines, lambda by: index(pd.Index(by)))
        ),
        (
            lambda hole: in_arrow(pd.Categorical([LONG_FLOAT, 5.0] + [None] * hole)),
            [str(int(LONG_FLOAT)), "5"],
            "long numbers",
        ),
        (
            lambda hole: pa.concat_tables(
                [in_arrow(pd.Categorical([LONG_FLOAT])), in_arrow(pd.Categorical([5.0] + [None] * hole))]
            ),
            [str(int(LONG_FLOAT)), "5"],
            "long numbers",
        ),
    ],
    ids=["long counts", "long labels", "Float32", "index of Float32", "dictionary", "dictionaries"],
)  # fmt: skip
def test_a_line_without_a_label_or_count_takes_no_error_away(table, rows, refused):
    """What is refused is refused by the type of a column alone."""
    whole, with_hole = (outcome(table(hole), rows) for hole in (False, True))
    assert whole == with_hole
    assert whole == [[100], [100]] if refused is None else refused in whole


ARROW = {
    "whole": (pa.int64(), [1, 2]),
    "small": (pa.uint8(), [1, 2]),
    "short floats": (pa.float32(), [0.5, 2.25]),
    "floats": (pa.float64(), [0.1, 2.0]),
    "truths": (pa.bool_(), [True, False]),
    "texts": (pa.string(), ["a", "1"]),
    "long texts": (pa.large_string(), ["a", "1"]),
    "views": (pa.string_view(), ["a", "1"]),
    "decimals": (pa.decimal128(25, 2), [decimal.Decimal("1.10"), decimal.Decimal("2.00")]),
    "long decimals": (pa.decimal256(50, 2), [decimal.Decimal("1.10"), decimal.Decimal("2.00")]),
    "days": (pa.date32(), [dt.date(2025, 1, 1), dt.date(2025, 1, 2)]),
    "milliseconds": (pa.date64(), [dt.date(2025, 1, 1), dt.date(2025, 1, 2)]),
    "moments": (pa.timestamp("ns"), [dt.datetime(2025, 1, 1, 12), dt.datetime(2025, 1, 2)]),
    "zoned": (pa.timestamp("us", "Europe/Berlin"), [dt.datetime(2025, 1, 1, 12), dt.datetime(2025, 1, 2)]),
    "times": (pa.time64("us"), [dt.time(1, 2), dt.time(3, 4)]),
    "spans": (pa.duration("s"), [dt.timedelta(1), dt.timedelta(hours=2)]),
    "calendar": (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 0, 0]), pa.MonthDayNano([2, 0, 0])]),
}  # fmt: skip


@pytest.mark.parametrize("dictionary", [False, True], ids=["plain", "dictionary"])
@pytest.mark.parametrize("kind", ARROW)
def test_no_type_of_arrow_has_other_names_beside_a_hole(kind, dictionary):
    """As many types as Arrow has for single values, plain and by dictionary, in one chunk and in several."""
    made, labels = ARROW[kind]

    def column(*parts):
        chunks = pa.chunked_array([pa.array(part, made) for part in parts], made)
        return chunks.dictionary_encode() if dictionary else chunks

    def found(column):
        n = len(column)
        table = pa.table({"by": column, "word": ["tea"] * n, "n": [100] * n})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of counts without a label
            return cv.privatize(table, 900, long=("by", "word", "n"), public_labels=True).labels[0].tolist()

    if kind == "calendar":  # nobody's names of its own: DateOffset without a hole, three numbers beside one
        for one in (column(labels), column([*labels, None])):
            with pytest.raises(TypeError, match=r"got one of the type 'month_day_nano_interval'.*astype"):
                found(one)
        return
    whole = found(column(labels))
    assert len(whole) == 2
    for other in (column([*labels, None]), column([None], labels), column(labels[:1], [None, *labels[1:]])):
        assert found(other) == whole
