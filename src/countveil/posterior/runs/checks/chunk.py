"""One chunk of a stranger's run: what it takes when it is decoded, known before it is.

A chunk is one zstd frame (RFC 8878), whole, with nothing before or after it: a second frame would be decoded too,
and only the first is asked for its size. A frame is never decoded beyond the size it declares.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

import numcodecs

_MAGIC = b"\x28\xb5\x2f\xfd"
_DICTIONARY, _CHECKSUM, _SINGLE_SEGMENT = 0b11, 0b100, 0b100000  # bits of a frame's first byte
_RUN, _RESERVED = 1, 3  # kinds of blocks
#: A block of a real encoder has more than this on average; blocks of nothing would only take time.
_LEAST_BLOCK, _FEW_BLOCKS = 512, 16


class NotOpenedError(ValueError):
    """Something that a run of ours does not have."""


def open_plain(path: Path, where: str) -> BinaryIO:
    """A plain file, which nobody can have replaced by a link or a pipe since it was looked at."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))

    file = open(path, "rb", opener=opener)  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise NotOpenedError(f"no plain file, {where}")
    return file


def decoded_size(path: Path, where: str) -> int:
    """Bytes that the chunk's only frame says it has (RFC 8878, 3.1.1)."""
    with open_plain(path, where) as file:
        head = file.read(18)
        if len(head) < 6 or head[:4] != _MAGIC:
            raise NotOpenedError(f"a chunk that is no zstd frame, {where}")
        flags = head[4]
        single = bool(flags & _SINGLE_SEGMENT)
        width = (1 if single else 0, 2, 4, 8)[flags >> 6]
        if width == 0:
            raise NotOpenedError(f"a chunk that does not say its size, {where}")
        if flags & _DICTIONARY:
            raise NotOpenedError(f"a chunk that needs a dictionary, {where}")
        start = 5 if single else 6
        size = int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)
        end = _end_of_blocks(file, start + width, _FEW_BLOCKS + size // _LEAST_BLOCK)
        if end is None or end + (4 if flags & _CHECKSUM else 0) != os.fstat(file.fileno()).st_size:
            raise NotOpenedError(f"a chunk that is not one whole zstd frame, {where}")
    return size


def _end_of_blocks(file: BinaryIO, at: int, most: int) -> int | None:
    """Where the last block of a frame ends; None if the file ends before, or there are too many."""
    for _ in range(most):
        file.seek(at)
        header = file.read(3)
        bits = int.from_bytes(header, "little")
        last, kind, length = bits & 1, bits >> 1 & 3, bits >> 3
        if len(header) < 3 or kind == _RESERVED:
            return None
        at += 3 + (1 if kind == _RUN else length)
        if last:
            return at
    return None


def check_texts(path: Path, cells: int, where: str) -> None:
    """A chunk of texts (vlen-utf8: their number, then each with its length, in 4 bytes) has those it says it has.

    Whoever decodes it makes room for that number first. The frame's size must have been found small enough.
    """
    with open_plain(path, where) as file:
        content = memoryview(numcodecs.Zstd().decode(file.read()))
    found = int.from_bytes(content[:4], "little")
    if found != cells or 4 + 4 * found > len(content):
        raise NotOpenedError(f"a chunk of {found} texts where {cells} are declared, {where}")
