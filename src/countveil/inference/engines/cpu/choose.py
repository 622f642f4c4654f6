"""One table of costs, and what is chosen by it: an algorithm for the data, and a way to serve each column.

A positive cell can be drawn in two exact ways: visited, at the cost of its rate (K multiplications), or reached by
tokens proposed at rate mu/alpha, which cost nothing where none falls. Visiting pays for columns with many expected
tokens per positive cell: on real text a few columns hold most of the tokens.

Choices depend on totals of the whole data alone (exact sums, maxima: the same for every split and order of rows),
never on the randomness of a draw nor on measured time, so draws reproduce.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from countveil.inference.engines.cpu.visits import VisitedCells, list_visited
from countveil.inference.observed import Observed
from countveil.kernels.exact_sum import exact_sums
from countveil.models.einsum.exposure import Exposure
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers

# Nanoseconds, roughly, on current processors: only their ratios matter, and only for speed.
PROPOSE = 40.0  # a token: its column, and what was released there
VISIT = 70.0  # a positive cell, and this more for every component:
VISIT_PER_COMPONENT = 0.4
LOOK = 4.0  # a fiber's total
ENTRY = 12.0  # an entry of the tables that tokens need

#: About how many tokens can be proposed in the time of a visit: a row that expects more per cell is crowded.
TOKENS_PER_VISIT = 2.5
#: A fiber is crowded if it expects more tokens than this per cell.
TOKENS_PER_CELL = 0.3
#: Beyond this rho, proposals at rate mu * exp(rho) on fibers cost more than visits to the positive cells.
HIGHEST_RHO_OF_FIBERS = 2.5
#: Up to this rho integrating cells out gives more effective samples per second.
#:
#: Measured on 1,000 real documents with 4,000 words and 50 topics, two chains of 1,000 sweeps each: effective
#: samples per sweep, to those of plain tokens, of 50 rates (median), log-likelihood, total rate: 2.3, 1.4, 1.8 at
#: rho = 0.5; 1.4, 2.0, 1.1 at 1; 1.0, 1.3, 1.4 at 2. A sweep costs 1.2 to 1.5 times as much.
HIGHEST_RHO_INTEGRATED = 0.7


class ColumnPlan(NamedTuple):
    """How the columns are served; those that are visited as a whole are in neither list."""

    proposed: np.ndarray  # int32: columns whose positive cells are reached by tokens; so are their others
    visited: np.ndarray  # int32: columns whose positive cells are visited; their others are reached by tokens
    is_proposed: np.ndarray  # bool (columns)


class Noise(NamedTuple):
    """What is known of the noise of all rows."""

    repeated: bool  # the counts were released several times
    by_cell: bool  # it varies within rows
    plain_rows: bool  # there are rows without
    noisy_rows: bool  # there are rows with
    lowest: float  # rho, of rows with noise
    highest: float


def noise_among(data: Observed, workers: Workers) -> Noise:
    """Over all rows."""
    rho, lowest = data.highest_rho, data.lowest_rho
    noisy = np.isfinite(rho)
    found = [np.isinf(data.row_rho).any(), noisy.any(), (-lowest[noisy]).max(initial=-np.inf)]
    found.append(rho[noisy].max(initial=0.0))
    plain, some, low, high = workers.of_rows.largest(np.array(found, dtype=np.float64)).tolist()
    return Noise(data.is_repeated, len(data.cell_rho) > 0, bool(plain), bool(some), -low, high)


def choose_algorithm(
    data: Observed,
    shape: tuple[int, ...],
    n_components: int,
    is_cp: bool,
    is_tied: bool,
    workers: Workers | None = None,
) -> str:
    """The fastest of ``tokens``, ``integrated`` and ``fibers`` that serves the data and the model; all are exact.

    ``is_cp``: every axis has a factor of its own. ``is_tied``: a factor stands on two axes.
    """
    workers = Workers(1) if workers is None else workers
    noise, n_rows = noise_among(data, workers), workers.of_rows.number(shape[0])
    looks_pay = n_rows * LOOK < shape[-1] * n_components * ENTRY
    if fits_fibers(noise, shape, is_cp) and noise.highest <= HIGHEST_RHO_OF_FIBERS and looks_pay:
        return "fibers"
    if fits_integrated(noise, is_tied) and noise.highest <= HIGHEST_RHO_INTEGRATED:
        return "integrated"
    return "tokens"


def fits_fibers(noise: Noise, shape: tuple[int, ...], is_cp: bool) -> bool:
    """Three axes or more in the CP form, each cell released once with noise."""
    return is_cp and len(shape) >= 3 and not noise.repeated and not noise.plain_rows


def fits_integrated(noise: Noise, is_tied: bool) -> bool:
    """One release whose noise does not vary within a row, and every factor at one term."""
    return not (is_tied or noise.by_cell or noise.repeated or not noise.noisy_rows)


class ColumnChoice(NamedTuple):
    """Which columns are visited: the same for all rows, by their totals."""

    visited: np.ndarray  # bool (columns): whose positive cells are visited
    whole: np.ndarray  # bool (columns): whose other cells are, too
    listed: bool = True  # whether visited cells are listed; if not, rows are gone through one by one

    def plan(self) -> ColumnPlan:
        """How the columns are served."""
        visited, whole = self.visited, self.whole
        return ColumnPlan(
            np.flatnonzero(~visited).astype(np.int32),
            np.flatnonzero(visited & ~whole).astype(np.int32),
            ~visited,
        )

    def cells(self, data: Observed) -> VisitedCells:
        """The cells of these rows to visit."""
        return list_visited(data, self.visited if self.listed else np.zeros_like(self.visited), self.whole)


def make_plan(
    data: Observed, n_components: int, integrated: bool, workers: Workers
) -> tuple[ColumnPlan, VisitedCells]:
    """The plan with the columns that ``choose_columns`` chooses, and the cells to visit."""
    choice = choose_columns(data, n_components, integrated, workers)
    return choice.plan(), choice.cells(data)


def choose_columns(data: Observed, n_components: int, integrated: bool, workers: Workers) -> ColumnChoice:
    """Visit cells where they cost less than the tokens that would be proposed on them.

    Positive cells receive tokens/alpha proposals; a column's cells x <= 0 share alpha*tokens, which is more than
    visiting them all where counts are large.
    """
    noisy, noise = ~np.isinf(data.row_rho), noise_among(data, workers)
    if data.is_repeated or not noise.noisy_rows:
        # Several looks at a cell, and plain counts, are visited row by row.
        none = np.zeros(data.width, dtype=bool)
        return ColumnChoice(~none, none, listed=False)
    number, total = np.zeros((2, data.width), dtype=np.int64), np.zeros(data.width, dtype=np.int64)
    _column_totals(data, number, total)
    everyone = workers.of_rows
    positive, others, total = everyone.total(np.concatenate([number, total[None]]))
    # Unbiased column totals, at least one token: cells x <= 0 have 1/expm1(rho) below zero on average.
    with np.errstate(over="ignore"):
        is_one = not noise.by_cell and noise.lowest == noise.highest
        below = others / np.expm1(noise.highest) if is_one else _noise_below(data, noisy, everyone)
        upwards = _mean(np.exp(data.highest_rho[noisy]), everyone)
        downwards = _mean(np.exp(-data.lowest_rho[noisy]), everyone)
    tokens = np.maximum(total - below, 1.0)
    visit = VISIT + VISIT_PER_COMPONENT * n_components
    visited = positive * visit < tokens * upwards * PROPOSE
    whole = visited & (others * visit < tokens * downwards * PROPOSE)
    # Where cells x <= 0 are integrated out nobody visits them.
    return ColumnChoice(visited, whole & (not integrated))


def _noise_below(data: Observed, noisy: np.ndarray, workers: Workers) -> np.ndarray:
    """Per column the sum of 1/expm1(rho) over observed cells x <= 0."""
    if len(data.cell_rho):
        mean = 1.0 / np.expm1(data.cell_rho)
        _leave_out_others(data, mean)
        return exact_sums(mean, workers)
    mean = np.zeros(data.n_rows)
    mean[noisy] = 1.0 / np.expm1(data.row_rho[noisy])
    positive = Exposure(data.row_starts, data.columns, lists_elsewhere=workers.has_others)
    seen = positive.of_columns(mean[:, None], data.width, workers)
    if workers.number(len(data.missing_columns)):
        missing = Exposure(data.missing_starts, data.missing_columns, lists_observed=True)
        seen = seen - missing.of_columns(mean[:, None], data.width, workers)
    return seen[:, 0]


def _mean(values: np.ndarray, workers: Workers) -> float:
    if np.isinf(workers.largest(values.max(initial=0.0, keepdims=True))[0]):
        return np.inf
    return float(exact_sums(values[:, None], workers)[0]) / workers.number(len(values))


@compiled
def _column_totals(data, number, total):
    """Per column of the rows with noise: positive cells, other observed cells, the sum of the positive values."""
    row_starts, columns, values = data.row_starts, data.columns, data.values
    positive, others = number[0], number[1]
    n_rows = 0
    for d in range(len(row_starts) - 1):
        if np.isinf(data.row_rho[d]):
            continue
        n_rows += 1
        for i in range(row_starts[d], row_starts[d + 1]):
            positive[columns[i]] += 1
            total[columns[i]] += values[i]
        for i in range(data.missing_starts[d], data.missing_starts[d + 1]):
            others[data.missing_columns[i]] -= 1
    for v in range(len(total)):
        others[v] += n_rows - positive[v]


@compiled
def _leave_out_others(data, mean):
    """0 for cells that are positive or missing."""
    for d in range(len(mean)):
        for i in range(data.row_starts[d], data.row_starts[d + 1]):
            mean[d, data.columns[i]] = 0.0
        for i in range(data.missing_starts[d], data.missing_starts[d + 1]):
            mean[d, data.missing_columns[i]] = 0.0
