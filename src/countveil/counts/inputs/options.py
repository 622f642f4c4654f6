"""How the true counts are laid out, as the caller says it: the options of ``privatize`` about its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from countveil.counts.inputs.labels import default_axes
from countveil.counts.shown_text import visible


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
        if isinstance(self.labels, Mapping):
            axes, entries = tuple(self.labels), list(self.labels.values())
        elif isinstance(self.labels, Sequence) and not isinstance(self.labels, str | bytes):
            axes, entries = None, list(self.labels)
        else:
            kind = type(self.labels).__name__
            raise TypeError(f"labels: expected labels (or None) for each axis, got {kind}")
        if len(entries) != n_axes:
            raise ValueError(f"labels: expected an entry for each of the {n_axes} axes, got {len(entries)}")
        if axes is None:
            return axes, entries
        return _in_order(axes, entries, list(default_axes(n_axes) if names is None else names))


def _in_order(
    axes: tuple[str, ...], entries: list[Any], names: list[str]
) -> tuple[tuple[str, ...], list[Any]]:
    """Entries in the order of the axes: the same names mean the same axes, and others are new ones, in order."""
    if set(axes) == set(names):
        found = dict(zip(axes, entries, strict=True))
        return tuple(names), [found[name] for name in names]
    for place, axis in enumerate(axes):
        if axis in names and names[place] != axis:
            raise ValueError(
                f"labels: expected all axes by their names ({', '.join(map(visible, names))}), or new names in "
                f"their order, got {visible(str(axis))} in another place"
            )
    return axes, entries


_ONLY_WITH = {
    "long": "with a table or a table file",
    "index": "with a wide table",
    "vocabulary": "with texts",
    "weight": "with a graph",
    "self_loops": "with a graph",
}
