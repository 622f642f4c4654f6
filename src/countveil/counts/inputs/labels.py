"""Names for rows, columns and further axes: read out of whatever holds them, kept as text, declared, compared.

``listed`` reads labels out of any container, and ``label_text`` says what one is called. Two lists of labels meet
in ``LabelIndex.places`` (each of one is looked for in the other) or in ``expect_labels`` (both must be alike); rows
that may be one row, however spelt, are found by ``coarse_keys``. Nothing else compares labels.

What lies outside the declared labels is dropped without a word. A warning or an error would tell that someone's
data hold such an entry, and no noise covers that. Dropping is safe: it acts on every observation by itself and
brings no two of them further apart, so what holds for the rest holds for the whole.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol

import numpy as np

from countveil.counts.inputs.spellings import (
    as_now,
    coarse_key,
    coarse_keys,
    is_rounded,
    label_text,
    object_array,
    spellings,
    spoken,
)
from countveil.counts.shown_text import visible

# The file's table has one column per axis and this one for the counts.
VALUE = "value"
# The place of a label that was not declared.
OUTSIDE = -1

_WHOLE = re.compile(r"[+-]?\d+")

_DECLARE = (
    "the labels in counts are private data, and a release shows its labels as they are: the guarantee is "
    "void if someone's data decide which labels there are. Declare all that may occur, chosen without "
    "looking at the counts, or pass public_labels=True if anyone may know that exactly these occur"
)

#: Letters of a label, and of the name of an axis or a group: more than any address has.
MOST_LETTERS = 2_000


def read_labels(
    given: Any, shape: tuple[int, ...], axes: Sequence[str] | None = None
) -> tuple[tuple[str, ...], tuple[np.ndarray | None, ...]]:
    """Axis names and labels, from None, one entry per axis, or {axis name: labels} (``entries_of``).

    ``axes`` are the names where they come apart from the labels.
    """
    n_axes = len(shape)
    if given is None:
        return default_axes(n_axes), (None,) * n_axes
    if axes is not None:
        names, entries = _axis_names(axes), list(given)
    else:
        said, entries = entries_of(given, n_axes)
        names = default_axes(n_axes) if said is None else _axis_names(said)
    return names, tuple(_axis_of_length(*each) for each in zip(entries, names, shape, strict=True))


def entries_of(
    given: Any, n_axes: int, names: Sequence[str] | None = None
) -> tuple[tuple[str, ...] | None, list[Any]]:
    """Names of axes, if any were given, and what was given for each, in the order of the axes.

    ``names``: what the axes are called in the counts, where that is not the usual. The same names mean the same
    axes, in any order, and others are new ones, in order.
    """
    if isinstance(given, Mapping):
        axes, entries = tuple(given), list(given.values())
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        axes, entries = None, list(given)
    else:
        raise TypeError(f"labels: expected labels (or None) for each axis, got {type(given).__name__}")
    if len(entries) != n_axes:
        raise ValueError(f"labels: expected an entry for each of the {n_axes} axes, got {len(entries)}")
    known = list(default_axes(n_axes) if names is None else names)
    # Without regard to case, as no two axes of a release differ by that.
    said = [name.casefold() for name in known]
    asked = {str(axis).casefold(): place for place, axis in enumerate(axes or ())}
    if axes is not None and set(asked) == set(said):
        places = [asked[name] for name in said]
        return tuple(axes[place] for place in places), [entries[place] for place in places]
    for place, axis in enumerate(axes or ()):
        if str(axis).casefold() in said and said[place] != str(axis).casefold():
            raise ValueError(
                f"labels: expected all axes by their names ({', '.join(map(visible, known))}), or new names in "
                f"their order, got {visible(str(axis))} in another place"
            )
    return axes, entries


def default_axes(n_axes: int) -> tuple[str, ...]:
    """What axes are called where nobody says it."""
    return ("row", "column") if n_axes == 2 else tuple(f"axis{i}" for i in range(n_axes))


def _axis_names(given: Iterable[Any]) -> tuple[str, ...]:
    taken = {VALUE}
    for name in given:
        if not isinstance(name, str) or not name:
            raise ValueError(f"labels: expected axis names that are text, got {name!r}")
        check_lengths([name], "labels: expected axis names")
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ValueError("labels: expected axis names that UTF-8 can hold, got half a character")
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
        raise ValueError(f"labels: expected {length} {visible(axis)} labels, got {len(texts)}")
    return texts


def axis_labels(given: Any, axis: str) -> np.ndarray:
    """The labels of one axis as text, each once."""
    return _texts(listed(given, axis), visible(axis))  # which may come from a stranger's file


def listed(given: Any, axis: str) -> list[Any]:
    """The labels of one axis, in their order, whichever library holds them.

    A mapping to places, as scikit-learn has its vocabulary, is in the order of these.

    >>> listed(np.array(["b", "a"]), "row"), listed({"zoo": 1, "ant": 0}, "column")
    ([np.str_('b'), np.str_('a')], ['ant', 'zoo'])
    """
    axis, kind = visible(axis), type(given).__name__
    if isinstance(given, Mapping) and not isinstance(given, Set):  # as the nodes of a graph are
        if sorted(map(str, given.values())) != sorted(map(str, range(len(given)))):
            raise TypeError(f"labels: expected a list of {axis} labels, in order, got a {kind} to no places")
        return sorted(given, key=lambda label: int(given[label]))
    if isinstance(given, set | frozenset):  # its order is chance
        raise TypeError(f"labels: expected a list of {axis} labels, in order, got a {kind}")
    if hasattr(given, "dims") and hasattr(given, "to_numpy"):  # of xarray
        given = given.to_numpy()
    if isinstance(given, str | bytes) or not isinstance(given, Iterable) or hasattr(given, "columns"):
        raise TypeError(f"labels: expected a list of {axis} labels or None, got {kind}")
    n_axes = getattr(given, "ndim", 1)
    if n_axes != 1:
        raise TypeError(f"labels: expected a list of {axis} labels or None, got {n_axes} axes of them")
    return list(map(unwrapped, spoken(given) if isinstance(given, np.ndarray) else given))


def check_lengths(texts: Iterable[str], expected: str) -> None:
    """Refuse a label that takes next to nothing in a file, and gigabytes in a table that has it in every line."""
    if any(len(text) > MOST_LETTERS for text in texts):
        raise ValueError(f"{expected} of at most {MOST_LETTERS:,} letters, got a longer one")


def unwrapped(label: Any) -> Any:
    """One of Arrow or xarray, which have each in an object of theirs, as it is."""
    if hasattr(label, "as_py"):
        return label.as_py()
    return label.item() if hasattr(label, "dims") and label.ndim == 0 else label


def _texts(labels: list[Any], axis: str) -> np.ndarray:
    """As they are released, each once."""
    texts = [_text(label, axis) for label in labels]
    check_lengths(texts, f"labels: expected {axis} labels")
    seen = set()
    for text in texts:
        if text in seen:
            raise ValueError(f"labels: {axis} label {text!r} appears twice")
        seen.add(text)
    # An object array: fixed-width text would cost every label the length of the longest and drop final NULs.
    return np.array(texts, dtype=object)


def _text(label: Any, axis: str) -> str:
    if is_rounded(label):
        raise _halved("labels")
    text = None if holds_others(label) else label_text(label)
    if text is None:  # its kind only: a label may have come from the counts
        raise TypeError(
            f"labels: expected {axis} labels that are text or numbers, got {type(label).__name__}"
        )
    return text


def holds_others(label: Any) -> bool:
    """Whether it is a list of labels, of one or of bytes, in place of one."""
    return isinstance(label, bytes | list | dict | set) or bool(getattr(label, "ndim", 0))


class LabelIndex:
    """Labels in their order of release, in which others are found: by what they are called, in any spelling.

    >>> LabelIndex(["a", "b", 3], "row").places(np.array(["b", "z", 3.0, None], dtype=object))
    array([ 1, -1,  2, -1])
    """

    def __init__(self, labels: Any, axis: str) -> None:
        kept = listed(labels, axis)
        self.labels: np.ndarray = _texts(kept, visible(axis))
        if not len(kept):
            raise ValueError(f"labels: expected at least one {axis} label, got none")
        self._place = {text: place for place, text in enumerate(self.labels)}
        for place, label in enumerate(kept):
            for text in spellings(label)[1:]:
                self._place.setdefault(text, place)  # unless another one is called so

    def __len__(self) -> int:
        return len(self.labels)

    def places(self, found: np.ndarray) -> np.ndarray:
        """The place of every label found, or OUTSIDE."""
        if found.dtype.kind in "iubmM":
            distinct, inverse = np.unique(found, return_inverse=True)
            return self._look_up(distinct)[inverse]
        return self._look_up(found)

    def places_in(self, other: LabelIndex) -> np.ndarray:
        """The place of every own label among those of another axis, or OUTSIDE."""
        places = np.full(len(self), OUTSIDE)
        for text, place in self._place.items():
            if places[place] < 0:
                places[place] = other._place.get(text, OUTSIDE)
        return places

    def _look_up(self, found: np.ndarray) -> np.ndarray:
        places = (self._at(label) for label in spoken(found).tolist())
        return np.fromiter(places, dtype=np.int64, count=len(found))

    def _at(self, label: Any) -> int:
        if type(label) is str and label.isascii():  # most of them
            return self._place.get(label, OUTSIDE)
        with suppress(
            RecursionError
        ):  # one of tuples in tuples in tuples is nobody's, and no error tells of it
            if is_rounded(label):  # whose it is nobody can say
                return OUTSIDE
            for text in spellings(label):
                if text in self._place:
                    return self._place[text]
        return OUTSIDE


def places_of(wanted: Iterable[Any], known: Any, message: str) -> np.ndarray:
    """The places of labels among those known, all of which must be there.

    >>> places_of(["b", "a"], np.array(["a", "b"]), "rows: expected known labels").tolist()
    [1, 0]
    """
    given = object_array(wanted)
    places = LabelIndex(known, "known").places(given)
    lost = given[places < 0]
    if len(lost):
        others = f" and {len(lost) - 1} others" if len(lost) > 1 else ""
        raise ValueError(f"{message}{str(lost[0])!r}{others}")
    return places


def label_index(
    declared: Any, found: np.ndarray, axis: str, parameter: str, *, public: bool, ordered: bool = False
) -> LabelIndex:
    """What was declared (by which parameter); else, only if labels are public, what was found.

    Found labels come sorted unless ``ordered``: the order in which events happened is not a label.
    """
    if declared is not None:
        index = LabelIndex(declared, axis)
        # By what is declared and the type alone, whatever is found. Containers without one have nobody's floats.
        if found.dtype.kind == "f":
            exact = int((np.finfo(found.dtype).nmant + 1) * np.log10(2.0))  # digits of a whole number
            numbers = (text for label in index.labels for text in whole_numbers([coarse_key(label)]))
            if any(len(text) > exact for text in numbers):
                raise _halved(parameter)
        return index
    if not public:
        raise must_declare(parameter)
    if found.dtype.kind == "f":
        rounded = bool((np.abs(found) >= 2.0 ** (np.finfo(found.dtype).nmant + 1)).any())
    else:
        rounded = found.dtype == object and any(map(is_rounded, found))
    if rounded:
        raise _halved(parameter)
    distinct = {label_text(label): label for label in spoken(found).tolist()}
    distinct.pop(None, None)  # ``tell_of_unlabelled``
    labels = list(distinct.values())
    if not ordered:
        kinds = (int | float, timedelta, np.timedelta64)
        alike = any(all(isinstance(label, kind) for label in labels) for kind in kinds)
        labels.sort(key=None if alike else str)
    return LabelIndex(labels, axis)


def tell_of_unlabelled(places: np.ndarray, parameter: str) -> None:
    """Warn of counts without a label on an axis whose labels are public.

    ``places``: of those that lie inside what is declared for the other axes. Of others no message speaks.
    """
    if (places == OUTSIDE).any():
        warnings.warn(
            f"{parameter}: there are counts without a label (None, NaN), which are left out: give them a label of "
            "their own, or drop them first",
            stacklevel=2,
        )


def _halved(name: str) -> ValueError:
    return ValueError(
        f"{name}: expected long numbers as whole numbers or text, got floats, which do not hold all of their "
        "digits; tables have them where a number is missing: read that column as text (dtype=str) or as Int64"
    )


def origin(declared: Any, *, found: bool = False) -> str:
    """Where the labels of an axis come from: what the caller said, what was found in the counts, or nowhere."""
    if declared is not None:
        return "declared"
    return "from the data" if found else "none"


def shares_labels(labels: Sequence[np.ndarray | None]) -> bool:
    """Whether a label of the first axis stands on another one, too: then they are a network's people, it seems.

    >>> shares_labels((np.array(["ann", "bo"]), np.array(["Bo", "cy"]))), shares_labels((np.array(["a"]), None))
    (True, False)
    """
    first, *others = (set() if names is None else coarse_keys(names) for names in labels)
    return any(first & other for other in others)


def whole_numbers(labels: Iterable[Any]) -> list[str]:
    """Labels as text where all of them are whole numbers, which may mean places; else none.

    >>> whole_numbers([2, "1.0"]), whole_numbers(["a", 1])
    (['2', '1'], [])
    """
    texts = [(label_text(label) or "").strip().removesuffix(".0") for label in labels]
    return texts if all(map(_WHOLE.fullmatch, texts)) else []


def may_be_whole(label: Any) -> bool:
    """Whether one spelling of a label is that of a whole number.

    >>> may_be_whole("7.0"), may_be_whole(True), may_be_whole("ann")
    (True, True, False)
    """
    return any(whole_numbers([text]) for text in spellings(label))


def refuse_other_numbers(labels: Sequence[Any] | np.ndarray | None, name: str) -> None:
    """Of a Series that pandas only numbers: rows with these numbers in another order may be those that it means."""
    numbers = whole_numbers(() if labels is None else labels)
    own = [str(i) for i in range(len(numbers))]
    if numbers != own and set(numbers) == set(own):
        raise ValueError(
            f"{name}: expected a list in the order of the rows, got a Series that pandas only numbers, for rows "
            "whose labels are these numbers in another order; to_list() goes by order"
        )


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
    default = default_axes(len(parts[0].shape))
    named = [part.axes for part in parts if part.axes != default]
    for axes in named[1:]:
        if axes != named[0]:
            expected, got = (", ".join(map(visible, each)) for each in (named[0], axes))
            raise ValueError(f"{name}: expected the axes {expected}, got {got}")
    return named[0] if named else default


def check_same_labels(parts: Sequence[Labelled], axis: int, name: str) -> Any:
    """The labels of this axis: those that have any must agree, in the same order."""
    labelled = [part.labels[axis] for part in parts if part.labels[axis] is not None]
    for labels in labelled[1:]:
        expect_labels(labelled[0], labels, f"{name}: expected the same labels along axis {axis}")
    return labelled[0] if labelled else None


def expect_labels(before: Any, now: Any, message: str, *, numbers_are_names: bool = True) -> None:
    """Refuse other labels, or another order. Where one side has none, things go by order.

    ``numbers_are_names=False``: 0, 1, 2, ... may be what pandas gives to all, and no labels beside others.

    >>> expect_labels(np.array(["0", "1"]), np.array(["ann", "bo"]), "data: ...", numbers_are_names=False)
    >>> expect_labels(np.array(["ann", "bo"]), np.array(["ann", "cy"]), "data: expected those of the rows")
    Traceback (most recent call last):
    ...
    ValueError: data: expected those of the rows, got np.str_('cy') in place of np.str_('bo') (place 1)
    """
    if before is None or now is None or np.array_equal(before, now):
        return
    if len(before) != len(now):
        raise ValueError(f"{message}, got {len(now)} in place of {len(before)}")
    numbers = [str(i) for i in range(len(before))]
    if not numbers_are_names and numbers in (list(before), list(now)) and set(before).isdisjoint(now):
        return
    earlier = list(map(as_now, before))
    if earlier == list(map(as_now, now)) and len(set(earlier)) == len(earlier):
        return
    if set(before) == set(now):
        raise ValueError(f"{message}, got them in another order; bring one into the order of the other first")
    place = next(place for place, both in enumerate(zip(before, now, strict=True)) if both[0] != both[1])
    raise ValueError(f"{message}, got {now[place]!r} in place of {before[place]!r} (place {place})")
