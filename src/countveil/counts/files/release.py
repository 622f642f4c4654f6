"""Releases on disk: one Parquet file, or a folder of them, that is complete or not there.

The file is an ordinary long table, one whole-number column per axis and ``value``, sorted: observed cells
x > 0, missing cells with a NULL value, and, only where they were kept, cells x < 0. Absent cells are observed
and x <= 0. An array that is mostly missing lists its observed cells instead, x <= 0 as 0, and the header says
that absent means missing. All else (shape, noise, guarantee, labels, checksums) is JSON in the file's
key-value metadata, see header. Beyond 100,000 labels it is a folder, see folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from countveil.counts.clamp import RhoLevels
from countveil.counts.files.atomic import replacing_file, replacing_folder
from countveil.counts.files.cells import (
    CellDigest,
    CellFile,
    Listed,
    listed_groups,
    mostly_missing,
    read_cells,
)
from countveil.counts.files.folder import is_release_folder, opened, read_folder, write_names, write_parts
from countveil.counts.files.header import (
    MISSING,
    MOST_ROWS,
    NOT_POSITIVE,
    ReleaseFileError,
    check_header,
    describe_contents,
    encode_header,
    metadata_header,
)
from countveil.counts.layout import Block, Contents

# More make the metadata of a single file heavy for everyone who opens it.
LABELS_IN_ONE_FILE = 100_000


def write_release(contents: Contents, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a release to ``path``; with ``overwrite`` what is there is replaced, in one step."""
    _write(
        Path(path),
        contents,
        listed_groups(contents),
        lambda: contents.nonpositive.total,
        negative_kept=contents.negative is not None,
        absent=MISSING if mostly_missing(contents) else NOT_POSITIVE,
        overwrite=overwrite,
    )


def stream_release(
    path: str | os.PathLike[str],
    draft: Contents,
    blocks: Iterable[Block],
    *,
    list_observed: bool,
    keep_negative: bool,
    overwrite: bool,
) -> None:
    """Write noisy blocks as they come. What comes here is private already; true counts never do.

    ``draft`` lacks its cells. ``list_observed`` for what is mostly missing, where it is shorter.
    """
    levels = RhoLevels(draft.rho, draft.shape)
    total = np.zeros(len(levels.values))
    absent = MISSING if list_observed else NOT_POSITIVE

    def groups() -> Iterator[Listed]:
        nonlocal total
        for block in blocks:
            width = block.values.shape[1]
            total = total + levels.sums(np.maximum(-block.values, 0), block.start)
            values = (block.values if keep_negative else np.maximum(block.values, 0)).ravel()
            holes = np.zeros(values.shape, bool) if block.missing is None else block.missing.ravel()
            at = np.flatnonzero(~holes if absent == MISSING else (values != 0) | holes)
            yield Listed(at + block.start * width, values[at], holes[at])

    _write(
        Path(path), draft, groups(), lambda: total,
        negative_kept=keep_negative, absent=absent, overwrite=overwrite,
    )  # fmt: skip


def _write(
    target: Path,
    contents: Contents,
    groups: Iterable[Listed],
    total: Callable[[], np.ndarray | None],
    *,
    negative_kept: bool,
    absent: str,
    overwrite: bool,
) -> None:
    digest = CellDigest()

    def counted() -> Iterator[Listed]:
        for listed in groups:
            if len(listed.flat):
                digest.add(listed)
                yield listed

    def header() -> dict:
        return describe_contents(contents, total(), digest.hexdigest(), negative_kept, absent)

    n_labels = sum(len(labels) for labels in contents.labels if labels is not None)
    many = n_labels + len(contents.row_guarantees or ()) > LABELS_IN_ONE_FILE
    _check_target(target, many, overwrite)
    if contents.shape[0] > MOST_ROWS:
        raise ValueError(
            f"path: expected at most {MOST_ROWS:,} rows in a release file, got {contents.shape[0]:,}"
        )
    if not many:
        encode_header(header())  # what is too large is refused before any work
    try:
        if many:
            with replacing_folder(target) as folder:
                write_parts(folder, contents, counted())
                write_names(folder, contents, header())
                check_free(target, overwrite)  # again: another command may have written there meanwhile
            return
        with replacing_file(target) as file, CellFile(file, contents.axes, contents.shape) as cells:
            for listed in counted():
                cells.add(listed)
            cells.close(encode_header(header()))
            check_free(target, overwrite)
    except FileExistsError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"cannot write the release: {reason}", str(target)) from error


def check_free(target: Path, overwrite: bool) -> None:
    """Refuse a name that is taken, unless told otherwise: a release lost and made anew costs privacy."""
    if not isinstance(overwrite, bool):
        raise TypeError(f"overwrite: expected True or False, got {type(overwrite).__name__}")
    taken = is_release_folder(target) if target.is_dir() else target.exists()
    if taken and not overwrite:
        raise FileExistsError(
            f"path: expected a new name, got {target}, which exists; a second release of the same counts tells "
            "more, so keep the first, or pass overwrite=True to replace it"
        )


def _check_target(target: Path, many: bool, overwrite: bool) -> None:
    check_free(target, overwrite)
    if not many and target.is_dir():
        raise IsADirectoryError(f"path: expected a file name, got the folder {target}")
    if many and target.exists() and not is_release_folder(target):
        raise FileExistsError(
            f"path: expected a new name or an older release folder, because more than "
            f"{LABELS_IN_ONE_FILE:,} labels make a folder, got {target}, which is something else"
        )


def read_release(path: str | os.PathLike[str]) -> Contents:
    """What ``write_release`` or ``stream_release`` wrote, all of it checked."""
    source = Path(path)
    if not source.is_dir():
        with source.open("rb") as file:  # what the system itself refuses keeps its own, clear error
            if file.read(4) != b"PAR1":
                raise ReleaseFileError(f"{source}: expected a release file, got something not Parquet")
    try:
        return _read(source)
    except ReleaseFileError as error:
        raise ReleaseFileError(f"{source}: {error}") from error.__cause__
    except (
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        RecursionError,
        OSError,
        MemoryError,
    ) as error:
        # Arrow's errors are ValueError, OSError or one of the others too.
        raise ReleaseFileError(f"{source}: damaged release file: {error}") from error


def _read(source: Path) -> Contents:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if source.is_dir():
        described, files = read_folder(source)
    else:
        files = [source]
        with pq.ParquetFile(source) as file:
            described = metadata_header(file.metadata.metadata)
    header, draft = check_header(described)
    cells = read_cells(opened(files), draft, header)
    # Arrow keeps what it has used for its next table; here comes none, and a fit needs the room.
    pa.default_memory_pool().release_unused()
    levels = RhoLevels(draft.rho, draft.shape)
    number = levels.count((cells.positive, cells.missing))
    below, total = cells.negative, draft.nonpositive.total
    if below is not None and not (
        total is not None and np.array_equal(levels.listed(below, below.values), total)
    ):
        raise ReleaseFileError("the cells below 0 do not match their sum")
    return draft._replace(
        positive=cells.positive,
        missing=cells.missing,
        negative=cells.negative,
        nonpositive=draft.nonpositive._replace(rho=levels.values, number=number),
    )
