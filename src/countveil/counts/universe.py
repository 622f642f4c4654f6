"""The declared labels of one axis, and the place of each.

What lies outside is dropped without a word. A warning or an error would tell that someone's data hold such an
entry, and no noise covers that. Dropping is safe: it acts on every observation by itself and brings no two of
them further apart, so what holds for the rest holds for the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from countveil.counts.form import must_declare
from countveil.counts.labels import axis_labels

OUTSIDE = -1


class Universe:
    """Labels in their order of release. They are compared as text, whole floats as integers.

    >>> Universe(["a", "b", 3], "row").places(np.array(["b", "z", 3.0, None], dtype=object))
    array([ 1, -1,  2, -1])
    """

    def __init__(self, labels: Any, axis: str) -> None:
        kept = labels.tolist() if isinstance(labels, np.ndarray) else labels
        kept = list(kept) if _is_list(kept) else kept
        texts = axis_labels(kept, axis)
        if not len(texts):
            raise ValueError(f"labels: expected at least one {axis} label, got none")
        self.labels: np.ndarray = texts
        self._place = {key: place for place, key in enumerate(map(_key, kept))}

    def __len__(self) -> int:
        return len(self.labels)

    def places(self, found: np.ndarray) -> np.ndarray:
        """The place of every label found, or OUTSIDE."""
        if found.dtype.kind in "iub":
            distinct, inverse = np.unique(found, return_inverse=True)
            return self._look_up(distinct)[inverse]
        return self._look_up(found)

    def places_in(self, other: Universe) -> np.ndarray:
        """The place of every own label among those of another axis, or OUTSIDE."""
        places = np.full(len(self), OUTSIDE)
        for key, place in self._place.items():
            places[place] = other._place.get(key, OUTSIDE)
        return places

    def _look_up(self, found: np.ndarray) -> np.ndarray:
        place = self._place
        places = (place.get(_key(label), OUTSIDE) for label in found.tolist())
        return np.fromiter(places, dtype=np.int64, count=len(found))


def universe(
    declared: Any, found: np.ndarray, axis: str, parameter: str, *, public: bool, ordered: bool = False
) -> Universe:
    """What was declared (by which parameter); else, only if labels are public, what was found.

    Found labels come sorted unless ``ordered``: the order in which events happened is not a label.
    """
    if declared is not None:
        return Universe(declared, axis)
    if not public:
        raise must_declare(parameter)
    distinct = {_key(label): label for label in found.tolist()}
    distinct.pop(None, None)
    labels = list(distinct.values())
    if not ordered:
        numbers = all(isinstance(label, int | float) for label in labels)
        labels.sort(key=None if numbers else str)
    return Universe(labels, axis)


def _is_list(labels: Any) -> bool:
    return isinstance(labels, Iterable) and not isinstance(labels, str | bytes)


def _key(label: Any) -> str | None:
    """What labels are compared by; None for a label that is missing."""
    if isinstance(label, str):
        return label
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(label, float):
        if label != label:
            return None
        return str(int(label)) if label.is_integer() else str(label)
    return str(label)
