"""The posterior of true counts: for every kept draw of the rates, a draw of the count given its release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from countveil.inference.observed import MISSING, Observed, cells_at, gather
from countveil.kernels import steps
from countveil.kernels.given_release.geometric import draw_count
from countveil.kernels.given_release.repeated import draw_count_repeated
from countveil.kernels.philox import open_stream
from countveil.kernels.poisson import poisson
from countveil.posterior.axes import chosen_cells, free_names
from countveil.posterior.diagnostics.summary import tails_of
from countveil.posterior.states import KeptStates, ordered_product, row_slices
from countveil.runtime.compiled import compiled

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior


def labelled_counts(posterior: Posterior, rows: Any, columns: Any, interval: float) -> xr.Dataset:
    """The summary of the chosen cells as labelled arrays."""
    kept, data = posterior._with_model("true_counts"), posterior._data
    if data is None:
        raise ValueError("true_counts: expected the counts of this run, got none: plain counts are not saved")
    names = CountSummary._fields
    chosen = chosen_cells(rows, columns, posterior._labels, posterior._shape, len(names))
    observed = posterior._observed(data, as_plain=posterior.settings["method"] == "naive")
    found = summarize_counts(
        kept,
        observed,
        posterior._seed,
        chosen.rows,
        chosen.columns,
        tails_of(interval),
        posterior._rho_of_draws,
    )
    dims = free_names(posterior._axes, names)
    arrays = {n: (dims, values.reshape(chosen.shape)) for n, values in zip(names, found, strict=True)}
    return xr.Dataset(arrays, posterior._coordinates(dims, *chosen.places), {"interval": interval})


class CountSummary(NamedTuple):
    """Of the true count of every chosen cell, (rows, columns)."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    positive: np.ndarray  # probability that it is not 0


def summarize_counts(
    kept: KeptStates,
    data: Observed,
    seed: int,
    rows: np.ndarray,
    columns: np.ndarray,
    tails: tuple[float, float],
    rho_of_draws: np.ndarray | None = None,
) -> CountSummary:
    """Draw the counts of the chosen cells, rows by rows, and summarize the draws.

    ``rho_of_draws`` is -log(alpha) of every draw where alpha was inferred; else the data say it.
    """
    size = (len(rows), len(columns))
    found = CountSummary(np.empty(size), np.empty(size, int), np.empty(size, int), np.empty(size))
    for block in row_slices(len(rows), len(kept) * len(columns)):
        drawn = _draws(kept, data, seed, rows[block], columns, rho_of_draws)
        drawn = drawn.reshape(len(kept), -1, len(columns))
        outside = kept.cells.outside(rows[block], columns)
        if outside is not None:
            drawn[:, outside] = 0
        found.mean[block] = drawn.mean(axis=0)
        # A quantile that is a count: the smallest that leaves at most so much above it.
        found.low[block], found.high[block] = np.quantile(drawn, tails, axis=0, method="inverted_cdf")
        found.positive[block] = (drawn > 0).mean(axis=0)
    return found


def _draws(
    kept: KeptStates,
    data: Observed,
    seed: int,
    rows: np.ndarray,
    columns: np.ndarray,
    rho_of_draws: np.ndarray | None,
) -> np.ndarray:
    """(draws, cells): a pair of an undirected network is one cell, wherever it is asked for."""
    at, across = kept.cells.counted_at(np.repeat(rows, len(columns)), np.tile(columns, len(rows)))
    cells = at * data.width + across
    values, rho = cells_at(data, at, across)
    draw_cells = _draw_cells if values.ndim == 1 else _draw_repeated_cells
    drawn = np.empty((len(kept), len(cells)), dtype=np.int64)
    for s, (place, rates) in enumerate(zip(kept.numbers, rates_of_cells(kept, rows, columns), strict=True)):
        # Rates and alpha of one draw belong together: only so are the counts a mixture over the draws.
        noise = rho if rho_of_draws is None else np.full(rho.shape, rho_of_draws[s])
        draw_cells(np.uint64(seed), *place, cells, values, rates.reshape(-1), noise, drawn[s])
    return drawn


def rates_of_cells(kept: KeptStates, rows: np.ndarray, columns: np.ndarray) -> Iterator[np.ndarray]:
    """Rates from which counts can be drawn: a run may come from anybody, and of NaN one would draw for ever."""
    for rates in _rates_of_cells(kept, rows, columns):
        check_rates(rates)
        yield rates


def check_rates(rates: np.ndarray) -> None:
    """Refuse what is no rate of a count."""
    if rates.size and not (rates.min() >= 0 and rates.max() < np.inf):  # nor is NaN
        raise ValueError("posterior: expected draws whose rates are finite and >= 0, got others")


def _rates_of_cells(kept: KeptStates, rows: np.ndarray, columns: np.ndarray) -> Iterator[np.ndarray]:
    """Rates of every draw, every bit of them the same for a cell and its mirror image."""
    draws = kept.rates(rows, columns, ordered_product)
    if not kept.cells.mirrored:
        yield from draws
        return
    below = columns < rows[:, None]
    for rates, mirrored in zip(draws, kept.rates(columns, rows, ordered_product), strict=True):
        yield np.where(below, mirrored.T, rates)


@compiled
def _draw_cells(seed, chain, draw, cells, values, rates, rho, out):
    """out[i]: the count of a cell released as values[i]; MISSING cells are Poisson; plain ones (rho inf) known.

    The stream is the cell's own: what a cell is found to hold does not depend on what else was asked for.
    """
    for i in range(len(values)):
        stream = open_stream(seed, chain, draw, steps.TRUE_COUNTS, cells[i])
        if values[i] == MISSING:
            out[i], stream = poisson(stream, rates[i])
        elif np.isinf(rho[i]):
            out[i] = values[i]
        else:
            out[i], stream = draw_count(stream, values[i], rates[i], rho[i])


@compiled
def _draw_repeated_cells(seed, chain, draw, cells, values, rates, rho, out):
    """The same for cells that were released several times: values and rho are (cells, releases)."""
    x, noise = np.empty(rho.shape[1], dtype=np.int64), np.empty(rho.shape[1])
    for i in range(len(values)):
        stream = open_stream(seed, chain, draw, steps.TRUE_COUNTS, cells[i])
        n = gather(values[i], rho[i], x, noise)
        if n == 0:
            out[i], stream = poisson(stream, rates[i])
        else:
            out[i], stream = draw_count_repeated(stream, x[:n], noise[:n], rates[i])
