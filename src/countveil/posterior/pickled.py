"""Posteriors can be pickled, for multiprocessing and the like; files are ``save`` and ``load_posterior``."""

from __future__ import annotations

from typing import Any


class Pickled:
    """The class of a factorization's states is made for its factors: pickle cannot find it, its model can."""

    model: Any
    _state_type: Any

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
