"""Have the chains converged, and how many draws are they worth? Asked of quantities without labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
from arviz_stats.base import array_stats

from countveil.posterior.interval import tails_of


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
