"""Shards that are actors of a Ray cluster, and how a run outlives their loss."""

from __future__ import annotations

import secrets
import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from countveil.inference.carry import Carry
from countveil.inference.engines.cpu.sampler import named_algorithm
from countveil.inference.engines.sharded.chains_apart import ChainsApart, WholeProblem
from countveil.inference.engines.sharded.front import ShardedSampler
from countveil.inference.engines.sharded.shard import Shard, shard_of, spreads_rows
from countveil.inference.engines.sharded.sockets import SocketCommunicator
from countveil.inference.problem import Problem
from countveil.inference.row_files import RowSaver
from countveil.inference.settings import Settings
from countveil.inference.store import RunningMeans, Store
from countveil.runtime.machine import this_machine
from countveil.runtime.shards import ShardLostError

_T = TypeVar("_T")
#: A state of every chain is fetched so often, from which the shards go on if one of them is lost; not where
#: checkpoints come more often, by default every minute.
SECONDS_BETWEEN_STATES = 90.0
#: Losses without a finished sweep between them, after which it is not the machines that are at fault.
MOST_LOSSES = 5


def open_problem(problem: Problem, settings: Settings) -> RaySampler:
    """A sampler over the actors."""
    for view in problem.views.values():  # or an error, while nobody else has begun
        named_algorithm(view, settings.algorithm)
    ray = _ray()
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(address=settings.address, log_to_driver=False, configure_logging=False)
    shards = settings.shards or max(1, len([node for node in ray.nodes() if node["Alive"]]))
    front: Callable[[RayCrew], ShardedSampler | ChainsApart]
    # Held by the cluster, so that an actor that is made anew finds its rows there.
    if spreads_rows(problem):
        references = [
            ray.put(shard_of(problem, settings, rank, shards, apart=True)) for rank in range(shards)
        ]
        front = lambda crew: ShardedSampler(crew, problem)  # noqa: E731
    else:
        references = [ray.put(WholeProblem(problem, settings))] * shards
        front = lambda crew: ChainsApart(crew, problem.state_type, settings.chains)  # noqa: E731
    gpus = int(settings.algorithm == "cuda")
    return RaySampler(lambda: RayCrew(references, settings.threads, gpus), front, started_here)


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            f"engine: expected Ray for 'ray' (pip install 'countveil[ray]'), got: {error}"
        ) from None
    return ray


class ShardActor:
    """One shard, in a process of its own somewhere in the cluster."""

    def __init__(self, rank: int, size: int, secret: bytes) -> None:
        ray = _ray()
        host = ray.util.get_node_ip_address()
        self._communicator = SocketCommunicator(rank, size, secret, host)
        self._shard: Any = None

    def where(self) -> tuple[tuple[str, int], dict[str, str]]:
        """Its address for the others, and what machine it is on."""
        return self._communicator.address, this_machine()

    def open(self, addresses: list[tuple[str, int]], shard: Shard | WholeProblem) -> None:
        """Reach the others, and begin."""
        self._communicator.connect(addresses)
        self._shard = shard.open(self._communicator)

    def do(self, method: str, *arguments: Any) -> Any:
        """Call a method of the shard; the others learn it if it fails."""
        try:
            return getattr(self._shard, method)(*arguments)
        except BaseException:
            self._communicator.close()
            raise


class RayCrew:
    """See ``sharded.front.Crew``."""

    def __init__(self, shards: list[Any], threads: int, gpus: int = 0) -> None:
        self._ray, self.size = _ray(), len(shards)
        secret = secrets.token_bytes(32)
        made = self._ray.remote(num_cpus=threads, num_gpus=gpus, max_restarts=0)(ShardActor)
        self.actors = [made.remote(rank, self.size, secret) for rank in range(self.size)]
        try:
            places = self._got([actor.where.remote() for actor in self.actors])
            _warn_of_other_machines([machine for _, machine in places])
            addresses = [address for address, _ in places]
            opening = [a.open.remote(addresses, s) for a, s in zip(self.actors, shards, strict=True)]
            self._got(opening)
        except BaseException:
            self.close()
            raise

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard, and wait for all of them."""
        return self._got([actor.do.remote(method, *arguments) for actor in self.actors])

    def call_each(self, method: str, arguments: list[Any]) -> list[Any]:
        """The same, with an argument of its own for each."""
        pairs = zip(self.actors, arguments, strict=True)
        return self._got([actor.do.remote(method, argument) for actor, argument in pairs])

    def close(self) -> None:
        """End the actors."""
        for actor in self.actors:
            self._ray.kill(actor)

    def _got(self, promised: list[Any]) -> list[Any]:
        """What they give; a lost actor, and those who miss it, are one kind of error."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(promised)
        except errors.RayTaskError as error:
            cause = error.as_instanceof_cause()
            if isinstance(cause, ShardLostError):
                raise ShardLostError(str(cause)) from error
            raise cause from None
        except (errors.RayActorError, errors.WorkerCrashedError, errors.ObjectLostError) as error:
            raise ShardLostError(f"shards: expected all of them, got: {error}") from error


class RaySampler:
    """See ``engine.Sampler``: shards that are made anew if one is lost."""

    def __init__(
        self,
        crew: Callable[[], RayCrew],
        front: Callable[[RayCrew], ShardedSampler | ChainsApart],
        started_here: bool,
    ) -> None:
        self._new_crew, self._front, self._started_here = crew, front, started_here
        self.crew = crew()
        self._shards = front(self.crew)
        self._swept: dict[int, int] = {}  # chain -> sweeps
        self._known: dict[int, list[Carry]] = {}  # the last two states of each chain
        self._fetched = time.monotonic()
        self._counting: tuple[RunningMeans, Settings] | None = None
        self.losses = 0

    def __enter__(self) -> RaySampler:
        return self

    def __exit__(self, *error: Any) -> None:
        self.crew.close()
        if self._started_here:
            _ray().shutdown()

    def start(self, chain: int) -> None:
        """Begin a chain at its starting state, sweep 0."""
        self._outlive(lambda: self._shards.start(chain))
        self._swept[chain], self._known[chain] = 0, []

    def count_with(self, running: RunningMeans, settings: Settings) -> bool:
        """See ``ShardedSampler``; chains that are spread hand out whole states."""
        if isinstance(self._shards, ShardedSampler):
            self._counting = running, settings
            self._outlive(self._count)
        return self._counting is not None

    def _count(self) -> None:
        if self._counting is not None and isinstance(self._shards, ShardedSampler):
            self._shards.count_with(*self._counting)

    def load(self, carry: Carry) -> None:
        """Go on with the chain of a carry, from its sweep."""
        self._outlive(lambda: self._shards.load(carry))
        self._swept[carry.chain], self._known[carry.chain] = carry.sweep, [carry]

    def sweep(self, chain: int) -> None:
        """One sweep of a chain."""
        self._outlive(lambda: self._shards.sweep(chain))
        self._swept[chain] += 1
        if time.monotonic() - self._fetched > SECONDS_BETWEEN_STATES:
            for each in self._swept:
                self.carry(each)
            self._fetched = time.monotonic()

    def monitor(self, chain: int) -> dict[str, float]:
        """The scalars by which a chain is watched, of its last sweep."""
        return self._outlive(lambda: self._shards.monitor(chain))

    def keep(self, chain: int, store: Store) -> dict[str, float]:
        """Put the chain's state and its monitored scalars into a store: its next draw. Gives the scalars."""
        return self._outlive(lambda: self._shards.keep(chain, store))

    def carry(self, chain: int) -> Carry:
        """All that the chain needs to go on, copied."""
        return self._noted(self._outlive(lambda: self._shards.carry(chain)))

    def carry_apart(self, chain: int, saver: RowSaver) -> Carry:
        """The same, with rows in files that the actors write, where they can."""
        self._fetched = time.monotonic()
        return self._noted(self._outlive(lambda: self._carry_apart(chain, saver)))

    def _carry_apart(self, chain: int, saver: RowSaver) -> Carry:
        shards = self._shards
        return shards.carry_apart(chain, saver) if isinstance(shards, ShardedSampler) else shards.carry(chain)

    def form(self, chain: int) -> Carry:
        """The carry, rows without numbers."""
        return self._outlive(lambda: getattr(self._shards, "form", self._shards.carry)(chain))

    def _noted(self, found: Carry) -> Carry:
        chain = found.chain
        known = self._known[chain]
        if not known or found.sweep > known[-1].sweep:
            self._known[chain] = [*known[-1:], found]
        return found

    def _outlive(self, do: Callable[[], _T]) -> _T:
        """Do it; if a shard is lost, make all anew, bring them to where they were, and do it again."""
        for _ in range(MOST_LOSSES):
            try:
                return do()
            except ShardLostError as error:
                lost = error
            self.losses += 1
            warnings.warn(f"a shard was lost, and all go on from the last known state ({lost})", stacklevel=4)
            try:
                self._again()
            except ShardLostError as error:
                lost = error
        raise lost

    def _again(self) -> None:
        self.crew.close()
        self.crew = self._new_crew()
        self._shards = self._front(self.crew)
        self._count()
        for chain, swept in self._swept.items():
            # Of an earlier sweep: what a chain is watched by is known of a sweep that was made here.
            before = [carry for carry in self._known[chain] if carry.sweep < swept or swept == 0]
            if before:
                self._shards.load(before[-1])
            else:
                self._shards.start(chain)
            for _ in range(before[-1].sweep if before else 0, swept):
                self._shards.sweep(chain)


def _warn_of_other_machines(machines: list[dict[str, str]]) -> None:
    if any(machine != machines[0] for machine in machines):
        kinds = sorted({machine["processor"] for machine in machines})
        warnings.warn(
            f"shards lie on different machines or versions ({', '.join(kinds)}): draws may differ in their last "
            "bits from those of one machine",
            stacklevel=6,
        )
