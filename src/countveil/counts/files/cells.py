"""The table of a release: listed cells out to Parquet and back, a row group at a time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from countveil.counts.bounded.room import CELL, ReleaseFileError, Room
from countveil.counts.cells.layout import (
    CELLS_PER_BLOCK,
    CellList,
    Cells,
    Contents,
    Places,
    column_type,
    dense_rows,
    flat_cells,
    n_rows_and_width,
    row_indices,
    row_ranges,
)
from countveil.counts.files.header import KEY, MISSING, Header
from countveil.counts.files.pieces import Piece
from countveil.counts.files.scratch import ScratchFile
from countveil.counts.inputs.labels import VALUE

if TYPE_CHECKING:
    import pyarrow as pa

CELLS_PER_GROUP = 1 << 20
# Reading takes about a hundred bytes a cell for a moment.
CELLS_PER_READ = 1 << 17
#: A count is at most 2**53, and noise that would take it beyond twice that comes with a chance below exp(-9000).
LARGEST_VALUE = 2**54
# Missing cells are held in memory as a list.
MOST_MISSING = 1 << 31


class Listed(NamedTuple):
    """Some cells of the table, in order: position, value, whether missing (then the value is 0)."""

    flat: np.ndarray
    values: np.ndarray
    missing: np.ndarray


class CellDigest:
    """SHA-256 of all listed cells, however they are divided into groups and on whichever machine.

    Cells come in order, each once, from one group to the next too: lists of a row's cells rest on it.
    """

    def __init__(self) -> None:
        self._digest, self._last = hashlib.sha256(), -1
        self.number, self._first = 0, -1  # of cells so far, and where the first is

    def add(self, listed: Listed) -> None:
        if (np.diff(listed.flat, prepend=self._last) <= 0).any():
            raise ReleaseFileError("expected cells in order, each once")
        if self._first < 0 and len(listed.flat):
            self._first = int(listed.flat[0])
        self._last = int(listed.flat[-1]) if len(listed.flat) else self._last
        pairs = np.empty((len(listed.flat), 2), dtype="<i8")
        pairs[:, 0] = listed.flat
        pairs[:, 1] = np.where(listed.missing, np.iinfo(np.int64).min, listed.values)
        self._digest.update(pairs.data)
        self.number += len(listed.flat)

    @property
    def cells(self) -> tuple[int, int]:
        """The first and the last position."""
        return self._first, self._last

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


class CellFile:
    """One Parquet file of cells, written group by group; ``pieces`` says what it has (``files.pieces``)."""

    def __init__(self, file: BinaryIO, axes: tuple[str, ...], shape: tuple[int, ...]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        # Signed types of the two usual widths: every reader, R included, has them.
        kinds = [pa.int32() if n < 2**31 else pa.int64() for n in shape]
        fields = [pa.field(axis, kind, nullable=False) for axis, kind in zip(axes, kinds, strict=True)]
        self._shape = shape
        self._schema = pa.schema([*fields, pa.field(VALUE, pa.int64())])
        # The table needs no Arrow schema beside the Parquet one; other readers would not look at it.
        self._writer = pq.ParquetWriter(
            file, self._schema, compression="zstd", write_page_checksum=True, store_schema=False
        )
        self.pieces: list[Piece] = []
        self._digest, self._groups = CellDigest(), 0

    def add(self, listed: Listed) -> None:
        import pyarrow as pa

        indices = np.unravel_index(listed.flat, self._shape)
        columns = [pa.array(i, type=t) for i, t in zip(indices, self._schema.types[:-1], strict=True)]
        columns.append(pa.array(listed.values, type=pa.int64(), mask=listed.missing))
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema), CELLS_PER_GROUP)
        self._note(listed)

    def _note(self, listed: Listed) -> None:
        """These cells go on with the last piece, unless that is large enough."""
        if self.pieces and self._digest.number < CELLS_PER_GROUP:
            begin = self.pieces.pop().groups[0]
        else:
            self._digest, begin = CellDigest(), self._groups
        self._groups += -(-len(listed.flat) // CELLS_PER_GROUP)
        self._digest.add(listed)
        self.pieces.append(Piece((begin, self._groups), self._digest.cells, self._digest.hexdigest()))

    def close(self, header: bytes | None = None) -> None:
        if header is not None:
            self._writer.add_key_value_metadata({KEY: header})
        self._writer.close()

    def __enter__(self) -> CellFile:
        return self

    def __exit__(self, *_: Any) -> None:
        self._writer.close()  # a second time does nothing; after a failure it lets go of the file


def listed_groups(contents: Contents) -> Iterator[Listed]:
    """All cells the table lists, in order, about a million at a time."""
    return _observed(contents) if mostly_missing(contents) else _not_zero(contents)


def mostly_missing(contents: Contents) -> bool:
    """Whether it is shorter to list the observed cells, zeros too, than the missing ones."""
    n_rows, width = n_rows_and_width(contents.shape)
    return contents.missing is not None and 2 * len(contents.missing.columns) > n_rows * width


def _observed(contents: Contents) -> Iterator[Listed]:
    width = n_rows_and_width(contents.shape)[1]
    for start, stop in row_ranges(contents.shape):
        values, observed = (array.reshape(-1) for array in dense_rows(contents, start, stop))
        if contents.negative is not None:
            part = slice(contents.negative.row_starts[start], contents.negative.row_starts[stop])
            below = contents.negative.values[part].astype(np.int64)
            values[flat_cells(contents.negative, width, start, stop)] = -below
        at = np.flatnonzero(observed)
        yield Listed(at + start * width, values[at], np.zeros(len(at), dtype=bool))


def _not_zero(contents: Contents) -> Iterator[Listed]:
    n_rows, width = n_rows_and_width(contents.shape)
    lists = [c for c in (contents.positive, contents.missing, contents.negative) if c is not None]
    listed = np.sum([c.row_starts for c in lists], axis=0)
    start = 0
    while start < n_rows:
        stop = int(np.searchsorted(listed, listed[start] + CELLS_PER_GROUP, side="right")) - 1
        stop = min(max(stop, start + 1), n_rows)
        yield _group(contents, start, stop, width)
        start = stop


def _group(contents: Contents, start: int, stop: int, width: int) -> Listed:
    flat, values, missing = [], [], []
    for cells, sign in ((contents.positive, 1), (contents.negative, -1), (contents.missing, 0)):
        if cells is None:
            continue
        part = slice(cells.row_starts[start], cells.row_starts[stop])
        flat.append(flat_cells(cells, width, start, stop) + start * width)
        if isinstance(cells, Cells):
            values.append(cells.values[part].astype(np.int64) * sign)
        else:
            values.append(np.zeros(len(flat[-1]), dtype=np.int64))
        missing.append(np.full(len(flat[-1]), sign == 0))
    together = Listed(np.concatenate(flat), np.concatenate(values), np.concatenate(missing))
    if len(flat) == 1:
        return together
    order = np.argsort(together.flat, kind="stable")
    return Listed(*(part[order] for part in together))


class ListedCells(NamedTuple):
    """What a table lists."""

    positive: Cells
    missing: Places | None
    negative: Cells | None


def read_cells(files: Iterable[Any], room: Room, draft: Contents, header: Header) -> ListedCells:
    """Read and check the table: names, types, ranges, order, signs, and the checksum of it all."""
    shape = draft.shape
    width = n_rows_and_width(shape)[1]
    positive, listed, negative = CellList(shape), CellList(shape), CellList(shape)
    digest = CellDigest()
    for file in files:
        check_schema(file.schema_arrow, draft)
        # The number of rows is what the file says, not yet what it has.
        positive.reserve(max(0, min(file.metadata.num_rows, math.prod(shape), room.left // CELL)))
        for batch in file.iter_batches(batch_size=CELLS_PER_READ, use_threads=False):
            cells = read_batch(batch, shape)
            if not len(cells.flat):
                continue
            digest.add(cells)
            room.take(len(cells.flat), CELL, "cells")
            check_values(cells, header)
            rows, columns = np.divmod(cells.flat, width)
            for kind, chosen in ((positive, cells.values > 0), (negative, cells.values < 0)):
                kind.add(rows[chosen], columns[chosen], np.abs(cells.values[chosen]))
            chosen = cells.missing | (header.absent == MISSING)
            listed.add(rows[chosen], columns[chosen])
    if digest.hexdigest() != header.cells_sha256:
        raise ReleaseFileError("the cells do not match their checksum")
    if header.absent == MISSING:
        missing: Places | None = all_but(listed.places(), shape, room)
    else:
        missing = listed.places() if listed else None
    return ListedCells(positive.cells(), missing, negative.cells() if header.negative_kept else None)


def check_values(cells: Listed, header: Header) -> None:
    """Signs and sizes, and which cells may be listed."""
    if cells.values.size and max(cells.values.max(), -cells.values.min()) > LARGEST_VALUE:
        raise ReleaseFileError("expected values of at most 2**54 in absolute value, got a larger one")
    if header.absent == MISSING:
        if cells.missing.any():
            raise ReleaseFileError("expected a value for every listed cell")
    elif ((cells.values == 0) & ~cells.missing).any():
        raise ReleaseFileError("expected listed values above 0")
    if not header.negative_kept and (cells.values < 0).any():
        raise ReleaseFileError("expected listed values above 0")


def all_but(
    observed: Places, shape: tuple[int, ...], room: Room, scratch: Path | None = None
) -> Places | None:
    """All cells that are not observed. Beside the list itself this takes little memory, whatever the shape.

    With ``scratch`` the list is in a file there.
    """
    n_rows, width = n_rows_and_width(shape)
    n_missing = n_rows * width - len(observed.columns)
    if n_missing > MOST_MISSING:
        raise ReleaseFileError(f"expected at most {MOST_MISSING:,} missing cells, got {n_missing:,}")
    if not n_missing:
        return None
    room.take(n_missing, np.dtype(column_type(width)).itemsize, "missing cells")  # of memory, or of the disk
    if scratch is None:
        columns, filled = np.empty(n_missing, column_type(width)), 0
        for found in _not_listed(observed, shape):
            columns[filled : filled + len(found)] = found
            filled += len(found)
    else:
        file = ScratchFile(scratch, column_type(width))
        for found in _not_listed(observed, shape):
            file.add(found)
        columns = file.mapped()
    return Places(np.arange(n_rows + 1, dtype=np.int64) * width - observed.row_starts, columns)


def _not_listed(observed: Places, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Their columns, row after row, some at a time."""
    width = n_rows_and_width(shape)[1]
    for start, stop in row_ranges(shape):
        listed = observed.columns[observed.row_starts[start] : observed.row_starts[stop]]
        # A block is many rows, or one row, which may be cut in several pieces.
        for left in range(0, width, CELLS_PER_BLOCK):
            absent = np.ones((stop - start, min(CELLS_PER_BLOCK, width - left)), dtype=bool)
            if stop - start > 1:
                absent[row_indices(observed.row_starts, start, stop) - start, listed] = False
            else:
                first, last = np.searchsorted(listed, (left, left + absent.shape[1]))
                absent[0, listed[first:last] - left] = False
            yield np.nonzero(absent)[1] + left


def check_schema(schema: pa.Schema, draft: Contents) -> None:
    """Names and types of the columns."""
    import pyarrow as pa

    if schema.names != [*draft.axes, VALUE]:
        raise ReleaseFileError(f"expected the columns {[*draft.axes, VALUE]}, got {schema.names}")
    if not all(kind in (pa.int32(), pa.int64()) for kind in schema.types):
        raise ReleaseFileError("expected columns of whole numbers")


def read_batch(batch: pa.RecordBatch, shape: tuple[int, ...]) -> Listed:
    """Its cells, all of them within the shape."""
    indices = []
    for column, length in zip(batch.columns[:-1], shape, strict=True):
        if column.null_count:
            raise ReleaseFileError("expected an index in every row of the table")
        index = column.to_numpy(zero_copy_only=False)
        if index.size and (index.min() < 0 or index.max() >= length):
            raise ReleaseFileError("expected indices within the shape")
        indices.append(index.astype(np.int64))
    value = batch.columns[-1]
    absent = value.is_null().to_numpy(zero_copy_only=False)
    values = value.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if (values == np.iinfo(np.int64).min).any():
        raise ReleaseFileError("expected values above -2**63")
    return Listed(np.ravel_multi_index(tuple(indices), shape), values, absent)
