"""A release whose noise parameter is not known: alpha is one more unknown, with a beta prior."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from countveil.models.count_model import CountModel, Data, State
from countveil.models.parameters import positive_number


@dataclass(frozen=True)
class UnknownNoise:
    """``model``, seen through two-sided geometric noise of unknown alpha, alpha ~ Beta(p, q).

    ``x = y + tau``, ``P(tau) = (1-alpha)/(1+alpha) * alpha**abs(tau)``, one alpha for all cells. The release
    must have kept the sum of ``abs(x)`` over its cells x <= 0 (every release that was made here has; values
    that someone else had clamped have not). Its own alpha serves as the starting value and no further.

    Parameters
    ----------
    model
        Any model of the counts.
    prior
        (p, q) of the beta prior of alpha; (1, 1) is uniform.

    Examples
    --------
    >>> from countveil.models import TopicModel
    >>> from countveil.models.unknown_noise import UnknownNoise
    >>> UnknownNoise(TopicModel(n_topics=5), prior=(2, 2))
    UnknownNoise(model=TopicModel(n_topics=5, shape=0.1, rate=1.0), prior=(2.0, 2.0))
    """

    model: Any
    prior: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        if not isinstance(self.model, CountModel) or isinstance(self.model, UnknownNoise):
            raise TypeError(
                f"model: expected a model such as TopicModel(n_topics=10), got {type(self.model).__name__}"
            )
        try:
            p, q = self.prior
        except (TypeError, ValueError):
            raise ValueError(f"prior: expected two numbers (p, q), got {self.prior!r}") from None
        checked = (positive_number("prior", p), positive_number("prior", q))
        object.__setattr__(self, "prior", checked)

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        """Those of the model, and alpha, a scalar."""
        return {**self.model.dims, "alpha": ()}

    def init(self, data: Data, rng: np.random.Generator) -> State:
        """The model's start, and the alpha that the release was given."""
        return self.join(self.model.init(data, rng), float(np.asarray(data.alpha)))  # type: ignore[attr-defined]

    def rates(self, state: State, rows: slice) -> np.ndarray:
        """The model's rates: alpha says nothing about them."""
        return self.model.rates(self.inner(state), rows)

    def update(self, state: State, counts: np.ndarray, rng: np.random.Generator) -> State:
        """The model's update; alpha stays, as it takes the release to know more of it."""
        return self.join(self.model.update(self.inner(state), counts, rng), float(state.alpha))

    def inner(self, state: State) -> State:
        """The model's own state."""
        return state.of

    def join(self, inner: State, alpha: float) -> State:
        """A state of this model from the model's own and alpha."""
        kind: Any = type(inner)
        return _state_type(kind)(*inner, np.float64(alpha))


@cache
def _state_type(inner: Any) -> Any:
    """A NamedTuple with the fields of ``inner`` and alpha; ``of`` gives the inner state back."""
    fields = namedtuple("NoiseState", (*inner._fields, "alpha"))  # type: ignore[misc]

    class NoiseState(fields):
        __slots__ = ()
        inner_type = inner

        @property
        def of(self) -> Any:
            return inner(*self[:-1])

    return NoiseState
