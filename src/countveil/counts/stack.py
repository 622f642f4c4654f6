"""stack_rows: releases and public counts over the same columns, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from countveil.counts.contents import Cells, Contents, NonPositive, Places
from countveil.counts.labels import read_labels
from countveil.counts.nonpositive import RhoLevels
from countveil.counts.plain_values import read_plain_values
from countveil.counts.private_counts import PrivateCounts
from countveil.counts.same_axes import check_same_labels, common_axes
from countveil.privacy import Guarantee


def stack_rows(*parts: Any, rows: Any = None) -> PrivateCounts:
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
        Labels of all rows of the result. By default those of the parts, if all of them have labels.

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
    held = [p if isinstance(p, PrivateCounts) else read_plain_values(p, None, "parts") for p in parts]
    plain = [not isinstance(part, PrivateCounts) for part in parts]
    n_axes = len(held[0].shape)
    for part in held[1:]:
        if part.shape[1:] != held[0].shape[1:]:
            expected, got = (" x ".join(map(str, one.shape[1:])) or "no" for one in (held[0], part))
            raise ValueError(f"parts: expected {expected} columns, got {got}")
    axes = common_axes(held, "parts")
    further = [check_same_labels(held, axis, "parts") for axis in range(1, n_axes)]
    shape = (sum(part.shape[0] for part in held), *held[0].shape[1:])
    labels = read_labels(dict(zip(axes, [_row_labels(held, rows), *further], strict=True)), shape)[1]
    rho = _rho(held, plain, shape)
    contents = [part._contents for part in held]
    cells = _joined_cells([c.positive for c in contents])
    missing = _joined_missing(contents)
    released = [c for c, is_plain in zip(contents, plain, strict=True) if not is_plain]
    levels = RhoLevels(rho, shape)
    number = levels.count((cells, missing))
    negative = None
    if all(c.negative is not None for c in released):
        negative = _joined_cells([_no_cells(c) if c.negative is None else c.negative for c in contents])
    simulated = any(c.simulated for c in released)
    guarantee, each = (None, None) if simulated else _promises(contents, plain)
    return PrivateCounts._from_contents(
        Contents(
            shape, axes, labels, rho, cells, missing,
            NonPositive(levels.values, number, _total(released, levels.values)), negative,
            guarantee=guarantee, simulated=simulated, row_guarantees=each,
        )
    )  # fmt: skip


def _holds_parts(given: Sequence[Any]) -> bool:
    """Whether a list holds parts rather than rows of numbers."""
    return any(
        isinstance(one, PrivateCounts) or hasattr(one, "columns") or getattr(one, "ndim", 0) > 1
        for one in given
    )


def _row_labels(held: Sequence[PrivateCounts], rows: Any) -> Any:
    if rows is not None:
        return rows
    found = [part.labels[0] for part in held]
    if all(labels is None for labels in found):
        return None
    labelled = [labels for labels in found if labels is not None]
    if len(labelled) < len(found):
        raise ValueError(
            "rows: expected labels for all rows, because some parts have them, got parts without; pass rows=[...]"
        )
    return np.concatenate(labelled)


def _rho(held: Sequence[PrivateCounts], plain: Sequence[bool], shape: tuple[int, ...]) -> np.ndarray:
    """0-d where all rows have the same noise, else one per row, inf for plain ones; or one per cell."""
    per_cell = any(p.rho.ndim and p.rho.size > p.shape[0] for p, is_plain in zip(held, plain, strict=True))
    if per_cell:
        if any(plain) or any(part.plain_rows.any() for part in held):
            raise ValueError(
                "parts: expected noise that does not vary within a row beside plain rows, got noise per cell"
            )
        return np.concatenate([np.broadcast_to(part.rho, part.shape) for part in held])
    by_row = (shape[0],) + (1,) * (len(shape) - 1)
    found = [
        np.full(part.shape[0], np.inf)
        if is_plain
        else np.broadcast_to(part.rho.reshape(-1), (part.shape[0],))
        for part, is_plain in zip(held, plain, strict=True)
    ]
    rho = np.concatenate(found)
    return np.asarray(rho[0]) if (rho == rho[0]).all() else rho.reshape(by_row)


def _joined_cells(parts: Sequence[Cells]) -> Cells:
    return Cells(
        _joined_starts([p.row_starts for p in parts]),
        np.concatenate([p.columns for p in parts]),
        np.concatenate([p.values for p in parts]),
    )


def _joined_missing(contents: Sequence[Contents]) -> Places | None:
    if all(c.missing is None for c in contents):
        return None
    parts = [Places(*_no_cells(c)[:2]) if c.missing is None else c.missing for c in contents]
    return Places(_joined_starts([p.row_starts for p in parts]), np.concatenate([p.columns for p in parts]))


def _no_cells(contents: Contents) -> Cells:
    starts = np.zeros(contents.shape[0] + 1, dtype=np.int64)
    return Cells(starts, contents.positive.columns[:0], np.zeros(0, dtype=np.uint8))


def _joined_starts(parts: Sequence[np.ndarray]) -> np.ndarray:
    per_row = np.concatenate([np.diff(starts) for starts in parts])
    return np.concatenate([[0], np.cumsum(per_row)]).astype(np.int64)


def _total(released: Sequence[Contents], levels: np.ndarray) -> np.ndarray | None:
    """The sums of |x| over the cells x <= 0 for every rho, if all releases know them; plain rows have none."""
    total = np.zeros(len(levels))
    for contents in released:
        if contents.nonpositive.total is None:
            return None
        total[np.searchsorted(levels, contents.nonpositive.rho)] += contents.nonpositive.total
    return total


def _promises(
    contents: Sequence[Contents], plain: Sequence[bool]
) -> tuple[Guarantee | None, tuple[Guarantee | None, ...] | None]:
    """What holds for every row, and for each where they differ; nothing if a release was made without."""
    each: list[Guarantee | None] = []
    for part, is_plain in zip(contents, plain, strict=True):
        if not is_plain and part.guarantee is None and part.row_guarantees is None:
            return None, None
        promised = (None,) if is_plain else (part.guarantee,)
        each += part.row_guarantees or promised * part.shape[0]
    known = [g for g in each if g is not None]
    units = sorted({g.unit for g in known})
    if len(units) > 1:
        raise ValueError(f"parts: expected guarantees for one unit, got {' and '.join(units)}")
    if len(known) < len(each):
        return None, tuple(each)
    return max(known, key=lambda g: g.rate), None if len(set(known)) == 1 else tuple(each)
