"""Numba's CUDA simulator, several times as fast: the threads of a block take turns.

The simulator starts a Python thread for every thread of every block, lets them all run at once, and asks all of them
again and again whether they wait at a barrier: most of its time goes into that. Here the threads are kept for the
next block, and one runs until it comes to a barrier or its end, then the next one: the other way round after every
barrier, so that what leans on the order of threads, where a barrier is missing, goes wrong.

Functions of other modules are mended, too. The simulator puts its own ``cuda`` into a module while a function of it
runs, and takes it out again when the first thread leaves, though others may wait at a barrier within.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.simulator import kernel
from numba.cuda.simulator.kernelapi import Dim3


class _Thread(kernel.BlockThread):
    """Runs when it is told to, and hands back at a barrier and at its end."""

    def __init__(self, manager: Any) -> None:
        super().__init__(None, manager, (0, 0, 0), (0, 0, 0), debug=False)
        self._go, self._back = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self.start()

    def begin(self, manager: Any, block: Any, number: int, point: Any, target: Any) -> None:
        self._manager, self.blockIdx, self.threadIdx, self.thread_id = manager, block, Dim3(*point), number
        self._work, self.ended = target, False

    def step(self) -> None:
        """On to the next barrier, or to the end."""
        self._go.release()
        self._back.acquire()

    def run(self) -> None:
        while True:
            self._go.acquire()
            try:
                self._work()
            except Exception as error:
                self.exception = error
            self.ended = True
            self._back.release()

    def syncthreads(self) -> None:
        self._back.release()
        self._go.acquire()


class _Turns(kernel.BlockManager):
    """A block whose threads take turns."""

    _kept: list[_Thread] = []  # noqa: RUF012 (of all blocks)

    def run(self, grid_point: Any, *args: Any) -> None:
        points = list(np.ndindex(*self._block_dim))
        while len(self._kept) < len(points):
            self._kept.append(_Thread(self))
        block, running = Dim3(*grid_point), self._kept[: len(points)]
        for number, (thread, point) in enumerate(zip(running, points, strict=True)):
            thread.begin(self, block, number, point, lambda: self._f(*args))
        while running:
            for thread in running:
                thread.step()
                if thread.exception is not None:
                    self._kept.clear()  # the others wait for ever
                    raise thread.exception
            running = [thread for thread in reversed(running) if not thread.ended]


#: Modules that have the simulator's ``cuda`` in this launch, and what they had.
_swapped: list[tuple[dict[str, Any], dict[str, Any]]] = []


@contextlib.contextmanager
def _swapped_until_the_end(function: Any, simulated: Any) -> Iterator[None]:
    """The module of a function has the simulator's ``cuda``, until the launch is over."""
    is_launch, names = not _swapped, function.__globals__
    before = {name: value for name, value in names.items() if value is cuda}
    if is_launch or before:
        names.update(dict.fromkeys(before, simulated))
        _swapped.append((names, before))
    try:
        yield
    finally:
        if is_launch:
            for names, before in _swapped:
                names.update(before)
            _swapped.clear()


def take_turns() -> None:
    """From now on."""
    kernel.BlockManager = _Turns
    kernel.swapped_cuda_module = _swapped_until_the_end
