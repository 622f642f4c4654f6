"""What a fit has learnt about the columns, draw by draw: all that new rows need to know of it.

mu[d, v] = sum_l theta_dl phi_lv for any model that unfolds. Shares of a row are theta_dl w_l over their sum, with
the weights w that ``memberships`` uses: the expected counts of l per unit of theta, so that the scale which theta
and phi can trade does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from countveil.models.einsum.update import Prior
from countveil.posterior.align import aligned_as
from countveil.posterior.align.matching import align, shares_of

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior

Phi = Callable[[int, int], np.ndarray]


class KnownColumns(NamedTuple):
    """The draws of phi, one at a time, and how shares are made of theta."""

    prior: Prior  # of theta's entries
    sizes: tuple[int, int]  # chains, draws
    phi: Phi  # (chain, draw) -> (l, width)
    received: Phi | None  # the same the other way round: from a known actor to a new one
    weights: np.ndarray  # (chains * draws, l)
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
    if name in model._fixed:
        raise ValueError(f"transform: expected a factor of the first axis that was drawn, got {name!r} fixed")
    return (_of_communities if "communities" in aligned_as(model) else _of_factors)(posterior, name)


def _of_communities(posterior: Posterior, name: str) -> KnownColumns:
    theta, pi = (posterior.tree["posterior"][field].to_numpy() for field in ("theta", "pi"))
    sums = theta.sum(axis=2, dtype=np.float64)
    # What an actor sends and receives through each community, per unit of theta.
    through = np.einsum("hscd,hsd->hsc", pi + np.swapaxes(pi, 2, 3), sums, dtype=np.float64)

    def sent(chain: int, draw: int) -> np.ndarray:
        return (theta[chain, draw].astype(np.float64) @ pi[chain, draw].T.astype(np.float64)).T

    def received(chain: int, draw: int) -> np.ndarray:
        return (theta[chain, draw].astype(np.float64) @ pi[chain, draw].astype(np.float64)).T

    return KnownColumns(
        posterior.model._prior(name),
        theta.shape[:2],
        sent,
        None if posterior.model.mirrored else received,
        through.reshape(-1, through.shape[-1]),
        *_places(posterior),
    )


def _of_factors(posterior: Posterior, name: str) -> KnownColumns:
    model = posterior.model
    fields = [posterior.tree["posterior"][field].to_numpy() for field in posterior._state_type._fields]
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
    return KnownColumns(model._prior(name), sizes, phi, None, weights, order, dimension)


def _places(posterior: Posterior) -> tuple[np.ndarray, str]:
    """The order of what rows have shares of, and its name."""
    found = posterior._aligned("transform", aligned_as(posterior.model)[0])
    return found.alignment.order, found.dimension


def _largest_first(shares: np.ndarray) -> np.ndarray:
    """The order of (draws, l, rows) expected counts: matched between draws, those with most counts first."""
    order = align(shares).order
    mean = shares_of(np.take_along_axis(shares.sum(axis=2), order, axis=1)).mean(axis=0)
    return order[:, np.argsort(-mean, kind="stable")]
