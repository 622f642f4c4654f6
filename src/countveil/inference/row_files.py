"""Rows of a chain in files of their own, one from each shard: checkpoints and draws that no process has whole.

Blocks of rows are cut in the same places whatever the number of shards (``rows_per_block``), and shards begin and
end at such places (``aligned_rows``): then every chunk of an array on disk is written by one of them.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from countveil.counts.bounded.numpy_files import check_archive
from countveil.inference.carry import Carry, RowFile, SpreadRows

#: A block has at least so many bytes of a draw, and a draw at most so many blocks.
SMALLEST_BLOCK, MOST_BLOCKS = 2**20, 4096
_FEW_FILES = 64
#: Blocks that a shard must have on average, so that all have about as many rows.
BLOCKS_PER_SHARD = 4
#: What the names of files begin with: those of rows, and those that are not yet whole.
ROWS, PART = "rows", "part"


def rows_per_block(n_rows: int, row_bytes: int) -> int:
    """Rows of a block, where a draw of one row takes so many bytes.

    >>> rows_per_block(200_000, 200), rows_per_block(100, 200), rows_per_block(10**8, 200)
    (5243, 100, 24415)
    """
    return min(n_rows, max(-(-SMALLEST_BLOCK // max(row_bytes, 1)), -(-n_rows // MOST_BLOCKS)))


def most_files(draw_bytes: int) -> int:
    """Into so many blocks a draw is cut at most; a few harm nobody, and a run that goes on may have other ones.

    >>> most_files(400_000_000), most_files(200), most_files(10**12)
    (382, 64, 4096)
    """
    return max(_FEW_FILES, min(-(-draw_bytes // SMALLEST_BLOCK), MOST_BLOCKS))


def aligned_rows(n_rows: int, rank: int, size: int, block: int) -> tuple[int, int]:
    """The first row of a shard, and the first of the next: at the ends of blocks where there are enough of them.

    >>> [aligned_rows(10, rank, 3, 10) for rank in range(3)]
    [(0, 3), (3, 6), (6, 10)]
    >>> [aligned_rows(100, rank, 3, 7) for rank in range(3)]
    [(0, 35), (35, 70), (70, 100)]
    """
    if size > n_rows:
        raise ValueError(f"shards: expected at most one for each of the {n_rows} rows, got {size}")
    blocks = -(-n_rows // block)
    if blocks < BLOCKS_PER_SHARD * size:
        return n_rows * rank // size, n_rows * (rank + 1) // size
    return block * (blocks * rank // size), min(n_rows, block * (blocks * (rank + 1) // size))


def write_whole(folder: Path, name: str, target: Path, content: bytes) -> None:
    """A file that is there whole, or as it was before; until then it has this name in a folder."""
    coming = folder / name
    coming.unlink(missing_ok=True)  # of one that was killed, or a link that a stranger has laid
    with coming.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    target.parent.mkdir(parents=True, exist_ok=True)
    coming.replace(target)


class RowSaver(NamedTuple):
    """Where shards write the rows of a checkpoint, which is valid once a file names theirs (``Carry.rows``)."""

    folder: str

    def save(self, part: Carry, start: int, stop: int) -> RowFile:
        """The arrays of these rows."""
        folder, content = Path(self.folder), part.to_bytes()
        name = f"{ROWS}-{part.sweep}-{part.chain}-{start}"
        write_whole(folder, f"{PART}-{start}", folder / name, content)
        return RowFile(str(folder / name), start, stop, hashlib.sha256(content).hexdigest())


def split_rows(carry: Carry, axes: Mapping[str, int]) -> tuple[Carry, Carry]:
    """The rows of a carry by themselves, and all else."""
    return tuple(  # type: ignore[return-value]
        carry._replace(
            state={name: one for name, one in carry.state.items() if (name in axes) == chosen},
            extra={name: one for name, one in carry.extra.items() if (name in axes) == chosen},
        )
        for chosen in (True, False)
    )


def with_rows(carry: Carry, start: int = 0, stop: int | None = None) -> Carry:
    """The carry with these rows out of their files, by default all; without files, as it is."""
    if carry.rows is None:
        return carry
    axes, found, at = carry.rows.axes, [], start
    for file in carry.rows.files:
        if file.stop <= at or (stop is not None and file.start >= stop):
            continue
        if file.start > at:
            break
        rows = slice(at - file.start, (file.stop if stop is None else min(stop, file.stop)) - file.start)
        found.append(part_of(_read(carry, file), axes, rows))
        at = file.start + rows.stop
    if not found or (stop is not None and at != stop):
        raise ValueError("path: expected a checkpoint of this problem, got one with other rows")
    state, extra = (joined([getattr(part, kind) for part in found], axes) for kind in ("state", "extra"))
    return carry._replace(state={**carry.state, **state}, extra={**carry.extra, **extra}, rows=None)


def _read(carry: Carry, file: RowFile) -> Carry:
    content = Path(file.path).read_bytes()
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise ValueError(f"path: expected the rows of a checkpoint, got others in {file.path!r}")
    part = carry_from(content)
    assert carry.rows is not None
    lengths = {
        value.shape[axis] if value.ndim > axis else -1
        for arrays in (part.state, part.extra)
        for name, value in arrays.items()
        if (axis := carry.rows.axes.get(name)) is not None
    }
    if (part.chain, part.sweep, lengths) != (carry.chain, carry.sweep, {file.stop - file.start}):
        raise ValueError("path: expected a checkpoint of this problem, got one with other rows")
    return part


def are_whole(rows: SpreadRows) -> bool:
    """Whether all files are as they were written; nothing of them is held."""
    for file in rows.files:
        if not Path(file.path).is_file():
            return False
        with Path(file.path).open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != file.sha256:
                return False
    return True


def carry_from(content: bytes) -> Carry:
    """The carry, once its arrays are known to be no larger than its bytes."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ValueError("an array that swells")
        check_archive(archive, len(content))
    return Carry.from_bytes(content)


def joined(parts: list[Mapping[str, np.ndarray]], axes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Arrays of all rows, of those that the shards have; what is no row's they have alike."""
    return {
        name: np.concatenate([part[name] for part in parts], axis=axes[name]) if name in axes else value
        for name, value in parts[0].items()
    }


def part_of(carry: Carry, axes: Mapping[str, int], rows: slice) -> Carry:
    """What a shard with these rows needs of a carry."""
    state, extra = (
        {
            name: np.asarray(value)[(slice(None),) * axes[name] + (rows,)] if name in axes else value
            for name, value in arrays.items()
        }
        for arrays in (carry.state, carry.extra)
    )
    return carry._replace(state=state, extra=extra)
