"""Stores: where kept draws go. Here memory; the protocol is what a folder that grows will follow."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from countveil.inference.settings import Settings


class Draws(NamedTuple):
    """Kept draws of all chains, chain by chain, draw by draw."""

    states: dict[str, np.ndarray]  # field of the state -> float32 (chain, draw, ...)
    monitored: dict[str, np.ndarray]  # name -> float64 (chain, draw)
    state_type: Any  # the NamedTuple class of the model's state
    settings: Settings
    seconds: float
    interrupted: bool


class Store(Protocol):
    """Takes draws as they come, so that an interrupt loses nothing; complete draws only."""

    def keep(self, chain: int, state: Any, monitored: dict[str, float]) -> None:
        """Take a copy of one state and its scalars: the chain's next draw."""

    def common(self) -> int:
        """Draws that every chain has."""

    def draws(self, seconds: float, interrupted: bool) -> Draws:
        """Everything that all chains have in common."""


class MemoryStore:
    """Room for the draws of all chains, filled as they come."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._states: dict[str, np.ndarray] = {}
        self._monitored: dict[str, np.ndarray] = {}
        self._state_type: Any = None
        self._filled = np.zeros(settings.chains, dtype=np.int64)

    def keep(self, chain: int, state: Any, monitored: dict[str, float]) -> None:
        """Take a copy of one state and its scalars."""
        room = (self._settings.chains, self._settings.kept)
        self._state_type = type(state)
        draw = self._filled[chain]
        for name, value in zip(state._fields, state, strict=True):
            value = np.asarray(value)
            if name not in self._states:
                # Single precision halves the memory; a posterior is not known to eight digits anyway.
                kind = np.float32 if value.dtype.kind == "f" else value.dtype
                self._states[name] = np.zeros((*room, *value.shape), dtype=kind)
            with np.errstate(under="ignore"):
                self._states[name][chain, draw] = value
        for name, scalar in monitored.items():
            self._monitored.setdefault(name, np.zeros(room))[chain, draw] = scalar
        self._filled[chain] += 1

    def common(self) -> int:
        """Draws that every chain has."""
        return int(self._filled.min())

    def draws(self, seconds: float, interrupted: bool) -> Draws:
        """Everything that all chains have in common."""
        kept = self.common()
        return Draws(
            {name: array[:, :kept] for name, array in self._states.items()},
            {name: array[:, :kept] for name, array in self._monitored.items()},
            self._state_type,
            self._settings,
            seconds,
            interrupted,
        )
