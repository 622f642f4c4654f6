"""On what the last bits of a draw may depend: versions, and the processor."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np

from countveil.version import __version__


def this_machine() -> dict[str, str]:
    """On what the last bits of a draw may depend."""
    import numba

    return {
        "countveil": __version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
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
