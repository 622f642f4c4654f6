"""What no file may bring about while it is read: code that runs, processes, sockets, writing or reading elsewhere.

An audit hook (PEP 578) sees what Python does; a hook cannot be taken away, so it is armed for a case and disarmed
after it. What C++ code does to files is seen by looking at the folder around the case.
"""

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

_ROOTS = tuple(
    {
        os.path.realpath(p)
        for p in (
            sys.prefix,
            sys.base_prefix,
            *sysconfig.get_paths().values(),
            Path(__file__).parents[2],
            "/proc",
            "/sys",
            "/dev/null",
            "/dev/urandom",
            "/usr/share",
            "/usr/lib",
            "/etc/localtime",
        )
    }
)
_NEVER = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "subprocess.Popen",
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "pty.spawn",
    "pickle.find_class",
    "marshal.loads",
    "marshal.load",
    "code.__new__",
    "ctypes.dlopen",
    "ctypes.call_function",
    "webbrowser.open",
    "sys.setprofile",
)
_CHANGES = (
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.symlink",
    "os.link",
    "os.chmod",
    "os.truncate",
    "os.chown",
    "shutil.rmtree",
    "shutil.move",
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Named tuples and data classes are made of text, once their names are known to be names.
_MAKERS = (
    "collections",
    "dataclasses",
    "importlib._bootstrap",
    "importlib._bootstrap_external",
    "numba.core.caching",
)


class Canaries:
    """Between ``arm`` and ``disarm``, which lists what was tried that no reader may try."""

    def __init__(self) -> None:
        self._homes: tuple[str, ...] = ()  # none: it is not armed
        self._modules: set[str] = set()
        self._seen: list[str] = []
        sys.addaudithook(self._hook)

    def arm(self, *homes: Path) -> None:
        """From now on only what lies below these may be read and written, code and libraries apart."""
        self._seen, self._modules = [], set(sys.modules)
        self._homes = tuple(os.fspath(home) for home in homes)
        os.environ.pop("COUNTVEIL_FUZZ_BOOM", None)

    def disarm(self) -> list[str]:
        self._homes = ()
        if os.environ.pop("COUNTVEIL_FUZZ_BOOM", None):
            self._seen.append("a pickle was executed")
        for name in set(sys.modules) - self._modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file and not _below(os.path.realpath(file), _ROOTS):
                self._seen.append(f"import of {name} from {file}")
        return self._seen

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        homes = self._homes  # once: a thread of zarr's may still be reading while another disarms
        if not homes:
            return
        if event == "open":
            path, mode, flags = arguments
            if isinstance(path, str | bytes):
                writes = (
                    bool(flags & _WRITING)
                    if isinstance(flags, int)
                    else any(c in (mode or "") for c in "wax+")
                )
                self._file(homes, os.fsdecode(path), "open for writing" if writes else "open", writes)
        elif event in _CHANGES:
            for path in arguments[: 2 if event in ("os.rename", "os.link", "shutil.move") else 1]:
                if isinstance(path, str | bytes | os.PathLike):
                    self._file(homes, os.fsdecode(path), event, True)
        elif event == "exec":
            name = getattr(arguments[0], "co_filename", "?")
            if not (name.startswith("<frozen") or _below(os.path.realpath(name), _ROOTS) or self._is_made()):
                self._seen.append(f"exec of {name}")
        elif event in _NEVER and not self._is_made():
            self._seen.append(f"{event}{arguments[:2]!r}"[:300])

    def _file(self, homes: tuple[str, ...], path: str, what: str, writes: bool) -> None:
        real = os.path.realpath(path)
        # The compiled cache is written when a function is first used.
        is_cache = writes and "__pycache__" in real
        is_around = not writes and real == str(Path(homes[0]).parent)  # a folder, so that names are on disk
        if (
            not is_cache
            and not is_around
            and not _below(real, (*homes, "/dev/null") if writes else (*homes, *_ROOTS))
        ):
            self._seen.append(f"{what} {real}")

    def _is_made(self) -> bool:
        frame: Any = sys._getframe(2)
        while frame is not None:
            if frame.f_globals.get("__name__") in _MAKERS:
                return True
            frame = frame.f_back
        return False


def _below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(root + os.sep) for root in roots)


def around(folder: Path, subject: str) -> dict[str, tuple[int, int, int]]:
    """Names, sizes, modes and times of what lies beside the subject."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.name != subject:
            status = path.lstat()
            found[path.name] = (status.st_size, status.st_mode, status.st_mtime_ns)
    return found
