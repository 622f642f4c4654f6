"""Tables of a page from the summaries of studies, so that no number in it is copied by hand.

A page marks a table by a comment that says what is in it, and everything up to ``<!-- end -->`` is written anew:

    <!-- table {"study": "links", "measure": "mae", "rows": ["size", "method"], "where": {"data": "counts"}} -->

Columns are the levels of noise; "plain" is what no noise was added to. ``python -m countveil.studies.page PAGE``
refreshes a page whose studies lie in the folder ``studies`` beside it (``make paper``).
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from countveil.studies.results import SUMMARY

_MARK = re.compile(r"<!-- table (\{.*?\}) -->\n(.*?)<!-- end -->\n", re.DOTALL)
_NAMES = {"size": "size", "hidden": "held out"}


def filled(text: str, studies: Path) -> str:
    """The page with every marked table written anew from ``studies/NAME/summary.csv``."""

    def table(found: re.Match[str]) -> str:
        asked = json.loads(found[1])
        return f"<!-- table {found[1]} -->\n{table_of(read_summary(studies / asked['study']), asked)}<!-- end -->\n"

    return _MARK.sub(table, text)


def read_summary(folder: Path) -> pd.DataFrame:
    """A summary as it was written; words that are empty stay words."""
    return pd.read_csv(
        folder / SUMMARY, dtype=dict.fromkeys(("data", "hidden", "start"), str), keep_default_na=False,
        na_values={name: [""] for name in ("level", "mean", "low", "high")},
    )  # fmt: skip


def table_of(summary: pd.DataFrame, asked: dict[str, Any]) -> str:
    """Markdown: rows by the fields that were asked for, columns by level, mean ± half of the 95 % interval.

    >>> summary = pd.DataFrame([("exact", 1.0, "mae", 0.25, 0.2, 0.3)],
    ...                        columns=["method", "level", "measure", "mean", "low", "high"])
    >>> print(table_of(summary, {"measure": "mae", "rows": ["method"]}), end="")
    | method | 1 |
    |---|---|
    | exact | 0.250 ± 0.05 |
    """
    chosen = summary[summary["measure"] == asked["measure"]]
    for name, value in asked.get("where", {}).items():
        chosen = chosen[chosen[name] == value]
    if chosen.empty:
        raise ValueError(f"table: expected lines of the summary, got none for {asked}")
    fields = asked["rows"]
    levels = sorted({_level(one) for one in chosen["level"]}, reverse=True)
    cells: dict[tuple[Any, ...], dict[float, str]] = {}
    for line in chosen.to_dict("records"):
        place = cells.setdefault(tuple(line[name] for name in fields), {})
        level = _level(line["level"])
        if level in place:
            raise ValueError(f"table: expected one line for each cell, got two for {asked} at {line}")
        place[level] = _shown(line)
    order = {name: [*dict.fromkeys(chosen[name])] for name in fields}
    rows = sorted(cells, key=lambda row: [order[name].index(v) for name, v in zip(fields, row, strict=True)])
    head = [*(_NAMES.get(name, name) for name in fields), *(_head(level) for level in levels)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        lines.append("| " + " | ".join([*map(str, row), *(cells[row].get(at, "") for at in levels)]) + " |")
    return "\n".join(lines) + "\n"


def _level(level: float) -> float:
    return math.inf if math.isnan(level) else level


def _head(level: float) -> str:
    return "plain" if math.isinf(level) else f"{level:g}"


def _shown(line: dict[str, Any]) -> str:
    """Three digits that count; of the half width as many places."""
    mean, half = line["mean"], (line["high"] - line["low"]) / 2
    places = max(0, 2 - math.floor(math.log10(abs(mean)))) if mean else 2
    told = f"{mean:.{min(places, 5)}f}"
    return told if math.isnan(half) else f"{told} ± {half:.2g}"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(filled(page.read_text(encoding="utf-8"), page.parent / "studies"), encoding="utf-8")
