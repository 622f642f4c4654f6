"""What chains are compared by: their mean rates in a sample of cells, quarter by quarter.

Rates do not depend on the order of topics (communities, components), nor on how factors trade their scales, so
that nothing needs to be aligned. At most ``_CELLS`` cells are looked at, in at most ``_DRAWS`` draws of a chain.
Cells with large rates say most: of some ten thousand at random, those that are looked at are drawn in proportion to
their rates in one draw. The sample is the same every time.

A fit that kept the draws of columns alone (``keep="columns"``) has no rates. For two columns v and w there is

    sum_k N_kv p_kw,    N_kv the expected count of column v by component k,  p_kw = N_kw / sum_u N_ku,

which is as independent of order and scale: the count of v that has w beside it in its component.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from countveil.models.count_model import rates_at
from countveil.posterior.diagnostics.clusters import MOST_CHAINS

if TYPE_CHECKING:
    from countveil.posterior.problem_draws import ProblemDraws
    from countveil.posterior.states import KeptDraws

#: Parts of a chain that are compared: enough to see how much its means move, long enough to be nearly independent.
PARTS = 4
#: Fewer draws of a chain make no four parts.
_FEWEST_DRAWS = 20
_DRAWS, _CELLS, _CANDIDATES = 100, 2_048, 2**15
#: Numbers of all states that are looked at; of large ones fewer draws are.
_NUMBERS = 2**28
#: A model of the user's own gives rates of whole rows.
_LARGEST_OWN = 2**16

#: The rates of chosen cells (rows, columns) in the draw at a place (chain, draw).
_At = Callable[[tuple[int, int], np.ndarray, np.ndarray], np.ndarray]


def rates_by_part(posterior: KeptDraws) -> np.ndarray | None:
    """(chain, part, cell) mean rates, of the views of a ``SharedPosterior`` together; None if there are none.

    There are none of a single chain, of very many, of few draws, of ``keep="summaries"``, and of a model of the
    user's own that is not at hand or whose array is large.
    """
    n_chains, n_draws = _sizes(posterior)
    if not 2 <= n_chains <= MOST_CHAINS or n_draws < _FEWEST_DRAWS or posterior.model is None:
        return None
    views: Any = getattr(posterior, "_views", None)
    if views is None:
        found = [_of_one(posterior)]  # type: ignore[arg-type]
    else:
        found = [_of_one(one) for one in views.values()]
    # Over their mean: none of several arrays shall drown the others.
    known = [one for one in found if one is not None and one.size]
    parts = [one / one.mean() for one in known if 0 < one.mean() < np.inf]
    return np.concatenate(parts, axis=2) if parts else None


def _sizes(posterior: KeptDraws) -> tuple[int, int]:
    """Chains, and draws of each."""
    sizes = posterior.tree["sample_stats"].sizes
    return sizes["chain"], sizes["draw"]


def _of_one(posterior: ProblemDraws) -> np.ndarray | None:
    """Of one array."""
    if posterior._running is not None:
        if not posterior._running.has_columns:
            return None
        rows, first, *others = posterior._running.column_draws()
        return _means(posterior, _pairs_of_columns(posterior, rows, first, others), (first.shape[1],) * 2)
    kept, shape, model = posterior._kept, posterior._shape, posterior.model
    if not hasattr(model, "rates_at") and math.prod(shape) > _LARGEST_OWN:
        return None
    if kept.sizes != _sizes(posterior):  # a tree that somebody has changed
        return None

    def at(place: tuple[int, int], rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return rates_at(model, kept.state(place), shape, rows, columns)

    return _means(posterior, at, (shape[0], math.prod(shape[1:])), kept.cells.have_counts)


def _pairs_of_columns(
    posterior: ProblemDraws, rows: np.ndarray, first: np.ndarray, others: list[np.ndarray]
) -> _At:
    """What stands for rates where the draws of columns were kept; of a tensor for those of its second axis."""
    n_draws = _sizes(posterior)[1]

    def at(place: tuple[int, int], v: np.ndarray, w: np.ndarray) -> np.ndarray:
        s = place[0] * n_draws + place[1]
        factor = first[s].astype(np.float64)
        counts = factor * rows[s].sum(axis=0) * math.prod(other[s].sum(axis=0) for other in others)
        return np.einsum("ik,ik->i", counts[v], (factor / factor.sum(axis=0))[w])

    return at


def _means(
    posterior: ProblemDraws,
    at: _At,
    size: tuple[int, int],
    are_modelled: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:
    """(chain, part, cell) means over draws that are spread evenly over every part."""
    n_chains, n_draws = _sizes(posterior)
    fields = posterior.tree["posterior"].data_vars.values()
    numbers = n_chains * max(1, sum(math.prod(field.shape[2:]) for field in fields))
    length = n_draws // PARTS
    looked_at = min(length, max(_FEWEST_DRAWS, min(_DRAWS, _NUMBERS // numbers)) // PARTS)
    rng, n_cells = np.random.default_rng(0), size[0] * size[1]
    # With replacement: a cell that comes twice counts twice.
    flat = np.arange(n_cells) if n_cells <= _CANDIDATES else rng.integers(n_cells, size=_CANDIDATES)
    cells = np.divmod(flat, size[1])
    if are_modelled is not None:
        cells = _at_places(cells, np.flatnonzero(are_modelled(*cells)))
    if len(cells[0]) > _CELLS:
        weight = at((0, n_draws - 1), *cells)
        if not (weight.sum() > 0 and np.isfinite(weight).all()):
            weight = np.ones(len(weight))
        n = min(_CELLS, int((weight > 0).sum()))
        cells = _at_places(cells, np.sort(rng.choice(len(weight), n, replace=False, p=weight / weight.sum())))
    found = np.zeros((n_chains, PARTS, len(cells[0])))
    for chain, part in np.ndindex(n_chains, PARTS):
        begin = n_draws - length * (PARTS - part)
        for draw in np.unique(np.linspace(begin, begin + length - 1, looked_at).astype(int)):
            found[chain, part] += at((chain, int(draw)), *cells) / looked_at
    return found


def _at_places(cells: tuple[np.ndarray, np.ndarray], places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return cells[0][places], cells[1][places]
