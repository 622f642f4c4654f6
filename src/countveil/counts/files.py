"""Releases on disk: one Parquet file that is complete or not there.

The file is an ordinary long table, one whole-number column per axis and ``value``, sorted: observed cells
x > 0, missing cells with a NULL value, and, only where they were kept, cells x < 0. Absent cells are observed
and x <= 0. All else (shape, noise, guarantee, labels, checksums) is JSON in the file's key-value metadata,
see file_header.

Labels live in the metadata, which suits some 100,000 of them. A folder form for more would branch off in
``save_release`` and ``load_release``, with the same header and the same table.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from countveil.counts.file_cells import read_cells, write_cells
from countveil.counts.file_header import decode_header, encode_header
from countveil.counts.nonpositive import RhoLevels
from countveil.counts.private_counts import PrivateCounts
from countveil.counts.release_file_error import ReleaseFileError

__all__ = ["ReleaseFileError", "load_release", "save_release"]


def save_release(release: PrivateCounts, path: str | os.PathLike[str]) -> None:
    """Write a release to ``path``, replacing a file of that name in one step."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"path: expected a file name, got the folder {target}")
    contents = release._contents
    header = encode_header(contents)
    try:
        with _replacing(target) as file:
            write_cells(file, contents, header)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"cannot write the release: {reason}", str(target)) from error


def load_release(path: str | os.PathLike[str]) -> PrivateCounts:
    """Read a release that ``PrivateCounts.save`` wrote, checking all of it.

    A file that is damaged, foreign or of a newer version raises ReleaseFileError, a missing one
    FileNotFoundError.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from countveil.counts import PrivateCounts, load_release
    >>> release = PrivateCounts([[3, -1], [0, 2]], alpha=0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "letters.parquet"
    ...     release.save(file)
    ...     load_release(file) == release
    True
    """
    source = Path(path)
    if source.is_dir():
        raise ReleaseFileError(f"{source}: expected a release file, got a folder")
    with source.open("rb") as file:  # what the system itself refuses keeps its own, clear error
        if file.read(4) != b"PAR1":
            raise ReleaseFileError(f"{source}: expected a release file, got something that is not Parquet")
    try:
        return _load(source)
    except ReleaseFileError as error:
        raise ReleaseFileError(f"{source}: {error}") from error.__cause__
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, OSError) as error:
        # Arrow's errors are ValueError, OSError or one of the others too.
        raise ReleaseFileError(f"{source}: damaged release file: {error}") from error


def _load(source: Path) -> PrivateCounts:
    import pyarrow.parquet as pq

    with pq.ParquetFile(source, page_checksum_verification=True) as file:
        header, draft = decode_header(file.metadata.metadata)
        cells = read_cells(file, draft, header)
    levels = RhoLevels(draft.rho, draft.shape)
    number = levels.count((cells.positive, cells.missing))
    return PrivateCounts._from_contents(
        draft._replace(
            positive=cells.positive,
            missing=cells.missing,
            negative=cells.negative,
            nonpositive=draft.nonpositive._replace(rho=levels.values, number=number),
        )
    )


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """A new file beside ``target`` that takes its name once safely on disk, and vanishes on any failure."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where folders can be opened at all (not on Windows)."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
