"""Do the data look like draws of the model? Rootogram and probability integral transform, as numbers.

Both ask about what was seen: released values with their noise (clamped where they were), or plain counts. Cells
that are missing, or that the model leaves out, do not count; of several releases of a count every value does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import pdtr
from scipy.stats import poisson

from countveil.distributions import release_given_rate
from countveil.evaluation.chosen_cells import ScoredCells, choose_cells
from countveil.evaluation.leave_one_out import relative_efficiency
from countveil.evaluation.likelihood import cell_draws
from countveil.evaluation.psis import smoothed_weights
from countveil.inference.observed import cells_at
from countveil.kernels import steps
from countveil.kernels.uniform import fill_first_uniforms
from countveil.models.count_model import rates_at, whole_number
from countveil.posterior.count_draws.predictive import Looks, looks_at
from countveil.posterior.count_draws.predictive_tree import read_seed
from countveil.posterior.count_draws.true_counts import check_rates
from countveil.posterior.diagnostics.modes import warn_of_modes
from countveil.posterior.diagnostics.summary import check_interval, tails_of
from countveil.posterior.posterior import Posterior
from countveil.posterior.states import row_slices

#: Rows of a rootogram, unless it is said how many.
_MOST_VALUES = 30


def rootogram(
    posterior: Posterior,
    *,
    largest: int | None = None,
    interval: float = 0.9,
    sample: int | None = 100_000,
    seed: int | None = None,
) -> pd.DataFrame:
    """How often each value was seen, and how often the model expects it, with intervals.

    Too many zeros show a model without enough of them; too many large values, bursts (Kleiber and Zeileis, 2016).

    Parameters
    ----------
    posterior
        Of any model, with its data.
    largest
        The last row of the table is for values of at least so much; by default the smallest that 99.9 % of the
        values do not pass, and at most 30.
    interval
        The share of the posterior predictive draws of a frequency between ``low`` and ``high``.
    sample
        Cells, drawn at random, in which values are counted; None: all of them.
    seed
        Of that choice and of the draws; by default that of the fit.

    Returns
    -------
    A table: ``value``, ``observed`` (number of cells), ``expected`` (mean of the posterior predictive), ``low``,
    ``high``.

    Examples
    --------
    >>> import numpy as np
    >>> import countveil as cv
    >>> counts = np.random.default_rng(0).poisson(1.0, (20, 30))
    >>> posterior = cv.fit(cv.TopicModel(1), counts, sweeps=200, seed=1, progress=False)
    >>> table = cv.evaluation.rootogram(posterior, largest=3)
    >>> table["value"].tolist(), int(table["observed"].sum())
    ([0, 1, 2, 3], 600)
    """
    interval, seed = check_interval(interval), _seed(posterior, "rootogram", seed)
    chosen = _chosen(posterior, None, sample, seed)
    warn_of_modes(posterior, "rootogram")
    looks = looks_at(posterior, posterior._data, chosen.rows, chosen.columns)
    seen = looks.values[looks.shown]
    if largest is None:
        largest = max(1, min(_MOST_VALUES, int(np.quantile(seen, 0.999, method="inverted_cdf"))))
    largest = whole_number("largest", largest, 1)
    smallest = int(np.quantile(seen, 0.001, method="inverted_cdf")) if not looks.clamped.all() else 0
    smallest = max(min(smallest, 0), -_MOST_VALUES)
    drawn = np.zeros((posterior.n_draws, largest - smallest + 1), dtype=np.int64)
    for part, here in _parts(chosen, looks, posterior.n_draws):
        cells = _flat(posterior, chosen, part)
        for s, (place, rates, rho) in enumerate(_rate_draws(posterior, chosen, part)):
            values = here.draw(seed, place, cells, rates, rho)
            drawn[s] += _counted(values[here.shown], smallest, largest)
    low, high = np.quantile(drawn, tails_of(interval), axis=0)
    columns = {"observed": _counted(seen, smallest, largest), "expected": drawn.mean(axis=0)}
    return pd.DataFrame({"value": np.arange(smallest, largest + 1), **columns, "low": low, "high": high})


def pit(
    posterior: Posterior,
    *,
    cells: Any = None,
    loo: bool = True,
    sample: int | None = 20_000,
    seed: int | None = None,
) -> np.ndarray:
    """The probability integral transform of every value: uniform on (0, 1) if the model is right.

    ``F(x - 1) + u P(x)``, with F and P the predictive distribution of the value in closed form (the true count
    summed out) and u uniform, because counts are discrete (Czado, Gneiting and Held, 2009). Many values near 0 and
    near 1: the data vary more than the model allows. Many in the middle: less. More near 1 than near 0: the model
    expects too little.

    Parameters
    ----------
    posterior
        Of any model, with its data.
    cells
        These cells only: a boolean mask of the shape of the data, or a tuple of index arrays.
    loo
        The prediction of a cell is made as if it had been left out of the fit, by weights as in ``loo`` (at least
        30 draws). False: by the fit that saw it, which lets any model look better than it is.
    sample
        At most so many cells, drawn at random; None: all of them.
    seed
        Of that choice and of u; by default that of the fit.

    Returns
    -------
    An array with one number for every value that was seen.

    Examples
    --------
    >>> import numpy as np
    >>> import countveil as cv
    >>> counts = np.random.default_rng(0).poisson(2.0, (20, 30))
    >>> release = cv.simulate_release(counts, epsilon=2, seed=1)
    >>> posterior = cv.fit(cv.TopicModel(1), release, sweeps=600, thin=5, seed=1, progress=False)
    >>> u = cv.evaluation.pit(posterior)
    >>> u.shape, bool(0.4 < u.mean() < 0.6)
    ((600,), True)
    """
    seed = _seed(posterior, "pit", seed)
    if loo and posterior.n_draws < 30:
        raise ValueError(f"posterior: expected at least 30 draws, got {posterior.n_draws}; or loo=False")
    chosen = _chosen(posterior, cells, sample, seed)
    warn_of_modes(posterior, "pit")
    looks = looks_at(posterior, posterior._data, chosen.rows, chosen.columns)
    efficiency = relative_efficiency(posterior) if loo else 1.0
    found = np.empty(looks.values.shape)
    for part, here in _parts(chosen, looks, 8 * posterior.n_draws):
        below, at = _predicted(posterior, chosen, part, here, efficiency if loo else None)
        found[part] = below + at * _uniforms(posterior, chosen, part, here, seed)
    return np.clip(found[looks.shown], 0.0, 1.0)


def _predicted(
    posterior: Posterior, chosen: ScoredCells, part: slice, looks: Looks, efficiency: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """P(value < x) and P(value = x), averaged over the draws, (cells, releases)."""
    below, at = np.empty((2, posterior.n_draws, *looks.values.shape))
    for s, (_, rates, rho) in enumerate(_rate_draws(posterior, chosen, part)):
        noise = looks.rho if rho is None else np.where(np.isinf(looks.rho), looks.rho, rho)
        below[s], at[s] = value_probabilities(looks.values, rates[:, None], noise, looks.clamped)
    if efficiency is None:
        return below.mean(axis=0), at.mean(axis=0)
    data = posterior._observed(posterior._data)  # type: ignore[arg-type]
    rows, columns = chosen.rows[part], chosen.columns[part]
    likely = cell_draws(posterior, posterior._rho_of_draws, rows, columns, *cells_at(data, rows, columns))
    weights = np.exp(smoothed_weights(np.stack(list(likely)), efficiency).log_weights)[:, :, None]
    return (weights * below).sum(axis=0), (weights * at).sum(axis=0)


def value_probabilities(
    values: np.ndarray, rates: np.ndarray, rho: np.ndarray, clamped: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """P(value < x) and P(value = x) of a released value (rho = inf: of a count), given the rate of the count.

    >>> below, at = value_probabilities(np.array([0]), np.array([0.0]), np.array([np.log(2)]), np.array([True]))
    >>> below.round(3), at.round(3)  # no count, alpha = 1/2: P(x <= 0) = 1/(1 + alpha)
    (array([0.]), array([0.667]))
    """
    values, rates, rho, clamped = np.broadcast_arrays(values, rates, rho, clamped)
    below, at = np.zeros(values.shape), np.zeros(values.shape)
    plain = np.isinf(rho)
    x, mu = values[plain], rates[plain]
    below[plain], at[plain] = np.where(x > 0, pdtr(np.maximum(x - 1, 0), mu), 0.0), poisson.pmf(x, mu)
    x, mu, noise = values[~plain], np.maximum(rates[~plain], np.finfo(np.float64).tiny), rho[~plain]
    up_to = release_given_rate.cdf(x, mu, noise)
    lower = release_given_rate.cdf(x - 1, mu, noise)
    lower = np.where(clamped[~plain] & (x <= 0), 0.0, lower)
    below[~plain], at[~plain] = lower, up_to - lower
    return below, at


def _seed(posterior: Any, what: str, seed: Any) -> int:
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior: expected a Posterior, got {type(posterior).__name__}")
    posterior._with_model(what)
    if posterior._data is None:
        raise ValueError(f"{what}: expected the counts of this run, got none: plain counts are not saved")
    return read_seed(posterior, seed)


def _chosen(posterior: Posterior, cells: Any, sample: Any, seed: int) -> ScoredCells:
    data = posterior._observed(posterior._data)  # type: ignore[arg-type]
    return choose_cells(posterior, data, cells, sample, seed)


def _parts(chosen: ScoredCells, looks: Looks, numbers: int) -> Iterator[tuple[slice, Looks]]:
    for part in row_slices(len(chosen.rows), numbers * looks.rho.shape[1]):
        yield part, Looks(looks.values[part], looks.shown[part], looks.rho[part], looks.clamped)


def _rate_draws(
    posterior: Posterior, chosen: ScoredCells, part: slice
) -> Iterator[tuple[tuple[int, ...], np.ndarray, float | None]]:
    """For every draw its numbers, the rates of the cells, and its noise where that was inferred."""
    rho, kept = posterior._rho_of_draws, posterior._kept
    for s, (place, state) in enumerate(zip(kept.numbers, kept, strict=True)):
        rates = rates_at(posterior.model, state, posterior._shape, chosen.rows[part], chosen.columns[part])
        check_rates(rates)
        yield place, rates, None if rho is None else float(rho[s])


def _flat(posterior: Posterior, chosen: ScoredCells, part: slice) -> np.ndarray:
    return chosen.rows[part] * math.prod(posterior._shape[1:]) + chosen.columns[part]


def _uniforms(posterior: Posterior, chosen: ScoredCells, part: slice, looks: Looks, seed: int) -> np.ndarray:
    """One for every value, by its cell and release: what else is asked for does not change it."""
    cells = _flat(posterior, chosen, part)
    found, unused = np.empty(looks.values.shape), np.empty(len(cells))
    for r in range(len(looks.clamped)):
        one = np.empty(len(cells))
        fill_first_uniforms(np.uint64(seed), 0, r, steps.PIT, cells, one, unused)
        found[:, r] = one
    return found


def _counted(values: np.ndarray, smallest: int, largest: int) -> np.ndarray:
    return np.bincount(np.clip(values, smallest, largest) - smallest, minlength=largest - smallest + 1)
