"""Names for rows, columns and further axes: checked once and kept as text, declared, compared.

What lies outside the declared labels is dropped without a word. A warning or an error would tell that someone's
data hold such an entry, and no noise covers that. Dropping is safe: it acts on every observation by itself and
brings no two of them further apart, so what holds for the rest holds for the whole.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Protocol

import numpy as np

from countveil.counts.shown_text import visible

# The file's table has one column per axis and this one for the counts.
VALUE = "value"
# The place of a label that was not declared.
OUTSIDE = -1

_NUMBER = re.compile(r"[+-]?(\d{1,50}\.?\d{0,50}|\.\d{1,50})(e[+-]?\d{1,2})?$", re.ASCII)
# Those that are spaces (tabs, ends of lines) stay spaces.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f]")
# A time of day after a date, and one that says nothing: midnight, no fraction, no offset.
_TIME = re.compile(r"^(\d{4}-\d\d-\d\d)t(\d\d:)", re.ASCII)
_MIDNIGHT = re.compile(
    r"(?<=\d\d-\d\d) 00:00(:00)?(\.0+)?(z|[+-]00:?00)?$|(?<=:\d\d)(\.0+)?(z|[+-]00:?00)?$", re.ASCII
)
# Zeros at the end of a fraction of a second, and a duration of whole days.
_ZEROS = re.compile(r"(?<=:\d\d)(\.\d*?[1-9])0+(?=z|[+-]\d|$)", re.ASCII)
_NO_TIME = re.compile(r"(?<=days) \+?00:00:00(\.0+)?$", re.ASCII)
# Nanoseconds in what numpy keeps durations in. Months and years have no such number.
_NANOSECONDS = {
    "W": 604_800_000_000_000,
    "D": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
_UNSEEN = frozenset("\u115f\u1160\u2800\u3164")  # fillers of Hangul, and Braille without a dot
_DECIMAL = Context(prec=120)  # of our own: that of other code might round
_QUOTES = str.maketrans(
    {
        "\u2010": "-",
        "\u2011": "-",
        "\u2012": "-",
        "\u2013": "-",
        "\u2212": "-",
        "\u2018": "'",
        "\u2019": "'",
        "\u02bc": "'",
    }
)

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
        return default_axes(n_axes), (None,) * n_axes
    if axes is not None:
        given = dict(zip(axes, given, strict=True))
    if isinstance(given, Mapping):
        names, entries = _axis_names(given), list(given.values())
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        names, entries = default_axes(n_axes), list(given)
    else:
        raise TypeError(f"labels: expected labels (or None) for each axis, got {type(given).__name__}")
    if len(entries) != n_axes:
        raise ValueError(f"labels: expected an entry for each of the {n_axes} axes, got {len(entries)}")
    return names, tuple(map(_axis_of_length, entries, names, shape))


def default_axes(n_axes: int) -> tuple[str, ...]:
    """What axes are called where nobody says it."""
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
    if isinstance(given, set | frozenset):  # its order is chance, and here labels go by their places
        kind = type(given).__name__
        raise TypeError(f"labels: expected a list of {visible(axis)} labels, in order, got a {kind}")
    texts = axis_labels(given, axis)
    if len(texts) != length:
        raise ValueError(f"labels: expected {length} {visible(axis)} labels, got {len(texts)}")
    return texts


def axis_labels(given: Any, axis: str) -> np.ndarray:
    """The labels of one axis as text, each once."""
    axis = visible(axis)  # which may come from a stranger's file, and is for messages only
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
    """A label as it is released: what it is compared by, so that one label has one text."""
    text = None if isinstance(label, bytes) else _key(label)
    if text is None:  # its kind only: a label may have come from the counts
        raise TypeError(
            f"labels: expected {axis} labels that are text or numbers, got {type(label).__name__}"
        )
    return text


class LabelIndex:
    """Labels in their order of release. They are compared as text, whole floats as integers.

    >>> LabelIndex(["a", "b", 3], "row").places(np.array(["b", "z", 3.0, None], dtype=object))
    array([ 1, -1,  2, -1])
    """

    def __init__(self, labels: Any, axis: str) -> None:
        kept = spoken(labels).tolist() if isinstance(labels, np.ndarray) else labels
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
        found = spoken(found)
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
    distinct = {_key(label): label for label in spoken(found).tolist()}
    distinct.pop(None, None)
    labels = list(distinct.values())
    if not ordered:
        kinds = (int | float, timedelta, np.timedelta64)
        alike = any(all(isinstance(label, kind) for label in labels) for kind in kinds)
        labels.sort(key=None if alike else str)
    return LabelIndex(labels, axis)


def origin(declared: Any, *, found: bool = False) -> str:
    """Where the labels of an axis come from: what the caller said, what was found in the counts, or nowhere."""
    if declared is not None:
        return "declared"
    return "from the data" if found else "none"


def _is_list(labels: Any) -> bool:
    return isinstance(labels, Iterable) and not isinstance(labels, str | bytes)


def _key(label: Any) -> str | None:
    """What labels are compared by; None for a label that is missing."""
    if isinstance(label, str):
        return str.__str__(label)  # a class of its own may call itself otherwise
    if label is None or type(label).__name__ in ("NAType", "NaTType"):  # first: that of pandas is a time, too
        return None
    if isinstance(label, np.datetime64):
        if _is_finer(label):
            return str(label).replace("T", " ")  # as pandas says it
        label = label.astype("datetime64[us]").item()
    if isinstance(label, datetime):  # a day is called by its date, whatever it was kept as
        return label.isoformat(sep=" ").removesuffix(" 00:00:00")
    if isinstance(label, timedelta | np.timedelta64):
        return _duration(label)
    if isinstance(label, tuple):
        return str(tuple(map(_part, label)))
    if isinstance(label, float | np.floating):
        if label != label:
            return None
        return str(int(label)) if float(label).is_integer() else str(label)
    try:
        return str(label)
    except Exception:  # whatever it is, it is no label; and no message may tell that it was there
        return None


def _part(label: Any) -> Any:
    """A part of a label of several: a whole number or a text, whatever it was kept as.

    >>> _key(("ann", np.int64(7))), _key(("ann", 7.0)), _key(("ann", np.datetime64("2025-01-02")))
    ("('ann', 7)", "('ann', 7)", "('ann', '2025-01-02')")
    """
    is_whole = isinstance(label, int | np.integer) and not isinstance(label, bool)
    if is_whole or (isinstance(label, float | np.floating) and float(label).is_integer()):
        return int(label)
    return _key(label)


def _duration(label: timedelta | np.timedelta64) -> str | None:
    """As pandas says it, whatever it was kept as; None if it is missing.

    >>> import datetime
    >>> _duration(np.timedelta64(26, "h")), _duration(datetime.timedelta(milliseconds=-1))
    ('1 days 02:00:00', '-1 days +23:59:59.999000')
    """
    if isinstance(label, timedelta):
        micro = (label.days * 86_400 + label.seconds) * 10**6 + label.microseconds
        nano = micro * 1000 + int(getattr(label, "nanoseconds", 0))  # which those of pandas have
    else:
        unit, step = np.datetime_data(label.dtype)
        if np.isnat(label):
            return None
        if unit not in _NANOSECONDS:
            return str(label)
        nano = int(label.astype(np.int64)) * step * _NANOSECONDS[unit]
    days, rest = divmod(nano, _NANOSECONDS["D"])
    seconds, parts = divmod(rest, _NANOSECONDS["s"])
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    fraction = f".{parts:09}" if parts % 1000 else f".{parts // 1000:06}" if parts else ""
    return f"{days} days {'+' * (days < 0)}{clock}{fraction}"


def spoken(found: np.ndarray) -> np.ndarray:
    """Times and durations as such: numpy would make numbers of those that are kept in nanoseconds."""
    if found.dtype.kind == "m":
        return object_array(found)
    if found.dtype.kind != "M":
        return found
    return object_array(found) if np.any(_is_finer(found)) else found.astype("datetime64[us]")


def _is_finer(times: Any) -> Any:
    """Than microseconds, which are all that Python's times have: two of them must not become one."""
    return ~np.isnat(times) & (times.astype("datetime64[us]") != times)


def coarse_key(label: Any) -> str:
    """What spellings of one label have in common: case, accents, spaces, unseen characters, forms of a number.

    >>> [coarse_key(text) for text in ("007", "7.0", " Müller", "MULLER", "2025-01-01 00:00:00")]
    ['7', '7', 'muller', 'muller', '2025-01-01']
    >>> [coarse_key(text) for text in ("('ann', 7)", "('Ann', '7.0')", "1 days 00:00:00", "1 days", "12:00:05.500")]
    ['ann, 7', 'ann, 7', '1 days', '1 days', '12:00:05.5']
    """
    text = str(label)
    if text.startswith("(") and text.endswith(")") and "," in text:  # a label of several parts
        return ", ".join(coarse_key(part.strip().strip("'\"")) for part in text[1:-1].split(","))
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", text.translate(_QUOTES))
        text = "".join(one for one in apart if not _is_mark(one))
        text = unicodedata.normalize("NFKC", text.casefold())
    text = " ".join(_CONTROL.sub("", text).split()).casefold()
    text = _MIDNIGHT.sub("", _NO_TIME.sub("", _ZEROS.sub(r"\1", _TIME.sub(r"\1 \2", text))))
    if _NUMBER.match(text):
        number = Decimal(text).normalize(_DECIMAL)
        return format(number if number else Decimal(0), "f")
    return text


def _is_mark(character: str) -> bool:
    """Whether it only changes how others look, or is not seen at all."""
    if character.isspace():
        return False
    return unicodedata.category(character) in ("Mn", "Me", "Cf", "Cc") or character in _UNSEEN


def coarse_keys(labels: Iterable[Any]) -> set[str]:
    """Of all these labels."""
    return {coarse_key(label) for label in labels}


def shares_labels(labels: Sequence[np.ndarray | None]) -> bool:
    """Whether a label of the first axis stands on another one, too: then they are a network's people, it seems.

    >>> shares_labels((np.array(["ann", "bo"]), np.array(["Bo", "cy"]))), shares_labels((np.array(["a"]), None))
    (True, False)
    """
    first, *others = (set() if names is None else coarse_keys(names) for names in labels)
    return any(first & other for other in others)


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


def expect_labels(before: Any, now: Any, message: str) -> None:
    """Refuse other labels, or another order."""
    if np.array_equal(before, now):
        return
    if set(before) == set(now):
        raise ValueError(f"{message}, got them in another order; bring one into the order of the other first")
    place = int(np.flatnonzero(before != now)[0])
    raise ValueError(f"{message}, got {now[place]!r} in place of {before[place]!r} (place {place})")


def may_be_alike(before: np.ndarray, now: np.ndarray) -> bool:
    """Whether labels can be compared: not where one side only numbers an axis, as pandas does.

    >>> may_be_alike(np.array(["0", "1"]), np.array(["ann", "bo"])), may_be_alike(np.array(["a"]), np.array(["b"]))
    (False, True)
    """
    numbers = [str(i) for i in range(len(before))]
    return numbers not in (list(before), list(now)) or not set(before).isdisjoint(now)
