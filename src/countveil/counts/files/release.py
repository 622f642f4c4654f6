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

from countveil.counts.bounded.pages import check_footer
from countveil.counts.bounded.room import ReleaseFileError, Room
from countveil.counts.bounded.within import open_regular
from countveil.counts.cells.clamp import RhoLevels
from countveil.counts.cells.layout import Block, Contents
from countveil.counts.files.atomic import new_file
from countveil.counts.files.cells import (
    CellDigest,
    CellFile,
    Listed,
    listed_groups,
    mostly_missing,
    read_cells,
)
from countveil.counts.files.folder import (
    is_release_folder,
    name_tables,
    named_by,
    read_folder,
    write_folder,
    write_names,
    write_parts,
)
from countveil.counts.files.header import (
    KEY,
    MISSING,
    MOST_ROWS,
    NOT_POSITIVE,
    Header,
    check_header,
    describe_contents,
    encode_header,
    metadata_header,
    without_names,
)
from countveil.counts.files.opened import opened
from countveil.counts.files.pieces import describe_pieces
from countveil.counts.places import Place, bytes_in, local_path, open_place, place_of, resolved
from countveil.counts.remote import NotReachedError, RemoteFile

# More make the metadata of a single file heavy for everyone who opens it.
LABELS_IN_ONE_FILE = 100_000


def write_release(contents: Contents, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a release to ``path``; with ``overwrite`` what is there is replaced, in one step."""
    _write(
        local_path(path),
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
        local_path(path), draft, groups(), lambda: total,
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
    # What is too large is refused before any work. In a folder labels have files of their own.
    encode_header({**header(), "labels": None, "row_guarantees": None} if many else header())
    tables = list(name_tables(contents)) if many else []

    def write(folder: Path) -> dict:
        pieces = write_parts(folder, contents, counted())
        return write_names(folder, contents, tables, {**header(), "pieces": describe_pieces(pieces)})

    try:
        if many:
            write_folder(target, write, overwrite=overwrite)
            return
        with (
            new_file(target, overwrite=overwrite) as file,
            CellFile(file, contents.axes, contents.shape) as cells,
        ):
            for listed in counted():
                cells.add(listed)
            cells.close(encode_header({**header(), "pieces": describe_pieces([cells.pieces])}))
    except FileExistsError:
        check_free(target, overwrite)  # another command has written there meanwhile
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"cannot write the release: {reason}", str(target)) from error


#: What somebody might take a release for.
_OTHER_FORMATS = (".csv", ".tsv", ".txt", ".npz", ".npy", ".mtx", ".json", ".xlsx", ".zarr")


def check_free(target: Path, overwrite: bool) -> None:
    """Refuse a name that is taken, unless told otherwise: a release lost and made anew costs privacy."""
    if not isinstance(overwrite, bool):
        raise TypeError(f"overwrite: expected True or False, got {type(overwrite).__name__}")
    if target.is_symlink() and not target.exists():
        raise FileExistsError(f"path: expected a new name, got {target}, a link that leads to nothing")
    taken = is_release_folder(target) if target.is_dir() else target.exists()
    if taken and not overwrite:
        raise FileExistsError(
            f"path: expected a new name, got {target}, which exists; a second release of the same counts tells "
            "more, so keep the first, or pass overwrite=True to replace it"
        )
    if overwrite and target.is_file() and not _is_release_file(target):
        raise FileExistsError(f"path: expected a release to replace, got {target}, which is something else")
    if target.suffix.lower() in _OTHER_FORMATS:
        raise ValueError(
            f"path: expected a name such as release.parquet, got {target.name!r}: a release is Parquet"
        )


def _is_release_file(target: Path) -> bool:
    import pyarrow.parquet as pq

    try:
        with open_regular(Path(os.path.realpath(target))) as source:
            check_footer(source)
            with pq.ParquetFile(source) as file:
                return KEY in (file.metadata.metadata or {})
    except (OSError, ValueError):
        return False


def ids_in(target: Path) -> list[str]:
    """The ids of the release that stands there, as far as they can be told: for the ledger."""
    try:
        return [record.id for record in read_described(target)[1].records]
    except (OSError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
        return []


def check_not_input(path: str | os.PathLike[str], *inputs: object) -> None:
    """Refuse to write a release over a file that is to be read: the counts would be lost."""
    for given in inputs:
        if isinstance(given, str | os.PathLike) and _same_file(path, given):
            raise ValueError(f"path: expected another file than those that are read, got {str(path)!r}")


def _same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    try:
        if os.path.realpath(one) == os.path.realpath(other):  # neither may be there yet
            return True
        return Path(one).samefile(other)
    except (OSError, ValueError):  # one of them is not there, or is no file name at all
        return False


def _check_target(target: Path, many: bool, overwrite: bool) -> None:
    check_free(target, overwrite)
    if not many and target.is_dir():
        raise IsADirectoryError(f"path: expected a file name, got the folder {target}")
    if many and target.exists() and not is_release_folder(target):
        raise FileExistsError(
            f"path: expected a new name or an older release folder, because more than "
            f"{LABELS_IN_ONE_FILE:,} labels make a folder, got {target}, which is something else"
        )


def read_release(
    path: str | os.PathLike[str] | Place, room: Room | None = None, sha256: str | None = None
) -> Contents:
    """What ``write_release`` or ``stream_release`` wrote, all of it checked.

    ``room``: what it may take, if that is not by its own size: it may come packed once more, and with others.
    ``sha256``: that of its header, if it must be one that was seen before.
    """
    source = place_of(path)
    check_parquet(source)
    named = named_by(source)
    try:
        return _read(source, room, sha256)
    except ReleaseFileError as error:
        if named != named_by(source):  # it was overwritten meanwhile, and its old files are gone
            return read_release(source, room, sha256)
        raise ReleaseFileError(f"{source}: {error}") from error.__cause__
    except NotReachedError:  # which says nothing of the release
        raise
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
        if named != named_by(source):
            return read_release(source, room, sha256)
        raise ReleaseFileError(f"{source}: damaged release file: {error}") from error


def check_parquet(source: Place) -> None:
    """A folder, or a file that begins as Parquet does. What the system refuses keeps its own, clear error."""
    if not source.is_dir():
        with open_place(resolved(source)) as file:
            if file.read(4) != b"PAR1":
                raise ReleaseFileError(f"{source}: expected a release file, got something not Parquet")


def read_described(
    source: Place, room: Room | None = None, *, named: bool = True
) -> tuple[Header, Contents, list[Place], Room]:
    """What a release says of itself, contents without their cells, the files that have these, and their room.

    Without ``named`` the labels and what rows are promised are left out.
    """
    import pyarrow.parquet as pq

    if source.is_dir():
        described, files, room = read_folder(source, room, named=named)
    else:
        files = [resolved(source)]  # a link that the user names is followed; one to itself is none
        with open_place(files[0]) as opened_file:
            if isinstance(opened_file, RemoteFile):
                opened_file.hold_footer()
            check_footer(opened_file)
            with pq.ParquetFile(opened_file) as file:
                described = metadata_header(file.metadata.metadata)
            room = room or Room(bytes_in(opened_file))
    described = described if named else without_names(described)
    return *check_header(described, room, len(files)), files, room


def check_seen(header: Header, sha256: str | None) -> None:
    """Refuse another release than the one whose header has this checksum."""
    if sha256 not in (None, header.sha256):
        raise ReleaseFileError("expected the release that the fit was begun with, got another")


def _read(source: Place, room: Room | None, sha256: str | None) -> Contents:
    import pyarrow as pa

    header, draft, files, room = read_described(source, room)
    check_seen(header, sha256)
    cells = read_cells(opened(files), room, draft, header)
    # Arrow keeps what it has used for its next table; here comes none, and a fit needs the room.
    pa.default_memory_pool().release_unused()
    levels = RhoLevels(draft.rho, draft.shape)
    number = levels.count((cells.positive, cells.missing))
    below, total = cells.negative, draft.nonpositive.total
    if total is not None and not (total <= number * 2.0**63).all():
        raise ReleaseFileError("the sum of the cells x <= 0 is beyond what so many can have")
    if below is not None and not (
        # Beyond 2**53 a sum depends on its order.
        total is not None and np.allclose(levels.listed(below, below.values), total, rtol=1e-12, atol=0.0)
    ):
        raise ReleaseFileError("the cells below 0 do not match their sum")
    return draft._replace(
        positive=cells.positive,
        missing=cells.missing,
        negative=cells.negative,
        nonpositive=draft.nonpositive._replace(rho=levels.values, number=number),
    )
