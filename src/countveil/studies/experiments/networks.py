"""Networks for the studies of communities: from a file, or planted; and how a fit of one is scored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from countveil.evaluation import log_score, mean_absolute_error
from countveil.posterior import Posterior
from countveil.studies.plan import Measure, Settings, Study

#: How well rates and intervals agree with the true counts.
MEASURES = (
    Measure("mae", "MAE", "lower"),
    Measure("log_score", "log score", "higher"),
    Measure("mae_zero", "MAE where 0"),
    Measure("mae_positive", "MAE where > 0"),
    Measure("mean_rate", "mean rate"),
    Measure("covered", "90 % covers"),
    Measure("covered_open", "where not surely 0"),
    Measure("seconds", "CPU s"),
)


def load_network(options: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """``counts`` and ``counts_unique`` of an .npz file, or planted ones of 40 actors where no path is given."""
    path = options.get("network")
    if path is None:
        return planted_network()
    with np.load(Path(path), allow_pickle=False) as file:
        missing = {"counts", "counts_unique"} - set(file.files)
        if missing:
            raise ValueError(f"network: expected the arrays counts and counts_unique, got {file.files}")
        found = {name: file[name].astype(np.int64) for name in ("counts", "counts_unique")}
    for name, counts in found.items():
        if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or (counts < 0).any():
            raise ValueError(
                f"network: expected {name} as a square array of counts, got shape {counts.shape}"
            )
    return found


def planted_network(n: int = 40, groups: int = 4, seed: int = 0) -> dict[str, np.ndarray]:
    """Groups that mostly deal with themselves, uneven activity, and bursts: more spread than a Poisson law has.

    >>> planted_network()["counts"].shape
    (40, 40)
    """
    rng = np.random.default_rng(seed)
    group = np.arange(n) % groups
    activity = rng.gamma(0.7, 1.5, n)
    rates = activity[:, None] * (0.05 + 2.0 * (group[:, None] == group)) * activity
    unique = rng.poisson(rates * rng.gamma(0.5, 2.0, (n, n)))
    np.fill_diagonal(unique, 0)
    return {"counts": unique * rng.integers(1, 5, (n, n)), "counts_unique": unique}


def describe_network(data: Mapping[str, np.ndarray]) -> str:
    """One line that tells two networks apart."""
    counts = data["counts"]
    return f"a network of {len(counts)} actors, {counts.sum()} and {data['counts_unique'].sum()} messages"


def off_diagonal(n: int) -> np.ndarray:
    """The cells that a model without self-loops speaks of."""
    return ~np.eye(n, dtype=bool)


def rate_scores(posterior: Posterior, counts: np.ndarray, cells: np.ndarray) -> dict[str, float]:
    """Scores of ``cells`` against the true counts: MAE (in all, where 0, where not), log score, mean rate."""
    mean = np.concatenate([block for _, block in posterior.iter_rates()])
    zero, positive = cells & (counts == 0), cells & (counts > 0)
    return {
        "mae": mean_absolute_error(mean, counts, cells=cells),
        "log_score": log_score(posterior.iter_rate_draws(), counts, cells=cells),
        "mae_zero": mean_absolute_error(mean, counts, cells=zero),
        "mae_positive": mean_absolute_error(mean, counts, cells=positive),
        "mean_rate": float(mean[cells].mean()),
    }


def silence(counts: np.ndarray, cells: np.ndarray) -> dict[str, float]:
    """What MAE gives to whoever predicts 0 everywhere, the mean of the counts: a method should beat that.

    >>> silence(np.array([[5, 1], [3, 5]]), off_diagonal(2))
    {'mae': 2.0}
    """
    return {"mae": float(counts[cells].mean())}


def coverage(posterior: Posterior, counts: np.ndarray, cells: np.ndarray) -> dict[str, float]:
    """How often 90 % intervals of the true counts hold them: of all ``cells``, and of those that may not be 0.

    Most cells are surely 0, and their intervals, 0 to 0, are right for free. So the second number is of cells whose
    interval ends above 0, which anyone can tell without the truth. Intervals of whole numbers hold at least 90 %.
    """
    found = posterior.true_counts(interval=0.9)
    low, high = found["low"].to_numpy(), found["high"].to_numpy()
    held = (low <= counts) & (counts <= high)
    not_zero = cells & (high > 0)
    scores = {"covered": float(held[cells].mean())}
    if not_zero.any():
        scores["covered_open"] = float(held[not_zero].mean())
    return scores


def network_study(
    name: str,
    title: str,
    *,
    sizes: tuple[int, ...],
    measures: tuple[Measure, ...] = MEASURES,
    **functions: Any,
) -> Study:
    """A study of a network, of so many communities: its ``plan``, ``perform`` and ``picture``, all else alike."""
    return Study(
        name,
        title,
        measures,
        paper=Settings(7500, (3.0, 2.0, 1.0), sizes, 5, threads=1),
        quick=Settings(90, (3.0, 1.0), (3,), 1, threads=1),
        load=load_network,
        describe=describe_network,
        data_options=("network",),
        **functions,
    )
