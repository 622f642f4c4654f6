"""Rows spread over shards (threads here, processes, machines): what shards say to each other, and nothing more.

Every shard runs the same program on rows of its own. Whatever depends on all rows is a maximum or a sum of integers
(``kernels/exact_sum``), the same in any order: so draws do not depend on the number of shards.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from countveil.runtime.workers import Workers


class Communicator(Protocol):
    """How one shard reaches the others. All of them call the same methods, in the same order."""

    @property
    def rank(self) -> int:
        """The number of this shard, from 0."""

    @property
    def size(self) -> int:
        """How many there are."""

    def largest(self, values: np.ndarray) -> np.ndarray:
        """The maximum over all shards, entry by entry, float64 or int64: for all of them."""

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum over all shards, entry by entry, int64: for all of them."""

    def gather(self, values: np.ndarray) -> list[np.ndarray] | None:
        """The arrays of all shards, in their order, for shard 0; None for the others."""

    def gather_to_all(self, values: np.ndarray) -> list[np.ndarray]:
        """The arrays of all shards, in their order: for all of them."""

    def broadcast(self, text: bytes) -> bytes:
        """What shard 0 says."""

    def barrier(self) -> None:
        """Wait until all are here."""


class ShardLostError(RuntimeError):
    """Another shard has ended, or cannot be reached: this one cannot go on."""


class ThreadShards:
    """Communicators of shards that are threads of one process.

    >>> shards = ThreadShards(3)
    >>> shards.run(lambda shard: int(shard.total(np.array([shard.rank + 1]))[0]))
    [6, 6, 6]
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.held: list[Any] = [None] * size
        self.barrier = threading.Barrier(size)

    def communicator(self, rank: int) -> Communicator:
        """That of one shard."""
        return _ThreadCommunicator(self, rank)

    def run(self, function: Callable[[Communicator], Any]) -> list[Any]:
        """Call the function on every shard, each in a thread of its own; what they give, in their order."""
        threads = [ThreadPoolExecutor(1) for _ in range(self.size)]
        try:
            return self.on(threads, lambda rank: function(self.communicator(rank)))
        finally:
            for thread in threads:
                thread.shutdown()

    def on(self, threads: Sequence[Executor], function: Callable[[int], Any]) -> list[Any]:
        """Call the function with every rank, in these threads.

        If one of them fails the others stop waiting for it, and its error is raised.
        """

        def work(rank: int) -> Any:
            try:
                return function(rank)
            except BaseException:
                self.barrier.abort()
                raise

        found = [thread.submit(work, rank) for rank, thread in enumerate(threads)]
        errors = [error for one in found if (error := one.exception()) is not None]
        for error in sorted(errors, key=lambda e: isinstance(e, ShardLostError)):
            raise error
        return [one.result() for one in found]


class _ThreadCommunicator:
    """See ``Communicator``."""

    def __init__(self, shards: ThreadShards, rank: int) -> None:
        self._shards, self.rank, self.size = shards, rank, shards.size

    def largest(self, values: np.ndarray) -> np.ndarray:
        return np.max(self.gather_to_all(values), axis=0)

    def total(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(np.sum(self.gather_to_all(values), axis=0, dtype=np.int64))

    def gather(self, values: np.ndarray) -> list[np.ndarray] | None:
        found = self.gather_to_all(values)
        return found if self.rank == 0 else None

    def gather_to_all(self, values: np.ndarray) -> list[np.ndarray]:
        return self._exchanged(np.array(values))

    def broadcast(self, text: bytes) -> bytes:
        return self._exchanged(text)[0]

    def barrier(self) -> None:
        self._wait()

    def _exchanged(self, mine: Any) -> list[Any]:
        self._shards.held[self.rank] = mine
        self._wait()
        found = list(self._shards.held)
        self._wait()  # before anyone writes the next one
        return found

    def _wait(self) -> None:
        try:
            self._shards.barrier.wait()
        except threading.BrokenBarrierError:
            raise ShardLostError("shards: expected all of them, got none from one that has ended") from None


class ShardWorkers(Workers):
    """The threads of one shard. Who asks ``of_rows``, or of an array that has the rows, is told of all shards.

    >>> def rows_in_all(shard):
    ...     return ShardWorkers(1, shard, 10 * shard.rank, ["theta"]).of("theta").number(10)
    >>> ThreadShards(2).run(rows_in_all)
    [20, 20]
    """

    #: For tests: whether each shard fills a slice of what all have, whatever is faster.
    SHARES_OUT: bool | None = None

    def __init__(
        self, threads: int, communicator: Communicator, first_row: int, row_arrays: Collection[str]
    ) -> None:
        super().__init__(threads)
        self._shared_out: dict[int, bool] = {}
        self._row_arrays = frozenset(row_arrays)
        self._of_rows = _RowWorkers(self, communicator, first_row)

    @property
    def of_rows(self) -> Workers:
        return self._of_rows

    def of(self, name: str) -> Workers:
        return self._of_rows if name in self._row_arrays else self

    def fill(self, out: np.ndarray, function: Callable[[int, int], object], work: int) -> None:
        """What all shards have alike: each fills a slice, and the others get it, if that is faster."""
        if not self._shares_out(len(out), out.nbytes, work):
            super().fill(out, function, work)
            return
        shards = self._of_rows.communicator
        begin, end = len(out) * shards.rank // shards.size, len(out) * (shards.rank + 1) // shards.size
        self.run(end - begin, lambda start, stop: function(begin + start, begin + stop), self.few(work))
        np.concatenate(shards.gather_to_all(out[begin:end]), out=out)

    def _shares_out(self, n_rows: int, n_bytes: int, work: int) -> bool:
        """Whether slices of so many rows are filled and sent faster than all of them: measured once, by all."""
        shards = self._of_rows.communicator
        if self.SHARES_OUT is not None:
            return self.SHARES_OUT
        if shards.size == 1 or work * n_rows <= self.SMALL_WORK:
            return False
        if n_rows not in self._shared_out:
            part, times = np.zeros(n_bytes // 8 // shards.size), []
            for _ in range(3):
                shards.barrier()
                began = time.perf_counter()
                shards.gather_to_all(part)
                times.append(time.perf_counter() - began)
            saved = 1e-9 * work * n_rows / self.threads * (1 - 1 / shards.size)
            sent, filled = shards.largest(np.array([min(times), -saved]))
            self._shared_out[n_rows] = bool(sent < -filled)
        return self._shared_out[n_rows]


class _RowWorkers(Workers):
    """The same threads; maxima and sums are those of all shards."""

    has_others = True

    def __init__(self, own: Workers, communicator: Communicator, first_row: int) -> None:
        self.threads, self._pool = own.threads, own._pool
        self.communicator, self.first_row = communicator, first_row

    def largest(self, values: np.ndarray) -> np.ndarray:
        return self.communicator.largest(values)

    def total(self, values: np.ndarray) -> np.ndarray:
        return self.communicator.total(np.asarray(values, dtype=np.int64))

    def joined(self, values: np.ndarray) -> np.ndarray:
        return np.concatenate(self.communicator.gather_to_all(values))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The threads are the shard's."""
