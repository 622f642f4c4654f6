"""Some rows of a release on disk: what one of many processes keeps of it.

The pieces that hold them are read (``files.pieces``), a batch at a time, each checked against its checksum; cells
of other rows are dropped. Of a release without pieces all cells are read: its checksum is over all, and what
Parquet says of its row groups (where they are, which rows they hold) nobody signs, so that a flipped bit there
could lose rows in silence.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from countveil.counts.bounded.room import CELL, ReleaseFileError, Room
from countveil.counts.cells.clamp import RhoLevels
from countveil.counts.cells.layout import Contents, NonPositive, n_rows_and_width
from countveil.counts.files.cells import (
    CELLS_PER_READ,
    CellDigest,
    Listed,
    all_but,
    check_schema,
    check_values,
    read_batch,
)
from countveil.counts.files.header import MISSING, Header
from countveil.counts.files.opened import opened
from countveil.counts.files.pieces import Piece, check_all
from countveil.counts.files.release import check_seen, read_described
from countveil.counts.files.scratch import ScratchError, cell_list
from countveil.counts.places import Place, place_of
from countveil.counts.remote import NotReachedError

# Arrow's errors are ValueError, OSError or one of the others too.
_DAMAGE = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, OSError, MemoryError)
# Which say nothing of the release.
_NO_DAMAGE = (ScratchError, NotReachedError)


def read_rows(
    path: str | os.PathLike[str] | Place,
    start: int = 0,
    stop: int | None = None,
    scratch: Path | None = None,
    *,
    named: bool = True,
    sha256: str | None = None,
) -> Contents:
    """Rows ``start`` to ``stop`` of a release, by default all; a part that is missing or damaged is named.

    With ``scratch``, a folder, the cells lie in files without a name there, and are mapped. Cells below 0 are left
    out: a fit does not look at them. Without ``named`` labels and the rows' guarantees are left out, too.
    ``sha256`` is that of the header, if the release must be one that somebody else has seen.
    """
    source = place_of(path)
    try:
        header, draft, files, room = read_described(source, named=named)
        check_seen(header, sha256)
        stop = draft.shape[0] if stop is None else stop
        if not 0 <= start < stop <= draft.shape[0]:
            raise ReleaseFileError(f"expected rows among {draft.shape[0]}, got {start} to {stop}")
        part = _draft_of(draft, start, stop)
        positive, listed = (cell_list(part.shape, scratch) for _ in range(2))
        digest, width = CellDigest(), n_rows_and_width(part.shape)[1]
        first, end = start * width, stop * width
        for place, name in enumerate(files):
            try:
                if header.pieces is None:
                    found = _all_cells(name, draft, header, digest)
                else:
                    found = _cells_of(header.pieces[place], name, draft, header, first, end)
                for cells in _between(found, first, end, room):
                    rows, columns = np.divmod(cells.flat, width)
                    above = cells.values > 0
                    positive.add(rows[above], columns[above], cells.values[above])
                    chosen = cells.missing | (header.absent == MISSING)
                    listed.add(rows[chosen], columns[chosen])
            except _NO_DAMAGE:
                raise
            except _DAMAGE as error:
                raise ReleaseFileError(f"{name.name}: {error}") from error
        if header.pieces is None and digest.hexdigest() != header.cells_sha256:
            raise ReleaseFileError("expected the cells that its checksum covers, got others")
    except _NO_DAMAGE:
        raise
    except _DAMAGE as error:
        raise ReleaseFileError(f"{source}: damaged release: {error}") from error
    if header.absent == MISSING:
        missing = all_but(listed.places(), part.shape, room, scratch)
    else:
        missing = listed.places() if listed else None
    cells_above, levels = positive.cells(), RhoLevels(part.rho, part.shape)
    number = levels.count((cells_above, missing))
    # What lies below 0 in some of the rows nobody has added up.
    total = draft.nonpositive.total if part.shape == draft.shape else None
    return part._replace(
        positive=cells_above, missing=missing, nonpositive=NonPositive(levels.values, number, total)
    )


def read_draft(path: Place, sha256: str | None = None) -> tuple[Header, Contents, int]:
    """A release on disk without its cells: its header, all else that it says, and its size in bytes."""
    try:
        header, draft, _, room = read_described(path)
        check_seen(header, sha256)
    except _NO_DAMAGE:
        raise
    except _DAMAGE as error:
        raise ReleaseFileError(f"{path}: damaged release: {error}") from error
    return header, draft, room.n_bytes


def _draft_of(draft: Contents, start: int, stop: int) -> Contents:
    rows, *others = draft.labels
    guarantees = draft.row_guarantees
    return draft._replace(
        shape=(stop - start, *draft.shape[1:]),
        labels=(None if rows is None else rows[start:stop], *others),
        rho=draft.rho if draft.rho.ndim == 0 else draft.rho[start:stop].copy(),  # all of it may go
        row_guarantees=None if guarantees is None else guarantees[start:stop],
    )


def _all_cells(path: Place, draft: Contents, header: Header, digest: CellDigest) -> Iterator[Listed]:
    """The listed cells of one file, some at a time."""
    for file in opened([path]):
        check_schema(file.schema_arrow, draft)
        yield from _batches(file, None, draft, header, digest)


def _cells_of(
    pieces: list[Piece], path: Place, draft: Contents, header: Header, first: int, end: int
) -> Iterator[Listed]:
    """Of the pieces of a file those that may have cells from ``first`` to before ``end``.

    Where none has, it is not opened; but one without any pieces must be empty.
    """
    wanted = [one for one in pieces if one.has_some_between(first, end)]
    for file in opened([path] if wanted or not pieces else []):
        check_schema(file.schema_arrow, draft)
        check_all(pieces, file.num_row_groups)
        for piece in wanted:
            digest = CellDigest()
            yield from _batches(file, list(range(*piece.groups)), draft, header, digest)
            if (digest.hexdigest(), digest.cells) != (piece.sha256, piece.cells):
                raise ReleaseFileError("expected the cells that its checksum covers, got others")


def _batches(
    file: Any, groups: list[int] | None, draft: Contents, header: Header, digest: CellDigest
) -> Iterator[Listed]:
    for batch in file.iter_batches(CELLS_PER_READ, row_groups=groups, use_threads=False):
        cells = read_batch(batch, draft.shape)
        digest.add(cells)
        check_values(cells, header)
        yield cells


def _between(found: Iterator[Listed], first: int, end: int, room: Room) -> Iterator[Listed]:
    """Of these cells those at the positions from ``first``, from which they are counted, to before ``end``."""
    for cells in found:
        here = slice(*np.searchsorted(cells.flat, (first, end)))
        room.take(len(cells.flat[here]), CELL, "cells")
        if len(cells.flat[here]):
            yield Listed(cells.flat[here] - first, cells.values[here], cells.missing[here])
