"""Draws in a few numbers: equal-tailed intervals, and whether the chains have converged."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from countveil.counts.shown_text import short_label
from countveil.inference.settings import Settings
from countveil.models.count_model import rates_at
from countveil.runtime.own_settings import import_library

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior

array_stats = import_library("arviz_stats.base").array_stats


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
    kept = posterior._with_model("summary") if n_rates else None
    if kept is not None and kept.are_whole:
        n_cells = kept.cells.n_with_counts
        numbers = np.unique(np.linspace(0, n_cells - 1, min(n_rates, n_cells)).astype(np.int64))
        chosen = kept.cells.places_of(numbers)
        rows, columns = np.divmod(chosen, math.prod(shape[1:]))
        at = np.stack([rates_at(posterior.model, state, shape, rows, columns) for state in kept])
        for cell, values in zip(chosen, at.T, strict=True):
            name = (str(posterior._axis_labels(a)[i]) for a, i in enumerate(np.unravel_index(cell, shape)))
            quantities[f"rate[{', '.join(name)}]"] = values.reshape(kept.sizes)
    return quantities


class Summary(pd.DataFrame):
    """The table of ``posterior.summary()``, and below it ``verdict``: what it says about the chains, in words.

    A part of it is an ordinary DataFrame.

    Examples
    --------
    >>> import countveil as cv
    >>> posterior = cv.fit(cv.TopicModel(2), [[3, 0], [1, 4]], sweeps=100, chains=1, seed=1, progress=False)
    >>> print(posterior.summary().verdict)  # doctest: +ELLIPSIS
    One chain: whether there are other solutions (modes) cannot be seen, nor an R-hat; run several.
    Smallest ESS ...
    >>> str(posterior.summary()).endswith(posterior.summary().verdict)
    True
    """

    _metadata: ClassVar[list[str]] = ["verdict"]
    verdict: str = ""

    def __repr__(self) -> str:
        # All columns, however narrow the terminal or the file is taken to be.
        table = self._shown().to_string(float_format="{:.4g}".format)
        return "\n".join([table, *([self.verdict] if self.verdict else [])])

    def _shown(self) -> Summary:
        """With labels, perhaps a stranger's, as they may be shown."""
        return self.rename(index=lambda name: short_label(name))

    def _repr_html_(self) -> str | None:
        table = pd.DataFrame(self._shown())._repr_html_()
        return None if table is None else f"{table}<pre>{html.escape(self.verdict)}</pre>"


def summarize(quantities: dict[str, np.ndarray], interval: float) -> pd.DataFrame:
    """Mean, sd, interval, Monte Carlo error, bulk and tail effective sample size and R-hat of (chain, draw) arrays.

    Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), by arviz_stats. A quantity that never moves or is
    not finite, or fewer than four draws per chain, has no diagnostics: NaN; R-hat also needs two chains.
    """
    # Infinite values give NaN, and chains stuck at different values an R-hat of infinity: no need to warn.
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = {name: _row(values, interval) for name, values in quantities.items()}
    return pd.DataFrame.from_dict(rows, orient="index").astype(float)


def precise(scalars: Mapping[str, np.ndarray], settings: Settings) -> bool:
    """Whether draws of monitored scalars, (chain, draw), have the ESS (bulk) and the R-hat that were asked for.

    A scalar that never moves says nothing; one that is not finite, or of fewer than four draws, is not precise.
    """
    moving = {name: values for name, values in scalars.items() if np.ptp(values) != 0}
    if not moving:
        return False
    with np.errstate(invalid="ignore", divide="ignore"):
        for values in moving.values():
            if not _has_diagnostics(values):
                return False
            if settings.until_ess is not None and not _ess_bulk(values) >= settings.until_ess:
                return False
            if settings.until_r_hat is not None and not _r_hat(values) <= settings.until_r_hat:
                return False
    return True


def _has_diagnostics(values: np.ndarray) -> bool:
    return values.shape[1] >= 4 and bool(np.isfinite(values).all()) and np.ptp(values) > 0


def _ess_bulk(values: np.ndarray) -> float:
    return float(array_stats.ess(values, method="bulk"))


def _r_hat(values: np.ndarray) -> float:
    return float(array_stats.rhat(values))


def _row(values: np.ndarray, interval: float) -> dict[str, float]:
    low, high = np.quantile(values, tails_of(interval))
    known = _has_diagnostics(values)
    return {
        "mean": values.mean(),
        "sd": values.std(ddof=1) if values.size > 1 else np.nan,
        "low": low,
        "high": high,
        "mcse_mean": array_stats.mcse(values, method="mean") if known else np.nan,
        "ess_bulk": _ess_bulk(values) if known else np.nan,
        "ess_tail": array_stats.ess(values, method="tail", prob=(0.05, 0.95)) if known else np.nan,
        "r_hat": _r_hat(values) if known else np.nan,
    }
