"""``compiled`` and ``inlined``: the decorators of every compiled function, and the folder of their machine code.

The folder's name is a hash of every source of the package that is compiled, or whose constants are compiled in, and
of the versions of Python, numpy and numba. Numba by itself watches only the file of the function it caches and does
not notice a change in a function called from another file; with the hash any edit opens a fresh folder.

The folder lies beside the sources, or under the user's cache folder where the package cannot be written.
``COUNTVEIL_CACHE_DIR`` puts it elsewhere. A fresh folder takes the place of those beside it that nobody has used
for a month: what upgrades leave behind does not pile up.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np

PACKAGE = Path(__file__).resolve().parents[1]
#: Folders whose every file counts as compiled; elsewhere those that import the decorators.
_COMPILED_FOLDERS = ("runtime", "kernels", "models", "inference")
_DECORATORS = b"countveil.runtime.compiled import"
_UNUSED_DAYS = 30


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``function`` on first call, releasing the GIL, and keep the machine code.

    No fastmath: draws must be bit-identical everywhere. The same function, called from a CUDA kernel, is
    compiled by numba for the device. ``error_model="numpy"`` because a device cannot raise either.
    """
    return _compiled(function, forceinline=False)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """``compiled``, and built into its callers: for the short ways that nearly every draw takes.

    A stream is eight words, and handing it to a function and back through memory takes longer than most draws:
    with their short ways inlined, gamma draws take a third to a half of the time. Long and rare ways stay calls.
    """
    return _compiled(function, forceinline=True)


def _compiled(function: Callable[..., Any], forceinline: bool) -> Callable[..., Any]:
    # numba reads CACHE_DIR when it decorates; putting it back leaves other packages' caches alone.
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())
    try:
        return numba.njit(function, cache=True, nogil=True, error_model="numpy", forceinline=forceinline)
    finally:
        config.CACHE_DIR = before


@cache
def cache_folder() -> Path:
    """The folder for machine code, created if need be."""
    name = f"compiled-{source_hash()}"
    for base in _candidate_bases():
        folder = base / name
        is_new = not folder.exists()
        if _writable(folder):
            with contextlib.suppress(OSError):
                os.utime(folder)  # the time of its last use
            if is_new:
                _discard_unused(base)
            return folder
    # Nowhere to keep it: compile anew in every process rather than fail.
    return Path(tempfile.mkdtemp(prefix="countveil-"))


def is_cold(sources: Path) -> bool:
    """Whether nothing compiled from this folder of sources has been kept: the first call will compile, for a
    while.
    """
    # numba makes a folder for every folder of sources: its name, and a hash of its path.
    return next(cache_folder().glob(f"{sources.name}_*/*.nbi"), None) is None


@cache
def source_hash() -> str:
    """Hash of every compiled source, and of the versions that matter."""
    digest = hashlib.sha256()
    for version in (sys.version, platform.machine(), np.__version__, numba.__version__):
        digest.update(version.encode() + b"\0")
    for file in sorted(PACKAGE.rglob("*.py")):
        name, text = file.relative_to(PACKAGE), file.read_bytes()
        if name.parts[0] in _COMPILED_FOLDERS or _DECORATORS in text:
            digest.update(name.as_posix().encode() + b"\0" + text + b"\0")
    return digest.hexdigest()[:16]


def _candidate_bases() -> list[Path]:
    chosen = os.environ.get("COUNTVEIL_CACHE_DIR")
    if chosen:
        return [Path(chosen)]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (home may be unknown)
    return [PACKAGE / "__pycache__", Path(home) / "countveil"]


def _discard_unused(base: Path) -> None:
    """Remove the folders in ``base`` that were last used a month ago. One that is missed is compiled anew."""
    a_month_ago = time.time() - _UNUSED_DAYS * 86_400
    for folder in base.glob("compiled-*"):
        with contextlib.suppress(OSError):  # another process may be at it, too
            if folder.stat().st_mtime < a_month_ago:
                shutil.rmtree(folder)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
