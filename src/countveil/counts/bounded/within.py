"""What lies in a folder that may be a stranger's: regular files and folders, no links, pipes or devices."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

from countveil.counts.bounded.room import ReleaseFileError

# A link put there meanwhile is not followed, and a pipe not waited for.
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_MOST_PIECES, _SMALL, _LARGEST_HOLE = 10_000, 1 << 16, 1 << 26


def open_regular(path: Path) -> io.BufferedReader:
    """A file to read; ReleaseFileError if the name is that of a link, a pipe, a device or a folder."""
    _check_regular(path, path.lstat())  # to open a device can do something by itself
    file = os.fdopen(os.open(path, _READ), "rb")
    try:
        _check_regular(path, os.fstat(file.fileno()))
        if has_hole(file.fileno()):
            raise ReleaseFileError(f"expected a whole file, got {path.name}, which is mostly a hole")
    except BaseException:
        file.close()
        raise
    return file


def data_size(descriptor: int) -> int:
    """Bytes of an opened file that are there. A file of terabytes may be one hole, and take no room on disk.

    Where the system does not tell of holes, all of it. Of very many pieces only the first ones count.
    """
    end = os.fstat(descriptor).st_size
    if not hasattr(os, "SEEK_DATA"):
        return end
    before = os.lseek(descriptor, 0, os.SEEK_CUR)
    found, place = 0, 0
    try:
        for _ in range(_MOST_PIECES):
            if place >= end:
                break
            start = os.lseek(descriptor, place, os.SEEK_DATA)
            place = os.lseek(descriptor, start, os.SEEK_HOLE)
            found += min(place, end) - start
    except OSError as error:
        if error.errno != errno.ENXIO:  # that there are no more data; others: that nobody can tell
            return end
    finally:
        os.lseek(descriptor, before, os.SEEK_SET)
    return found


def has_hole(descriptor: int) -> bool:
    """Whether so much of a file is not there that reading it would take memory or hours for nothing.

    A small hole may be what a crash left.
    """
    return os.fstat(descriptor).st_size - data_size(descriptor) > _LARGEST_HOLE


def size_on_disk(path: Path) -> int:
    """Of a file, without its holes; of what is no regular file 0."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        return 0
    if found.st_size <= _SMALL:  # whose holes do not matter
        return found.st_size
    with open_regular(path) as file:
        return data_size(file.fileno())


def read_regular(path: Path, most: int) -> bytes:
    """All of a file, which has at most so many bytes."""
    with open_regular(path) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise ReleaseFileError(f"expected at most {most:,} bytes in {path.name}, got more")
    return found


def check_folder(path: Path) -> None:
    """Refuse a link in place of a folder: what it leads to is no part of the release."""
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise ReleaseFileError(f"expected a folder {path.name}, got a link or something else")


def _check_regular(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ReleaseFileError(f"expected a regular file, got {path}, which is a link or something else")
