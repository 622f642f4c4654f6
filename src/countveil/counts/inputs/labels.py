"""Names for rows, columns and further axes: checked once and kept as text, declared, compared.

What lies outside the declared labels is dropped without a word. A warning or an error would tell that someone's
data hold such an entry, and no noise covers that. Dropping is safe: it acts on every observation by itself and
brings no two of them further apart, so what holds for the rest holds for the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

# The file's table has one column per axis and this one for the counts.
VALUE = "value"
# The place of a label that was not declared.
OUTSIDE = -1

_DECLARE = (
    "the labels in counts are private data, and a release shows its labels as they are: the guarantee is "
    "void if someone's data decide which labels there are. Declare all that may occur, chosen without "
    "looking at the counts, or pass public_labels=True if anyone may know that exactly these occur"
)


def read_labels(
    given: Any, shape: tuple[int, ...], axes: Sequence[str] | None = None
) -> tuple[tuple[str, ...], tuple[np.ndarray | None, ...]]:
    """Axis names and labels, from None, one entry per axis, or {axis name: labels} in axis order.

    ``axes`` are the names where they come apart from the labels.
    """
    n_axes = len(shape)
    if given is None:
        return _default_axes(n_axes), (None,) * n_axes
    if axes is not None:
        given = dict(zip(axes, given, strict=True))
    if isinstance(given, Mapping):
        names, entries = _axis_names(given), list(given.values())
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        names, entries = _default_axes(n_axes), list(given)
    else:
        raise TypeError(f"labels: expected labels (or None) for each axis, got {type(given).__name__}")
    if len(entries) != n_axes:
        raise ValueError(f"labels: expected an entry for each of the {n_axes} axes, got {len(entries)}")
    return names, tuple(map(_axis_of_length, entries, names, shape))


def _default_axes(n_axes: int) -> tuple[str, ...]:
    return ("row", "column") if n_axes == 2 else tuple(f"axis{i}" for i in range(n_axes))


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


class LabelIndex:
    """Labels in their order of release. They are compared as text, whole floats as integers.

    >>> LabelIndex(["a", "b", 3], "row").places(np.array(["b", "z", 3.0, None], dtype=object))
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

    def places_in(self, other: LabelIndex) -> np.ndarray:
        """The place of every own label among those of another axis, or OUTSIDE."""
        places = np.full(len(self), OUTSIDE)
        for key, place in self._place.items():
            places[place] = other._place.get(key, OUTSIDE)
        return places

    def _look_up(self, found: np.ndarray) -> np.ndarray:
        place = self._place
        places = (place.get(_key(label), OUTSIDE) for label in found.tolist())
        return np.fromiter(places, dtype=np.int64, count=len(found))


def label_index(
    declared: Any, found: np.ndarray, axis: str, parameter: str, *, public: bool, ordered: bool = False
) -> LabelIndex:
    """What was declared (by which parameter); else, only if labels are public, what was found.

    Found labels come sorted unless ``ordered``: the order in which events happened is not a label.
    """
    if declared is not None:
        return LabelIndex(declared, axis)
    if not public:
        raise must_declare(parameter)
    distinct = {_key(label): label for label in found.tolist()}
    distinct.pop(None, None)
    labels = list(distinct.values())
    if not ordered:
        numbers = all(isinstance(label, int | float) for label in labels)
        labels.sort(key=None if numbers else str)
    return LabelIndex(labels, axis)


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


def object_array(things: Iterable[Any]) -> np.ndarray:
    """Labels of any type as one array, as ``LabelIndex.places`` takes them."""
    listed = list(things)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def must_declare(name: str) -> ValueError:
    """The error for labels that nobody declared."""
    return ValueError(f"{name}: expected {name}=[...], got none: {_DECLARE}")


class Labelled(Protocol):
    """Anything with named axes and labels."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def axes(self) -> tuple[str, ...]: ...
    @property
    def labels(self) -> tuple[np.ndarray | None, ...]: ...


def common_axes(parts: Sequence[Labelled], name: str) -> tuple[str, ...]:
    """The names of the axes: default names give way to others, others must agree."""
    default = _default_axes(len(parts[0].shape))
    named = [part.axes for part in parts if part.axes != default]
    for axes in named[1:]:
        if axes != named[0]:
            raise ValueError(f"{name}: expected the axes {', '.join(named[0])}, got {', '.join(axes)}")
    return named[0] if named else default


def check_same_labels(parts: Sequence[Labelled], axis: int, name: str) -> Any:
    """The labels of this axis: those that have any must agree, in the same order."""
    labelled = [part.labels[axis] for part in parts if part.labels[axis] is not None]
    for labels in labelled[1:]:
        _expect_labels(labelled[0], labels, f"{name}: expected the same labels along axis {axis}")
    return labelled[0] if labelled else None


def _expect_labels(before: Any, now: Any, message: str) -> None:
    """Refuse other labels, or another order."""
    if np.array_equal(before, now):
        return
    if set(before) == set(now):
        raise ValueError(f"{message}, got them in another order; bring one into the order of the other first")
    place = int(np.flatnonzero(before != now)[0])
    raise ValueError(f"{message}, got {now[place]!r} in place of {before[place]!r} (place {place})")
