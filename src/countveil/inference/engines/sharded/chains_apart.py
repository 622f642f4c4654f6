"""Chains spread over shards, for models whose rows are not: networks, shared factors, unknown noise.

Every shard has the whole problem and some of the chains, which do not need each other. What is asked of them is
collected until an answer is needed, or a chain is asked to sweep again: then all shards work at the same time.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from countveil.inference.carry import Carry
from countveil.inference.engines.cpu.collapsed import collapsed_of
from countveil.inference.engines.cpu.sampler import CpuSampler
from countveil.inference.engines.sharded.front import Crew
from countveil.inference.problem import Problem
from countveil.inference.relocation import relocation_of
from countveil.inference.settings import Settings
from countveil.inference.store import Store
from countveil.runtime.shards import Communicator


class WholeProblem(NamedTuple):
    """What a shard needs to begin."""

    problem: Problem
    settings: Settings

    def open(self, _: Communicator) -> ChainsOfShard:
        """The sampler of the shard."""
        return ChainsOfShard(self.problem, self.settings)


class ChainsOfShard(CpuSampler):
    """Some of the chains, on one shard."""

    #: Nothing is cut into rows.
    row_axes: Mapping[str, int] = MappingProxyType({})

    def __init__(self, problem: Problem, settings: Settings) -> None:
        super().__init__(
            problem,
            settings.seed,
            settings.threads,
            settings.algorithm,
            relocation=relocation_of(problem, settings),
            collapsed=collapsed_of(problem, settings),
        )

    def do(self, asked: list[tuple[str, Any]]) -> list[Any]:
        """What the methods give, one after the other."""
        return [getattr(self, method)(argument) for method, argument in asked]


class ChainsApart:
    """See ``engine.Sampler``. A chain belongs to one shard, the first to the first, and so on in turns."""

    def __init__(self, crew: Crew, state_type: Any, chains: int) -> None:
        self._crew, self._state_type = crew, state_type
        self._shard_of: dict[int, int] = {}
        self._asked: list[list[tuple[str, Any]]] = [[] for _ in range(crew.size)]
        if crew.size > chains:
            warnings.warn(
                f"engine: {crew.size} shards, {chains} chains: rows of this model are not spread, so that "
                f"{crew.size - chains} of the shards have nothing to do",
                stacklevel=5,
            )

    def __enter__(self) -> ChainsApart:
        return self

    def __exit__(self, *error: Any) -> None:
        self._crew.close()

    def start(self, chain: int) -> None:
        """Begin a chain at its starting state, sweep 0."""
        self._shard_of.setdefault(chain, len(self._shard_of) % self._crew.size)
        self._ask("start", chain, chain)

    def load(self, carry: Carry) -> None:
        """Go on with the chain of a carry, from its sweep."""
        if carry.rows is not None:  # rows of such a model are never apart
            raise ValueError("path: expected a checkpoint of this problem, got one with rows in files")
        self._shard_of.setdefault(carry.chain, len(self._shard_of) % self._crew.size)
        self._ask("load", carry.chain, carry)

    def sweep(self, chain: int) -> None:
        """One sweep of a chain, before anything else is asked of it."""
        if ("sweep", chain) in self._asked[self._shard_of[chain]]:
            self._answers()
        self._ask("sweep", chain, chain)

    def monitor(self, chain: int) -> dict[str, float]:
        """The scalars by which a chain is watched, of its last sweep."""
        return self._answer("monitor", chain)

    def keep(self, chain: int, store: Store) -> dict[str, float]:
        """Put the chain's state and its monitored scalars into a store: its next draw. Gives the scalars."""
        state, scalars = self.draw(chain)
        store.keep(chain, state, scalars)
        return scalars

    def draw(self, chain: int) -> tuple[Any, dict[str, float]]:
        """The chain's state and its monitored scalars."""
        state, scalars = self._answer("state_and_scalars", chain)
        return self._state_type(**state), scalars

    def carry(self, chain: int) -> Carry:
        """All that the chain needs to go on, copied."""
        return self._answer("carry", chain)

    def _ask(self, method: str, chain: int, argument: Any) -> None:
        self._asked[self._shard_of[chain]].append((method, argument))

    def _answer(self, method: str, chain: int) -> Any:
        self._ask(method, chain, chain)
        return self._answers()[self._shard_of[chain]][-1]

    def _answers(self) -> list[list[Any]]:
        """All that was asked, done."""
        asked, self._asked = self._asked, [[] for _ in range(self._crew.size)]
        return self._crew.call_each("do", asked)
