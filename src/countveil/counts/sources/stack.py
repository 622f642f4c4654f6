"""stack_rows: releases and public counts over the same columns, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from countveil.counts.cells.clamp import RhoLevels
from countveil.counts.cells.layout import (
    Cells,
    Contents,
    NonPositive,
    Places,
    flat_cells,
    n_rows_and_width,
)
from countveil.counts.guarantees import distinct, for_rows
from countveil.counts.inputs.labels import (
    axis_labels,
    check_same_labels,
    common_axes,
    read_labels,
)
from countveil.counts.inputs.spellings import coarse_keys
from countveil.counts.private_counts import PrivateCounts
from countveil.counts.record import Record
from countveil.counts.sources.combine import is_same_release, shows_too_little
from countveil.counts.sources.plain_counts import PlainCounts, read_plain_counts
from countveil.privacy import Guarantee

Part = PrivateCounts | PlainCounts
# Cells by which releases are told apart at a glance, and what stands for one that is hidden.
_LOOKED_AT, _HIDDEN = 64, -1


def stack_rows(*parts: Any, rows: Any = None, different_rows: bool = False) -> PrivateCounts:
    """Releases and public counts over the same columns as one release, their rows one below the other.

    Every row keeps the noise it had, so that releases of different strength can be fitted together. Rows of
    public counts have none (alpha = 0): they are plain, a fit takes them as they are, and nothing protects
    them: the result says so, and so do files of it. At least one part must be a release.

    Parameters
    ----------
    parts
        ``PrivateCounts`` releases; or public counts: a numpy array (masked where missing), nested lists, a
        scipy.sparse matrix, a DataFrame. All axes but the first must agree, in length and in labels where
        several parts have them.
    rows
        Labels of all rows of the result, in their order. By default those of the parts, if all of them have labels;
        others rename the rows, but none may get the name of another.
    different_rows
        Rows of one name in two releases are taken for one row, released twice: that tells more than either
        promise says, and the row must not count as two, so it is refused (see ``combine_releases``). True says
        that such rows are different ones; then ``rows`` must give them names of their own.

    Examples
    --------
    >>> import countveil as cv
    >>> release = cv.simulate_release([[9, 0], [0, 8]], epsilon=1, seed=0, labels=(["ann", "bo"], ["oil", "gas"]))
    >>> both = cv.stack_rows(release, [[3, 4]], rows=["ann", "bo", "report of 1999"])
    >>> both
    PrivateCounts(3 x 2, alpha 0.3679 by row, 4 positive cells, none missing, rows and columns labelled, \
1 row PLAIN: not protected, SIMULATED: not private)
    >>> both.plain_rows
    array([False, False,  True])
    """
    if any(isinstance(part, list | tuple) and _holds_parts(part) for part in parts):
        raise TypeError("parts: expected each as an argument of its own, got a list; stack_rows(*parts)")
    if not any(isinstance(part, PrivateCounts) for part in parts):
        raise ValueError(
            "parts: expected a release among them, got none: plain counts are no release, "
            "pass them to cv.fit as they are"
        )
    held: list[Part] = [
        p if isinstance(p, PrivateCounts) else read_plain_counts(p, name="parts") for p in parts
    ]
    releases = [part for part in held if isinstance(part, PrivateCounts)]
    _check_different(releases, different_rows)
    n_axes = len(held[0].shape)
    for part in held[1:]:
        if part.shape[1:] != held[0].shape[1:]:
            expected, got = (" x ".join(map(str, one.shape[1:])) or "no" for one in (held[0], part))
            raise ValueError(f"parts: expected {expected} columns, got {got}")
    axes = common_axes(held, "parts")
    further = [check_same_labels(held, axis, "parts") for axis in range(1, n_axes)]
    shape = (sum(part.shape[0] for part in held), *held[0].shape[1:])
    labels = read_labels([_row_labels(held, rows), *further], shape, axes)[1]
    rho = _rho(held, shape)
    cells = _joined_cells([part.positive for part in held])
    missing = _joined_missing(held)
    levels = RhoLevels(rho, shape)
    number = levels.count((cells, missing))
    negative = None
    if all(release.negative is not None for release in releases):
        negative = _joined_cells(
            [p.negative if isinstance(p, PrivateCounts) and p.negative else _no_cells(p) for p in held]
        )
    simulated = any(release.simulated for release in releases)
    records = () if simulated else tuple(record for release in releases for record in _records(release))
    guarantee, each = (None, None) if simulated else _promises(held)
    return PrivateCounts._from_contents(
        Contents(
            shape, axes, labels, rho, cells, missing,
            NonPositive(levels.values, number, _total(releases, levels.values)), negative,
            guarantee=guarantee, simulated=simulated, row_guarantees=each, records=records,
        )
    )  # fmt: skip


def _records(release: PrivateCounts) -> tuple[Record, ...]:
    """That it is a network must be known when its rows have other names than its columns, too."""
    if not release._shares_people:
        return release.records
    if not release.records and (release.guarantee or release.row_guarantees):
        raise ValueError("parts: expected networks with records, got one of an earlier version")
    return tuple(record._replace(pairs=True) for record in release.records)


def _check_different(releases: Sequence[PrivateCounts], different_rows: bool) -> None:
    """Refuse a release given twice, and a row released twice: losses of the same row add."""
    if not isinstance(different_rows, bool):
        raise TypeError(f"different_rows: expected True or False, got {type(different_rows).__name__}")
    seen: set[str] = set()
    # There may be thousands: one that shows too little is compared with itself only, those that show all cells with
    # their equals.
    small: set[int] = set()
    whole: dict[Any, list[PrivateCounts]] = {}
    hidden = any(release.missing is not None for release in releases)
    partly: dict[tuple[int, ...], _Alike] = {}
    for release in releases:
        ids = {record.id for record in release.records}
        if shows_too_little(release):
            again = id(release) in small
            small.add(id(release))
            if again or seen & ids:
                raise _twice()
            seen |= ids
            continue
        cells = (each.astype(np.int64).tobytes() for each in release.positive)  # whatever types they have
        alike = whole.setdefault((release.shape, *map(hash, cells)), [])
        others = [*alike]
        if hidden:
            if release.shape not in partly:
                partly[release.shape] = _Alike(release, len(releases))
            others = partly[release.shape].those_like(release)
        if seen & ids or any(is_same_release(release, other) for other in others):
            raise _twice()
        seen |= ids
        alike.append(release)
    if different_rows:
        return
    promising = [release for release in releases if release.guarantee or release.row_guarantees]
    if len(promising) > 1 and any(release.labels[0] is None for release in promising):
        raise ValueError(
            "parts: expected labels that tell the rows of the releases apart, got rows without; releases of the "
            "same rows belong into combine_releases; different_rows=True says that they are different rows"
        )
    if len(promising) > 1 and any(release._shares_people for release in promising):
        raise ValueError(
            "parts: expected rows that stand on no other axis, got a network's people: one count may lie in the "
            "rows of two of them; different_rows=True says that none does"
        )
    labels: set[str] = set()
    for release in releases:
        own = set() if release.labels[0] is None else coarse_keys(release.labels[0])
        if labels & own:
            raise ValueError(
                f"parts: expected rows of their own in every release, got {min(labels & own)!r} in two; releases "
                "of the same rows belong into combine_releases, where their losses add; different_rows=True says "
                "that they are different rows"
            )
        labels |= own


def _twice() -> ValueError:
    return ValueError("parts: expected different releases, got one of them twice")


class _Alike:
    """Releases of one shape by their values in a few cells: one that is there twice agrees where both show them."""

    def __init__(self, first: PrivateCounts, most: int) -> None:
        self._width = n_rows_and_width(first.shape)[1]
        largest = np.argsort(-first.positive.values, kind="stable")[:_LOOKED_AT]  # where values differ most
        self._cells = np.sort(flat_cells(first.positive, self._width)[largest])
        self._values = np.empty((most, len(self._cells)), np.int64)
        self._releases: list[PrivateCounts] = []

    def those_like(self, release: PrivateCounts) -> list[PrivateCounts]:
        """Those before that may be the same; then it is one of them."""
        here = np.zeros(len(self._cells), np.int64)
        flat = flat_cells(release.positive, self._width)
        _, mine, others = np.intersect1d(self._cells, flat, assume_unique=True, return_indices=True)
        here[mine] = release.positive.values[others]
        here[np.isin(self._cells, flat_cells(release.missing, self._width))] = _HIDDEN
        before = self._values[: len(self._releases)]
        agree = ((before == here) | (before == _HIDDEN) | (here == _HIDDEN)).all(axis=1)
        found = [self._releases[place] for place in np.flatnonzero(agree)]
        self._values[len(self._releases)] = here
        self._releases.append(release)
        return found


def _holds_parts(given: Sequence[Any]) -> bool:
    """Whether a list holds parts rather than rows of numbers."""
    return any(
        isinstance(one, PrivateCounts) or hasattr(one, "columns") or getattr(one, "ndim", 0) > 1
        for one in given
    )


def _row_labels(held: Sequence[Part], rows: Any) -> Any:
    each = [[None] * part.shape[0] if part.labels[0] is None else list(part.labels[0]) for part in held]
    own = [label for labels in each for label in labels]
    taken = set(own)
    if rows is None:
        if len(taken) > 1 and None in taken:
            raise ValueError(
                "rows: expected labels for all rows, because some parts have them, got parts without; pass "
                "rows=[...]"
            )
        return None if None in taken else own
    given = axis_labels(rows, "row")
    for label, before in zip(given, own, strict=False):  # whether there are as many is asked later
        if label != before and label in taken:
            raise ValueError(
                f"rows: expected labels in the order of the parts, got {label!r} in place of {before!r}"
            )
    return given


def _rho(held: Sequence[Part], shape: tuple[int, ...]) -> np.ndarray:
    """0-d where all rows have the same noise, else one per row, inf for plain ones; or one per cell."""
    each = [np.asarray(np.inf) if isinstance(part, PlainCounts) else part.rho for part in held]
    if any(rho.ndim and rho.size > part.shape[0] for rho, part in zip(each, held, strict=True)):
        if any(np.isinf(rho).any() for rho in each):
            raise ValueError(
                "parts: expected noise that does not vary within a row beside plain rows, got noise per cell"
            )
        return np.concatenate(
            [np.broadcast_to(rho, part.shape) for rho, part in zip(each, held, strict=True)]
        )
    by_row = (shape[0],) + (1,) * (len(shape) - 1)
    rho = np.concatenate(
        [np.broadcast_to(rho.reshape(-1), part.shape[:1]) for rho, part in zip(each, held, strict=True)]
    )
    return np.asarray(rho[0]) if (rho == rho[0]).all() else rho.reshape(by_row)


def _joined_cells(parts: Sequence[Cells]) -> Cells:
    return Cells(
        _joined_starts([p.row_starts for p in parts]),
        np.concatenate([p.columns for p in parts]),
        np.concatenate([p.values for p in parts]),
    )


def _joined_missing(held: Sequence[Part]) -> Places | None:
    if all(part.missing is None for part in held):
        return None
    parts = [Places(*_no_cells(part)[:2]) if part.missing is None else part.missing for part in held]
    return Places(_joined_starts([p.row_starts for p in parts]), np.concatenate([p.columns for p in parts]))


def _no_cells(part: Part) -> Cells:
    starts = np.zeros(part.shape[0] + 1, dtype=np.int64)
    return Cells(starts, part.positive.columns[:0], np.zeros(0, dtype=np.uint8))


def _joined_starts(parts: Sequence[np.ndarray]) -> np.ndarray:
    per_row = np.concatenate([np.diff(starts) for starts in parts])
    return np.concatenate([[0], np.cumsum(per_row)]).astype(np.int64)


def _total(releases: Sequence[PrivateCounts], levels: np.ndarray) -> np.ndarray | None:
    """The sums of |x| over the cells x <= 0 for every rho, if all releases know them; plain rows have none."""
    total = np.zeros(len(levels))
    for release in releases:
        if release.nonpositive.total is None:
            return None
        total[np.searchsorted(levels, release.nonpositive.rho)] += release.nonpositive.total
    return total


def _promises(
    held: Sequence[Part],
) -> tuple[Guarantee | None, tuple[Guarantee | None, ...] | None]:
    """What holds for every row, and for each where they differ; nothing if a release was made without."""
    each: list[Guarantee | None] = []
    units: set[str] = set()
    for part in held:
        if isinstance(part, PlainCounts):
            each += (None,) * part.shape[0]
        elif part.guarantee is None and part.row_guarantees is None:
            return None, None
        else:
            promised = part.row_guarantees or (part.guarantee,) * part.shape[0]
            each += promised
            units.add(distinct((part.guarantee, *promised))[0].unit)
    if len(units) > 1:
        raise ValueError(f"parts: expected guarantees for one unit, got {' and '.join(sorted(units))}")
    unit = units.pop()
    # That of a person is about all rows of theirs, also where each has a level of its own.
    known = distinct(each)
    for_unit = {(g.epsilon, g.precision): Guarantee(g.epsilon, g.precision, unit) for g in known}
    of_row = {id(None): None, **{id(g): for_unit[g.epsilon, g.precision] for g in known}}
    rows = tuple(of_row[id(g)] for g in each)
    if any(row is None for row in rows):
        return None, for_rows(rows)
    weakest = max(for_unit.values(), key=lambda g: g.rate)
    return weakest, None if len(for_unit) == 1 else for_rows(rows)
