"""Communities of actors: Poisson factorization of a network of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from countveil.kernels.philox import SweepKey
from countveil.models.count_model import positive_number, whole_number
from countveil.models.einsum.model import EinsumModel
from countveil.models.einsum.scales import trade_in_blocks
from countveil.models.einsum.spec import Spec, read_spec
from countveil.models.einsum.update import Prior
from countveil.runtime.workers import Workers

_SPEC = read_spec("ic,cd,jd->ij", ["theta", "pi", "theta"])


@dataclass(frozen=True)
class CommunityModel(EinsumModel):
    """y_ij ~ Poisson(sum_cd theta_ic pi_cd theta_jd), all entries ~ Gamma(shape, rate).

    How much actor i is active in community c, and how much communities deal with each other: a mixed-membership
    stochastic block model of counts (Schein et al., ICML 2019, case study 2).

    Parameters
    ----------
    n_communities
        Number of communities.
    directed
        Whether y_ij and y_ji are different counts. If not, only the cells above the diagonal are used, each pair
        once, and pi is symmetric.
    self_loops
        Whether the diagonal is part of the model. If not, its cells are left out, whatever they hold.
    shape, rate
        Of the gamma priors of both factors.

    Examples
    --------
    >>> from countveil.models import CommunityModel
    >>> CommunityModel(20)
    CommunityModel(n_communities=20, directed=True, self_loops=False, shape=0.1, rate=1.0)
    """

    n_communities: int
    directed: bool = True
    self_loops: bool = False
    shape: float = 0.1
    rate: float = 1.0

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "n_communities", whole_number("n_communities", self.n_communities, 1))
        for name in ("directed", "self_loops"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name}: expected True or False, got {getattr(self, name)!r}")
            put(self, name, bool(getattr(self, name)))
        put(self, "shape", positive_number("shape", self.shape, least=1e-3))
        put(self, "rate", positive_number("rate", self.rate))

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the dimensions of the state."""
        return {"theta": ("i", "community"), "pi": ("community", "to_community")}

    @property
    def _spec(self) -> Spec:
        return _SPEC

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
        trade_in_blocks(key, self.shape, self.rate, not self.directed, held["theta"], held["pi"])

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
