"""How the true counts are laid out, as the caller says it: the options of ``privatize`` about its input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from countveil.counts.inputs.labels import entries_of


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

    def declared(
        self, n_axes: int, names: Sequence[str] | None = None
    ) -> tuple[tuple[str, ...] | None, list[Any]]:
        """Axis names, if any were given, and for each axis what was declared or None.

        ``names``: what the axes are called in the counts, where that is not the usual.
        """
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
        return entries_of(self.labels, n_axes, names)


_ONLY_WITH = {
    "long": "with a table or a table file",
    "index": "with a wide table",
    "vocabulary": "with texts",
    "weight": "with a graph",
    "self_loops": "with a graph",
}
