"""What every posterior is, of one array or of several: kept draws in a tree, and how they were drawn."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import xarray as xr

from countveil.posterior.kept_states import KeptStates


class KeptDraws(ABC):
    """The base of ``Posterior`` and ``SharedPosterior``.

    It can be pickled, for multiprocessing and the like (files are ``save`` and ``load_posterior``). The class of a
    factorization's states is made for its factors: pickle cannot find it, its model can.
    """

    tree: xr.DataTree
    model: Any
    _state_type: Any

    @property
    @abstractmethod
    def _kept(self) -> KeptStates:
        """The draws as states."""

    @property
    def settings(self) -> dict[str, Any]:
        """How it was fitted: sweeps, burn_in, thin, chains, seed, method, ..., seconds, interrupted."""
        return json.loads(self.tree.attrs["settings"])

    @property
    def n_draws(self) -> int:
        """Kept draws of all chains together."""
        return len(self._kept)

    def states(self) -> Iterator[Any]:
        """The kept states, chain after chain, as the model's own NamedTuple, topics or components in any order."""
        return iter(self._kept)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        state.pop("_kept", None)  # made anew when asked for
        if state["_state_type"] is getattr(self.model, "state_type", None):
            del state["_state_type"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "_state_type" not in state:
            self._state_type = self.model.state_type
