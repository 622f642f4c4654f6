"""What is known of every cell: how often it was seen (missing, once, several times), and through which noise.

Plain counts are cells seen without noise (rho = inf), and rows of both kinds may stand side by side. Counts that
were released several times have several looks at one true count. All of that is values here, not kinds of data.

Rows are the first axis, columns all others flattened. A cell is *positive* if some release has x > 0 there. Of the
others that are observed nothing but their noise matters: y ~ Poisson(mu * exp(-rho)), rho added up over the
releases that show the cell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.cells.layout import flat_cells, n_rows_and_width
from countveil.counts.sources.plain_counts import PlainCounts
from countveil.kernels.given_release.repeated import log_marginal_repeated
from countveil.kernels.philox import ROW_BITS
from countveil.models.einsum.margins import Margins
from countveil.runtime.compiled import compiled, inlined
from countveil.runtime.workers import Workers

#: The value of a cell that was not seen.
MISSING = -1
#: Counts are added up as 64-bit integers; draws of them may be larger than what was released.
LARGEST_TOTAL = 2.0**62


class Observed(NamedTuple):
    """The arrays are those of the data, not copies; values may be, of two bytes."""

    n_rows: int
    width: int
    row_starts: np.ndarray  # int64 (n_rows + 1): positive cells of row d are row_starts[d]:row_starts[d+1]
    columns: np.ndarray  # int32
    values: np.ndarray  # uint16 where it suffices, else int64; of several looks the largest
    missing_starts: np.ndarray  # int64 (n_rows + 1)
    missing_columns: np.ndarray  # int32
    row_rho: np.ndarray  # float64 (n_rows): of cells x <= 0; inf for plain rows; NaN where it varies by cell
    cell_rho: np.ndarray  # float64 (n_rows, width) if the noise varies by cell, else (0, 0)
    looks: (
        np.ndarray
    )  # int64 (positive cells, releases), 0 for x <= 0, MISSING if not shown; (0, 0) for one release
    look_rho: np.ndarray  # float64 (releases, n_rows), or (0, 0)
    partial_starts: np.ndarray  # int64 (n_rows + 1): cells x <= 0 that some releases show and some do not
    partial_columns: np.ndarray  # int32
    partial_shown: np.ndarray  # bool (cells, releases): which releases do
    partial_rho: np.ndarray  # float64: the sum of rho over those

    @property
    def is_plain(self) -> bool:
        """Whether no cell has noise."""
        return bool(np.isinf(self.row_rho).all())

    @property
    def is_repeated(self) -> bool:
        """Whether the counts were released several times."""
        return self.looks.shape[1] > 0

    @property
    def lowest_rho(self) -> np.ndarray:
        """The smallest rho of every row's cells x <= 0, (n_rows)."""
        if len(self.cell_rho):
            return self.cell_rho.min(axis=1)
        lowest = self.row_rho.copy()
        np.minimum.at(lowest, rows_of(self.partial_starts), self.partial_rho)
        return lowest

    @property
    def highest_rho(self) -> np.ndarray:
        """The largest rho of every row's cells, (n_rows)."""
        # A copy: numba would compile anew for an array that is read-only.
        return self.cell_rho.max(axis=1) if len(self.cell_rho) else self.row_rho.copy()

    def with_rho(self, rho: float) -> Observed:
        """The same cells, all with this noise."""
        return self._replace(
            row_rho=_read_only(np.full(self.n_rows, rho)), cell_rho=_read_only(np.zeros((0, 0)))
        )


def observe(data: PrivateCounts | CombinedReleases | PlainCounts, as_plain: bool = False) -> Observed:
    """What ``data`` tell; ``as_plain`` takes released counts for true ones (the naive method)."""
    n_rows, width = _checked_size(data.shape)
    if isinstance(data, CombinedReleases):
        return _observe_repeated(data, n_rows, width)
    row_rho, cell_rho = np.full(n_rows, np.inf), np.zeros((0, 0))
    if isinstance(data, PrivateCounts) and not as_plain:
        if data.rho.shape == data.shape and data.rho.size > n_rows:
            # In the order that is compiled already, whichever they came in.
            row_rho, cell_rho = np.full(n_rows, np.nan), np.ascontiguousarray(data.rho.reshape(n_rows, width))
        else:
            row_rho = np.broadcast_to(data.rho.reshape(-1), (n_rows,)).copy()
    missing, values = data.missing, data.positive.values
    places = None if missing is None else (missing.row_starts, missing.columns)
    listed = (data.positive.row_starts, data.positive.columns)
    return _of_one_release(n_rows, width, listed, values, places, row_rho, cell_rho)


def noise_alone(data: PrivateCounts, as_plain: bool = False) -> Observed:
    """Of a release that nobody has read: a row without cells for each level of noise, by which one may choose."""
    _, width = _checked_size(data.shape)
    rho = np.array([np.inf]) if as_plain else np.unique(data.rho)
    none = np.zeros(0, dtype=np.int64)
    return _of_one_release(
        len(rho), width, _by_rows(none, len(rho), width), none, None, rho, np.zeros((0, 0))
    )


def check_total(total: float) -> None:
    """Refuse counts whose sums would wrap around; the kind of fault only, they may be true ones."""
    if not total < LARGEST_TOTAL:
        raise ValueError("data: expected counts whose sum is below 2**62, got a larger sum")


def _checked_size(shape: tuple[int, ...]) -> tuple[int, int]:
    n_rows, width = n_rows_and_width(shape)
    if width > np.iinfo(np.int32).max:
        raise ValueError(f"data: expected fewer than 2**31 cells per row, got {width}")
    if n_rows * width >= 2**ROW_BITS:
        # A cell's stream is named by its number.
        raise ValueError(f"data: expected fewer than 2**{ROW_BITS} cells, got {n_rows * width}")
    return n_rows, width


def _of_one_release(
    n_rows: int,
    width: int,
    positive: tuple[np.ndarray, np.ndarray],
    values: np.ndarray,
    missing: tuple[np.ndarray, np.ndarray] | None,
    row_rho: np.ndarray,
    cell_rho: np.ndarray,
) -> Observed:
    none = _by_rows(np.zeros(0, dtype=np.int64), n_rows, width)
    return _as_observed(
        n_rows,
        width,
        positive,
        values,
        none if missing is None else missing,
        row_rho,
        cell_rho,
        np.zeros((0, 0), dtype=np.int64),
        np.zeros((0, 0)),
        (*_by_rows(np.zeros(0, dtype=np.int64), n_rows, width), np.zeros((0, 0), dtype=bool), np.zeros(0)),
    )


def _observe_repeated(data: CombinedReleases, n_rows: int, width: int) -> Observed:
    rho = np.stack([np.broadcast_to(r.rho.reshape(-1), (n_rows,)) for r in data.releases])
    positive = [flat_cells(release.positive, width) for release in data.releases]
    missing = [flat_cells(release.missing, width) for release in data.releases]
    visited = np.unique(np.concatenate(positive))
    looks = np.zeros((len(visited), len(rho)), dtype=np.int64)
    for r, release in enumerate(data.releases):
        looks[np.searchsorted(visited, positive[r]), r] = release.positive.values
        looks[np.isin(visited, missing[r], assume_unique=True), r] = MISSING
    unseen = flat_cells(data.missing, width)
    partial = np.setdiff1d(np.concatenate(missing), np.concatenate([visited, unseen]))
    shown = np.stack([~np.isin(partial, one, assume_unique=True) for one in missing], axis=1)
    return _as_observed(
        n_rows,
        width,
        _by_rows(visited, n_rows, width),
        looks.max(axis=1, initial=0),
        _by_rows(unseen, n_rows, width),
        rho.sum(axis=0),
        np.zeros((0, 0)),
        looks,
        rho,
        (*_by_rows(partial, n_rows, width), shown, (shown * rho[:, partial // max(width, 1)].T).sum(axis=1)),
    )


def _as_observed(
    n_rows: int,
    width: int,
    positive: tuple[np.ndarray, np.ndarray],
    values: np.ndarray,
    missing: tuple[np.ndarray, np.ndarray],
    row_rho: np.ndarray,
    cell_rho: np.ndarray,
    looks: np.ndarray,
    look_rho: np.ndarray,
    partial: tuple[np.ndarray, ...],
) -> Observed:
    # Numba compiles everything anew for each type (most of a minute), and one large count decides it: two must do.
    small = values.max(initial=0) <= np.iinfo(np.uint16).max
    if not small:  # else there would have to be 2**46 cells
        check_total(float(values.sum(dtype=np.float64)))
    found = Observed(
        n_rows, width, positive[0], positive[1].astype(np.int32, copy=False),
        values.astype(np.uint16 if small else np.int64, copy=False),
        missing[0], missing[1].astype(np.int32, copy=False), row_rho, cell_rho, looks, look_rho, *partial,
    )  # fmt: skip
    for name in found._fields[2:]:
        _read_only(getattr(found, name))
    return found


def rows_between(data: Observed, start: int, stop: int) -> Observed:
    """Rows ``start`` to ``stop`` by themselves; views of the cells."""
    if (start, stop) == (0, data.n_rows):
        return data
    found: dict[str, Any] = {
        "n_rows": stop - start,
        "row_rho": data.row_rho[start:stop],
        "cell_rho": data.cell_rho[start:stop],
        "look_rho": _read_only(np.ascontiguousarray(data.look_rho[:, start:stop])),
    }
    lists = {
        "row_starts": ("columns", "values", "looks"),
        "missing_starts": ("missing_columns",),
        "partial_starts": ("partial_columns", "partial_shown", "partial_rho"),
    }
    for name, listed in lists.items():
        starts = getattr(data, name)[start : stop + 1]
        found[name] = _read_only(starts - starts[0])
        found |= {each: getattr(data, each)[starts[0] : starts[-1]] for each in listed}
    return data._replace(**found)


def _read_only(array: np.ndarray) -> np.ndarray:
    """A release is read-only, and numba compiles anew for arrays that are not: all are made alike."""
    array.setflags(write=False)
    return array


def _by_rows(flat: np.ndarray, n_rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.divmod(flat, max(width, 1))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))]).astype(np.int64)
    return starts, columns.astype(np.int32)


def margins_of(data: Observed, workers: Workers | None = None) -> Margins | None:
    """Unbiased totals of rows and columns; None for noise that varies by cell, and for several releases.

    As in ``PrivateCounts.total``: sum_{x>0} x - sum_{x<=0} 1/expm1(rho). What is missing counts as the mean of what
    is observed. All sums are of multiples of 2**-20, and so exact, in any order of the rows.
    """
    if data.is_repeated or len(data.cell_rho):
        return None
    with np.errstate(over="ignore"):
        below = np.ldexp(np.rint(np.ldexp(1.0 / np.expm1(data.row_rho), 20)), -20)
        variance = np.ldexp(np.rint(np.ldexp(0.5 / np.sinh(0.5 * data.row_rho) ** 2, 20)), -20)
    rows, columns = np.zeros(data.n_rows), np.zeros(data.width)
    column_seen, column_variance = np.zeros(data.width), np.zeros(data.width)
    _add_margins(data, below, variance, rows, columns, column_seen, column_variance)
    row_seen = data.width - np.diff(data.missing_starts)
    columns -= below.sum()
    column_variance += variance.sum()
    column_seen += data.n_rows
    n_rows = data.n_rows
    if workers is not None and workers.of_rows.has_others:
        sums = np.stack([columns, column_variance, column_seen])
        columns, column_variance, column_seen = _added_exactly(sums, workers.of_rows)
        n_rows = workers.of_rows.number(n_rows)
    row_part, column_part = (
        whole / np.maximum(seen, 1) for whole, seen in ((data.width, row_seen), (n_rows, column_seen))
    )
    return Margins(
        rows * row_part, variance * row_seen * row_part**2, columns * column_part, column_variance * column_part**2
    )  # fmt: skip


def _added_exactly(sums: np.ndarray, everyone: Workers) -> np.ndarray:
    """Sums of multiples of 2**-20 over all shards: as integers, in two parts of 32 bits and more."""
    high, low = np.divmod(np.ldexp(sums, 20), 2.0**32)
    high, low = everyone.total(np.stack([high, low]).astype(np.int64))
    return np.ldexp(high * 2.0**32 + low, -20)


@compiled
def _add_margins(data, below, variance, rows, columns, column_seen, column_variance):  # type: ignore[no-untyped-def]
    for d in range(data.n_rows):
        n_missing = data.missing_starts[d + 1] - data.missing_starts[d]
        rows[d] -= (data.width - n_missing) * below[d]
        for i in range(data.row_starts[d], data.row_starts[d + 1]):
            x = data.values[i] + below[d]
            rows[d] += x
            columns[data.columns[i]] += x
        for i in range(data.missing_starts[d], data.missing_starts[d + 1]):
            v = data.missing_columns[i]
            columns[v] += below[d]
            column_seen[v] -= 1
            column_variance[v] -= variance[d]


def rows_of(starts: np.ndarray) -> np.ndarray:
    """The row of every listed cell."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def cells_at(data: Observed, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(values, rho) of the named cells: MISSING for a missing one, rho = inf for plain counts.

    Of counts that were released several times each is (cells, releases), MISSING where a release does not show it.
    """
    if data.is_repeated:
        looks = np.zeros((len(rows), len(data.look_rho)), dtype=np.int64)
        _fill_looks(rows, columns, data, looks)
        return looks, np.ascontiguousarray(data.look_rho[:, rows].T)
    values = np.empty(len(rows), dtype=np.int64)
    _fill_values(rows, columns, data, values)
    return values, data.cell_rho[rows, columns] if len(data.cell_rho) else data.row_rho[rows]


def seen(values: np.ndarray) -> np.ndarray:
    """Which cells are observed, by the values that ``cells_at`` gives."""
    observed = values != MISSING
    return observed if values.ndim == 1 else observed.any(axis=1)


@compiled
def find_cell(listed, low, high, wanted):  # type: ignore[no-untyped-def]
    """Position of ``wanted`` in the increasing part low..high of ``listed``, or -1."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if listed[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and listed[low] == wanted else -1


@compiled
def open_row(d, data, released):  # type: ignore[no-untyped-def]
    """Write row d into ``released``: positive cells, 0 for x <= 0, MISSING."""
    columns, values, missing = data.columns, data.values, data.missing_columns
    for v in range(len(released)):
        released[v] = 0
    for i in range(data.row_starts[d], data.row_starts[d + 1]):
        released[columns[i]] = values[i]
    for i in range(data.missing_starts[d], data.missing_starts[d + 1]):
        released[missing[i]] = MISSING


@inlined
def noise_of(d, v, row_rho, cell_rho, partial_starts, partial_columns, partial_rho):  # type: ignore[no-untyped-def]
    """rho of the cell (d, v) if it is x <= 0; of a single release, of any cell."""
    if len(cell_rho):
        return cell_rho[d, v]
    if len(partial_rho):
        at = find_cell(partial_columns, partial_starts[d], partial_starts[d + 1], v)
        if at >= 0:
            return partial_rho[at]
    return row_rho[d]


@compiled
def gather(values, rho, x, noise):  # type: ignore[no-untyped-def]
    """The releases that show a cell, to the front of ``x`` and ``noise``: how many there are."""
    n = 0
    for r in range(len(values)):
        if values[r] != MISSING:
            x[n] = values[r]
            noise[n] = rho[r]
            n += 1
    return n


@compiled
def repeated_log_likelihoods(values, rates, rho, out):  # type: ignore[no-untyped-def]
    """out[i] = log P(values of cell i | its rate), the true count summed out; 0 where no release shows it."""
    x, noise = np.empty(rho.shape[1], dtype=np.int64), np.empty(rho.shape[1])
    for i in range(len(values)):
        n = gather(values[i], rho[i], x, noise)
        out[i] = log_marginal_repeated(x[:n], noise[:n], rates[i]) if n > 0 else 0.0


@compiled
def _fill_values(rows, columns, data, out):  # type: ignore[no-untyped-def]
    starts, missing_starts = data.row_starts, data.missing_starts
    for i in range(len(rows)):
        d, v = rows[i], columns[i]
        at = find_cell(data.columns, starts[d], starts[d + 1], v)
        if at >= 0:
            out[i] = data.values[at]
        else:
            lost = find_cell(data.missing_columns, missing_starts[d], missing_starts[d + 1], v) >= 0
            out[i] = MISSING if lost else 0


@compiled
def _fill_looks(rows, columns, data, out):  # type: ignore[no-untyped-def]
    starts, missing_starts, partial_starts = data.row_starts, data.missing_starts, data.partial_starts
    for i in range(len(rows)):
        d, v = rows[i], columns[i]
        at = find_cell(data.columns, starts[d], starts[d + 1], v)
        if at >= 0:
            out[i] = data.looks[at]
        elif find_cell(data.missing_columns, missing_starts[d], missing_starts[d + 1], v) >= 0:
            out[i] = MISSING
        else:
            at = find_cell(data.partial_columns, partial_starts[d], partial_starts[d + 1], v)
            if at >= 0:
                for r in range(out.shape[1]):
                    out[i, r] = 0 if data.partial_shown[at, r] else MISSING
