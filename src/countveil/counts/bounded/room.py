"""How much memory a release may make its reader take: 1 GiB, and a thousand times its size on disk.

Packed files unpack to as much as their writer likes. Honest ones do not: noise takes about a quarter of a byte a
cell or more, a label some bytes. What is read is taken from the room at what it costs at the peak, copies counted.
"""

from __future__ import annotations

AT_LEAST, PER_BYTE = 1 << 30, 1000
# Bytes for a row of the shape (where its cells begin, in three lists and while they are made), a listed cell, a
# number of the noise, a label or other text, and a byte of that text.
ROW, CELL, NUMBER, TEXT, TEXT_BYTE = 48, 24, 80, 200, 6


class ReleaseFileError(ValueError):
    """The file is damaged, is not a countveil release, or was written by a newer version.

    >>> issubclass(ReleaseFileError, ValueError)
    True
    """


class Room:
    """What is left of the memory that a release of ``n_bytes`` may take.

    >>> Room(1000).take(10**9, ROW, "rows")
    Traceback (most recent call last):
    ...
    countveil.counts.bounded.room.ReleaseFileError: expected fewer rows in a release of 1,000 bytes
    """

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes
        self.left = AT_LEAST + PER_BYTE * n_bytes

    def take(self, n: int, each: int, what: str) -> None:
        self.left -= n * each
        if self.left < 0:
            raise ReleaseFileError(f"expected fewer {what} in a release of {self.n_bytes:,} bytes")
