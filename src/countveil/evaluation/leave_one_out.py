"""Leave-one-out cross-validation of single cells from one fit, by Pareto smoothed importance sampling."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from countveil.evaluation.chosen_cells import ScoredCells, choose_cells
from countveil.evaluation.likelihood import cell_draws
from countveil.evaluation.psis import good_k, smoothed_weights
from countveil.inference.observed import cells_at
from countveil.posterior.axes import free_names
from countveil.posterior.diagnostics.modes import warn_of_modes
from countveil.posterior.posterior import Posterior
from countveil.posterior.states import row_slices
from countveil.runtime.own_settings import import_library

array_stats = import_library("arviz_stats.base").array_stats


#: Cells that can be scored together: their scores are held.
MOST_CELLS = 10**7


@dataclass(frozen=True, eq=False, repr=False)
class Loo:
    """The expected log predictive density of cells, each left out in turn; higher is better.

    ``elpd`` is the sum over all ``n_cells`` observed cells of the model, ``se`` its standard error if the cells
    were others of the same kind, ``p`` the effective number of parameters. Where a sample of cells was scored,
    ``subsampling_se`` is the standard error by which ``elpd`` may differ from the sum over all of them; else 0.

    ``cells`` has a row for every scored cell: its position along every axis, ``elpd``, ``p``, ``pareto_k``, and
    ``stands_for``, the number of cells for which it was drawn. The estimate of a cell can be trusted where
    ``pareto_k`` is below ``good_k``.

    Examples
    --------
    >>> import numpy as np
    >>> import countveil as cv
    >>> counts = np.random.default_rng(0).poisson(3.0, (8, 30))
    >>> posterior = cv.fit(cv.TopicModel(1), counts, sweeps=600, thin=1, seed=1, progress=False)
    >>> found = cv.evaluation.loo(posterior, sample=50)
    >>> found.n_cells, len(found.cells), found.cells.columns.tolist()
    (240, 50, ['row', 'column', 'elpd', 'p', 'pareto_k', 'stands_for'])
    >>> bool(found.subsampling_se > 0), bool(found.p > 0)
    (True, True)
    """

    elpd: float
    se: float
    p: float
    subsampling_se: float
    n_cells: int
    good_k: float
    cells: pd.DataFrame
    _strata: tuple[np.ndarray, np.ndarray] = field(repr=False)
    _values: np.ndarray = field(repr=False)

    @property
    def n_bad(self) -> int:
        """Number of scored cells whose estimate is not to be trusted."""
        # Not "above": a tail that no law fits, because it falls by hundreds of powers of ten, has no k.
        return int((~(self.cells["pareto_k"] <= self.good_k)).sum())

    def __repr__(self) -> str:
        scored = len(self.cells)
        lines = [f"elpd_loo {self.elpd:.1f} +- {self.se:.1f}, p_loo {self.p:.1f}, {self.n_cells:,} cells"]
        if scored < self.n_cells:
            lines.append(f"by a sample of {scored:,} of them: +- {self.subsampling_se:.1f} for the choice")
        share = self.n_bad / scored
        lines.append(
            f"Pareto k above {self.good_k:.2f}, not to be trusted: {self.n_bad:,} cells ({share:.1%})"
        )
        return "\n".join(lines)


def loo(posterior: Posterior, *, cells: Any = None, sample: int | None = 20_000, seed: int = 0) -> Loo:
    """How well every cell would have been predicted, had it been left out of the fit.

    ``elpd = sum over cells of log p(value | all other cells)``, from the draws of one fit: those that find a cell
    likely because they saw it are weighted down (PSIS; Vehtari, Gelman and Gabry, 2017). The value of a cell is
    what was released, with its noise, the true count summed out (at a known noise level all values of 0 and below
    say the same of the count, and are scored as one, "0 or below"); of several releases of a count all of them
    together; of plain counts the count. Cells that are missing, or that the model leaves out (the diagonal of a
    network, one half of an undirected one), are not there to be left out.

    Chains that sit in different modes make this a statement about a mixture that nobody wants: a warning says so.

    Parameters
    ----------
    posterior
        Of any model, with its data, and at least 30 draws.
    cells
        Score these cells only: a boolean mask (dense or sparse) of the shape of the data, or a tuple of index
        arrays.
    sample
        Score at most so many cells, half of them among those with positive values, and estimate the sum over all of
        them; None: every cell. The same seed and data give the same cells, whatever the model.

    Examples
    --------
    >>> import numpy as np
    >>> import countveil as cv
    >>> counts = np.random.default_rng(0).poisson(3.0, (8, 30))
    >>> release = cv.simulate_release(counts, epsilon=2, seed=1)
    >>> posterior = cv.fit(cv.TopicModel(1), release, sweeps=2000, thin=1, seed=1, progress=False)
    >>> found = cv.evaluation.loo(posterior)
    >>> found.n_cells, found.n_bad, bool(-3 < found.elpd / found.n_cells < -1)
    (240, 0, True)
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior: expected a Posterior, got {type(posterior).__name__}")
    kept = posterior._with_model("loo")
    if posterior._data is None:
        raise ValueError("loo: expected the counts of this run, got none: plain counts are not saved")
    if len(kept) < 30:
        raise ValueError(f"posterior: expected at least 30 draws, got {len(kept)}")
    data, rho = posterior._observed(posterior._data), posterior._rho_of_draws
    chosen = choose_cells(posterior, data, cells, sample, seed, by_sign=True)
    if len(chosen.rows) > MOST_CELLS:
        raise ValueError(f"sample: expected at most {MOST_CELLS:,} cells, got {len(chosen.rows):,}")
    warn_of_modes(posterior, "loo")
    efficiency = relative_efficiency(posterior)
    values, noise = cells_at(data, chosen.rows, chosen.columns)
    elpd, lpd, k = np.empty((3, len(chosen.rows)))
    for part in row_slices(len(elpd), 4 * len(kept)):
        here = (each[part] for each in (chosen.rows, chosen.columns, values, noise))
        draws = np.stack(list(cell_draws(posterior, rho, *here)))
        weights = smoothed_weights(draws, efficiency)
        elpd[part], k[part] = logsumexp(weights.log_weights + draws, axis=0), weights.pareto_k
        lpd[part] = logsumexp(draws, axis=0) - math.log(len(draws))
    elpd[np.isposinf(k)] = -np.inf
    found = _summed(posterior, chosen, elpd, lpd - elpd, k, good_k(len(kept)), values)
    if found.n_bad > 0.01 * len(elpd):
        warnings.warn(
            f"loo: Pareto k above {found.good_k:.2f} for {found.n_bad / len(elpd):.1%} of the cells; their "
            "estimates may be off. More draws help a little; hiding cells and held_out_log_score needs no weights",
            stacklevel=2,
        )
    return found


def compare(models: Mapping[str, Loo | Posterior], **options: Any) -> pd.DataFrame:
    """Models by their leave-one-out scores, the best first.

    ``elpd_diff`` is what a model lacks to the best one and ``dse`` its standard error, from the differences cell by
    cell (and of the choice of cells, where a sample was scored): below about two of them, or below 4, it is noise.
    ``bad_k`` is the share of cells whose estimate is not to be trusted.

    Parameters
    ----------
    models
        Names and what ``loo`` gave, or posteriors, for which ``loo`` is called with ``options``. All must be
        fits of the same data, scored on the same cells.

    Examples
    --------
    >>> import numpy as np
    >>> import countveil as cv
    >>> theme = np.repeat([0, 1], 20)
    >>> counts = np.random.default_rng(0).poisson(0.2 + 3.0 * (np.arange(40) // 20 == theme[:, None]))
    >>> release = cv.simulate_release(counts, epsilon=1, seed=1)
    >>> fits = {f"{k} topics": cv.fit(cv.TopicModel(k), release, sweeps=800, thin=1, seed=1, progress=False)
    ...         for k in (1, 2)}
    >>> cv.evaluation.compare(fits).index.tolist()
    ['2 topics', '1 topics']
    """
    if not isinstance(models, Mapping) or len(models) < 2:
        got = f"{len(models)}" if isinstance(models, Mapping) else type(models).__name__
        raise ValueError(f"models: expected a mapping with at least two models, got {got}")
    found = {}
    for name, one in models.items():  # no comprehension, which is a call of its own in Python 3.11
        found[str(name)] = _scored(str(name), one, options)
    names = sorted(found, key=lambda name: -found[name].elpd)
    best = found[names[0]]
    rows = {}
    for rank, name in enumerate(names):
        one = found[name]
        _check_same_cells(names[0], best, name, one)
        with np.errstate(invalid="ignore"):
            difference = best.cells["elpd"].to_numpy() - one.cells["elpd"].to_numpy()
        _, dse, choice = _estimate(np.zeros_like(difference) if one is best else difference, *best._strata)
        rows[name] = {
            "rank": rank, "elpd": one.elpd, "se": one.se, "p": one.p, "elpd_diff": best.elpd - one.elpd,
            "dse": math.hypot(dse, choice), "bad_k": one.n_bad / len(one.cells),
        }  # fmt: skip
    return Comparison(pd.DataFrame.from_dict(rows, orient="index"))


def _scored(name: str, one: Loo | Posterior, options: Mapping[str, Any]) -> Loo:
    """Its score; what ``loo`` warns of is said with the name of the model."""
    if isinstance(one, Loo):
        return one
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = loo(one, **options)
    for warning in said:
        warnings.warn(f"{name}: {warning.message}", category=warning.category, stacklevel=3)
    return found


class Comparison(pd.DataFrame):
    """The table of ``compare``, which shows all its columns.

    >>> Comparison({"elpd": [-1234.5678], "elpd_diff": [0.0]}, index=["two topics"])
                elpd  elpd_diff
    two topics -1235          0
    """

    def __repr__(self) -> str:
        return self.to_string(float_format="{:.4g}".format)


def relative_efficiency(posterior: Posterior) -> float:
    """How many independent draws a draw is worth: the mean over the monitored scalars; 1 of one chain.

    As ArviZ has it, given the tree of ``log_likelihood``.
    """
    scalars = [v.to_numpy() for v in posterior.tree["sample_stats"].data_vars.values()]
    n_chains, n_draws = posterior._kept.sizes
    if n_chains == 1 or n_draws < 4:
        return 1.0
    worth = np.mean([array_stats.ess(values, method="mean") for values in scalars]) / (n_chains * n_draws)
    return float(worth) if np.isfinite(worth) else 1.0


def _summed(
    posterior: Posterior,
    chosen: ScoredCells,
    elpd: np.ndarray,
    p: np.ndarray,
    k: np.ndarray,
    good: float,
    values: np.ndarray,
) -> Loo:
    strata = chosen.stratum, chosen.population
    total, se, choice = _estimate(elpd, *strata)
    width = math.prod(posterior._shape[1:])
    places = np.unravel_index(chosen.rows * width + chosen.columns, posterior._shape)
    columns = {"elpd": elpd, "p": p, "pareto_k": k, "stands_for": chosen.stands_for}
    axes = dict(zip(free_names(posterior._axes, columns), places, strict=True))
    n = int(chosen.population.sum())
    table = pd.DataFrame({**axes, **columns})
    return Loo(total, se, _estimate(p, *strata)[0], choice, n, good, table, strata, values)


def _estimate(each: np.ndarray, stratum: np.ndarray, population: np.ndarray) -> tuple[float, float, float]:
    """Of values of sampled cells: their sum over all cells, its standard error, and that of the choice of cells.

    The sum is sum_h N_h mean_h over the strata. Its standard error as if all were scored is sqrt(N Var), Var the
    variance between cells; that of the choice, sqrt(sum_h N_h**2 (1 - n_h/N_h) s_h**2/n_h).
    """
    total = square = choice = 0.0
    n = int(population.sum())
    for h, size in enumerate(population):
        own = each[stratum == h]
        if len(own):
            total += size * float(own.mean())
            spread = float(own.var(ddof=1)) if len(own) > 1 and np.isfinite(own).all() else 0.0
            choice += size**2 * (1 - len(own) / size) * spread / len(own)
    if not math.isfinite(total):
        return total, math.nan, math.nan
    for h, size in enumerate(population):
        own = each[stratum == h]
        if len(own):
            square += size * float(((own - total / n) ** 2).mean())
    return total, math.sqrt(square * n / max(n - 1, 1)), math.sqrt(choice)


def _check_same_cells(best: str, one: Loo, name: str, other: Loo) -> None:
    places = [c for c in one.cells.columns if c not in ("elpd", "p", "pareto_k", "stands_for")]
    same_cells = one.n_cells == other.n_cells and one.cells[places].equals(other.cells[places])
    if not same_cells or not np.array_equal(one._values, other._values):
        what = "values" if same_cells else "cells"
        raise ValueError(
            f"models: expected scores of the same data and cells, got other {what} for {name!r} than for {best!r}"
        )
