"""The topic model: Poisson factorization of a matrix of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from countveil.models.count_model import positive_number, rate_or_none, whole_number
from countveil.models.einsum.inferred import Prior
from countveil.models.einsum.model import EinsumModel
from countveil.models.einsum.spec import Spec, read_spec
from countveil.models.groups import Groups, read_groups

_SPEC = read_spec("dk,kv->dv", ["theta", "phi"])


@dataclass(frozen=True, repr=False)
class TopicModel(EinsumModel):
    """y_dv ~ Poisson(sum_k theta_dk phi_kv), theta_dk and phi_kv gamma distributed.

    Gamma-Poisson matrix factorization, used as a topic model (Schein et al., ICML 2019, case study 1).

    Parameters
    ----------
    n_topics
        Number of topics K.
    shape
        Of the gamma priors of both factors. A shape below 1 makes topics and memberships sparse.
    rate
        None: how active rows are, how frequent words, and how large topics, is inferred, with the laws by which
        they vary (``posterior.scales()``). A number: the same gamma prior for every entry, as in the paper, where
        shape is 0.1 and rate 1.
    groups
        Of the rows, which anyone may know: one label for each row in order; or by the labels of rows, as a mapping
        or a Series with them for its index. Each group has means of its own, theta_dk ~ Gamma(shape, shape / b_gk)
        for a row d of group g (times the activity of the row where that is inferred), and
        ``posterior.prevalence()`` compares them (docs/groups.md). A row with None or NaN has no group.

    Examples
    --------
    >>> from countveil.models import TopicModel
    >>> TopicModel(n_topics=50)
    TopicModel(n_topics=50, shape=0.1, rate=None)
    >>> TopicModel(n_topics=50, groups=["before", "after", "after"])
    TopicModel(n_topics=50, shape=0.1, rate=None, groups=<2 groups of 3 rows>)
    """

    n_topics: int
    shape: float = 0.1
    rate: float | None = None
    groups: Any = None

    def __post_init__(self) -> None:
        # Plain numbers, whatever came: compiled code knows no fractions.
        object.__setattr__(self, "n_topics", whole_number("n_topics", self.n_topics, 1))
        object.__setattr__(self, "shape", positive_number("shape", self.shape, least=1e-3))
        object.__setattr__(self, "rate", rate_or_none("rate", self.rate))
        object.__setattr__(self, "groups", read_groups(self.groups))

    def __repr__(self) -> str:
        groups = "" if self.groups is None else f", groups={self.groups!r}"
        return f"TopicModel(n_topics={self.n_topics}, shape={self.shape}, rate={self.rate}{groups})"

    @property
    def _dim_names(self) -> Mapping[str, tuple[str, ...]]:
        return {"theta": ("row", "topic"), "phi": ("topic", "column")}

    @property
    def output_dims(self) -> tuple[str, ...]:
        """The names by which ``dims`` calls the axes of the data."""
        return ("row", "column")

    @property
    def _spec(self) -> Spec:
        return _SPEC

    @property
    def _sizes(self) -> Mapping[str, int]:
        return {"k": self.n_topics}

    def _prior(self, name: str) -> Prior:
        return Prior(self.shape, self.rate, groups=self.groups if name == "theta" else None)

    @property
    def coordinates(self) -> Mapping[str, np.ndarray]:
        """Labels along dimensions of the state that are no axes of the data."""
        groups: Groups | None = self.groups
        return {} if groups is None else {"group": np.array(groups.labels, dtype=object)}

    def for_rows(self, n_rows: int, labels: np.ndarray | None) -> Self:
        """The model with its groups in the order of these rows."""
        return self if self.groups is None else replace(self, groups=self.groups.for_rows(n_rows, labels))

    def for_part(self, start: int, stop: int) -> Self:
        """The model of these rows alone."""
        return self if self.groups is None else replace(self, groups=self.groups.part(start, stop))

    def check_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of data for this model, or an error."""
        if len(shape) != 2:
            raise ValueError(f"data: expected a matrix for a TopicModel, got {len(shape)} axes")
        if self.groups is not None:
            self.groups.for_rows(
                shape[0], None
            )  # only of rows in order does it know to which data they belong
        return shape

    #: How a posterior brings its draws into one order, see ``posterior.align``.
    aligned_as: ClassVar[tuple[str, ...]] = ("topics",)

    def describe(self) -> dict[str, Any]:
        """The settings as JSON can hold them: arguments that make the model again."""
        told = {"n_topics": self.n_topics, "shape": self.shape, "rate": self.rate}
        return told if self.groups is None else told | {"groups": self.groups.describe()}
