"""The axes of the data as people name them: their names, the labels along them, and choices of rows and columns."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from countveil.counts.files.names import is_plain_name
from countveil.counts.foreign import refuse_labels
from countveil.counts.inputs.labels import holds_others, places_of, unwrapped
from countveil.counts.inputs.spellings import label_text

#: Bytes of a name that every file system takes.
_LONGEST_NAME = 200
#: Labelled arrays of more bytes are refused: they would not help anyone.
LARGEST_ANSWER = 10**9


def free_names(axes: tuple[str, ...], taken: Collection[str]) -> tuple[str, ...]:
    """The names of the axes; one that is taken, or cannot name an array in a Zarr folder, is replaced.

    Data may well have an axis "topic" or "chain" of its own. It becomes "row", "column" (or "axis0", ...) then:
    a fit must not fail over a name once the work is done.

    >>> free_names(("document", "word"), {"chain", "draw", "topic"})
    ('document', 'word')
    >>> free_names(("chain", "topic"), {"chain", "draw", "topic"})
    ('row', 'column')
    >>> free_names(("x" * 300, "word"), ())  # no file has so long a name
    ('row', 'word')
    """
    used = set(taken) | {name for name in axes if _is_free(name, taken)}
    names = []
    for place, axis in enumerate(axes):
        name = axis
        if not _is_free(axis, taken):
            name = ("row", "column")[place] if len(axes) == 2 else f"axis{place}"
            while name in used:
                name += "_"
            used.add(name)
        names.append(name)
    return tuple(names)


def _is_free(name: str, taken: Collection[str]) -> bool:
    # What Zarr reserves beside names that would lead elsewhere: two leading underscores, and its own file.
    reserved = not is_plain_name(name) or name.startswith("__") or name == "zarr.json"
    reserved = reserved or len(readable(name).encode()) > _LONGEST_NAME
    return name not in taken and not reserved


def readable(label: str) -> str:
    r"""The label, with half a character (text that UTF-8 cannot hold) written out.

    A release may have such labels; a fit must not fail over them once the work is done.

    >>> readable("Öl"), readable("\ud800")
    ('Öl', '\\ud800')
    """
    return label.encode("utf-8", "backslashreplace").decode()


def readable_labels(labels: tuple[np.ndarray | None, ...]) -> tuple[np.ndarray | None, ...]:
    """The labels of every axis, readable."""
    return tuple(None if each is None else np.array([readable(t) for t in each], object) for each in labels)


def positions(name: str, wanted: Any, labels: np.ndarray | None, length: int) -> np.ndarray:
    """Positions of what is wanted along an axis: None (all), a slice, positions, labels, or a boolean mask.

    >>> positions("rows", ["b"], np.array(["a", "b"], dtype=object), 2)
    array([1])
    """
    everything = np.arange(length)
    if wanted is None:
        return everything
    if isinstance(wanted, slice):
        return everything[_checked_slice(name, wanted)]
    # As objects, because fixed-width text drops NULs at the end of a label.
    each = [wanted] if isinstance(wanted, str) or not np.iterable(wanted) else list(map(unwrapped, wanted))
    if hasattr(wanted, "columns"):  # which is what a table lists
        raise ValueError(f"{name}: expected positions, labels or a mask, got a {type(wanted).__name__}")
    if all(isinstance(one, bool | np.bool_) for one in each) and each:
        refuse_labels(wanted, name)
        if len(each) != length:
            raise ValueError(f"{name}: expected a mask of length {length}, got {len(each)}")
        return everything[np.array(each)]
    if all(isinstance(one, int | np.integer) for one in each):
        return _at(name, each, labels, length)
    texts = [
        None if isinstance(one, Number | np.bool_) or holds_others(one) else label_text(one) for one in each
    ]
    if None in texts:
        odd = each[texts.index(None)]
        raise ValueError(f"{name}: expected positions, labels or a mask, got {odd!r}")
    if labels is None:
        raise ValueError(f"{name}: expected positions (there are no labels), got {str(each[0])!r}")
    wanted_texts = [readable(text) for text in texts if text is not None]
    return places_of(wanted_texts, labels, f"{name}: expected known labels, got ")


def as_chosen(places: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """Places as ``positions`` takes them, where labels may be numbers: by these, if there are any."""
    return places if labels is None else labels[places]


def _at(name: str, wanted: list, labels: np.ndarray | None, length: int) -> np.ndarray:
    known = set(() if labels is None else labels)
    for one in wanted:
        if not -length <= one < length:
            hint = "" if str(one) not in known else f"; a label is text: {str(one)!r}"
            raise ValueError(f"{name}: expected positions below {length}, got {one}{hint}")
        if labels is not None and labels[one] != str(one) and str(one) in known:
            raise ValueError(
                f"{name}: expected labels as text, or positions by a slice, where labels are numbers, got {one}, "
                f"which is the label of another place than its own: {str(one)!r} or slice({one}, {one + 1})"
            )
    return np.arange(length)[np.array(wanted, dtype=np.int64)]


def _checked_slice(name: str, wanted: slice) -> slice:
    for bound in (wanted.start, wanted.stop, wanted.step):
        if bound is not None and not isinstance(bound, int | np.integer):
            raise ValueError(f"{name}: expected a slice of positions, got {bound!r} in it")
    return wanted


class ChosenCells(NamedTuple):
    """Positions along every axis, and the same cells as rows and columns, all axes but the first flattened."""

    places: tuple[np.ndarray, ...]
    columns: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """Positions along the first axis."""
        return self.places[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of positions along every axis."""
        return tuple(map(len, self.places))


def chosen_cells(
    rows: Any,
    columns: Any,
    labels: tuple[np.ndarray | None, ...],
    shape: tuple[int, ...],
    n_arrays: int = 1,
    hint: str = "",
) -> ChosenCells:
    """A choice of rows and columns; beyond two axes ``columns`` is None or a tuple of choices, one per axis.

    Too many to answer with ``n_arrays`` labelled arrays are refused, with a ``hint`` at what to do instead.

    >>> chosen_cells([1], (None, ["b"]), (None, None, np.array(["a", "b"], dtype=object)), (2, 3, 2)).columns
    array([1, 3, 5])
    """
    others = len(shape) - 1
    if others == 1:
        wanted = [columns]
    elif columns is None:
        wanted = [None] * others
    elif isinstance(columns, tuple) and len(columns) == others:
        wanted = list(columns)
    else:
        raise ValueError(
            f"columns: expected None or a tuple of {others} choices, one for each further axis, "
            f"got {type(columns).__name__}"
        )
    places = [positions("rows", rows, labels[0], shape[0])]
    for axis, choice in enumerate(wanted, start=1):
        places.append(positions("columns", choice, labels[axis], shape[axis]))
    flat = np.zeros(1, dtype=np.int64)
    for axis in range(1, len(shape)):
        flat = (flat[:, None] * shape[axis] + places[axis]).reshape(-1)
    n_cells, most = len(places[0]) * len(flat), LARGEST_ANSWER // (8 * n_arrays)
    if n_cells > most:
        raise ValueError(f"rows, columns: expected at most {most:,} cells, got {n_cells:,}{hint}")
    return ChosenCells(tuple(places), flat)
