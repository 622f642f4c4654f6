"""Tensors of counts: the CP and the Tucker form of Poisson factorization."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from countveil.models.count_model import positive_number, rate_or_none, whole_number
from countveil.models.einsum.inferred import Prior
from countveil.models.einsum.model import EinsumModel
from countveil.models.einsum.spec import Spec, read_spec

_AXES = "ijtuvwxyz"
_LATENT = "abcdefghk"


@dataclass(frozen=True)
class TensorModel(EinsumModel):
    """y_ijt ~ Poisson(sum_k f_ik g_jk h_tk), or with a core sum_abc f_ia g_jb h_tc core_abc; gamma priors.

    Parameters
    ----------
    rank
        Number of components of the CP (PARAFAC) form.
    core
        Instead: the shape of the core of the Tucker form, such as (5, 5, 3), one number for each axis.
    n_axes
        Number of axes of the data, for the CP form; a core says it itself.
    shape
        Of the gamma priors of all factors.
    rate
        A number: the same gamma prior for every entry, as in the paper. None: how active every place of an axis is,
        and how large every component, is inferred (``posterior.scales()``).

    Examples
    --------
    >>> from countveil.models import TensorModel
    >>> TensorModel(rank=20)
    TensorModel(rank=20, core=None, n_axes=3, shape=0.1, rate=1.0)
    >>> list(TensorModel(core=(5, 5, 3)).dims)
    ['factor0', 'factor1', 'factor2', 'core']
    """

    rank: int | None = None
    core: tuple[int, ...] | None = None
    n_axes: int = 3
    shape: float = 0.1
    rate: float | None = 1.0

    def __post_init__(self) -> None:
        put = object.__setattr__
        if (self.rank is None) == (self.core is None):
            got = "neither" if self.rank is None else "both"
            raise ValueError(f"rank, core: expected exactly one of them, got {got}")
        if self.core is not None:
            if isinstance(self.core, str) or not isinstance(self.core, Iterable):
                raise ValueError(f"core: expected a size for each axis, such as (5, 5, 3), got {self.core!r}")
            put(self, "core", tuple(whole_number("core", size, 1) for size in self.core))
            put(self, "n_axes", len(self.core))
        else:
            put(self, "rank", whole_number("rank", self.rank, 1))
        put(
            self,
            "n_axes",
            whole_number("n_axes" if self.core is None else "core", self.n_axes, 2, len(_AXES)),
        )
        put(self, "shape", positive_number("shape", self.shape, least=1e-3))
        put(self, "rate", rate_or_none("rate", self.rate))

    @property
    def _dim_names(self) -> Mapping[str, tuple[str, ...]]:
        if self.core is None:
            return {f"factor{a}": (_AXES[a], "component") for a in range(self.n_axes)}
        latent = tuple(f"component{a}" for a in range(self.n_axes))
        return {**{f"factor{a}": (_AXES[a], latent[a]) for a in range(self.n_axes)}, "core": latent}

    @cached_property  # asked for some twenty times in a sweep of a few milliseconds
    def _spec(self) -> Spec:
        return _spec_of(self.n_axes, self.core is not None)

    @property
    def _sizes(self) -> Mapping[str, int]:
        if self.core is None:
            assert self.rank is not None
            return {"k": self.rank}
        return dict(zip(_LATENT, self.core, strict=False))

    def _prior(self, name: str) -> Prior:
        return Prior(self.shape, self.rate)

    #: How a posterior brings its draws into one order, see ``posterior.align``.
    aligned_as: ClassVar[tuple[str, ...]] = ("components",)

    def describe(self) -> dict[str, Any]:
        """The settings as JSON can hold them: arguments that make the model again."""
        form = {"rank": self.rank} if self.core is None else {"core": self.core}
        return {**form, "n_axes": self.n_axes, "shape": self.shape, "rate": self.rate}


@lru_cache(maxsize=32)
def _spec_of(n_axes: int, with_core: bool) -> Spec:
    names = [f"factor{a}" for a in range(n_axes)]
    output, latent = _AXES[:n_axes], _LATENT[:n_axes]
    if not with_core:
        return read_spec(f"{','.join(c + 'k' for c in output)}->{output}", names)
    terms = ",".join(map("".join, zip(output, latent, strict=True)))
    return read_spec(f"{terms},{latent}->{output}", [*names, "core"])
