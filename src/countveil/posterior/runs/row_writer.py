"""What shards write their rows of a draw with: whole chunks of the run's arrays, each by one of them.

A chunk that is written is no draw yet: how many there are the metadata say, which the process that holds the store
writes when all shards are done. One that was killed before leaves chunks that nobody reads and that come again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numcodecs
import numpy as np

from countveil.counts.files.atomic import sync_folder
from countveil.inference.row_files import PART, write_whole
from countveil.posterior.runs.run_files import PLACE

#: With a checksum: a changed byte is noticed when it is read.
CODEC = numcodecs.Zstd(level=0, checksum=True)


class DrawWriter(NamedTuple):
    """See ``inference.store.RowWriter``: the next draw of one chain."""

    root: str
    chain: int  # its place in the arrays
    draw: int
    block: int
    #: Of every array that has rows: the axis of a draw that has them, and the kind of its numbers.
    arrays: Mapping[str, tuple[int, str]]

    @property
    def seen(self) -> str:
        """The run itself."""
        return self.root

    def write(self, arrays: Mapping[str, np.ndarray], first_row: int) -> None:
        """Arrays of consecutive rows, of which the first begins a chunk."""
        root = Path(self.root)
        folder, coming, touched = root.joinpath(*PLACE), f"{PART}-{first_row}", set[Path]()
        for name, array in arrays.items():
            axis, kind = self.arrays[name]
            path = root / "posterior" / name / "c" / str(self.chain) / str(self.draw)
            for at, chunk in chunks_along(array, axis, self.block, kind):
                place = ["0"] * array.ndim
                place[axis] = str(first_row // self.block + at)
                write_whole(folder, coming, path.joinpath(*place), CODEC.encode(chunk))
                touched.update(path.joinpath(*place[:depth]) for depth in range(array.ndim))
            touched |= {path.parent, path.parent.parent}
        for one in sorted(touched):
            sync_folder(one)


def chunks_along(array: np.ndarray, axis: int, block: int, kind: str) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of rows of one draw, by their number; the last has zeros for rows that are not there.

    >>> [(at, chunk.tolist()) for at, chunk in chunks_along(np.arange(3), 0, 2, "<f4")]
    [(0, [0.0, 1.0]), (1, [2.0, 0.0])]
    """
    shape = (*array.shape[:axis], block, *array.shape[axis + 1 :])
    for at, start in enumerate(range(0, array.shape[axis], block)):
        rows = slice(start, min(start + block, array.shape[axis]))
        chunk = np.zeros(shape, dtype=kind)
        with np.errstate(under="ignore"):  # single precision
            chunk[(slice(None),) * axis + (slice(rows.stop - start),)] = array[
                (slice(None),) * axis + (rows,)
            ]
        yield at, chunk
