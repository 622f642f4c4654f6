"""Accounts: what the releases in a ledger cost together.

The loss between two observations at distance d is d times the slope, epsilon/precision, whichever unit the counts
belong to: the noise does not know units. So slopes of all releases of one dataset add, each release with the
largest slope of its rows. Where releases have the same named columns and named rows, a row's slopes add over those
releases that have the row, and the largest such sum counts: releases of different rows do not add (parallel
composition). So rows of one dataset with different names must hold different counts; where they do not (people, and
the departments they are in), give the first axis another name, and they add. Of a table the columns that rows are
by count as such names, whatever the axes are called in the release. Rows of a person may have any names,
and a count of a network is of two people: with that unit, and there, all releases add. Names that differ only in
spelling (007 and 7, case, accents) are one, of rows and of datasets; so are, of rows, True and 1, and an instant in
two time zones.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from countveil.counts.inputs.labels import shares_labels
from countveil.counts.inputs.spellings import coarse_key, coarse_keys
from countveil.counts.shown_text import short_label, visible

#: Rows beyond this number are not listed: such releases add up with all others, which is never too little.
MOST_ROWS = 1 << 20

#: What every entry of a kind has, as text; a slope is written as a fraction, and not in a form that is short for
#: a number of gigabytes (1e999999999).
_TEXTS = {
    "budget": ("dataset", "slope"),
    "release": ("dataset", "slope", "release", "time", "unit", "epsilon", "precision", "spent"),
    "finished": ("release",),
    "aborted": ("release",),
}
_SLOPE = re.compile(r"[0-9]{1,1000}(/0*[1-9][0-9]{0,999})?")
#: Bits of the common denominator of all slopes: a sum then has fewer digits than the 4,300 that Python writes.
_MOST_BITS = 10_000


class Account(NamedTuple):
    """What was spent of one dataset."""

    dataset: str
    spent: Fraction  # epsilon per count: the slope of all releases together
    budget: Fraction | None
    releases: tuple[dict[str, Any], ...]


def accounts_of(entries: Iterable[dict[str, Any]]) -> list[Account]:
    """Of every dataset, in the order in which they first appear."""
    names: dict[str, str] = {}
    budgets: dict[str, Fraction] = {}
    releases: dict[str, dict[str, Any]] = {}
    for entry in entries:
        _check(entry)
        if entry["what"] in ("budget", "release"):
            key = coarse_key(entry["dataset"])
            names.setdefault(key, entry["dataset"])
        if entry["what"] == "budget":
            budgets[key] = Fraction(entry["slope"])
        elif entry["what"] == "release":
            if entry["release"] in releases:
                raise ValueError("one release is entered twice")
            releases[entry["release"]] = {**entry, "key": key, "state": "unfinished"}
        elif entry["what"] not in ("finished", "aborted"):
            raise ValueError("there is an entry of a kind that this version does not know")
        elif entry["release"] in releases:
            releases[entry["release"]]["state"] = entry["what"]
            for old in entry.get("replaces", ()):
                if old in releases:
                    releases[old]["state"] = "overwritten"
    found = []
    for key, name in names.items():
        own = tuple(one for one in releases.values() if one["key"] == key)
        found.append(Account(name, spent_by(own), budgets.get(key), own))
    return found


def _check(entry: dict[str, Any]) -> None:
    """Refuse an entry that lacks something, or has it in another form than it was written in."""
    for name in _TEXTS.get(entry["what"], ()):
        if not isinstance(entry.get(name), str):
            raise ValueError(f"there is a {entry['what']} whose {name} is no text")
    if "slope" in entry and not _SLOPE.fullmatch(str(entry["slope"])):
        raise ValueError(f"there is a {entry['what']} whose slope is no fraction")
    if entry["what"] == "release":
        rows = entry["rows"]
        if not isinstance(rows, dict):
            raise ValueError("there is a release without its rows")
        for value, kind in (
            (entry["path"], str), (entry["columns"], str), (rows["number"], int), (rows["hashes"], str),
        ):  # fmt: skip
            if not (value is None or type(value) is kind):
                raise ValueError("there is a release with an entry of another kind")
    if not all(isinstance(one, str) for one in entry.get("replaces", ())):
        raise ValueError("there is a release that replaces what is no release")


def spent_by(releases: Sequence[dict[str, Any]]) -> Fraction:
    """The largest sum of slopes that any one row meets, see above."""
    slopes = [Fraction(one["slope"]) for one in releases]
    # One denominator for all: every row may have a sum of its own, and fractions would be shortened at each step.
    denominator = 1
    for slope in slopes:
        denominator = math.lcm(denominator, slope.denominator)
        if denominator.bit_length() > _MOST_BITS:
            raise ValueError("the slopes add up to a fraction of thousands of digits")
    total = 0
    together: dict[str, list[tuple[int, np.ndarray]]] = {}
    for one, slope in zip(releases, slopes, strict=True):
        parts, rows = slope.numerator * (denominator // slope.denominator), _unpacked(one["rows"])
        if rows is None or one["columns"] is None or one["unit"] == "person":
            total += parts
        else:
            together.setdefault(one["columns"], []).append((parts, rows))
    for same_columns in together.values():
        total += _largest_sum(same_columns)
    return Fraction(total, denominator)


def _largest_sum(releases: Sequence[tuple[int, np.ndarray]]) -> int:
    """Rows that met the same releases so far are of one kind: there are few kinds, and a sum for each will do."""
    rows = np.unique(np.concatenate([own for _, own in releases]))
    kinds, sums = np.zeros(len(rows), dtype=np.int64), [0]
    for slope, own in releases:
        places = np.searchsorted(rows, np.unique(own))
        before, kind = np.unique(kinds[places], return_inverse=True)
        kinds[places] = len(sums) + kind
        sums += [sums[one] + slope for one in before]
    return max(sums)


def packed_labels(labels: np.ndarray | None) -> dict[str, Any]:
    """Rows by a hash of 64 bits each, whatever their spelling.

    Two that share a hash count as the same row, which is never too little.
    """
    if labels is None or len(labels) > MOST_ROWS:
        return {"number": None if labels is None else len(labels), "hashes": None}
    hashes = np.unique(np.array([_hash(key) for key in coarse_keys(labels)], dtype="<u8"))
    return {"number": len(labels), "hashes": base64.b64encode(hashes.tobytes()).decode("ascii")}


def _unpacked(rows: dict[str, Any]) -> np.ndarray | None:
    hashes = rows["hashes"]
    return None if hashes is None else np.frombuffer(base64.b64decode(hashes), dtype="<u8")


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")


def digest_of(axes: tuple[str, ...], labels: Sequence[np.ndarray | None]) -> str | None:
    """One name for the axes and the labels of all but the first; None, for what always adds, if there is none.

    A table turned around has other columns. A network turned around may have the same: where a label stands on two
    axes a count belongs to two people. Totals by word share counts with totals by letter: so does any single axis.
    """
    columns = labels[1:]
    if not columns or any(names is None for names in columns) or shares_labels(labels):
        return None
    texts = [[str(label) for label in names] for names in columns if names is not None]
    return hashlib.sha256(json.dumps([axes, texts]).encode()).hexdigest()


def accounts_table(accounts: Sequence[Account]) -> str:
    """All accounts with their releases, for people."""
    return "\n\n".join(map(_account_lines, accounts)) or "Nothing was released."


def _account_lines(account: Account) -> str:
    budget = "no budget" if account.budget is None else f"budget {account.budget}"
    lines = [
        f"{visible(account.dataset)}: spent {account.spent} per count, {budget}.",
    ]
    if account.releases:
        heads = ("time (UTC)", "release", "epsilon", "precision", "unit", "spent", "state", "file")
        rows = [
            [
                short_label(cell)  # a ledger may come from others, and each line is as long as the longest
                for cell in (
                    one["time"].removesuffix("+00:00").replace("T", " "),
                    one["release"][:8],
                    one["epsilon"],
                    one["precision"],
                    one["unit"],
                    one["spent"],
                    one["state"],
                )
            ]
            + [visible(one["path"] or "-")]
            for one in account.releases
        ]
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        for cells in (heads, *rows):
            padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            lines.append("  " + "  ".join(padded).rstrip())
    return "\n".join(lines)
