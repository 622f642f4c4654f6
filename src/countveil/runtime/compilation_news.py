"""Says that numba compiles, while it does, and how long it took: else a first run seems to stand still."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds from one line to the next.
_OFTEN = 30.0


class CompilationNews:
    """Listens to numba. What comes from the cache of compiled code is no compilation, and is not told."""

    def __init__(self) -> None:
        self._depth, self._seconds, self._functions = 0, 0.0, 0
        self._began = self._told = 0.0

    @contextmanager
    def told(self, show: bool) -> Iterator[CompilationNews]:
        """Lines on standard error as long as this lasts, if they are wanted."""
        if not show:
            yield self
            return
        from numba.core import event

        news = self

        class Listener(event.Listener):
            def on_start(self, event: Any) -> None:
                news._start()

            def on_end(self, event: Any) -> None:
                news._end()

        with event.install_listener("numba:compile", Listener()):
            yield self

    def finished(self) -> None:
        """The first sweep is done: what there was to compile has been."""
        if self._functions:
            _say(f"compiled {self._functions} functions in {self._seconds:.0f} s")
            self._functions, self._seconds = 0, 0.0

    def _start(self) -> None:
        now = time.monotonic()
        if self._depth == 0:
            self._began = now
            if not self._told:
                _say(
                    "compiling for this machine: a minute or more, once; what is compiled is kept for later runs"
                )
                self._told = now
        self._depth += 1

    def _end(self) -> None:
        now = time.monotonic()
        self._depth -= 1
        self._functions += 1
        if self._depth == 0:
            self._seconds += now - self._began
        if now - self._told >= _OFTEN:
            _say(f"compiling, {self._functions} functions so far")
            self._told = now


def _say(text: str) -> None:
    from tqdm import tqdm

    tqdm.write(f"countveil: {text}", file=sys.stderr)  # above a bar, if there is one
    sys.stderr.flush()
