"""What an engine is, and the engine of a name.

An engine (hardware: a folder beside this file) opens a problem as a sampler. A sampler holds chains where they
live (threads, a device, shards), sweeps them, and hands out a carry or keeps a draw only when asked: only these
move arrays.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from countveil.counts.release_on_disk import ReleaseOnDisk
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
        """One sweep of a chain, done at the latest when something is asked of it: chains may go together."""

    def monitor(self, chain: int) -> dict[str, float]:
        """The scalars by which a chain is watched, of its last sweep."""

    def keep(self, chain: int, store: Store) -> dict[str, float]:
        """Put the chain's state and its monitored scalars into a store: its next draw. Gives the scalars."""

    def carry(self, chain: int) -> Carry:
        """All that the chain needs to go on, copied."""


class Engine(Protocol):
    """A folder of this package offers ``open_problem``."""

    def open_problem(self, problem: Problem, settings: Settings) -> Sampler:
        """A sampler for the problem, or an error that says before any work what this engine does not serve."""


def engine_named(name: str) -> Engine:
    """The engine of this name; ``auto``, where nobody has resolved it, is the CPU."""
    found: Any = import_module(f"countveil.inference.engines.{'cpu' if name == 'auto' else name}")
    return found


def may_stay_unread(release: ReleaseOnDisk, model: Any, engine: str) -> bool:
    """Whether each process need read no more of a release than its own rows; noise by cell is in the header."""
    shards = "countveil.inference.engines.sharded.shard"
    spread = engine in ("mpi", "ray") and import_module(shards).rows_are_apart(model)
    return spread and release.rho.size <= release.shape[0]


def spreads(problem: Problem, engine: str) -> bool:
    """Whether an engine spreads the rows of a problem over several processes; of others it spreads the chains."""
    return engine in ("mpi", "ray") and import_module(
        "countveil.inference.engines.sharded.shard"
    ).spreads_rows(problem)


def resolved(settings: Settings, problem: Problem) -> Settings:
    """The settings with an engine in place of ``auto``: draws depend on it, so a run must say which it was.

    Runs whose engine is still "auto" were made on the CPU, before there was a choice. Better starts look at all
    rows together: where rows are spread, or lie on disk, chains start plainly, and draw what one machine draws with
    ``start="plain"``.
    """
    if spreads(problem, settings.engine):
        return replace(settings, start="plain")
    if problem.is_on_disk:
        if settings.engine not in ("auto", "cpu"):
            others = "of a model whose rows it spreads" if settings.engine in ("mpi", "ray") else "in memory"
            raise ValueError(
                f"engine: expected 'cpu' for a release in scratch files, or one {others}, got "
                f"{settings.engine!r}"
            )
        return replace(settings, start="plain", engine="cpu")
    if settings.engine != "auto":
        return settings
    # Not imported where there is no CuPy: that takes a second, and most people have none.
    if find_spec("cupy") is not None and import_module("countveil.inference.engines.cuda.serves").pays(
        problem, settings
    ):
        return replace(settings, engine="cuda")
    return replace(settings, engine="cpu")
