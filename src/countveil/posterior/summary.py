"""Draws in a few numbers: equal-tailed intervals, and whether the chains have converged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats.base import array_stats

from countveil.models.count_model import rates_at

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior


def check_interval(interval: Any) -> float:
    """The share of the posterior an interval is to hold, or an error."""
    if not (isinstance(interval, int | float | np.number) and 0 < interval < 1):
        raise ValueError(f"interval: expected a number between 0 and 1, got {interval!r}")
    return float(interval)


def tails_of(interval: float) -> tuple[float, float]:
    """The quantiles at which an equal-tailed interval begins and ends.

    >>> tails_of(0.5)
    (0.25, 0.75)
    """
    return (1 - interval) / 2, (1 + interval) / 2


def mean_and_interval(draws: np.ndarray, interval: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and both ends of the interval over the first axis."""
    low, high = np.quantile(draws, tails_of(interval), axis=0)
    return draws.mean(axis=0), low, high


def interval_dataset(
    dims: tuple[str, ...],
    found: tuple[np.ndarray, np.ndarray, np.ndarray],
    coordinates: Mapping[str, Any],
    interval: float,
) -> xr.Dataset:
    """``mean``, ``low`` and ``high`` over named dimensions, with the share that the interval holds."""
    arrays = {name: (dims, values) for name, values in zip(("mean", "low", "high"), found, strict=True)}
    return xr.Dataset(arrays, coords=coordinates, attrs={"interval": interval})


def watched(posterior: Posterior, n_rates: int) -> dict[str, np.ndarray]:
    """Quantities without labels, (chain, draw): monitored scalars, rates of cells spread evenly over the array."""
    stats, shape = posterior.tree["sample_stats"].data_vars.items(), posterior._shape
    quantities = {str(name): values.to_numpy() for name, values in stats}
    if n_rates:
        kept = posterior._with_model("summary")
        cells = kept.cells.places()
        places = np.linspace(0, len(cells) - 1, min(n_rates, len(cells))).astype(np.int64)
        chosen = np.array([cells[place] for place in np.unique(places)])
        rows, columns = np.divmod(chosen, math.prod(shape[1:]))
        at = np.stack([rates_at(posterior.model, state, shape, rows, columns) for state in kept])
        for cell, values in zip(chosen, at.T, strict=True):
            name = (str(posterior._axis_labels(a)[i]) for a, i in enumerate(np.unravel_index(cell, shape)))
            quantities[f"rate[{', '.join(name)}]"] = values.reshape(kept.sizes)
    return quantities


def summarize(quantities: dict[str, np.ndarray], interval: float) -> pd.DataFrame:
    """Mean, sd, interval, Monte Carlo error, bulk and tail effective sample size and R-hat of (chain, draw) arrays.

    Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), by arviz_stats. A quantity that never moves or is
    not finite, or fewer than four draws per chain, has no diagnostics: NaN; R-hat also needs two chains.
    """
    # Infinite values give NaN, and chains stuck at different values an R-hat of infinity: no need to warn.
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = {name: _row(values, interval) for name, values in quantities.items()}
    return pd.DataFrame.from_dict(rows, orient="index").astype(float)


def _row(values: np.ndarray, interval: float) -> dict[str, float]:
    low, high = np.quantile(values, tails_of(interval))
    known = values.shape[1] >= 4 and np.isfinite(values).all() and np.ptp(values) > 0
    return {
        "mean": values.mean(),
        "sd": values.std(ddof=1) if values.size > 1 else np.nan,
        "low": low,
        "high": high,
        "mcse_mean": array_stats.mcse(values, method="mean") if known else np.nan,
        "ess_bulk": array_stats.ess(values, method="bulk") if known else np.nan,
        "ess_tail": array_stats.ess(values, method="tail", prob=(0.05, 0.95)) if known else np.nan,
        "r_hat": array_stats.rhat(values) if known else np.nan,
    }
