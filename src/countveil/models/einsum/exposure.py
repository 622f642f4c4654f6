"""How much of every cell's rate has been observed: what enters the gamma rates of the factors.

A cell that was observed has exposure 1, a missing one 0. Where most cells are integrated out, an observed cell has
exposure 1 - alpha: x <= 0 has likelihood exp(-(1-alpha)*mu), and so has a positive cell whose tokens were dropped;
one whose tokens were kept has exposure 1. Given tokens, the rate of a factor's entry is its prior rate plus the
exposure-weighted sum of all other terms: sum_v e_dv phi_kv for theta_dk, sum_d e_dv theta_dk for phi_kv.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from countveil.kernels.exact_sum import (
    UNWEIGHTED,
    as_float,
    exact_sums,
    find_largest,
    scales_above,
    scales_of,
    split,
)
from countveil.models.einsum.contraction import contract
from countveil.runtime.compiled import compiled, inlined
from countveil.runtime.workers import Workers

if TYPE_CHECKING:
    from countveil.models.einsum.model import EinsumModel

_NOTHING = np.zeros(0, dtype=np.int32)


class Exposure(NamedTuple):
    """Cells listed by rows, as in a CSR matrix: those that are missing, or else those that are observed."""

    starts: np.ndarray  # int64 (rows + 1)
    columns: np.ndarray  # int32
    lists_observed: bool = False
    #: Of rows whose cells are integrated out: 1 - alpha on every observed cell, and alpha more on the kept ones.
    alpha: np.ndarray | None = None
    kept_rows: np.ndarray = _NOTHING
    kept_columns: np.ndarray = _NOTHING
    #: Cells are listed for rows that lie elsewhere (``runtime.shards``).
    lists_elsewhere: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether every cell has exposure 1."""
        nothing = len(self.columns) == 0 and not self.lists_elsewhere
        return not self.lists_observed and nothing and self.alpha is None

    def of_rows(self, column_factor: np.ndarray) -> np.ndarray:
        """sum_v e_dv f_vk for every row d; one row for all where they are alike. f is (columns, K)."""
        out = (
            np.zeros((1, column_factor.shape[1])) if self.lists_observed else ordered_sum(column_factor)[None]
        )
        if len(self.columns) or self.lists_observed:
            out = np.repeat(out, len(self.starts) - 1, axis=0)
            sign = 1.0 if self.lists_observed else -1.0
            _add_to_rows(self.starts, self.columns, sign, column_factor, out)
        if self.alpha is not None:
            out = (1.0 - self.alpha)[:, None] * out
            _add_kept_to_rows(self.kept_rows, self.kept_columns, self.alpha, column_factor, out)
        return out

    def of_columns(self, row_factor: np.ndarray, n_columns: int, workers: Workers) -> np.ndarray:
        """sum_d e_dv f_dk for every column v; one row for all where they are alike. f is (rows, K).

        Sums over rows are sums of integers (``exact_sum``): they do not depend on how rows are split or ordered.
        """
        workers = workers.of_rows
        if self.is_whole:
            return exact_sums(row_factor, workers)[None]
        n, n_components = row_factor.shape
        alone = workers.alone(
            n_components * (4 * n + 2 * n_columns + 2 * len(self.columns) + 2 * len(self.kept_rows))
        )
        cells = _Listed(self.starts, self.columns, self.lists_observed)
        alpha = UNWEIGHTED if self.alpha is None else self.alpha
        weights = UNWEIGHTED if self.alpha is None else 1.0 - self.alpha
        out = np.empty((n_columns, n_components))
        halves = np.empty((n, 2, n_components), dtype=np.int32)
        n_listed = n_columns if len(self.columns) else 0
        parts = np.zeros((1 if alone else workers.threads, 2, n_listed, n_components), dtype=np.int64)
        kept = _kept_by_column(self.kept_rows, self.kept_columns, n_columns)
        halves_of_kept = np.empty((n if len(self.kept_rows) else 0, 2, n_components), dtype=np.int32)
        if alone:
            _fill_columns(row_factor, weights, cells, alpha, kept, halves, halves_of_kept, parts, out)
            return out
        scale = scales_of(row_factor, workers)
        workers.run(n, lambda start, stop: split(start, stop, row_factor, weights, scale, halves))
        workers.run(
            len(halves_of_kept),
            lambda start, stop: split(start, stop, row_factor, alpha, scale, halves_of_kept),
        )
        if n_listed:
            workers.run_with_worker(
                n, lambda worker, start, stop: _add_to_columns(start, stop, cells, halves, parts[worker])
            )
        everything = _sum_of_halves(halves, self.lists_observed)
        if workers.has_others:
            sums = np.empty((2, n_columns, n_components), dtype=np.int64)
            workers.run(
                n_columns,
                lambda start, stop: _sum_columns(start, stop, everything, parts, kept, halves_of_kept, sums),
            )
            high, low = workers.total(sums)
            return as_float(high, low, scale)
        workers.run(
            n_columns,
            lambda start, stop: _finish_columns(
                start, stop, everything, parts, kept, halves_of_kept, scale, out
            ),
        )
        return out


def exposure_of(
    missing_starts: np.ndarray,
    missing_columns: np.ndarray,
    width: int,
    workers: Workers | None = None,
    lists_observed: bool | None = None,
) -> Exposure:
    """Exposure by the missing or by the observed cells, whichever are fewer among all rows, or as is said.

    >>> exposure_of(np.array([0, 2, 3]), np.array([0, 1, 0], dtype=np.int32), 2)[:3]
    (array([0, 0, 1]), array([1], dtype=int32), True)
    """
    n_rows = len(missing_starts) - 1
    n_missing, n_cells = len(missing_columns), n_rows * width
    if workers is not None:
        n_missing, n_cells = workers.of_rows.total(np.array([n_missing, n_cells])).tolist()
    if 2 * n_missing <= n_cells if lists_observed is None else not lists_observed:
        return Exposure(
            missing_starts, missing_columns, lists_elsewhere=n_missing > len(missing_columns) == 0
        )
    observed = np.ones((n_rows, width), dtype=bool)
    observed[np.repeat(np.arange(n_rows), np.diff(missing_starts)), missing_columns] = False
    starts = np.concatenate([[0], np.cumsum(observed.sum(axis=1))]).astype(np.int64)
    return Exposure(starts, np.nonzero(observed)[1].astype(np.int32), lists_observed=True)


def exposure_without(cells: tuple[np.ndarray, ...] | None, shape: tuple[int, ...]) -> Exposure:
    """Exposure 1 on every cell but these."""
    hidden = np.zeros(shape, dtype=bool)
    if cells is not None:
        hidden[cells] = True
    hidden = hidden.reshape(shape[0], -1)
    starts = np.concatenate([[0], np.cumsum(hidden.sum(axis=1))]).astype(np.int64)
    return exposure_of(starts, np.nonzero(hidden)[1].astype(np.int32), hidden.shape[1])


#: Sums of factors over an axis, by the id of the factor; with the factor itself, so that no other gets its id.
Seen = dict[int, tuple[np.ndarray, np.ndarray]]


def exposure_at(
    model: EinsumModel,
    held: Mapping[str, np.ndarray],
    place: int,
    exposure: Exposure,
    workers: Workers,
    seen: Seen | None = None,
) -> np.ndarray:
    """The sum over observed cells of the product of all other terms, for every entry of the factor at this term.

    An axis has length 1 where all its entries meet the same. ``seen`` keeps sums that several factors of one array
    meet, until the factor that was summed is drawn anew.
    """
    seen = {} if seen is None else seen

    def once(factor: np.ndarray, sums: Callable[[], np.ndarray]) -> np.ndarray:
        if id(factor) not in seen:
            seen[id(factor)] = (factor, sums())
        return seen[id(factor)][1]

    spec = model._spec.by_axis
    term = spec.terms[place]
    if exposure.is_whole and spec.per_axis is not None:  # every other factor enters by its sums
        others = [held[name] for p, name in enumerate(spec.names) if p != place]
        whom = [workers.of(name) for p, name in enumerate(spec.names) if p != place]
        sums = [once(f, partial(exact_sums, f, w)) for f, w in zip(others, whom, strict=True)]
        return math.prod(sums[1:], start=sums[0])[None]
    layout = model._layout(model._shape_of(held))
    remaining = [p for p in range(len(spec.terms)) if p not in (place, spec.first)]
    terms, arrays = [spec.terms[p] for p in remaining], [held[spec.names[p]] for p in remaining]
    if spec.first is None:
        # No cell is missing on this path: missing counts are drawn.
        return _present(terms, arrays, term)
    if place == spec.first:
        if exposure.is_whole:
            return _present(terms, arrays, term)
        of_rows = exposure.of_rows(model._column_matrix(held))
        return of_rows.reshape(len(of_rows), *(layout.sizes[c] for c in layout.group))
    # What is observed of the first axis, column by column, takes the place of its factor.
    by_column = once(
        held[spec.names[spec.first]],
        lambda: exposure.of_columns(model._row_matrix(held), layout.size(layout.rest), workers),
    )
    letters = layout.group if len(by_column) == 1 else layout.rest + layout.group
    arrays = [by_column.reshape([layout.sizes[c] for c in letters]), *arrays]
    return _present([letters, *terms], arrays, term)


def _present(terms: list[str], arrays: list[np.ndarray], term: str) -> np.ndarray:
    """The contraction to the letters of ``term``; length 1 along those that no array has."""
    present, absent = _letters(tuple(terms), term)
    found = contract(terms, arrays, present)
    return np.expand_dims(found, absent) if absent else found


@lru_cache(maxsize=1024)
def _letters(terms: tuple[str, ...], term: str) -> tuple[str, tuple[int, ...]]:
    """The letters of a term that others have, and the places of its own.

    >>> _letters(("ic", "cd"), "jcd")
    ('cd', (0,))
    """
    present = "".join(c for c in term if any(c in other for other in terms))
    return present, tuple(place for place, c in enumerate(term) if c not in present)


@compiled
def ordered_sum(factor):  # type: ignore[no-untyped-def]
    """Column sums of a (n, K) array, added in row order: for sums over columns, which every shard has whole."""
    total = np.zeros(factor.shape[1])
    for i in range(factor.shape[0]):
        for k in range(factor.shape[1]):
            total[k] += factor[i, k]
    return total


@compiled
def _add_to_rows(starts, columns, sign, factor, out):  # type: ignore[no-untyped-def]
    for d in range(len(starts) - 1):
        for i in range(starts[d], starts[d + 1]):
            for k in range(out.shape[1]):
                out[d, k] += sign * factor[columns[i], k]
        for k in range(out.shape[1]):
            # Rounding may leave a hair below zero where everything is missing.
            out[d, k] = max(out[d, k], 0.0)


@compiled
def _add_kept_to_rows(rows, columns, alpha, factor, out):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        to, of, weight = out[rows[i]], factor[columns[i]], alpha[rows[i]]
        for k in range(len(to)):
            to[k] += weight * of[k]


class _Listed(NamedTuple):
    """The cells of an ``Exposure``."""

    starts: np.ndarray
    columns: np.ndarray
    are_observed: bool


@compiled
def _fill_columns(  # type: ignore[no-untyped-def]
    row_factor, weights, cells, alpha, kept, halves, halves_of_kept, parts, out
):
    """``Exposure.of_columns`` by one worker."""
    n = len(row_factor)
    largest = np.zeros(row_factor.shape[1])
    find_largest(0, n, row_factor, UNWEIGHTED, largest)
    scale = scales_above(largest)
    split(0, n, row_factor, weights, scale, halves)
    split(0, len(halves_of_kept), row_factor, alpha, scale, halves_of_kept)
    if len(cells.columns):
        _add_to_columns(0, n, cells, halves, parts[0])
    everything = _sum_of_halves(halves, cells.are_observed)
    _finish_columns(0, len(out), everything, parts, kept, halves_of_kept, scale, out)


@compiled
def _sum_of_halves(halves, lists_observed):  # type: ignore[no-untyped-def]
    """Of all rows: what a column has before missing cells are taken out; 0 if observed ones are listed."""
    total = np.zeros(halves.shape[1:], dtype=np.int64)
    if not lists_observed:
        for d in range(len(halves)):
            for half in range(2):
                for k in range(halves.shape[2]):
                    total[half, k] += halves[d, half, k]
    return total


@compiled
def _add_to_columns(start, stop, cells, halves, out):  # type: ignore[no-untyped-def]
    starts, columns, are_observed = cells
    sign = 1 if are_observed else -1
    for d in range(start, stop):
        for i in range(starts[d], starts[d + 1]):
            for half in range(2):
                to, of = out[half, columns[i]], halves[d, half]
                for k in range(len(to)):
                    to[k] += sign * of[k]


@compiled
def _kept_by_column(rows, columns, n_columns):  # type: ignore[no-untyped-def]
    """The rows of the kept cells, column after column, and where each column starts."""
    starts = np.zeros(n_columns + 1, dtype=np.int64)
    for v in columns:
        starts[v + 1] += 1
    for v in range(n_columns):
        starts[v + 1] += starts[v]
    places, ordered = starts[:-1].copy(), np.empty(len(rows), dtype=rows.dtype)
    for i in range(len(rows)):
        v = columns[i]
        ordered[places[v]] = rows[i]
        places[v] += 1
    return starts, ordered


@compiled
def _finish_columns(  # type: ignore[no-untyped-def]
    start, stop, everything, parts, kept, halves_of_kept, scale, out
):
    """Columns start..stop: the sum of all rows, less or plus the listed cells, and the kept ones, as numbers.

    Column by column, because the sum of one then stays where the processor has it at hand.
    """
    n = len(scale)
    halves, unit = np.empty(2 * n, dtype=np.int64), np.empty(n)
    for k in range(n):
        unit[k] = 1.0 / scale[k]  # a power of 2: to multiply by it is exact, and faster than to divide
    for v in range(start, stop):
        _sum_column(v, everything, parts, kept, halves_of_kept, halves)
        for k in range(n):
            out[v, k] = as_float(halves[k], halves[n + k], 1.0) * unit[k]


@compiled
def _sum_columns(start, stop, everything, parts, kept, halves_of_kept, out):  # type: ignore[no-untyped-def]
    """The same as halves, (2, columns, K): to be added to those of other shards."""
    n = out.shape[2]
    halves = np.empty(2 * n, dtype=np.int64)
    for v in range(start, stop):
        _sum_column(v, everything, parts, kept, halves_of_kept, halves)
        out[0, v], out[1, v] = halves[:n], halves[n:]


@inlined
def _sum_column(v, everything, parts, kept, halves_of_kept, out):  # type: ignore[no-untyped-def]
    """High halves, then low ones: in one loop, several at a time."""
    starts, rows = kept
    n = len(out) // 2
    for k in range(n):
        out[k], out[n + k] = everything[0, k], everything[1, k]
    if parts.shape[2] > 0:
        for part in parts:
            for k in range(n):
                out[k] += part[0, v, k]
                out[n + k] += part[1, v, k]
    flat = halves_of_kept.reshape(len(halves_of_kept), 2 * n)
    for i in range(starts[v], starts[v + 1]):
        of = flat[np.uint64(rows[i])]
        for k in range(2 * n):
            out[k] += of[k]
