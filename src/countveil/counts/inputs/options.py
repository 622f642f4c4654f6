"""How the true counts are laid out, as the caller says it: the options of ``privatize`` about its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class InputOptions(NamedTuple):
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
            default = InputOptions._field_defaults[name]
            unused = value is default or (isinstance(value, str) and value == default)
            if not unused and name not in (*allowed, "labels", "rows", "columns", "public_labels"):
                raise ValueError(f"{name}: expected only {_ONLY_WITH[name]}, got it with {kind}")

    def declared(self, n_axes: int) -> tuple[tuple[str, ...] | None, list[Any]]:
        """Axis names, if any were given, and for each axis what was declared or None."""
        if self.labels is None:
            if n_axes == 2:
                return None, [self.rows, self.columns]
            if self.rows is not None or self.columns is not None:
                raise ValueError(
                    f"rows, columns: expected them for 2 axes, got {n_axes} axes; use labels (to count lines, give "
                    "long as ROW,COLUMN, with a comma at its end)"
                )
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


def comes_from(thing: Any, library: str, name: str | None = None) -> bool:
    """Whether the class of ``thing``, or one it is built on, is defined in ``library`` (and called ``name``).

    >>> from decimal import Decimal
    >>> comes_from(Decimal(1), "decimal", "Decimal"), comes_from(1, "pandas")
    (True, False)
    """
    return any(
        kind.__module__.partition(".")[0] == library and name in (None, kind.__name__)
        for kind in type(thing).__mro__
    )
