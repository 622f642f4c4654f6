"""How much of every cell's rate has been observed: what enters the gamma rates of the factors.

A cell that was observed has exposure 1, a missing one 0. Where most cells are integrated out, an observed cell has
exposure 1 - alpha: x <= 0 has likelihood exp(-(1-alpha)*mu), and so has a positive cell whose tokens were dropped;
one whose tokens were kept has exposure 1. Given tokens, the rate of a factor's entry is its prior rate plus the
exposure-weighted sum of all other terms: sum_v e_dv phi_kv for theta_dk, sum_d e_dv theta_dk for phi_kv.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from countveil.kernels.exact_sum import as_floats, exact_sums, exponents_of, halves_of
from countveil.models.einsum.contraction import contract
from countveil.runtime.compiled import compiled
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

    @property
    def is_whole(self) -> bool:
        """Whether every cell has exposure 1."""
        return not self.lists_observed and len(self.columns) == 0 and self.alpha is None

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
        terms = row_factor if self.alpha is None else (1.0 - self.alpha)[:, None] * row_factor
        if len(self.columns) == 0 and not self.lists_observed and self.alpha is None:
            return exact_sums(terms, workers)[None]
        exponents = exponents_of(row_factor, workers)
        parts = np.zeros((workers.threads, 2, n_columns, row_factor.shape[1]), dtype=np.int64)
        halves = halves_of(terms, exponents, workers)
        sign = 1 if self.lists_observed else -1
        workers.run_with_worker(
            len(terms),
            lambda worker, start, stop: _add_to_columns(
                start, stop, self.starts, self.columns, sign, halves, parts[worker]
            ),
        )
        if self.alpha is not None:
            kept = halves_of(self.alpha[:, None] * row_factor, exponents, workers)
            workers.run_with_worker(
                len(self.kept_rows),
                lambda worker, start, stop: _add_kept_to_columns(
                    start, stop, self.kept_rows, self.kept_columns, kept, parts[worker]
                ),
            )
        total = parts[0]
        for part in parts[1:]:
            total += part
        if not self.lists_observed:
            total += halves.sum(axis=0, dtype=np.int64)[:, None]
        return as_floats(total, exponents)


def exposure_of(missing_starts: np.ndarray, missing_columns: np.ndarray, width: int) -> Exposure:
    """Exposure by the missing or by the observed cells, whichever are fewer.

    >>> exposure_of(np.array([0, 2, 3]), np.array([0, 1, 0], dtype=np.int32), 2)[:3]
    (array([0, 0, 1]), array([1], dtype=int32), True)
    """
    n_rows = len(missing_starts) - 1
    if 2 * len(missing_columns) <= n_rows * width:
        return Exposure(missing_starts, missing_columns)
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


def exposure_at(
    model: EinsumModel, held: Mapping[str, np.ndarray], place: int, exposure: Exposure, workers: Workers
) -> np.ndarray:
    """The sum over observed cells of the product of all other terms, for every entry of the factor at this term.

    An axis has length 1 where all its entries meet the same.
    """
    spec = model._spec.by_axis
    term = spec.terms[place]
    if exposure.is_whole and spec.per_axis is not None:  # every other factor enters by its sums
        sums = [exact_sums(held[name], workers) for p, name in enumerate(spec.names) if p != place]
        return math.prod(sums[1:], start=sums[0])[None]
    layout = model._layout(model._shape_of(held))
    others = [p for p in range(len(spec.terms)) if p not in (place, spec.first)]
    terms, arrays = [spec.terms[p] for p in others], [held[spec.names[p]] for p in others]
    if spec.first is None:
        # No cell is missing on this path: missing counts are drawn.
        return _present(terms, arrays, term)
    if place == spec.first:
        if exposure.is_whole:
            return _present(terms, arrays, term)
        of_rows = exposure.of_rows(model._column_matrix(held))
        return of_rows.reshape(len(of_rows), *(layout.sizes[c] for c in layout.group))
    # What is observed of the first axis, column by column, takes the place of its factor.
    seen = exposure.of_columns(model._row_matrix(held), layout.size(layout.rest), workers)
    letters = layout.group if len(seen) == 1 else layout.rest + layout.group
    return _present([letters, *terms], [seen.reshape([layout.sizes[c] for c in letters]), *arrays], term)


def _present(terms: list[str], arrays: list[np.ndarray], term: str) -> np.ndarray:
    """The contraction to the letters of ``term``; length 1 along those that no array has."""
    present = "".join(c for c in term if any(c in other for other in terms))
    found = contract(terms, arrays, present)
    return found.reshape([found.shape[present.index(c)] if c in present else 1 for c in term])


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


@compiled
def _add_to_columns(start, stop, starts, columns, sign, halves, out):  # type: ignore[no-untyped-def]
    for d in range(start, stop):
        for i in range(starts[d], starts[d + 1]):
            for half in range(2):
                to, of = out[half, columns[i]], halves[d, half]
                for k in range(len(to)):
                    to[k] += sign * of[k]


@compiled
def _add_kept_to_columns(start, stop, rows, columns, halves, out):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        for half in range(2):
            to, of = out[half, columns[i]], halves[rows[i], half]
            for k in range(len(to)):
                to[k] += of[k]
