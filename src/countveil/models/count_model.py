"""The protocol of a model: how a user brings their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

#: A NamedTuple of numpy arrays. With the sweep number and the seed it is all a chain needs to go on.
State = Any


class Data(Protocol):
    """What a model may know of the data when it chooses a starting state."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of counts."""

    @property
    def n_observed(self) -> int:
        """Number of cells that are not missing."""

    def total(self) -> float:
        """The sum of the true counts over observed cells, or an unbiased estimate of it."""


@runtime_checkable
class CountModel(Protocol):
    """A model of independent Poisson counts whose rates depend on a state.

    Three functions and the names of the state's dimensions are all it takes. ``fit`` draws the true counts
    from their exact conditional given the rates and the release, hands them to ``update``, and so on; a model
    written for plain counts becomes private without a change. Missing cells reach ``update`` as draws from
    their Poisson rates, so a model need not know about them.
    """

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        """For every field of the state the names of its dimensions; () for a scalar. A class attribute will do."""

    def init(self, data: Data, rng: np.random.Generator) -> State:
        """A starting state."""

    def rates(self, state: State, rows: slice) -> np.ndarray:
        """The Poisson rates of these rows, >= 0: an array of shape (rows, *data.shape[1:])."""

    def update(self, state: State, counts: np.ndarray, rng: np.random.Generator) -> State:
        """A new state drawn given the (true) counts, by any kernel that leaves its posterior invariant."""
