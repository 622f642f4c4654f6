"""The machine: on what the last bits of a draw may depend (versions, the processor), and how much memory it has."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import numpy as np

from countveil.runtime.own_settings import import_library
from countveil.version import __version__


def this_machine() -> dict[str, str]:
    """On what the last bits of a draw may depend."""
    return {
        "countveil": __version__,
        "numpy": np.__version__,
        "numba": import_library("numba").__version__,
        "processor": _processor(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    # To ask the platform starts a process, which is nothing to do while a stranger's file is read.
    return next(names, "") or platform.processor() or platform.machine()


def memory_of_machine() -> int | None:
    """Bytes of memory, and of the disk that serves as such; None where the system does not tell.

    >>> memory = memory_of_machine()
    >>> memory is None or memory > 2**20
    True
    """
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has none of it
        return None
    return memory + _swap() if memory > 0 else None


def _swap() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("SwapTotal:")), 0)
