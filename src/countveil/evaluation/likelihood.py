"""The likelihood of data, draw by draw: of what was fitted, for the comparison of models, or of single cells."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from scipy import sparse

from countveil.counts.cells.hide import flat_positions
from countveil.inference.observed import (
    MISSING,
    Observed,
    cells_at,
    open_row,
    repeated_log_likelihoods,
    seen,
)
from countveil.kernels.given_release.geometric import log_marginal_clamped
from countveil.kernels.poisson import log_poisson
from countveil.models.count_model import rates_at
from countveil.posterior.axes import free_names
from countveil.posterior.diagnostics.modes import warn_of_modes
from countveil.posterior.diagnostics.select import say_selection
from countveil.posterior.posterior import Posterior
from countveil.posterior.states import KeptStates, row_slices
from countveil.runtime.compiled import compiled


def log_likelihood(posterior: Posterior, *, by: str = "row", cells: Any = None) -> xr.DataTree:
    """log P(released values | state) of every kept draw, in ArviZ's schema: what its ``loo`` works on.

    The true counts are summed out in closed form: a cell released as x with rate mu has
    ``P(x | mu) = sum_y Poisson(y; mu) c alpha**abs(x - y)``, a cell x <= 0 (clamped) has
    ``exp(-mu (1 - alpha)) / (1 + alpha)``, a plain count has ``Poisson(y; mu)``. Missing cells count nothing.

    Rates are formed block by block of rows, one draw at a time: never rows x columns x draws.

    Parameters
    ----------
    posterior
        Of any model, with its data (a run that was loaded has its release, but no plain counts).
    by
        ``"row"``: one value for every row, the sum over its observed cells.
    cells
        In place of rows single cells: a boolean mask (dense or sparse) of the shape of the data, or a tuple
        of index arrays, in whose order the answer is. They must be observed; see ``held_out_log_score`` for those
        that were not.

    Returns
    -------
    A DataTree with two groups. ``log_likelihood`` has the variable ``released`` (``counts`` for plain counts)
    over (chain, draw, row or cell). ``posterior`` has the monitored scalars that do not depend on the order of
    topics, from which ``loo`` reads how many draws the chains are worth.

    Chains that are in different solutions are warned of (docs/diagnostics.md): ``loo`` would weight them as one.

    Rows or cells? Leaving a whole row out also leaves its own memberships without data, which importance
    weights seldom bridge: ``loo`` says so by Pareto k above 0.7. Leaving out single cells usually works.

    Examples
    --------
    >>> import countveil as cv
    >>> from countveil.evaluation import log_likelihood
    >>> release = cv.simulate_release([[9, 0, 0], [0, 8, 7], [8, 1, 0]], epsilon=2, seed=1)
    >>> posterior = cv.fit(cv.TopicModel(2), release, sweeps=100, seed=1, progress=False)
    >>> log_likelihood(posterior)["log_likelihood"]["released"].sizes
    Frozen({'chain': 2, 'draw': 10, 'row': 3})
    >>> log_likelihood(posterior, cells=([0, 1], [2, 2]))["log_likelihood"]["released"].sizes
    Frozen({'chain': 2, 'draw': 10, 'cell': 2})
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior: expected a Posterior, got {type(posterior).__name__}")
    if by != "row":
        raise ValueError(f"by: expected 'row' (or cells=...), got {by!r}")
    kept = posterior._with_model("log_likelihood")
    if posterior._data is None:
        raise ValueError(
            "log_likelihood: expected the counts of this run, got none: plain counts are not saved"
        )
    warn_of_modes(posterior, "log_likelihood")
    data, rho = posterior._observed(posterior._data), posterior._rho_of_draws
    name = "counts" if posterior.release is None else "released"
    if cells is None:
        values = _by_row(kept, data, rho)
        axis = free_names(posterior._axes, {"chain", "draw", name})[0]
        coordinates: dict[str, Any] = {axis: posterior._axis_labels(0)}
    else:
        rows, columns = cell_places(cells, posterior._shape)
        values = _by_cell(posterior, data, rho, rows, columns)
        axis, coordinates = "cell", {"cell": np.arange(len(rows))}
    sampling = {dim: posterior.tree["posterior"][dim].to_numpy() for dim in ("chain", "draw")}
    shaped = values.reshape(*kept.sizes, -1)
    groups = {
        "/": say_selection(posterior.tree, xr.Dataset(attrs={"model": json.dumps(repr(posterior.model))})),
        "/posterior": posterior.tree["sample_stats"].to_dataset(),
        "/log_likelihood": xr.Dataset(
            {name: (("chain", "draw", axis), shaped)}, coords={**sampling, **coordinates}
        ),
    }
    return xr.DataTree.from_dict(groups)


def cell_places(cells: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the chosen cells.

    ``cells`` is a boolean array (dense or sparse) of ``shape``, or a tuple with one index array per axis: then they
    are in the order of these.

    >>> cell_places(([1, 0], [0, 2]), (2, 3))
    (array([1, 0]), array([0, 2]))
    """
    if sparse.issparse(cells):
        if cells.dtype != bool or cells.shape != shape:
            raise ValueError(
                f"cells: expected a boolean mask of shape {shape}, got {cells.dtype} of shape {cells.shape}"
            )
        cells = cells.nonzero()
    chosen = flat_positions(cells, shape)
    if not len(chosen):
        raise ValueError("cells: expected at least one cell, got none")
    rows, columns = np.divmod(chosen, math.prod(shape[1:]))
    return rows, columns


def each_once(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same cells for what adds them up: one that is named twice counts once.

    >>> each_once(np.array([1, 0, 1]), np.array([0, 2, 0]))
    (array([0, 1]), array([2, 0]))
    """
    rows, columns = np.unique([rows, columns], axis=1)
    return rows, columns


def _by_row(kept: KeptStates, data: Observed, rho: np.ndarray | None) -> np.ndarray:
    """(draws, rows)."""
    found = np.empty((len(kept), data.n_rows))
    if data.is_repeated:
        return _repeated_by_row(kept, data, found)
    for block in row_slices(data.n_rows, data.width):
        rows = np.arange(block.start, block.stop)
        for s, rates in enumerate(kept.rates(rows)):
            here = data if rho is None else data.with_rho(rho[s])
            _fill_rows(block.start, np.ascontiguousarray(rates), here, found[s])
    return found


def _repeated_by_row(kept: KeptStates, data: Observed, found: np.ndarray) -> np.ndarray:
    """The same for counts that were released several times: values and noise of every cell, by blocks of rows."""
    for block in row_slices(data.n_rows, 2 * len(data.look_rho) * data.width):
        rows = np.arange(block.start, block.stop)
        cells = np.repeat(rows, data.width), np.tile(np.arange(data.width), len(rows))
        values, noise = cells_at(data, *cells)
        each = np.empty(len(values))
        for s, rates in enumerate(kept.rates(rows)):
            repeated_log_likelihoods(values, np.ascontiguousarray(rates).reshape(-1), noise, each)
            found[s, block] = each.reshape(len(rows), -1).sum(axis=1)
    return found


def _by_cell(
    posterior: Posterior,
    data: Observed,
    rho: np.ndarray | None,
    rows: np.ndarray,
    columns: np.ndarray,
) -> np.ndarray:
    """(draws, cells)."""
    values, noise = cells_at(data, rows, columns)
    if not seen(values).all():
        n = int((~seen(values)).sum())
        raise ValueError(f"cells: expected cells that were observed, got {n} missing; see held_out_log_score")
    return np.stack(list(cell_draws(posterior, rho, rows, columns, values, noise)))


def cell_draws(
    posterior: Posterior,
    rho: np.ndarray | None,
    rows: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    noise: np.ndarray,
) -> Iterator[np.ndarray]:
    """For every kept draw the log-likelihood of these cells; ``noise`` their rho, inf for plain counts."""
    for s, state in enumerate(posterior.states()):
        rates = rates_at(posterior.model, state, posterior._shape, rows, columns)
        here = noise if rho is None else np.where(np.isinf(noise), noise, rho[s])
        out = np.empty(len(rows))
        fill = _fill_cells if values.ndim == 1 else repeated_log_likelihoods
        fill(values, rates, here, out)
        yield out


@compiled
def _log_cell(value, rate, rho):  # type: ignore[no-untyped-def]
    if math.isinf(rho):
        if rate <= 0.0:
            return 0.0 if value == 0 else -math.inf
        return log_poisson(value, rate)
    return log_marginal_clamped(value, rate, rho)


@compiled
def _fill_cells(values, rates, rho, out):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        out[i] = _log_cell(values[i], rates[i], rho[i])


@compiled
def _fill_rows(first, rates, data, out):  # type: ignore[no-untyped-def]
    """out[d] = sum over the observed cells of row d, for the rows of a block that begins at ``first``."""
    width = rates.shape[1]
    released = np.empty(width, dtype=np.int64)
    row_rho, cell_rho = data.row_rho, data.cell_rho
    for i in range(len(rates)):
        d = first + i
        open_row(d, data, released)
        total = 0.0
        for v in range(width):
            if released[v] != MISSING:
                rho = cell_rho[d, v] if len(cell_rho) else row_rho[d]
                total += _log_cell(released[v], rates[i, v], rho)
        out[d] = total
