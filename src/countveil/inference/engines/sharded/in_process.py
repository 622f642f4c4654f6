"""Shards that are threads of one process: for tests, and to see what sharding itself costs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from countveil.inference.engines.sharded.chains_apart import ChainsApart, WholeProblem
from countveil.inference.engines.sharded.front import ShardedSampler
from countveil.inference.engines.sharded.shard import Shard, check_served, shard_of
from countveil.inference.problem import Problem
from countveil.inference.settings import Settings
from countveil.runtime.shards import ThreadShards


def open_problem_in_shards(problem: Problem, settings: Settings, shards: int) -> ShardedSampler:
    """A sampler over so many shards of this process, each with one thread."""
    check_served(problem)
    one_thread = replace(settings, threads=1)
    crew = ThreadCrew([shard_of(problem, one_thread, rank, shards) for rank in range(shards)])
    return ShardedSampler(crew, problem)


def open_chains_in_shards(problem: Problem, settings: Settings, shards: int) -> ChainsApart:
    """A sampler whose chains are spread over so many shards of this process."""
    crew = ThreadCrew([WholeProblem(problem, replace(settings, threads=1))] * shards)
    return ChainsApart(crew, problem.state_type, settings.chains)


class ThreadCrew:
    """See ``front.Crew``: every shard has a thread, in which all its methods run."""

    def __init__(self, shards: Sequence[Shard | WholeProblem]) -> None:
        self.size = len(shards)
        self._together = ThreadShards(self.size)
        self._threads = [ThreadPoolExecutor(1, f"shard {rank}") for rank in range(self.size)]
        self._shards: list[Any] = self._all(lambda rank: shards[rank].open(self._together.communicator(rank)))

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard, and wait for all of them."""
        return self._all(lambda rank: getattr(self._shards[rank], method)(*arguments))

    def call_each(self, method: str, arguments: list[Any]) -> list[Any]:
        """The same, with an argument of its own for each."""
        return self._all(lambda rank: getattr(self._shards[rank], method)(arguments[rank]))

    def close(self) -> None:
        """End the threads."""
        for thread in self._threads:
            thread.shutdown()

    def _all(self, function: Any) -> list[Any]:
        return self._together.on(self._threads, function)
