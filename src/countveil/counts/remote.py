"""What lies on a filesystem of pyarrow, and is read from there: just the bytes that somebody asks for.

Readers ask a ``RemotePlace`` what they ask a path: whether it is a folder, what lies in it, for a file that can be
read anywhere. There are no links and no holes there, and a size is what the filesystem says. What is looked at
before it is unpacked is held meanwhile: it is fetched once, in one request, and cannot become something else.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

# Bytes of the end of a Parquet file that are fetched at once, and of what is held at most.
_TAIL, _MOST_HELD = 1 << 16, 1 << 28


class NotReachedError(OSError):
    """A filesystem has refused, or could not be reached: nothing is known of the release.

    >>> issubclass(NotReachedError, OSError)
    True
    """


@dataclass(frozen=True, order=True)
class RemotePlace:
    """A file or folder of a filesystem, or a name that nothing has."""

    address: str
    path: str = field(compare=False)  # in the filesystem
    filesystem: Any = field(compare=False, repr=False)
    n_bytes: int | None = field(default=None, compare=False)  # where a list of its folder has told

    def __str__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    def __truediv__(self, name: str) -> RemotePlace:
        address, mark, options = self.address.partition("?")
        below = f"{address.rstrip('/')}/{name}{mark}{options}"
        return replace(self, address=below, path=f"{self.path}/{name}", n_bytes=None)

    def is_dir(self) -> bool:
        """Whether something lies below it."""
        return bool(self._info().type.name == "Directory")

    def exists(self) -> bool:
        """Whether there is something."""
        return bool(self._info().type.name != "NotFound")

    def size(self) -> int:
        """In bytes; of what is no file 0."""
        return int(self._info().size or 0) if self.n_bytes is None else self.n_bytes

    def iterdir(self) -> Iterator[RemotePlace]:
        """What lies in a folder."""
        from pyarrow.fs import FileSelector

        with reaching(self.address):
            found = self.filesystem.get_file_info(FileSelector(self.path))
        for info in found:
            name = info.path.removeprefix(self.path).lstrip("/")
            yield replace(self / name, n_bytes=info.size or 0)

    def open(self) -> RemoteFile:
        """Its bytes; FileNotFoundError if there are none."""
        with reaching(self.address):
            return RemoteFile(self.address, self.filesystem.open_input_file(self.path))

    def _info(self) -> Any:
        with reaching(self.address):
            return self.filesystem.get_file_info(self.path)


class RemoteFile(io.RawIOBase):
    """A file that is read at any place, by requests for just these bytes, or from what is held."""

    def __init__(self, address: str, file: Any) -> None:
        self._address, self._file, self._at = address, file, 0
        self._end, self._group = (0, b""), (0, b"")  # held: where it begins, and the bytes
        self.n_bytes = int(file.size())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.n_bytes}[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self.n_bytes - self._at)
        found = self._bytes(self._at, left if size is None or size < 0 else min(size, left))
        self._at += len(found)
        return found

    def readinto(self, buffer: Any) -> int:
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def hold(self, begin: int, end: int) -> None:
        """Fetch these bytes, and keep them until others are held; so many that they are no part are not kept."""
        begin, end = max(begin, 0), min(end, self.n_bytes)
        self._group = (0, b"")
        if 0 < end - begin <= _MOST_HELD:
            self._group = begin, self._bytes(begin, end - begin)

    def hold_footer(self) -> None:
        """Fetch and keep the end of a Parquet file, which says where all else is, and how long it is itself."""
        begin = max(0, self.n_bytes - _TAIL)
        tail = self._bytes(begin, self.n_bytes - begin)
        self._end = begin, tail
        length = int.from_bytes(tail[-8:-4], "little") + 8
        if len(tail) < length <= min(self.n_bytes, _MOST_HELD):
            self._end = self.n_bytes - length, self._bytes(self.n_bytes - length, length)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def _bytes(self, begin: int, n: int) -> bytes:
        for first, held in (self._end, self._group):
            if first <= begin and begin + n <= first + len(held):
                return held[begin - first : begin - first + n]
        with reaching(self._address):
            return bytes(self._file.read_at(n, begin))


@contextmanager
def reaching(address: str) -> Iterator[None]:
    """Whatever a filesystem raises, in words that name the address; FileNotFoundError stays one."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "No such file or folder", address) from None
    except NotReachedError:
        raise
    except Exception as error:  # each filesystem has its own
        raise NotReachedError(f"{address}: cannot be read: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """Some filesystems say a hundred."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
