"""Which cells are scored: those that the model speaks of and the data show, all of them or a random sample.

The cells are not listed to draw from them (a matrix of 10,000 x 10,000 has 10**8): a row's cells that are *not*
wanted are listed anyway, and the r-th of the others is r plus the number of listed ones before it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from countveil.evaluation.likelihood import cell_places, each_once
from countveil.inference.observed import Observed, cells_at, rows_of, seen
from countveil.models.count_model import whole_number
from countveil.posterior.posterior import Posterior

_FEWEST_OF_STRATA = 10


class ScoredCells(NamedTuple):
    """Chosen cells in order, each the member of a stratum, and how many cells every stratum has in all."""

    rows: np.ndarray
    columns: np.ndarray  # counted over all axes but the first
    stratum: np.ndarray
    population: np.ndarray

    @property
    def stands_for(self) -> np.ndarray:
        """How many cells every chosen one stands for."""
        return (self.population / np.maximum(np.bincount(self.stratum, minlength=len(self.population)), 1))[
            self.stratum
        ]


def choose_cells(
    posterior: Posterior, data: Observed, cells: Any, sample: Any, seed: Any, *, by_sign: bool = False
) -> ScoredCells:
    """The given ``cells`` in their order, or ``sample`` of all observed ones (None: all).

    ``by_sign``: half of the sample are cells with a positive value, which are few in sparse data and differ most.
    What is asked so is added up: given cells come once.
    """
    rng = np.random.default_rng(whole_number("seed", seed, 0))
    if cells is not None:
        rows, columns = cell_places(cells, posterior._shape)
        if by_sign:
            rows, columns = each_once(rows, columns)
        lost = int((~seen(cells_at(data, rows, columns)[0])).sum())
        if lost:
            raise ValueError(f"cells: expected cells that were observed and are modelled, got {lost} others")
        return ScoredCells(rows, columns, np.zeros(len(rows), np.int64), np.array([len(rows)]))
    missing = rows_of(data.missing_starts) * data.width + data.missing_columns
    n_observed = data.n_rows * data.width - len(missing)
    # Of strata one cell each would tell nothing of their spread.
    least = _FEWEST_OF_STRATA if by_sign else 1
    size = n_observed if sample is None else min(whole_number("sample", sample, least), n_observed)
    if not by_sign or size == n_observed:
        flat = np.sort(_unlisted(missing, n_observed, size, data, rng))
        return ScoredCells(*np.divmod(flat, data.width), np.zeros(size, np.int64), np.array([n_observed]))
    positive = rows_of(data.row_starts) * data.width + data.columns
    n_zero = n_observed - len(positive)
    n_positive = min(len(positive), max(size // 2, size - n_zero))
    chosen = positive[rng.choice(len(positive), n_positive, replace=False, shuffle=False)]
    listed = np.sort(np.concatenate([positive, missing]))
    zeros = _unlisted(listed, n_zero, size - n_positive, data, rng)
    flat, stratum = np.concatenate([zeros, chosen]), np.repeat([0, 1], [len(zeros), len(chosen)])
    order = np.argsort(flat)
    population = np.array([n_zero, len(positive)])
    return ScoredCells(*np.divmod(flat[order], data.width), stratum[order], population)


def _unlisted(
    listed: np.ndarray, n_others: int, size: int, data: Observed, rng: np.random.Generator
) -> np.ndarray:
    """``size`` of the ``n_others`` cells that are not listed (in order): each as likely as any other."""
    if size == n_others:
        ranks = np.arange(n_others)
    else:
        ranks = rng.choice(n_others, size, replace=False, shuffle=False)
    before = listed - np.arange(len(listed))  # how many others come before each listed cell
    return ranks + np.searchsorted(before, ranks, side="right")
