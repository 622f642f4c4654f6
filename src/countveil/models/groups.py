"""Groups of rows that anyone may know: who wrote a document, when, where.

They are given one for each row in order, or by the labels of rows; and they are text, in an order of their own.
What came by labels is brought into the order of the rows once these are known (``Groups.for_rows``).

A row may have no group (None, NaN). Such rows are together one more group without a name: nothing is assumed about
where they belong, and they tell nothing about the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from typing import Any

import numpy as np

from countveil.counts.foreign import is_made_up, refuse_labels
from countveil.counts.inputs.labels import check_lengths, listed, places_of, refuse_other_numbers
from countveil.counts.inputs.spellings import label_text

#: What rows without a group are called among the labels of groups in a run.
NO_GROUP = "(no group)"


class Groups:
    """For every row the number of its group; -1 for none.

    ``rows`` are the labels of the rows that ``codes`` speak of, or None where they are all rows in order.

    Examples
    --------
    >>> from countveil.models.groups import read_groups
    >>> groups = read_groups(["b", "a", None, "b"])
    >>> groups.names, groups.codes
    (('a', 'b'), array([ 1,  0, -1,  1]))
    >>> read_groups({"x": 2021, "y": 1999}).for_rows(2, ["y", "x"]).codes
    array([0, 1])
    """

    def __init__(
        self, names: Sequence[str], codes: np.ndarray | Sequence[int], rows: Sequence[str] | None = None
    ) -> None:
        self.names = tuple(names)
        check_lengths(self.names, "groups: expected names")
        self.codes = np.array(codes, dtype=np.int64)
        self.codes.setflags(write=False)
        self.rows = None if rows is None else tuple(rows)
        self._without_elsewhere: bool | None = None  # of a part: whether any row of all has no group
        self._is_numbered = False  # by pandas, and nobody need mean these numbers

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of all groups of which the model has a mean: that of rows without one comes last."""
        without = (self.codes < 0).any() if self._without_elsewhere is None else self._without_elsewhere
        return (*self.names, NO_GROUP) if without else self.names

    def part(self, start: int, stop: int) -> Groups:
        """The groups of these rows, among those of all rows: one that none of these has stays.

        >>> read_groups(["b", "a", None]).part(0, 1).labels
        ('a', 'b', '(no group)')
        """
        found = Groups(self.names, self.codes[start:stop])
        found._without_elsewhere = len(self.labels) > len(self.names)
        return found

    @cached_property
    def of_rows(self) -> np.ndarray:
        """The place of every row's group among ``labels``, int64 (rows)."""
        return np.where(self.codes < 0, len(self.names), self.codes)

    @cached_property
    def members(self) -> tuple[np.ndarray, ...]:
        """The rows of each of ``labels``."""
        return tuple(np.flatnonzero(self.of_rows == g) for g in range(len(self.labels)))

    def for_rows(self, n_rows: int, labels: Sequence[str] | np.ndarray | None, some: bool = True) -> Groups:
        """The groups of these rows, in their order; groups without any row are left out.

        With ``some`` at least one row must have a group.
        """
        if self._without_elsewhere is not None and len(self.codes) == n_rows:
            return self  # a part of known rows
        if self.rows is None:
            if len(self.codes) != n_rows:
                raise ValueError(
                    f"groups: expected a group, or None, for each of the {n_rows} rows, got {len(self.codes)}"
                )
            if self._is_numbered:
                refuse_other_numbers(labels, "groups")
            codes = self.codes
        else:
            if labels is None:
                raise ValueError(
                    "groups: expected one for each row, in order, as the rows have no labels, got them by label"
                )
            message = "groups: expected a group, or None, for every row, got nothing for "
            codes = self.codes[places_of(labels, self.rows, message)]
        return _in_use(self.names, codes, None, some)

    def describe(self) -> dict[str, Any]:
        """As JSON can hold it; ``read_groups`` makes the same of it again."""
        told: dict[str, Any] = {"names": list(self.names), "codes": self.codes.tolist()}
        return told if self.rows is None else told | {"rows": list(self.rows)}

    def __repr__(self) -> str:
        return f"<{len(self.names)} groups of {len(self.codes)} rows>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Groups):
            return NotImplemented
        same = self.names == other.names and self.rows == other.rows
        return same and np.array_equal(self.codes, other.codes)

    @cached_property
    def _hash(self) -> int:
        return hash((self.names, self.rows, self.codes.tobytes()))

    def __hash__(self) -> int:
        return self._hash


def read_groups(given: Any, some: bool = True) -> Groups | None:
    """Groups as people have them, or an error that names the parameter.

    A list, an array or a pandas Series: one for each row in order. A mapping, or a Series with an index of its own:
    by the labels of rows. Numbers come in their order, text in that of the alphabet, categories in theirs.
    """
    if given is None or isinstance(given, Groups):
        return given
    if isinstance(given, str | bytes | Set) or not isinstance(
        given, Iterable
    ):  # the order of a set is chance
        raise TypeError(
            f"groups: expected a label for each row, or a mapping from rows to labels, got {type(given).__name__}"
        )
    rows: list[Any] | None = None
    is_numbered = False
    n_axes = getattr(given, "ndim", 1)
    if isinstance(given, Mapping):
        if given.keys() in ({"names", "codes"}, {"names", "codes", "rows"}) and isinstance(
            given["codes"], list
        ):
            return _described(given)
        rows, values = list(given), list(given.values())
    elif hasattr(given, "index") and not callable(given.index):
        if n_axes != 1:
            raise ValueError(f"groups: expected one column, got {n_axes} axes")
        values = list(given)
        is_numbered = is_made_up(given.index) and given.index.name is None
        rows = None if is_numbered else list(given.index)
    else:
        if n_axes != 1:
            raise ValueError(f"groups: expected one label for each row, got {n_axes} axes")
        refuse_labels(given, "groups")
        values = listed(given, "row")
    texts = [_text(value) for value in values]
    categories = getattr(getattr(given, "dtype", None), "categories", None)
    names = _ordered(values, texts) if categories is None else _distinct(categories, map(_text, categories))
    place = {name: code for code, name in enumerate(names)}
    codes = np.array([-1 if text is None else place[text] for text in texts], dtype=np.int64)
    found = _in_use(names, codes, None if rows is None else _row_texts(rows), some)
    found._is_numbered = is_numbered
    return found


def _in_use(names: Sequence[str], codes: np.ndarray, rows: Sequence[str] | None, some: bool) -> Groups:
    """Without names that no row has."""
    used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(names)))
    if some and not len(used):
        raise ValueError("groups: expected a group for at least one row, got none")
    turned = np.full(len(names) + 1, -1, dtype=np.int64)  # the last place is that of -1
    turned[used] = np.arange(len(used))
    return Groups([names[place] for place in used.tolist()], turned[codes], rows)


def _text(value: Any) -> str | None:
    """A label as text; None where it is missing."""
    if not isinstance(value, str) and isinstance(value, Iterable):
        raise TypeError(f"groups: expected one label for each row, got a {type(value).__name__} for one")
    return label_text(value)


def _ordered(values: Sequence[Any], texts: Sequence[str | None]) -> list[str]:
    """Every name once: numbers, also those in text, by size; else in the order of the alphabet."""
    names = _distinct(values, texts)
    try:
        return sorted(names, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(names)


def _distinct(values: Iterable[Any], texts: Iterable[str | None]) -> list[str]:
    kinds: dict[str, bool] = {}
    for value, text in zip(values, texts, strict=True):
        if text is None:
            continue
        if kinds.setdefault(text, isinstance(value, str)) != isinstance(value, str):
            raise ValueError(
                f"groups: expected labels that differ as text, got {text!r} as text and as another kind"
            )
    return list(kinds)


def _row_texts(rows: Sequence[Any]) -> list[str]:
    texts = [text for text in map(label_text, rows) if text is not None]
    if len(texts) < len(rows):
        raise ValueError("groups: expected labels of all rows, got one that is missing")
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise ValueError(f"groups: expected every row once, got {twice!r} more than once")
    return texts


def _described(told: Mapping[str, Any]) -> Groups:
    names, codes, rows = told["names"], told["codes"], told.get("rows")
    whole = isinstance(names, list) and all(isinstance(name, str) for name in names)
    whole = whole and all(type(code) is int and -1 <= code < len(names) for code in codes)
    if not whole or (rows is not None and (not isinstance(rows, list) or len(rows) != len(codes))):
        raise ValueError("groups: expected names and the number of one for each row, got others")
    return Groups(names, codes, rows)
