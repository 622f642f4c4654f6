"""What is refused of the labels of a table: names that mean nothing, numbers that may mean two things, sums.

Counts would stand under other labels than their own, or one count in several cells, and no noise covers either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from countveil.counts.inputs.frames import Table
from countveil.counts.inputs.labels import LabelIndex, may_be_whole, whole_numbers
from countveil.counts.inputs.spellings import label_text

# What pandas calls columns without a name: an index that was saved, as a rule.
_UNNAMED = re.compile(r"[\s\u200b\ufeff]*|Unnamed: \d+([._].*)?")
# What polars, Arrow, DuckDB, R and spreadsheets call columns without a name.
_NUMBERED = re.compile(r"(column_?|f|V|X|Field|Column)\d+")
# Of labels of several parts, those that pandas gives to sums: ('All', '') and ('n', 'All').
_SUM_OF_PARTS = re.compile(r"\('All'(, '')+\)|\(.+, 'All'(, '')*\)")
# What pandas (crosstab and pivot_table with margins=True) and spreadsheets call sums, at the end of an axis.
_TOTALS = frozenset(["All", "Total", "Totals", "TOTAL", "Grand Total", "Sum", "SUM"])
_KEEP_INDEX = (
    "reset_index() or preserve_index=True makes a column of it, and an array (to_numpy()) goes by order"
)


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
    known = set(map(label_text, declared or ()))
    for one in names if declared is None else names[:1]:
        if isinstance(one, str) and _UNNAMED.fullmatch(one) and one not in known:
            raise ValueError(
                f"{name}: expected names of all columns, got one without, which may hold labels of rows; "
                + advice.format(repr(one))
            )


def check_columns(names: list[Any], declared: Sequence[Any] | None) -> None:
    """Refuse columns that a library only numbered beside declared ones of which none can be among them."""
    known = set(map(label_text, declared or ()))
    numbered = bool(names) and all(
        isinstance(name, int | np.integer) and not isinstance(name, bool) for name in names
    )
    numbered = numbered or all(isinstance(name, str) and _NUMBERED.fullmatch(name) for name in names)
    if declared is not None and numbered and not any(map(may_be_whole, declared)) and known.isdisjoint(names):
        raise ValueError(
            "columns: expected a table with names of columns, got one whose columns are only numbered, so that "
            "none that is declared can be found; name them, or give an array (to_numpy()), which goes by order"
        )


def _come_again(labels: np.ndarray, declared: Sequence[Any] | np.ndarray | None) -> bool:
    """Whether one of those that are not dropped stands there twice."""
    found = labels
    if declared is not None and len(declared):
        places = LabelIndex(declared, "row").places(labels)
        found = places[places >= 0]
    return len(set(found.tolist())) < len(found)


def labels_of_rows(
    table: Table, rows: Sequence[Any] | np.ndarray | None, *, public: bool = False, parameter: str = "rows"
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
        if table.has_whole and table.row_labels is not None and _come_again(table.row_labels, rows):
            raise ValueError(
                f"{'counts' if rows is None else parameter}: expected rows by labels, or numbered once, got "
                "numbers that come again, as where pandas puts tables together: such rows would be added up; "
                "reset_index(drop=True) numbers them anew, and rename_axis says that the numbers are labels"
            )
        if table.has_whole and rows is not None and not any(map(may_be_whole, rows)):
            raise ValueError(
                f"{parameter}: expected labels that are numbers, for a table whose rows are numbers, as pandas "
                "leaves them where some were taken out or sorted, got others, of which none can be found; "
                "set_index() the labels, or reset_index(drop=True) where rows go by order"
            )
        return table.row_labels
    numbers = whole_numbers(() if rows is None else rows)
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


def check_totals(labels: Sequence[np.ndarray | None], parameters: Sequence[str]) -> None:
    """Refuse sums of other cells, by their names: one count would move up to four of the released ones.

    They come last on an axis; the labels of a long table may be sorted, but then they are on two axes at least.
    """
    found = [
        [] if names is None else [place for place, name in enumerate(names.tolist()) if _is_total(name)]
        for names in labels
    ]
    of_several = sum(map(bool, found)) > 1
    for names, places, parameter in zip(labels, found, parameters, strict=True):
        if names is not None and places and (of_several or places[-1] == len(names) - 1):
            raise ValueError(
                f"{parameter}: expected counts alone, got the label {str(names[places[-1]])!r}, which may hold "
                "sums of others: one count would move several, more than a guarantee says. Leave it out, or "
                "rename it"
            )


def _is_total(name: str) -> bool:
    return name in _TOTALS or _SUM_OF_PARTS.fullmatch(name) is not None
