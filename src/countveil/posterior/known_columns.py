"""What a fit has learnt about the columns, draw by draw: all that new rows need to know of it.

mu[d, v] = sum_l theta_dl phi_lv for any model that unfolds. Shares of a row are theta_dl w_l over their sum, with
the weights w that ``memberships`` uses: the expected counts of l per unit of theta, so that the scale which theta
and phi can trade does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from countveil.models import CommunityModel, TensorModel, TopicModel
from countveil.models.factor_model import FactorModel
from countveil.models.prior import Prior
from countveil.posterior.alignment import align
from countveil.posterior.axis_factors import has_axis_factors

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior

Phi = Callable[[int, int], np.ndarray]
_TINY = np.finfo(np.float64).tiny


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
    if isinstance(model, TopicModel):
        return _of_topics(posterior)
    if not isinstance(model, FactorModel) or not model.unfolds:
        raise TypeError(
            "transform: expected the posterior of a TopicModel, or of a factorization whose first axis has a "
            f"factor of its own, got {type(model).__name__}"
        )
    name = model._spec.names[model._spec.first]  # type: ignore[index]
    if name in model._fixed:
        raise ValueError(f"transform: expected a factor of the first axis that was drawn, got {name!r} fixed")
    return _of_communities(posterior) if isinstance(model, CommunityModel) else _of_factors(posterior, name)


def _of_topics(posterior: Posterior) -> KnownColumns:
    phi = posterior.tree["posterior"]["phi"].to_numpy()
    n_draws = phi.shape[0] * phi.shape[1]
    return KnownColumns(
        Prior(posterior.model.shape, posterior.model.rate),
        phi.shape[:2],
        lambda chain, draw: phi[chain, draw],
        None,
        phi.reshape(n_draws, *phi.shape[2:]).sum(axis=2, dtype=np.float64),
        posterior._alignment.alignment.order,
        "topic",
    )


def _of_communities(posterior: Posterior) -> KnownColumns:
    theta, pi = (posterior.tree["posterior"][name].to_numpy() for name in ("theta", "pi"))
    sums = theta.sum(axis=2, dtype=np.float64)
    # What an actor sends and receives through each community, per unit of theta.
    through = np.einsum("hscd,hsd->hsc", pi + np.swapaxes(pi, 2, 3), sums, dtype=np.float64)

    def sent(chain: int, draw: int) -> np.ndarray:
        return (theta[chain, draw].astype(np.float64) @ pi[chain, draw].T.astype(np.float64)).T

    def received(chain: int, draw: int) -> np.ndarray:
        return (theta[chain, draw].astype(np.float64) @ pi[chain, draw].astype(np.float64)).T

    return KnownColumns(
        posterior.model._prior("theta"),
        theta.shape[:2],
        sent,
        received if posterior.model.directed else None,
        through.reshape(-1, through.shape[-1]),
        posterior._communities.alignment.order,
        "community",
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
    dimension = "".join(c for c in model._spec.term(name) if c != model._spec.output[0])
    if isinstance(model, TensorModel) or has_axis_factors(model):
        order = posterior._components.alignment_of(0).order
        dimension = "component"
        if isinstance(model, TensorModel):
            dimension = model.dims[name][1]
        elif len(model._spec.output) == 2:
            dimension = "topic"
    elif all(other in model._fixed for other in model._spec.factors if other != name):
        order = np.tile(np.arange(weights.shape[1]), (len(weights), 1))  # nothing can change its place
    else:
        places = np.ndindex(*sizes)
        thetas = (model.unfold(state(*place)).theta for place in places)
        order = _largest_first(np.stack([(t * w).T for t, w in zip(thetas, weights, strict=True)]))
    return KnownColumns(model._prior(name), sizes, phi, None, weights, order, dimension)


def _largest_first(shares: np.ndarray) -> np.ndarray:
    """The order of (draws, l, rows) expected counts: matched between draws, those with most counts first."""
    order = align(shares).order
    mass = np.take_along_axis(shares.sum(axis=2), order, axis=1)
    mean = (mass / np.maximum(mass.sum(axis=1, keepdims=True), _TINY)).mean(axis=0)
    return order[:, np.argsort(-mean, kind="stable")]
