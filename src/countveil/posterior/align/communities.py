"""All draws of a community model in one order of communities; only then are they averaged.

theta and pi trade scale (theta_.c * s with pi_c. / s), so neither means anything by itself. What does not depend
on it: the expected counts from community c to community d, and the share of every community in what an actor sends
and receives. Both are sums over the pairs of actors that are part of the model. With psi_jd = receiving_j theta_jd
(theta itself where there is no ``receiving``), and Theta, Psi the sums over actors,

    sum over ordered pairs i, j    theta_ic pi_cd psi_jd = pi_cd Theta_c Psi_d
    the pairs i = j among them     pi_cd S_cd,  S_cd = sum_i theta_ic psi_id

A directed network has the first, less the second without self-loops. Of an undirected one the counts between c and
d are those of c with d and of d with c, every pair i < j once: pi_cd (Theta_c Theta_d - S_cd) for c < d, half of it
for c = d. With self-loops the sign is + in place of -: twice the diagonal for c < d, once for c = d.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import xarray as xr

from countveil.posterior.align.matching import (
    Aligner,
    Alignment,
    Matched,
    all_draws,
    distributions,
    in_order,
    shares_of,
)
from countveil.posterior.axes import free_names
from countveil.posterior.diagnostics.summary import interval_dataset, mean_and_interval

#: Multiplies matrices; the last bits of ``np.matmul`` may depend on threads.
Product = Callable[[np.ndarray, np.ndarray], np.ndarray]


class AlignedCommunities(Aligner):
    """Draws of both factors; theta's columns and pi's rows and columns are permuted together."""

    of_models = "a CommunityModel"
    dimension = "community"

    def __init__(
        self,
        theta: np.ndarray,
        pi: np.ndarray,
        axes: tuple[str, ...],
        *,
        directed: bool,
        self_loops: bool,
        receiving: np.ndarray | None = None,
        order: np.ndarray | None = None,
    ) -> None:
        """theta (draws, actors, communities), pi (draws, communities, communities); ``order`` if it is known."""
        taken = {"community", "to_community", "mean", "low", "high", "agreement"}
        self._axis = free_names(axes, taken)[0]
        traffic = community_traffic(theta, pi, directed, self_loops, receiving)
        self.alignment, _ = in_order(np.swapaxes(traffic, 1, 2), traffic.sum(axis=1), order)
        order = self.alignment.order
        #: What every actor sends and receives, on average.
        self.strength = traffic.sum(axis=2).mean(axis=0)
        self._share = shares_of(np.take_along_axis(traffic, order[:, None, :], axis=2))
        blocks = community_blocks(theta, pi, directed, self_loops, receiving)
        draws = np.arange(len(order))[:, None, None]
        self._blocks = blocks[draws, order[:, :, None], order[:, None, :]]

    @classmethod
    def of(
        cls, model: Any, fields: Mapping[Any, Any], axes: tuple[str, ...], order: np.ndarray | None = None
    ) -> Self:
        """Of a community model."""
        theta, pi, receiving = community_draws(model, fields)
        return cls(
            theta, pi, axes,
            directed=model.directed, self_loops=model.self_loops, receiving=receiving, order=order,
        )  # fmt: skip

    def places(self, model: Any) -> Mapping[str, Alignment]:
        """Senders' and receivers' communities are the same."""
        return {"community": self.alignment, "to_community": self.alignment}

    @classmethod
    def summed_index(cls, model: Any) -> str | None:
        """That of theta."""
        return model._spec.term("theta")[1]

    @classmethod
    def matched(cls, model: Any, fields: Mapping[Any, Any]) -> Matched:
        """The actors' factor, and what they send and receive."""
        theta, pi, receiving = community_draws(model, fields)
        traffic = community_traffic(theta, pi, model.directed, model.self_loops, receiving)
        return Matched({"theta": distributions(theta)}, traffic.sum(axis=1), None)

    @classmethod
    def refusal(cls, what: str, model: Any) -> TypeError:
        """The error where ``what`` is asked of another model."""
        return TypeError(f"{what}: expected the posterior of {cls.of_models}, got {type(model).__name__}")

    def memberships(self, rows: np.ndarray, interval: float, labels: np.ndarray) -> xr.Dataset:
        """Share of every community in what each actor sends and receives, with intervals."""
        dims = (self._axis, "community")
        return self._dataset(dims, self._share[:, rows], interval, {self._axis: labels})

    def main_communities(self) -> tuple[np.ndarray, np.ndarray]:
        """The community that is the largest of every actor in most draws, and the share of draws that say so."""
        each = self._share.argmax(axis=2)
        votes = np.stack([(each == c).mean(axis=0) for c in range(self._share.shape[2])])
        return votes.argmax(axis=0), votes.max(axis=0)

    def blocks(self, interval: float) -> xr.Dataset:
        """Expected counts from community to community, with intervals."""
        to = {"to_community": np.arange(self._blocks.shape[2])}
        return self._dataset(("community", "to_community"), self._blocks, interval, to)

    def _dataset(
        self, dims: tuple[str, str], draws: np.ndarray, interval: float, coordinates: dict
    ) -> xr.Dataset:
        agreement = self.alignment.agreement
        places = {"community": np.arange(len(agreement)), "agreement": ("community", agreement)}
        return interval_dataset(dims, mean_and_interval(draws, interval), {**coordinates, **places}, interval)


def community_draws(
    model: Any, fields: Mapping[Any, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """theta, pi and, where there is one, ``receiving``, of all draws one after the other."""
    theta, pi = (all_draws(fields[name]) for name in ("theta", "pi"))
    return theta, pi, all_draws(fields["receiving"]) if "receiving" in model._spec.factors else None


def community_traffic(
    theta: np.ndarray,
    pi: np.ndarray,
    directed: bool,
    self_loops: bool,
    receiving: np.ndarray | None = None,
    product: Product = np.matmul,
) -> np.ndarray:
    """What every actor sends and receives through every community, (draws, actors, communities)."""
    psi = theta if receiving is None else theta * receiving[:, :, None]
    own = _own(directed, self_loops)
    receivers, senders = (
        np.maximum(one.sum(axis=1, dtype=np.float64, keepdims=True) + own * one, 0.0) for one in (psi, theta)
    )
    between = pi.astype(np.float64)
    return theta * product(receivers, np.swapaxes(between, 1, 2)) + psi * product(senders, between)


def community_blocks(
    theta: np.ndarray,
    pi: np.ndarray,
    directed: bool,
    self_loops: bool,
    receiving: np.ndarray | None,
    product: Product = np.matmul,
) -> np.ndarray:
    """Expected counts, (draws, communities, communities); of an undirected network those between the two."""
    found = np.empty(pi.shape)
    for draw, (out, one, between) in enumerate(zip(found, theta, pi, strict=True)):
        one = one.astype(np.float64)
        psi = one if receiving is None else one * receiving[draw, :, None]
        pairs = np.outer(one.sum(axis=0), psi.sum(axis=0)) + _own(directed, self_loops) * product(one.T, psi)
        out[:] = np.maximum(pairs, 0.0) * between
    if not directed:
        places = np.arange(pi.shape[1])
        found[:, places, places] /= 2
    return found


def _own(directed: bool, self_loops: bool) -> float:
    """How often an actor meets itself, beyond the ordered pairs."""
    if not self_loops:
        return -1.0
    return 0.0 if directed else 1.0
