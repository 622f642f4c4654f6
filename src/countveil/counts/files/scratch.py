"""Cells of a release in files of their own, mapped: for a release that is larger than memory.

A release on disk is packed. Unpacked once, its cells lie in plain arrays on disk, which the system reads when
somebody looks at them and forgets when it needs the room; compiled code sees ordinary arrays. The files have no
name: nobody else can open them, and they are gone when the process ends, however it ends.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from countveil.counts.cells.layout import CellList, Cells, Places
from countveil.counts.places import local_path

#: Numbers that are read and written at a time where a file is written anew.
_AT_ONCE = 1 << 20


class ScratchError(OSError):
    """The scratch folder cannot be written to, or is full.

    >>> issubclass(ScratchError, OSError)
    True
    """


def check_scratch(folder: str | os.PathLike[str]) -> Path:
    """The folder, if there is one.

    >>> check_scratch("/no/such/folder")
    Traceback (most recent call last):
    ...
    NotADirectoryError: scratch: expected an existing folder, got '/no/such/folder'
    """
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(f"scratch: expected the path of a folder, got {type(folder).__name__}")
    if not local_path(folder, "scratch").is_dir():
        raise NotADirectoryError(f"scratch: expected an existing folder, got {os.fspath(folder)!r}")
    return Path(folder)


class ScratchFile:
    """Numbers of one type, written one after the other, then mapped.

    >>> file = ScratchFile(Path(tempfile.gettempdir()), np.int32)
    >>> file.add(np.array([3, 1]))
    >>> file.add(np.array([2]))
    >>> file.mapped()
    array([3, 1, 2], dtype=int32)
    """

    def __init__(self, folder: Path, kind: Any) -> None:
        self._folder, self.kind, self.size = folder, np.dtype(kind), 0
        try:
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (open until it is mapped)
        except OSError as error:
            raise self._failed(error) from error
        weakref.finalize(self, self._file.close)

    def add(self, numbers: np.ndarray) -> None:
        """They fit the type."""
        try:
            self._file.write(np.ascontiguousarray(numbers, dtype=self.kind).data)
        except OSError as error:
            raise self._failed(error) from error
        self.size += len(numbers)

    def as_type(self, kind: Any) -> ScratchFile:
        """The same numbers as another type."""
        again, numbers = ScratchFile(self._folder, kind), self.mapped()
        for start in range(0, len(numbers), _AT_ONCE):
            again.add(numbers[start : start + _AT_ONCE])
        return again

    def mapped(self) -> np.ndarray:
        """All of them, read-only; nothing can be added any more."""
        try:
            with self._file as file:
                file.flush()
                if not self.size:
                    return np.zeros(0, self.kind)  # nothing cannot be mapped
                # An ordinary array: the mapping is let go with the last view of it.
                return np.memmap(file, self.kind, mode="r", shape=(self.size,)).view(np.ndarray)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> ScratchError:
        return ScratchError(
            error.errno, f"cannot write scratch files: {error.strerror or error}", str(self._folder)
        )


class ScratchList(CellList):
    """A list of cells that grows on disk. Values are of the types that chains read: uint16, or int64."""

    def __init__(self, shape: tuple[int, ...], folder: Path) -> None:
        super().__init__(shape)
        self._on_disk, self._values_on_disk = ScratchFile(folder, self._type), ScratchFile(folder, np.uint16)

    def reserve(self, n: int) -> None:
        """Disk is taken as it is needed."""

    def add(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray | None = None) -> None:
        """Listed cells, in order; a row may go on where the last call stopped."""
        if not len(rows):
            return
        self._count(rows)
        self._on_disk.add(columns)
        if values is not None:
            if values.max() > np.iinfo(self._values_on_disk.kind).max:
                self._values_on_disk = self._values_on_disk.as_type(np.int64)
            self._values_on_disk.add(values)

    def __bool__(self) -> bool:
        return self._on_disk.size > 0

    def places(self) -> Places:
        return Places(np.cumsum(self._starts), self._on_disk.mapped())

    def cells(self) -> Cells:
        return Cells(*self.places(), self._values_on_disk.mapped())


def cell_list(shape: tuple[int, ...], scratch: Path | None) -> CellList:
    """An empty list of cells, in memory or on disk."""
    return CellList(shape) if scratch is None else ScratchList(shape, scratch)


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array lies in a file, and not in memory.

    >>> is_mapped(np.arange(3))
    False
    """
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)
