"""Rates of cells: their posterior means, and every draw of them, never more of them at once than memory takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from countveil.posterior.axes import chosen_cells, free_names
from countveil.posterior.states import row_slices

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior


def mean_rates(posterior: Posterior, rows: Any, columns: Any) -> xr.DataArray:
    """Posterior means of the chosen cells, labelled; an error beyond 1 GB."""
    kept, hint = posterior._with_model("rates"), "; go through iter_rates() block by block"
    chosen = chosen_cells(rows, columns, posterior._labels, posterior._shape, hint=hint)
    r, c = chosen.rows, chosen.columns
    mean = np.empty((len(r), len(c)))
    for block in row_slices(len(r), len(c)):
        mean[block] = kept.mean_rates(r[block], c)
    dims = free_names(posterior._axes, {"rate"})
    coordinates = posterior._coordinates(dims, *chosen.places)
    return xr.DataArray(mean.reshape(chosen.shape), coordinates, dims, name="rate")


def mean_rate_blocks(posterior: Posterior) -> Iterator[tuple[slice, np.ndarray]]:
    """Posterior means of all cells, block by block of rows."""
    kept, shape = posterior._with_model("iter_rates"), posterior._shape
    for block in row_slices(shape[0], math.prod(shape[1:])):
        rows = np.arange(block.start, block.stop)
        yield block, kept.mean_rates(rows).reshape(len(rows), *shape[1:])


def rate_draw_blocks(posterior: Posterior) -> Iterator[tuple[slice, np.ndarray]]:
    """Every kept draw of the rates, (draws, rows, ...), block by block of rows."""
    kept, shape = posterior._with_model("iter_rate_draws"), posterior._shape
    n_draws, width = posterior.n_draws, math.prod(shape[1:])
    for block in row_slices(shape[0], width * n_draws):
        rows = np.arange(block.start, block.stop)
        draws = np.empty((n_draws, len(rows), width))
        for out, rates in zip(draws, kept.rates(rows), strict=True):
            out[:] = rates
        yield block, draws.reshape(n_draws, len(rows), *shape[1:])
