"""Shards that are ranks of an MPI job: rank 0 says what is to be done, and all do it together.

Rank 0 is one of the shards itself. What it says (the name of a method and its arguments) goes to all ranks; what
they do then meets in the sums of ``runtime.shards``. After each the ranks tell rank 0 whether a signal has come to
any of them, so that all stop after one and the same sweep, with a checkpoint. A rank that is lost ends the job:
what the run has is in its folder, and ``countveil resume`` goes on, with any number of ranks.
"""

from __future__ import annotations

import atexit
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from types import FrameType
from typing import Any, NoReturn

from countveil.inference.engines.cpu.sampler import named_algorithm
from countveil.inference.engines.mpi.communicator import MpiCommunicator, ranks_of_this_machine, world
from countveil.inference.engines.sharded.chains_apart import ChainsApart, WholeProblem
from countveil.inference.engines.sharded.front import ShardedSampler
from countveil.inference.engines.sharded.shard import (
    Shard,
    check_served,
    rows_of_shard,
    shard_of,
    spreads_rows,
)
from countveil.inference.problem import Problem
from countveil.inference.settings import Settings, available_cores
from countveil.runtime.machine import this_machine

_END, _OPEN = "end", "open"
#: Signals that ask a run to stop or to write a checkpoint (``posterior.runs.signals``).
_ASKING = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGINT")


def is_follower() -> bool:
    """Whether this process is a rank that does what rank 0 says."""
    return bool(world().Get_rank() > 0)


def open_problem(problem: Problem, settings: Settings) -> ShardedSampler | ChainsApart:
    """A sampler over all ranks of the job. Rank 0 alone asks for it; the others ``follow``."""
    for view in problem.views.values():  # or an error, while nobody else has begun
        named_algorithm(view, settings.algorithm)
    if not spreads_rows(problem):
        whole = WholeProblem(problem, settings)
        return ChainsApart(MpiCrew(lambda rank: whole), problem.state_type, settings.chains)
    size = world().Get_size()
    rows_of_shard(check_served(problem), problem.shapes[""], 0, size)  # likewise
    crew = MpiCrew(lambda rank: shard_of(problem, settings, rank, size))
    return ShardedSampler(crew, problem)


class MpiCrew:
    """See ``sharded.front.Crew``."""

    def __init__(self, shard_of_rank: Callable[[int], Shard | WholeProblem]) -> None:
        ranks = world()
        self.size = ranks.Get_size()
        self._broken, self._ranks, self.communicator = False, ranks, MpiCommunicator(ranks)
        try:
            self._shard = self._opened(shard_of_rank)
        except BaseException:
            self._broken = True
            self.close()

    def _opened(self, shard_of_rank: Callable[[int], Shard | WholeProblem]) -> Any:
        """Every rank has its shard, and is ready."""
        self._ranks.bcast((_OPEN, ()))
        for rank in range(1, self.size):
            self._ranks.send(shard_of_rank(rank), rank)
        _warn_of_other_machines(self._ranks.gather(this_machine()))
        return shard_of_rank(0).open(self.communicator)

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method on every rank, and wait for all of them."""
        return self._do(method, [arguments] * self.size)

    def call_each(self, method: str, arguments: list[Any]) -> list[Any]:
        """The same, with an argument of its own for each."""
        return self._do(method, [(argument,) for argument in arguments])

    def _do(self, method: str, arguments: list[tuple]) -> list[Any]:
        try:
            self._ranks.bcast((method, ()))
            mine = self._ranks.scatter(arguments)
            found = self._ranks.gather((getattr(self._shard, method)(*mine), None))
        except BaseException:
            self._broken = True  # the others wait in the midst of something
            raise
        for came in {came for _, came in found if came is not None}:
            signal.raise_signal(came)  # as if it had come here, too
        return [result for result, _ in found]

    def close(self) -> None:
        """The others are free for the next fit."""
        if self._broken:
            _end_the_job(self._ranks)
        self._ranks.bcast((_END, ()))
        self._shard.__exit__(None, None, None)


class _Follower:
    """A rank above 0."""

    def __init__(self) -> None:
        self._came: signal.Signals | None = None

    def serve(self) -> None:
        """Do what rank 0 says, until it says that there is no more."""
        ranks: Any = world()
        shard: Any = None
        for name in _ASKING:
            signal.signal(getattr(signal, name), self._note)
        while True:
            what, _ = ranks.bcast(None)
            if what == _END:
                if shard is None:
                    return
                shard.__exit__(None, None, None)
                shard = None
            elif what == _OPEN:
                received: Shard | WholeProblem = ranks.recv(source=0)
                ranks.gather(this_machine())
                shard = received.open(MpiCommunicator(ranks))
            else:
                result = getattr(shard, what)(*ranks.scatter(None))
                came, self._came = self._came, None
                ranks.gather((_rows_alone(result, shard.row_axes), came))

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = signal.Signals(number)


def follow() -> int:
    """On rank 0: the number of threads for each rank, unless somebody says another. All ranks come here first.

    Any other rank does what rank 0 says until its program ends, and then ends, too.
    """
    if is_follower():
        ranks_of_this_machine(world())
        _follow()
    return _first()


@cache
def _first() -> int:
    """Once: the others end when the program of rank 0 does, also where it has failed before any fit."""
    ranks = world()
    here = ranks_of_this_machine(ranks)
    atexit.register(lambda: ranks.bcast((_END, ())))
    return max(1, available_cores() // here)


def _follow() -> NoReturn:
    try:
        _Follower().serve()
    except BaseException:
        _end_the_job(world())
    raise SystemExit(0)


def _end_the_job(ranks: Any) -> None:
    """For the error that is being handled, once it is told of."""
    said = f"{traceback.format_exc()}countveil: rank {ranks.Get_rank()} has failed, and ends the job\n"
    sys.stderr.write(said)
    sys.stderr.flush()
    time.sleep(1.0)  # what a launcher has not passed on when a rank aborts is lost
    ranks.Abort(1)


def _rows_alone(result: Any, axes: Mapping[str, int]) -> Any:
    """What rank 0 has itself is not sent."""
    from countveil.inference.carry import Carry

    if isinstance(result, Carry):
        return result._replace(state=_rows_alone(result.state, axes), extra=_rows_alone(result.extra, axes))
    if isinstance(result, dict):
        return {name: value for name, value in result.items() if name in axes}
    if isinstance(result, tuple) and isinstance(result[0], dict):  # a state, and its scalars
        return _rows_alone(result[0], axes), None
    return result


def _warn_of_other_machines(machines: list[dict[str, str]]) -> None:
    for rank, machine in enumerate(machines):
        other = [
            f"{name} {machine[name]}, not {own}" for name, own in machines[0].items() if machine[name] != own
        ]
        if other:
            warnings.warn(
                f"rank {rank} is another machine than rank 0 ({'; '.join(other)}): draws may differ in their last "
                "bits from those of one machine",
                stacklevel=4,
            )
            return
