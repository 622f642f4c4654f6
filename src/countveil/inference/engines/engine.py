"""What an engine is, and the engine of a name.

An engine (hardware: a folder beside this file) opens a problem as a sampler. A sampler holds chains where they
live (threads, a device, shards), sweeps them, and hands out a carry or keeps a draw only when asked: only these
move arrays.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from countveil.inference.carry import Carry
from countveil.inference.problem import Problem
from countveil.inference.settings import Settings
from countveil.inference.store import Store


class Sampler(Protocol):
    """Chains of one problem. Use it as a context manager: threads and devices are given back at its end."""

    def __enter__(self) -> Sampler: ...

    def __exit__(self, *error: Any) -> None: ...

    def start(self, chain: int) -> None:
        """Begin a chain at its starting state, sweep 0."""

    def load(self, carry: Carry) -> None:
        """Go on with the chain of a carry, from its sweep."""

    def sweep(self, chain: int) -> None:
        """One sweep of a chain."""

    def keep(self, chain: int, store: Store) -> None:
        """Put the chain's state and its monitored scalars into a store: its next draw."""

    def carry(self, chain: int) -> Carry:
        """All that the chain needs to go on, copied."""


class Engine(Protocol):
    """A folder of this package offers ``open_problem``."""

    def open_problem(self, problem: Problem, settings: Settings) -> Sampler:
        """A sampler for the problem, or an error that says before any work what this engine does not serve."""


def engine_named(name: str) -> Engine:
    """The engine of this name; ``auto`` takes the best that there is."""
    found: Any = import_module(f"countveil.inference.engines.{'cpu' if name == 'auto' else name}")
    return found
