"""What is promised to whom: one guarantee for all rows, or one for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from countveil.counts.foreign import holds_labels
from countveil.counts.noise_parameter import check_guarantee
from countveil.privacy import Guarantee, add_noise


class RowGuarantees(NamedTuple):
    """``guarantee`` holds for every row, as the weakest of all; ``rows`` has one for each, if they differ."""

    guarantee: Guarantee
    rows: tuple[Guarantee, ...] | None
    parameter: str  # that said so

    def to(self, n_rows: int, *, pairs: bool = False) -> RowGuarantees:
        """The same, once it is known how many rows there are, and whether a cell belongs to two people."""
        if self.rows is None:
            return self
        if pairs and len(set(self.rows)) > 1:
            raise ValueError(
                f"{self.parameter}: expected one value for a network, got a list: a pair's count belongs to two "
                "people and has noise once; pass the strictest for all (smallest epsilon, largest precision)"
            )
        if len(self.rows) != n_rows:
            # Not how many: of a table that may be how many lines somebody's data have.
            raise ValueError(
                f"{self.parameter}: expected one value or one per row, got {len(self.rows)}, another number"
            )
        return self._replace(rows=None) if len(set(self.rows)) == 1 else self

    def rho(self, n_axes: int) -> np.ndarray:
        """The noise of every cell, for PrivateCounts: 0-d or one per row."""
        if self.rows is None:
            return np.asarray(self.guarantee.rho, dtype=np.float64)
        return np.array([g.rho for g in self.rows]).reshape(-1, *(1,) * (n_axes - 1))

    def add_noise(self, counts: np.ndarray, start: int) -> np.ndarray:
        """The rows from ``start`` on, each with the noise of its own guarantee."""
        if self.rows is None:
            return add_noise(counts, self.guarantee)
        each = self.rows[start : start + len(counts)]
        noisy = np.empty(counts.shape, dtype=np.int64)
        of_level: dict[Guarantee, list[int]] = {}
        for place, guarantee in enumerate(each):
            of_level.setdefault(guarantee, []).append(place)
        for guarantee, places in of_level.items():
            noisy[places] = add_noise(counts[places], guarantee)
        return noisy


def distinct(each: Iterable[Guarantee | None]) -> list[Guarantee]:
    """The promises among those of rows, each once or a few times.

    By identity: millions of rows share few promises, and to compare fractions takes long.
    """
    return list({id(promise): promise for promise in each if promise is not None}.values())


def for_rows(each: tuple[Guarantee | None, ...]) -> tuple[Guarantee | None, ...]:
    """What each row by itself is promised, None for a plain one.

    A person may have several rows, and has then the weakest promise of all of them. So where levels differ a row's
    own is one about that row alone, a 'document'.

    >>> [promise.unit for promise in for_rows((Guarantee(1, unit="person"), Guarantee(2, unit="person")))]
    ['document', 'document']
    """
    known = distinct(each)
    if len({promise.rate for promise in known}) < 2 or known[0].unit != "person":
        return each
    rows = {id(promise): Guarantee(promise.epsilon, promise.precision) for promise in known}
    return tuple(None if promise is None else rows[id(promise)] for promise in each)


def read_guarantees(epsilon: Any, precision: Any, unit: str, guarantee: Any) -> RowGuarantees:
    """Exactly one of epsilon (with precision and unit) and guarantee; each for all rows or one per row."""
    if (epsilon is None) == (guarantee is None):
        got = "none" if epsilon is None else "both"
        raise ValueError(f"epsilon, guarantee: expected exactly one of them, got {got}")
    if guarantee is not None:
        return _from_guarantees(precision, unit, guarantee)
    epsilons, precisions = _each(epsilon, "epsilon"), _each(precision, "precision")
    if epsilons is None and precisions is None:
        return RowGuarantees(Guarantee(epsilon, precision, unit=unit), None, "epsilon")
    parameter = "precision" if epsilons is None else "epsilon"
    n_rows = len(epsilons if precisions is None else precisions)  # type: ignore[arg-type]
    epsilons = [epsilon] * n_rows if epsilons is None else epsilons
    precisions = [precision] * n_rows if precisions is None else precisions
    if len(epsilons) != len(precisions):
        raise ValueError(f"epsilon, precision: expected as many, got {len(epsilons)} and {len(precisions)}")
    known: dict[Guarantee, Guarantee] = {}  # one object for all rows that chose the same
    each = (_level(e, n, unit) for e, n in zip(epsilons, precisions, strict=True))
    return _by_row([known.setdefault(one, one) for one in each], parameter)


def _level(epsilon: Any, precision: Any, unit: str) -> Guarantee:
    """The guarantee of one row. What is wrong is not shown: counts in place of levels would be."""
    try:
        return Guarantee(epsilon, precision, unit=unit)
    except ValueError as error:
        expected = str(error).partition(", got")[0]
    raise ValueError(f"{expected}, got another for one of the rows")


def _from_guarantees(precision: Any, unit: str, guarantee: Any) -> RowGuarantees:
    if not (type(precision) is int and precision == 1 and unit == "document"):
        raise ValueError("guarantee: expected it alone, got precision or unit beside it")
    several = _each(guarantee, "guarantee")
    for one in [guarantee] if several is None else several:
        check_guarantee(one)
    return RowGuarantees(guarantee, None, "guarantee") if several is None else _by_row(several, "guarantee")


def _by_row(each: list[Guarantee], parameter: str) -> RowGuarantees:
    if not each:
        raise ValueError(f"{parameter}: expected one value or one per row, got an empty list")
    if len({g.unit for g in each}) > 1:
        raise ValueError("guarantee: expected the same unit for all rows, got several")
    if each[0].unit == "person" and len({g.rate for g in each}) > 1:
        raise ValueError(
            "unit: expected 'document' where rows have levels of their own, got 'person', who may have several "
            "rows; guarantee_for(rows) of the release then tells what holds for a person"
        )
    return RowGuarantees(max(each, key=lambda g: g.rate), tuple(each), parameter)


def _each(given: Any, parameter: str) -> list[Any] | None:
    """One for each row, in the order of the rows; None where one is given for all."""
    if isinstance(given, Mapping | Set) or holds_labels(given):
        # Of a mapping Python would list the labels: a row called 9 would get an epsilon of 9.
        kind = type(given).__name__
        raise TypeError(
            f"{parameter}: expected one value or a list in the order of the rows, got a {kind}, which has another"
        )
    if isinstance(given, np.ndarray):
        return list(given) if given.ndim == 1 else None
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else None
