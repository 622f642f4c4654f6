"""The files of a run that grows: each is written whole under another name and renamed; one process writes them.

So a reader, or whoever comes after a kill, finds every file as it was or as it is, and never half of one.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from countveil.counts.files.atomic import lock_file, unlock_file
from countveil.inference.row_files import PART, ROWS

#: What is neither draws nor release lies in the folder of an empty array: Zarr warns of strange files in a group,
#: and does not look at those of an array.
PLACE = ("checkpoint", "chains")
LOCK, _, COMING, NEWEST, BEFORE = PLACE_FILES = ("lock", PART, "coming", "newest", "before")
#: Shards write rows of checkpoints beside these, and what is not yet whole (``inference.row_files``).
_OF_SHARDS = re.compile(rf"{ROWS}(-[0-9]{{1,20}}){{3}}|{PART}-[0-9]{{1,20}}")
_GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}
_EMPTY_ARRAY = {
    "zarr_format": 3, "node_type": "array", "attributes": {}, "shape": [0], "data_type": "uint8", "fill_value": 0,
    "dimension_names": ["byte"], "storage_transformers": [],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": 0, "checksum": False}}],
}  # fmt: skip

#: The group that readers of draws pass over.
CHECKPOINT_GROUP = PLACE[0]


def is_place_file(name: str) -> bool:
    """Whether a file may lie where checkpoints are.

    >>> [is_place_file(name) for name in ("newest", "rows-60-0-5243", "part-0", "rows-1", "../part-0")]
    [True, True, True, False, False]
    """
    return name in PLACE_FILES or _OF_SHARDS.fullmatch(name) is not None


class RunFiles:
    """The folder of a run, by the process that writes it. Use it as a context manager, or ``close`` it."""

    def __init__(self, root: Path) -> None:
        self.root, self._touched = root, set[Path]()
        self._lock: int | None = None
        if not self.place.is_dir():
            self.place.mkdir(parents=True)
            self.write_json(self.place.parent / "zarr.json", _GROUP)
            self.write_json(self.place / "zarr.json", _EMPTY_ARRAY)
        self._lock = _locked(self.place / LOCK, root)

    @property
    def place(self) -> Path:
        """Where checkpoints lie."""
        return self.root.joinpath(*PLACE)

    def write(self, target: Path, parts: Iterable[bytes]) -> None:
        """A file that is there whole, or as it was before."""
        if ".." in target.parts or not target.is_relative_to(self.root):  # whatever a stranger's names say
            raise ValueError(f"store: expected a place in {str(self.root)!r}, got another")
        self._check_ours()
        scratch = self.place / PART
        with self._told():
            scratch.unlink(missing_ok=True)  # of one that was killed, or a link that a stranger has laid
            with scratch.open("xb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            for folder in target.parents:  # a new one is a new name in the one above it
                self._touched.add(folder)
                if folder.is_dir() or folder == self.root:
                    break
            target.parent.mkdir(parents=True, exist_ok=True)
            scratch.replace(target)

    def rename(self, old: Path, new: Path) -> None:
        """A file takes the place of another, in the same folder."""
        self._check_ours()
        with self._told():
            old.replace(new)
            self._touched.add(new.parent)

    def write_json(self, target: Path, content: Mapping[str, Any]) -> None:
        """The same for metadata."""
        self.write(target, [json.dumps(content, indent=2).encode()])

    def sync(self) -> None:
        """All names that were written survive a power cut, where folders can be opened at all (not on Windows)."""
        self._sync(self._touched if sys.platform != "win32" else ())
        self._touched.clear()

    def _sync(self, paths: Iterable[Path]) -> None:
        for path in paths:
            with self._told():
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def _check_ours(self) -> None:
        """Whether the folder is still the one that was locked: deleted and made anew, it is that of another run."""
        if self._lock is None:
            return
        path = self.place / LOCK
        if not os.path.lexists(path) or not os.path.samestat(os.fstat(self._lock), path.lstat()):
            raise FileNotFoundError(
                errno.ENOENT,
                f"store: expected the folder in which this run was begun, got another or none at {str(self.root)!r}"
                ": it was deleted, moved or replaced meanwhile, and nothing more is written there",
            )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A full disk and the like, in words that say what is safe."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(
                error.errno,
                f"store: could not write into {str(self.root)!r} ({reason}); what its last checkpoint has is safe: "
                "mend that, and resume",
            ) from error

    def attributes(self, group: str = "") -> dict[str, Any]:
        """Those of a group; of the run itself by default."""
        return json.loads((self.root / group / "zarr.json").read_bytes())["attributes"]

    def set_attributes(self, group: str = "", **new: Any) -> None:
        """Change some; None takes one away."""
        self._check_ours()
        path = self.root / group / "zarr.json"
        node = json.loads(path.read_bytes())
        changed = {**node["attributes"], **new}
        node["attributes"] = {name: value for name, value in changed.items() if value is not None}
        self.write_json(path, node)

    def move(self, target: Path) -> None:
        """Give the folder, with all that is in it, another name, at which there is nothing. The lock stays."""
        self._touched.clear()
        if sys.platform != "win32":
            self._sync([*self.root.rglob("*"), self.root])
        self.root = self.root.rename(target)
        self._touched.add(target.parent)

    def close(self) -> None:
        """Others may write it."""
        if self._lock is not None:
            unlock_file(self._lock)
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> RunFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _locked(path: Path, root: Path) -> int | None:
    """A descriptor that holds the lock until it is closed or the process ends, however it ends."""
    if os.name == "nt":
        return None
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise OSError(
            error.errno, f"store: expected a run that can be written, got {str(root)!r} ({error.strerror})"
        ) from error
    held = lock_file(lock, wait=False)
    if held is False:
        os.close(lock)
        raise BlockingIOError(
            f"store: expected a run that nobody else writes, got {str(root)!r}, which another process is writing"
        )
    if held is None:  # a file system without locks
        warnings.warn(
            f"{str(root)!r} lies where files cannot be locked: see to it that one process writes it",
            stacklevel=4,
        )
    return lock
