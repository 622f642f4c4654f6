"""The record of a release: which one it is, and how it came about. It tells nothing about the counts."""

from __future__ import annotations

import re
import secrets
from typing import Any, NamedTuple

from countveil.version import __version__

#: What two inputs may differ in, for the promise to be about them.
ADJACENCY = "counts added or removed: the sum over all cells of the differences; a replaced count is two"

_TEXT = 500  # characters: a record is for people


class Record(NamedTuple):
    """Of one call of ``privatize``."""

    id: str  # 32 hexadecimal digits, at random
    form: str  # in which the counts came, such as "long table"
    labels: tuple[str, ...]  # for each axis whether its labels are "declared", "from the data" or "none"
    stability: str  # how many counts one thing in them can move, in a sentence
    software: str
    #: Whether it was a network by labels on two axes, which got other names since: a cell belongs to two people.
    pairs: bool = False

    def to_dict(self) -> dict[str, Any]:
        """For JSON.

        >>> Record("0" * 32, "array", ("declared", "none"), "One moves one.", "countveil 0.1.0").to_dict()["labels"]
        ['declared', 'none']
        """
        return {**self._asdict(), "labels": list(self.labels), "adjacency": ADJACENCY}


def new_record(form: str, labels: tuple[str, ...], stability: str) -> Record:
    """The record of a release that is about to be made."""
    return Record(secrets.token_hex(16), form, labels, stability, f"countveil {__version__}")


def read_record(given: Any, n_axes: int) -> Record:
    """What ``to_dict`` gave; ValueError if it did not."""
    record = Record(
        given["id"], given["form"], tuple(given["labels"]), given["stability"], given["software"],
        given.get("pairs", False),
    )  # fmt: skip
    texts = (record.id, record.form, record.stability, record.software, *record.labels)
    if not all(isinstance(text, str) and 0 < len(text) <= _TEXT for text in texts):
        raise ValueError("expected a record of short texts")
    if not re.fullmatch("[0-9a-f]{32}", record.id):
        raise ValueError("expected an id of 32 hexadecimal digits")
    if type(record.pairs) is not bool:
        raise ValueError("expected pairs to be true or false")
    if len(record.labels) != n_axes:
        raise ValueError(f"expected a record of {n_axes} axes")
    return record
