"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path


def describe_machine(
    packages: tuple[str, ...] = ("countveil", "numpy", "numba", "tomotopy", "opendp"),
) -> str:
    """Processor, cores, memory and versions, in one line each."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        processor = names[0] if names else processor
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{processor}, {cores} cores, {memory:.0f} GiB; Python {platform.python_version()}, {versions}"
