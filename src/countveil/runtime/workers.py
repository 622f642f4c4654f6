"""Work on rows, split over threads or not: draws do not depend on it, because every row has its own stream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import numpy as np


class Workers:
    """A pool of threads for compiled functions that release the GIL; a single thread works in place.

    >>> with Workers(threads=2) as workers:
    ...     workers.run(3, lambda start, stop: print(start, stop))
    0 3
    """

    #: Rows below which handing work to another thread costs more than it saves.
    SMALL = 64
    #: The same in nanoseconds of work, where a caller knows about how many a row takes: waking a thread, and one
    #: call for each of its blocks, take as long.
    SMALL_WORK = 2**17
    #: Whether there are rows elsewhere (``shards``): what is known of all rows must then be asked for.
    has_others = False
    #: The number of the first row here among all rows.
    first_row = 0

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1, "countveil") if threads > 1 else None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    @property
    def of_rows(self) -> Workers:
        """Whom to ask about all rows of the data."""
        return self

    def of(self, name: str) -> Workers:
        """Whom to ask about all of an array: ``of_rows``, if it has a row for each of the data's."""
        return self

    def largest(self, values: np.ndarray) -> np.ndarray:
        """The maximum over all who have rows, entry by entry."""
        return values

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum of integers over all who have rows, entry by entry."""
        return values

    def joined(self, values: np.ndarray) -> np.ndarray:
        """What all have, one after the other."""
        return values

    def number(self, n: int) -> int:
        """So many here are how many among all rows?"""
        return int(self.total(np.array([n], dtype=np.int64))[0]) if self.has_others else n

    def alone(self, work: int) -> bool:
        """Whether this much work (see ``SMALL_WORK``) is best done here by one call: nobody else has rows."""
        return not self.has_others and (self.threads == 1 or work <= self.SMALL_WORK)

    def few(self, work: int) -> int:
        """Rows that are not worth another thread, each of this much work."""
        return self.SMALL_WORK // work

    def run(self, n_rows: int, function: Callable[[int, int], object], small: int = SMALL) -> None:
        """Call ``function(start, stop)`` over blocks that cover ``range(n_rows)``."""
        self.run_with_worker(n_rows, lambda _, start, stop: function(start, stop), small)

    def fill(self, out: np.ndarray, function: Callable[[int, int], object], work: int) -> None:
        """Call ``function(start, stop)``, which fills rows of ``out``, over all; ``work`` is that of a row."""
        self.run(len(out), function, small=self.few(work))

    def run_with_worker(
        self, n_rows: int, function: Callable[[int, int, int], object], small: int = SMALL
    ) -> None:
        """Call ``function(worker, start, stop)``; blocks of one worker never overlap in time.

        ``worker`` runs from 0 to ``threads - 1``: a function that adds up into arrays keeps one per worker.
        """
        if self._pool is None or n_rows <= small:
            function(0, 0, n_rows)
            return
        blocks = _Blocks(n_rows, self.threads)

        def work(worker: int) -> None:
            for start, stop in blocks:
                function(worker, start, stop)

        others = [self._pool.submit(work, worker) for worker in range(1, self.threads)]
        try:
            work(0)
        finally:
            # Also on Ctrl-C: nobody may still be writing when the caller goes on.
            for other in others:
                other.result()


class _Blocks:
    """Blocks that cover ``range(n_rows)``, from which several threads may draw.

    Each is a part of the rows that are left, so that blocks shrink towards the end: a thread with heavy rows does
    not keep the others waiting for long, and there are no more calls than that takes.
    """

    def __init__(self, n_rows: int, threads: int) -> None:
        self._n_rows, self._start, self._lock = n_rows, 0, threading.Lock()
        self._parts, self._smallest = 4 * threads, max(1, n_rows // (64 * threads))

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return self

    def __next__(self) -> tuple[int, int]:
        with self._lock:
            start, left = self._start, self._n_rows - self._start
            if left == 0:
                raise StopIteration
            self._start += min(left, max(self._smallest, left // self._parts))
            return start, self._start
