"""How the true counts are laid out, as the caller says it: the options of ``privatize`` about its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from countveil.counts.true_counts import TrueCounts

_DECLARE = (
    "the labels in counts are private data, and a release shows its labels as they are: the guarantee is "
    "void if someone's data decide which labels there are. Declare all that may occur, chosen without "
    "looking at the counts, or pass public_labels=True if anyone may know that exactly these occur"
)


class Form(NamedTuple):
    """The options as they were given; see ``privatize``."""

    labels: Any = None
    rows: Any = None
    columns: Any = None
    public_labels: bool = False
    long: Any = None
    index: Any = None
    vocabulary: Any = None
    weight: str | None = "weight"
    self_loops: bool = False

    def expect(self, kind: str, *allowed: str) -> None:
        """Refuse an option that means nothing for this kind of input."""
        for name, value in self._asdict().items():
            default = Form._field_defaults[name]
            unused = value is default or (isinstance(value, str) and value == default)
            if not unused and name not in (*allowed, "labels", "rows", "columns", "public_labels"):
                raise ValueError(f"{name}: expected only {_ONLY_WITH[name]}, got it with {kind}")

    def declared(self, n_axes: int) -> tuple[tuple[str, ...] | None, list[Any]]:
        """Axis names, if any were given, and for each axis what was declared or None."""
        if self.labels is None:
            if n_axes == 2:
                return None, [self.rows, self.columns]
            if self.rows is not None or self.columns is not None:
                raise ValueError(f"rows, columns: expected them for 2 axes, got {n_axes} axes; use labels")
            return None, [None] * n_axes
        if self.rows is not None or self.columns is not None:
            raise ValueError("labels: expected either labels or rows and columns, got both")
        if isinstance(self.labels, Mapping):
            axes, entries = tuple(self.labels), list(self.labels.values())
        elif isinstance(self.labels, Sequence) and not isinstance(self.labels, str | bytes):
            axes, entries = None, list(self.labels)
        else:
            kind = type(self.labels).__name__
            raise TypeError(f"labels: expected labels (or None) for each axis, got {kind}")
        if len(entries) != n_axes:
            raise ValueError(f"labels: expected an entry for each of the {n_axes} axes, got {len(entries)}")
        return axes, entries


_ONLY_WITH = {
    "long": "with a table or a table file",
    "index": "with a wide table",
    "vocabulary": "with texts",
    "weight": "with a graph",
    "self_loops": "with a graph",
}


class Given(NamedTuple):
    """True counts that have been checked, and their public names."""

    counts: TrueCounts
    axes: tuple[str, ...]
    labels: tuple[np.ndarray | None, ...]


def must_declare(name: str) -> ValueError:
    """The error for a universe that nobody declared."""
    return ValueError(f"{name}: expected {name}=[...], got none: {_DECLARE}")
