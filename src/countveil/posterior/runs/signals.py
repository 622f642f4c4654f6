"""Signals while a run is written: servers say SIGTERM before they kill, schedulers SIGUSR1, terminals SIGHUP.

SIGTERM, SIGHUP and Ctrl-C: finish the sweep, write a checkpoint, stop. SIGUSR1: write one and go on. A second
Ctrl-C stops at once. Only in the main thread, only what nobody else handles but our own command (``nohup`` has
SIGHUP ignored, and it stays so), and all is put back afterwards. What the command has held back while the run was
opened counts as having come.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any


class Signals:
    """What has come since it was entered."""

    def __init__(self) -> None:
        self.stop: signal.Signals | None = None
        self.checkpoint = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGINT"):
                number = getattr(signal, name, None)  # Windows has two of them
                usual = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
                handler = None if number is None else signal.getsignal(number)
                if number is not None and (handler == usual or getattr(handler, "gives_way", False)):
                    self._before[number] = signal.signal(number, self._came)
                    held: list[int] = getattr(handler, "held", [])
                    if held:
                        self.stop = signal.Signals(held.pop())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _came(self, number: int, frame: FrameType | None) -> None:
        came = signal.Signals(number)
        if came.name == "SIGUSR1":
            self.checkpoint = True
        elif came is signal.SIGINT and self.stop is signal.SIGINT:
            raise KeyboardInterrupt
        else:
            self.stop = came
            if came is signal.SIGINT:
                print(
                    "\ncountveil: finishing the sweep; Ctrl-C again stops at once",
                    file=sys.stderr,
                    flush=True,
                )
