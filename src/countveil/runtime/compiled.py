"""``compiled`` and ``inlined``: the decorators of every compiled function, and the folder of their machine code.

The folder's name is a hash of every source of the package that is compiled, or whose constants are compiled in, and
of the versions of Python, numpy and numba. Numba by itself watches only the file of the function it caches and does
not notice a change in a function called from another file; with the hash any edit opens a fresh folder.

The folder lies beside the sources, or under the user's cache folder where the package cannot be written.
``COUNTVEIL_CACHE_DIR`` puts it elsewhere. A fresh folder takes the place of those beside it that nobody has used
for a month: what upgrades leave behind does not pile up.

Of several processes that need the same function one compiles it, while the others wait and load what it keeps: a
model takes most of a minute. Nor are two allowed to write at once: numba numbers the files of a function's
signatures by an index that it reads and writes back, and of two writers one would find the machine code of the
other's signature under its own.

Numba unpickles what it finds there: whoever can write to the folder can run code as us. So a folder is used only if
nobody but us can write to it (mode 700), nor to the one it lies in. Beside the sources their owner (root, for a
shared installation) is trusted as we are: whoever can change the sources can run code as us in any case.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import platform
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from countveil.runtime.own_settings import import_library

try:
    import fcntl
except ImportError:  # Windows: every process compiles for itself
    fcntl = None  # type: ignore[assignment]

numba = import_library("numba")

PACKAGE = Path(__file__).resolve().parents[1]
#: Folders whose every file counts as compiled; elsewhere those that import the decorators.
_COMPILED_FOLDERS = ("runtime", "kernels", "models", "inference")
_DECORATORS = b"countveil.runtime.compiled import"
_BESIDE_SOURCES = PACKAGE / "__pycache__"
_UNUSED_DAYS, _HASH_DIGITS = 30, 16
#: Seconds after which a process that waits for another's compilation does it itself: the other may be stopped.
_PATIENCE = 300.0


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
        found: Any = numba.njit(
            function, cache=True, nogil=True, error_model="numpy", forceinline=forceinline
        )
    finally:
        config.CACHE_DIR = before
    if not hasattr(found, "compile"):  # NUMBA_DISABLE_JIT: the plain function
        return found
    compile_or_load = found.compile

    def compile_once(signature: Any) -> Any:
        if signature in found.overloads:  # asked for whenever a caller is compiled
            return compile_or_load(signature)
        # Numba's own lock first, as for every compilation: threads of one process then never wait in a circle.
        # Nor do processes, because functions do not call each other in circles.
        with (
            numba.core.compiler_lock.global_compiler_lock,
            _alone(f"{function.__module__}.{function.__qualname__}"),
        ):
            return compile_or_load(signature)

    found.compile = compile_once
    return found


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Hold the lock of this name in the cache's folder, if it can be had: else go on without."""
    with contextlib.ExitStack() as held:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a folder that is gone, a file system without locks
                file = held.enter_context(open(cache_folder() / f"{name}.lock", "wb"))  # noqa: PTH123
                until = time.monotonic() + _PATIENCE
                while time.monotonic() < until:
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        time.sleep(0.02)
        yield


@cache
def cache_folder() -> Path:
    """The folder for machine code, created if need be."""
    name = f"compiled-{source_hash()}"
    chosen = os.environ.get("COUNTVEIL_CACHE_DIR")
    for named in _candidate_bases(chosen):
        # Where it really lies, once and for all: a link could be turned elsewhere after it was looked at.
        base = named if named == _BESIDE_SOURCES else Path(os.path.realpath(named))
        folder = base / name
        is_new = not os.path.exists(folder)  # noqa: PTH110 (False also where we may not look)
        fault = _fault(base, folder)
        if fault is None:
            with contextlib.suppress(OSError):
                os.utime(folder)  # the time of its last use
            if is_new:
                _discard_unused(base)
            return folder
        if chosen and named == Path(chosen):
            warnings.warn(
                f"COUNTVEIL_CACHE_DIR: expected a folder that only you can write to, got {fault}; it is not used",
                stacklevel=2,
            )
    # Nowhere to keep it: compile anew in every process rather than fail.
    private = Path(tempfile.mkdtemp(prefix="countveil-"))
    atexit.register(_remove_at_exit, private, os.getpid())
    return private


def _remove_at_exit(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not a fork of it
        shutil.rmtree(folder, ignore_errors=True)


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
    return digest.hexdigest()[:_HASH_DIGITS]


def _candidate_bases(chosen: str | None) -> list[Path]:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (home may be unknown)
    usual = [_BESIDE_SOURCES, Path(home) / "countveil"]
    return [Path(chosen), *usual] if chosen else usual


def _discard_unused(base: Path) -> None:
    """Remove the folders in ``base`` that were last used a month ago. One that is missed is compiled anew.

    Only those whose names end in a hash as ours do: in a folder that somebody chose may lie other things.
    """
    a_month_ago = time.time() - _UNUSED_DAYS * 86_400
    for folder in base.glob(f"compiled-{_HASH_DIGITS * '[0-9a-f]'}"):
        with contextlib.suppress(OSError):  # another process may be at it, too
            if folder.stat().st_mtime < a_month_ago:
                shutil.rmtree(folder)


def _fault(base: Path, folder: Path) -> str | None:
    """Why numba must not or cannot use ``folder`` in ``base``, both made if need be; None if it may."""
    beside = base == _BESIDE_SOURCES
    try:
        for missing in (*reversed(base.parents), base):
            if not missing.is_dir():
                # Python keeps its own files beside the sources, for every user of the package.
                missing.mkdir(mode=0o755 if missing == _BESIDE_SOURCES else 0o700, exist_ok=True)
        fault = _open_to_others(base, 0o022, beside)
        if fault is None:
            folder.mkdir(mode=0o700, exist_ok=True)
            fault = _open_to_others(folder, 0o077, beside)
        if fault is None:
            with tempfile.TemporaryFile(dir=folder):
                pass
        return fault
    except OSError as error:
        return f"{str(base)!r} ({error.strerror or error})"


def _open_to_others(folder: Path, bits: int, beside_sources: bool) -> str | None:
    """How others can change what lies in a folder (its mode must have none of these bits); None if they cannot."""
    if os.name != "posix":
        return None
    found = folder.stat()
    trusted = {os.geteuid(), PACKAGE.stat().st_uid if beside_sources else os.geteuid()}
    if found.st_uid not in trusted:
        return f"{str(folder)!r}, which belongs to someone else"
    if found.st_mode & bits:
        return f"{str(folder)!r} of mode {stat.S_IMODE(found.st_mode):o}"
    if beside_sources:
        return None
    # What lies in a folder that others can write to, they can replace, unless its sticky bit forbids it (/tmp); and
    # so with all folders around that one.
    for around in folder.resolve().parents:
        status = around.stat()
        if status.st_uid not in (0, os.geteuid()):
            return f"{str(folder)!r} in {str(around)!r}, which belongs to someone else"
        if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
            return f"{str(folder)!r} in a folder of mode {stat.S_IMODE(status.st_mode):o}"
    return None
