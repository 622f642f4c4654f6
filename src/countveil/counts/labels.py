"""Names for rows, columns and further axes, checked once and kept as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

# The file's table has one column per axis and this one for the counts.
VALUE = "value"


def read_labels(given: Any, shape: tuple[int, ...]) -> tuple[tuple[str, ...], tuple[np.ndarray | None, ...]]:
    """Axis names and labels, from None, one entry per axis, or {axis name: labels} in axis order."""
    n_axes = len(shape)
    axes = ("row", "column") if n_axes == 2 else tuple(f"axis{i}" for i in range(n_axes))
    if given is None:
        return axes, (None,) * n_axes
    if isinstance(given, Mapping):
        axes, entries = _axis_names(given), list(given.values())
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        entries = list(given)
    else:
        raise TypeError(f"labels: expected labels (or None) for each axis, got {type(given).__name__}")
    if len(entries) != n_axes:
        raise ValueError(f"labels: expected an entry for each of the {n_axes} axes, got {len(entries)}")
    return axes, tuple(map(_axis_of_length, entries, axes, shape))


def _axis_names(given: Mapping) -> tuple[str, ...]:
    taken = {VALUE}
    for name in given:
        if not isinstance(name, str) or not name:
            raise ValueError(f"labels: expected axis names that are text, got {name!r}")
        # Without regard to case, because SQL readers of the file have none.
        if name.lower() in taken:
            raise ValueError(f"labels: expected axis names other than {sorted(taken)}, got {name!r}")
        taken.add(name.lower())
    return tuple(given)


def _axis_of_length(given: Any, axis: str, length: int) -> np.ndarray | None:
    if given is None:
        return None
    texts = axis_labels(given, axis)
    if len(texts) != length:
        raise ValueError(f"labels: expected {length} {axis} labels, got {len(texts)}")
    return texts


def axis_labels(given: Any, axis: str) -> np.ndarray:
    """The labels of one axis as text, each once."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"labels: expected a list of {axis} labels or None, got {type(given).__name__}")
    texts = [_text(label, axis) for label in given]
    seen = set()
    for text in texts:
        if text in seen:
            raise ValueError(f"labels: {axis} label {text!r} appears twice")
        seen.add(text)
    # An object array: fixed-width text would cost every label the length of the longest and drop final NULs.
    return np.array(texts, dtype=object)


def _text(label: Any, axis: str) -> str:
    if label is None or isinstance(label, bytes) or label != label:
        raise TypeError(f"labels: expected {axis} labels that are text or numbers, got {label!r}")
    return str(label)
