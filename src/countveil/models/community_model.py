"""Communities of actors: Poisson factorization of a network of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from countveil.kernels.philox import SweepKey
from countveil.models.count_model import positive_number, rate_or_none, whole_number
from countveil.models.einsum import prior as prior_module
from countveil.models.einsum.inferred import Prior
from countveil.models.einsum.model import EinsumModel
from countveil.models.einsum.prior import prior_rates
from countveil.models.einsum.scales import trade_in_blocks
from countveil.models.einsum.spec import Spec, read_spec
from countveil.runtime.workers import Workers

_SPEC = read_spec("ic,cd,jd->ij", ["theta", "pi", "theta"])
#: Where it is inferred how active actors are: what one receives need not be in proportion to what it sends.
_WITH_RECEIVING = read_spec("ic,cd,jd,j->ij", ["theta", "pi", "theta", "receiving"])

_NO_MEANS = np.zeros(0)


@dataclass(frozen=True)
class CommunityModel(EinsumModel):
    """y_ij ~ Poisson(receiving_j sum_cd theta_ic pi_cd theta_jd), gamma priors.

    How much actor i is active in community c, and how much communities deal with each other: a mixed-membership
    stochastic block model of counts (Schein et al., ICML 2019, case study 2). ``receiving`` is what an actor
    receives relative to what it sends; it is there where activity is inferred and the network is directed.

    Parameters
    ----------
    n_communities
        Number of communities.
    directed
        Whether y_ij and y_ji are different counts. If not, only the cells above the diagonal are used, each pair
        once, and pi is symmetric.
    self_loops
        Whether the diagonal is part of the model. If not, its cells are left out, whatever they hold.
    shape
        Of the gamma priors of both factors. A shape below 1 makes memberships sparse.
    rate
        None: how much each actor sends and receives (degree correction), and how large communities are, is
        inferred, with the laws by which they vary (``posterior.scales()``). A number: the same gamma prior for
        every entry of theta and pi, as in the paper, where shape is 0.1 and rate 1; docs/priors.md says when that
        goes wrong.

    Examples
    --------
    >>> from countveil.models import CommunityModel
    >>> CommunityModel(20)
    CommunityModel(n_communities=20, directed=True, self_loops=False, shape=0.1, rate=None)
    """

    n_communities: int
    directed: bool = True
    self_loops: bool = False
    shape: float = 0.1
    rate: float | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "n_communities", whole_number("n_communities", self.n_communities, 1))
        for name in ("directed", "self_loops"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name}: expected True or False, got {getattr(self, name)!r}")
            put(self, name, bool(getattr(self, name)))
        put(self, "shape", positive_number("shape", self.shape, least=1e-3))
        put(self, "rate", rate_or_none("rate", self.rate))

    @property
    def _dim_names(self) -> Mapping[str, tuple[str, ...]]:
        names = {"theta": ("i", "community"), "pi": ("community", "to_community"), "receiving": ("j",)}
        return {name: names[name] for name in self._spec.factors}

    @cached_property  # asked for some thirty times in a sweep of two milliseconds
    def _spec(self) -> Spec:
        return _WITH_RECEIVING if self.directed and self.rate is None else _SPEC

    @property
    def _sizes(self) -> Mapping[str, int]:
        return {"c": self.n_communities, "d": self.n_communities}

    def _prior(self, name: str) -> Prior:
        return Prior(self.shape, self.rate, symmetric=name == "pi" and not self.directed)

    def _first_values(self, name: str, drawn: np.ndarray) -> np.ndarray:
        # Blocks that start alike make all communities one, and chains seldom leave that again; a start near the
        # diagonal finds the others more often, whatever the network is like. The posterior is what it is.
        return drawn * (0.1 + np.eye(len(drawn))) if name == "pi" else drawn

    def _trade_scales(self, held: dict[str, np.ndarray], key: SweepKey, workers: Workers) -> None:
        pi_rate = float(prior_rates("pi", self._prior("pi"), self._inferred.get("pi"), held).of_rows[0])
        theta_rate = 0.0 if self.rate is None else self.rate  # no part of it where means are inferred
        means, mean_shape = held.get("theta_mean", _NO_MEANS), prior_module.HYPER.mean_shape
        trade_in_blocks(
            key, self.shape, theta_rate, pi_rate, not self.directed, held["theta"], held["pi"], means, mean_shape
        )  # fmt: skip

    def left_out(self, shape: tuple[int, ...]) -> tuple[np.ndarray, ...] | None:
        """The diagonal, unless there are self-loops; of an undirected network also what lies below it."""
        self.check_shape(shape)
        n = shape[0]
        if self.directed:
            return None if self.self_loops else (np.arange(n), np.arange(n))
        return np.tril_indices(n, -1 if self.self_loops else 0)

    #: How a posterior brings its draws into one order, see ``posterior.align``.
    aligned_as: ClassVar[tuple[str, ...]] = ("communities",)

    def describe(self) -> dict[str, Any]:
        """The settings as JSON can hold them: arguments that make the model again."""
        kind = {"directed": self.directed, "self_loops": self.self_loops}
        return {"n_communities": self.n_communities, **kind, "shape": self.shape, "rate": self.rate}

    @property
    def mirrored(self) -> bool:
        """Whether cell (j, i) is cell (i, j) again, whose count stands above the diagonal."""
        return not self.directed

    def without_count(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
        """Which of these cells have no count, here or mirrored; None if all have one (``left_out`` is long)."""
        return None if self.self_loops else rows == columns
