"""Posterior predictive draws in ArviZ's schema: ``posterior_predictive`` beside ``observed_data``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from countveil.counts import CombinedReleases
from countveil.counts.sources.plain_counts import PlainCounts
from countveil.kernels.philox import check_stream
from countveil.posterior.axes import ChosenCells, chosen_cells, free_names
from countveil.posterior.count_draws.predictive import Looks, draw_counts, looks_at
from countveil.posterior.count_draws.true_counts import rates_of_cells
from countveil.posterior.diagnostics.select import say_selection
from countveil.posterior.states import row_slices

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior

#: What is drawn, and the variable that holds it.
KINDS = {"true": "counts", "released": "released"}


def predictive_tree(posterior: Posterior, kind: Any, rows: Any, columns: Any, seed: Any) -> xr.DataTree:
    """The draws of the chosen cells."""
    kept, kind = posterior._with_model("posterior_predictive"), read_kind(posterior, kind)
    seed, data, n_looks = read_seed(posterior, seed), posterior._data, _n_looks(posterior)
    n_arrays = len(kept) * (n_looks if kind == "released" else 1)
    hint = "; choose rows, or go through iter_posterior_predictive() block by block"
    chosen = chosen_cells(rows, columns, posterior._labels, posterior._shape, n_arrays, hint)
    each = np.repeat(chosen.rows, len(chosen.columns)), np.tile(chosen.columns, len(chosen.rows))
    looks = None if data is None else looks_at(posterior, data, *each)
    drawn = _drawn(posterior, chosen, each, looks if kind == "released" else None, seed)

    dims = free_names(posterior._axes, {"chain", "draw", "release", *KINDS.values()})
    places = posterior._coordinates(dims, *chosen.places)
    sampling = {dim: posterior.tree["posterior"][dim].to_numpy() for dim in ("chain", "draw")}

    def variable(values: np.ndarray, before: tuple[str, ...], sizes: tuple[int, ...]) -> Any:
        """The dimension of releases stands last, if there are several."""
        several = values.shape[-1] > 1
        shape = (*sizes, *chosen.shape, *values.shape[-1:] * several)
        return (*before, *dims, *("release",) * several), values.reshape(shape)

    groups = {
        "/posterior_predictive": xr.Dataset(
            {KINDS[kind]: variable(drawn, ("chain", "draw"), kept.sizes)},
            coords={**sampling, **places},
            attrs={"seed": seed},
        )
    }
    if data is not None and looks is not None:
        # Released values go by their own name: nothing pairs them with draws of true counts.
        name = "counts" if isinstance(posterior._as_fitted(data), PlainCounts) else "released"
        seen = variable(_with_holes(looks.values, looks.shown), (), ())
        groups["/observed_data"] = xr.Dataset({name: seen}, coords=places)
    return say_selection(posterior.tree, xr.DataTree.from_dict(groups))


def predictive_blocks(posterior: Posterior, kind: Any, seed: Any) -> Iterator[xr.DataTree]:
    """All rows, a few at a time."""
    posterior._with_model("iter_posterior_predictive")
    kind, seed = read_kind(posterior, kind), read_seed(posterior, seed)
    per_row = math.prod(posterior._shape[1:]) * posterior.n_draws * _n_looks(posterior)
    for block in row_slices(posterior._shape[0], per_row):
        yield predictive_tree(posterior, kind, block, None, seed)


def read_kind(posterior: Posterior, kind: Any) -> str:
    """What to draw: what was fitted, unless it is said."""
    data = posterior._data
    is_released = data is not None and not isinstance(posterior._as_fitted(data), PlainCounts)
    if kind is None:
        return "released" if is_released else "true"
    if kind not in KINDS:
        raise ValueError(f"kind: expected 'true' or 'released', got {kind!r}")
    if kind == "released" and not is_released:
        raise ValueError("kind: expected 'true' for a fit without a release, got 'released'")
    return kind


def read_seed(posterior: Posterior, seed: Any) -> int:
    """The seed of draws after a fit: that of the fit, unless another is given."""
    if seed is None:
        return posterior._seed
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise ValueError(f"seed: expected a whole number or None, got {seed!r}")
    check_stream(int(seed))
    return int(seed)


def _n_looks(posterior: Posterior) -> int:
    return len(posterior._data.releases) if isinstance(posterior._data, CombinedReleases) else 1


def _drawn(
    posterior: Posterior,
    chosen: ChosenCells,
    each: tuple[np.ndarray, np.ndarray],
    looks: Looks | None,
    seed: int,
) -> np.ndarray:
    """(draws, cells, releases), or (draws, cells, 1) of true counts where there are no looks."""
    kept, rho = posterior._kept, posterior._rho_of_draws
    # A pair of an undirected network is one cell, wherever it is asked for.
    at, across = kept.cells.counted_at(*each)
    cells = at * math.prod(posterior._shape[1:]) + across
    no_noise = np.zeros((len(cells), 0))
    drawn = np.empty((len(kept), *(looks.rho.shape if looks else (len(cells), 1))), dtype=np.int64)
    draws = zip(kept.numbers, rates_of_cells(kept, chosen.rows, chosen.columns), strict=True)
    for s, (place, rates) in enumerate(draws):
        flat = np.ascontiguousarray(rates).reshape(-1)
        if looks is None:
            drawn[s] = draw_counts(seed, place, cells, flat, no_noise)
        else:
            drawn[s] = looks.draw(seed, place, cells, flat, None if rho is None else float(rho[s]))
    return drawn if looks is None else _with_holes(drawn, looks.shown)


def _with_holes(values: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """Whole numbers; floats, NaN where there is nothing, if there is such a cell."""
    return values if shown.all() else np.where(shown, values, np.nan)
