"""Some rows of a release on disk: what one of many processes keeps of it.

All cells are read, a batch at a time, and those of other rows are dropped. Nothing less would do: the checksum is
over all of them, and what Parquet says of its row groups (where they are, which rows they hold) nobody signs, so
that a flipped bit there could lose rows in silence.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

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
from countveil.counts.files.folder import opened
from countveil.counts.files.header import MISSING, Header
from countveil.counts.files.release import read_described
from countveil.counts.files.scratch import ScratchError, cell_list

# Arrow's errors are ValueError, OSError or one of the others too.
_DAMAGE = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, OSError, MemoryError)


def read_rows(
    path: str | os.PathLike[str], start: int = 0, stop: int | None = None, scratch: Path | None = None
) -> Contents:
    """Rows ``start`` to ``stop`` of a release, by default all; a part that is missing or damaged is named.

    With ``scratch``, a folder, the cells lie in files without a name there, and are mapped. Cells below 0 are left
    out: a fit does not look at them.
    """
    source = Path(path)
    try:
        header, draft, files, room = read_described(source)
        stop = draft.shape[0] if stop is None else stop
        if not 0 <= start < stop <= draft.shape[0]:
            raise ReleaseFileError(f"expected rows among {draft.shape[0]}, got {start} to {stop}")
        part = _draft_of(draft, start, stop)
        positive, listed = (cell_list(part.shape, scratch) for _ in range(2))
        digest = CellDigest()
        for name in files:
            try:
                for cells in _cells_between(name, draft, header, start, stop, room, digest):
                    rows, columns = np.divmod(cells.flat, n_rows_and_width(part.shape)[1])
                    above = cells.values > 0
                    positive.add(rows[above], columns[above], cells.values[above])
                    chosen = cells.missing | (header.absent == MISSING)
                    listed.add(rows[chosen], columns[chosen])
            except ScratchError:
                raise
            except _DAMAGE as error:
                raise ReleaseFileError(f"{name.name}: {error}") from error
        if digest.hexdigest() != header.cells_sha256:
            raise ReleaseFileError("expected the cells that its checksum covers, got others")
    except ScratchError:
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


def shape_of(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """The shape of a release on disk, without its cells."""
    return read_described(Path(path))[1].shape


def _draft_of(draft: Contents, start: int, stop: int) -> Contents:
    rows, *others = draft.labels
    guarantees = draft.row_guarantees
    return draft._replace(
        shape=(stop - start, *draft.shape[1:]),
        labels=(None if rows is None else rows[start:stop], *others),
        rho=draft.rho if draft.rho.ndim == 0 else draft.rho[start:stop],
        row_guarantees=None if guarantees is None else guarantees[start:stop],
    )


def _cells_between(
    path: Path, draft: Contents, header: Header, start: int, stop: int, room: Room, digest: CellDigest
) -> Iterator[Listed]:
    """The listed cells of these rows in one file, counted from the first of them."""
    first, last = (row * n_rows_and_width(draft.shape)[1] for row in (start, stop))
    for file in opened([path]):
        check_schema(file.schema_arrow, draft)
        for batch in file.iter_batches(batch_size=CELLS_PER_READ, use_threads=False):
            cells = read_batch(batch, draft.shape)
            digest.add(cells)
            check_values(cells, header)
            here = slice(*np.searchsorted(cells.flat, (first, last)))
            room.take(len(cells.flat[here]), CELL, "cells")
            if len(cells.flat[here]):
                yield Listed(cells.flat[here] - first, cells.values[here], cells.missing[here])
