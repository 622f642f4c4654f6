"""What a fit has learnt about the columns, draw by draw: all that new rows need to know of it.

mu[d, v] = sum_l theta_dl phi_lv for any model that unfolds. Shares of a row are theta_dl w_l over their sum, with
the weights w that ``memberships`` uses: the expected counts of l per unit of theta, so that the scale which theta
and phi can trade does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from countveil.inference.new_rows import RowPrior
from countveil.inference.problem import are_within
from countveil.models.einsum.prior import Law
from countveil.posterior.align import aligned_as
from countveil.posterior.align.matching import align, shares_of

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior

Phi = Callable[[int, int], np.ndarray]

#: Of all columns together: draws in single precision are above it, or 0.
_SMALLEST_RATE = 1e-200


class KnownColumns(NamedTuple):
    """The draws of phi, one at a time, and how shares are made of theta."""

    prior: RowPrior  # of theta's entries
    sizes: tuple[int, int]  # chains, draws
    phi: Phi  # (chain, draw) -> (l, width)
    received: Phi | None  # the same the other way round: from a known actor to a new one
    receiving_shape: Callable[[int, int], float] | None  # of the law of what actors receive beside
    weights: np.ndarray  # (chains * draws, l)
    received_weights: (
        np.ndarray
    )  # (chains * draws, l): of what is received, times each actor's own ``receiving``
    order: np.ndarray  # (chains * draws, l): as in ``memberships``
    dimension: str


def known_columns(posterior: Posterior) -> KnownColumns:
    """Of a posterior whose model unfolds, or an error."""
    model = posterior.model
    posterior._with_model("transform")
    if not getattr(model, "unfolds", False):
        raise TypeError(
            "transform: expected the posterior of a TopicModel, or of a factorization whose first axis has a "
            f"factor of its own, got {type(model).__name__}"
        )
    name = model._spec.names[model._spec.first]
    if posterior._running is not None and not posterior._running.has_columns:
        raise ValueError(
            "keep: expected a fit with keep='all' or 'columns', whose draws transform needs, got keep='summaries'"
        )
    if name in model._fixed:
        raise ValueError(f"transform: expected a factor of the first axis that was drawn, got {name!r} fixed")
    known = (_of_communities if "communities" in aligned_as(model) else _of_factors)(posterior, name)
    seen = [known.weights] if known.received is None else [known.weights, known.received_weights]
    if not all((weights.sum(axis=1) > _SMALLEST_RATE).all() for weights in seen):
        raise _no_rates()
    return known


def _no_rates() -> ValueError:
    """Of a stranger's run: counts would be drawn by these numbers for ever."""
    return ValueError(
        "posterior: expected draws of factors, finite numbers of which some are above 0, got others"
    )


def _fields(posterior: Posterior) -> Mapping[str, np.ndarray]:
    """The draws of all fields; where those of rows were not kept, one row in their place, which nobody looks at."""
    running, row = posterior._running, posterior.model.output_dims[0]
    if running is None:
        found = {name: posterior.tree["posterior"][name].to_numpy() for name in posterior._state_type._fields}
    else:
        found, ones = running.column_fields(), np.ones((*posterior._kept.sizes, 1))
        found |= {
            name: ones for name, dims in posterior.model.dims.items() if row in dims and name not in found
        }
    fields = {name: found[name] for name in posterior._state_type._fields}
    factors = posterior.model._spec.factors
    for name, values in fields.items():
        if not are_within(values) or not (name in factors or values.size == 0 or values.min() > 0):
            raise _no_rates()
    return fields


def _of_communities(posterior: Posterior, name: str) -> KnownColumns:
    fields = _fields(posterior)
    theta, pi = fields["theta"], fields["pi"]
    has_receiving = "receiving" in posterior.model._spec.factors
    psi = theta * fields["receiving"][..., None] if has_receiving else theta
    # What an actor sends and receives through each community, per unit of theta.
    out, back = (
        np.einsum(f"hs{letters},hsd->hsc", pi, one.sum(axis=2, dtype=np.float64), dtype=np.float64)
        for letters, one in (("cd", psi), ("dc", theta))
    )

    def sent(chain: int, draw: int) -> np.ndarray:
        return (psi[chain, draw].astype(np.float64) @ pi[chain, draw].T.astype(np.float64)).T

    def received(chain: int, draw: int) -> np.ndarray:
        return (theta[chain, draw].astype(np.float64) @ pi[chain, draw].astype(np.float64)).T

    def receiving_shape(chain: int, draw: int) -> float:
        return float(fields["receiving_shape"][chain, draw])

    return KnownColumns(
        _row_prior(posterior, name),
        theta.shape[:2],
        sent,
        None if posterior.model.mirrored else received,
        receiving_shape if has_receiving else None,
        out.reshape(-1, out.shape[-1]),
        back.reshape(-1, back.shape[-1]),
        *_places(posterior),
    )


def _of_factors(posterior: Posterior, name: str) -> KnownColumns:
    model = posterior.model
    found = _fields(posterior)
    fields = [found[field] for field in posterior._state_type._fields]
    sizes = fields[0].shape[:2]

    def state(chain: int, draw: int) -> Any:
        return posterior._state_type(*(field[chain, draw].astype(np.float64) for field in fields))

    def phi(chain: int, draw: int) -> np.ndarray:
        return model.unfold(state(chain, draw)).phi

    weights = np.stack([phi(*place).sum(axis=1) for place in np.ndindex(*sizes)])
    if aligned_as(model):
        order, dimension = _places(posterior)
    else:
        dimension = "".join(c for c in model._spec.term(name) if c != model._spec.output[0])
        if all(other in model._fixed for other in model._spec.factors if other != name):
            order = np.tile(np.arange(weights.shape[1]), (len(weights), 1))  # nothing can change its place
        else:
            thetas = (model.unfold(state(*place)).theta for place in np.ndindex(*sizes))
            order = _largest_first(np.stack([(t * w).T for t, w in zip(thetas, weights, strict=True)]))
    prior = _row_prior(posterior, name)
    return KnownColumns(prior, sizes, phi, None, None, weights, np.zeros_like(weights), order, dimension)


def _row_prior(posterior: Posterior, name: str) -> RowPrior:
    """The prior of a new row of this factor, as far as the fit knows it."""
    prior, inferred = posterior.model._prior(name), posterior.model._inferred.get(name)
    fields = _fields(posterior)
    n_components = posterior.model.n_components
    if inferred is None:
        mean = prior.shape / prior.rate
        return RowPrior(prior.shape, lambda chain, draw: np.full(n_components, mean))

    def of(field: str, known: bool, chain: int, draw: int) -> np.ndarray:
        if not known:
            return np.ones(())
        return fields[f"{name}_{field}"][chain, draw].astype(np.float64)

    def means(chain: int, draw: int) -> np.ndarray:
        found = of("mean", inferred.means, chain, draw)
        if inferred.groups is not None:
            return np.ascontiguousarray(found)
        return np.broadcast_to(found.reshape(-1) if found.ndim else found, (n_components,)).copy()

    def law(chain: int, draw: int) -> Law:
        upper, lower = (float(of(f"scale_{tail}", True, chain, draw)) for tail in ("upper", "lower"))
        return Law(upper, lower, float(of("level", inferred.level, chain, draw)))

    return RowPrior(prior.shape, means, law if inferred.scales else None)


def _places(posterior: Posterior) -> tuple[np.ndarray, str]:
    """The order of what rows have shares of, and its name."""
    found = posterior._aligned("transform", aligned_as(posterior.model)[0])
    return found.alignment.order, found.dimension


def _largest_first(shares: np.ndarray) -> np.ndarray:
    """The order of (draws, l, rows) expected counts: matched between draws, those with most counts first."""
    order = align(shares).order
    mean = shares_of(np.take_along_axis(shares.sum(axis=2), order, axis=1)).mean(axis=0)
    return order[:, np.argsort(-mean, kind="stable")]
