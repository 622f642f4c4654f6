"""The table of a release file: listed cells out to Parquet and back, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from countveil.counts.collect import CellList
from countveil.counts.contents import Cells, Contents, Places, n_rows_and_width, row_indices
from countveil.counts.file_header import KEY, Header, cells_digest
from countveil.counts.labels import VALUE
from countveil.counts.release_file_error import ReleaseFileError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

CELLS_PER_GROUP = 1 << 20


class ListedCells(NamedTuple):
    """What a table lists."""

    positive: Cells
    missing: Places | None
    negative: Cells | None


def write_cells(file: BinaryIO, contents: Contents, header: bytes) -> None:
    """Write the table, with the header in its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _schema(contents)
    # The table needs no Arrow schema beside the Parquet one; other readers would not look at it.
    with pq.ParquetWriter(
        file, schema, compression="zstd", write_page_checksum=True, store_schema=False
    ) as writer:
        writer.add_key_value_metadata({KEY: header})
        for flat, values, missing in _groups(contents):
            indices = np.unravel_index(flat, contents.shape)
            columns = [pa.array(i, type=t) for i, t in zip(indices, schema.types[:-1], strict=True)]
            columns.append(pa.array(values, type=schema.types[-1], mask=missing))
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _schema(contents: Contents) -> pa.Schema:
    import pyarrow as pa

    def holding(largest: int) -> pa.DataType:
        # Signed types of the two usual widths: every reader, R included, has them.
        return pa.int32() if largest < 2**31 else pa.int64()

    highest = max(
        (int(c.values.max()) for c in (contents.positive, contents.negative) if c and c.values.size),
        default=0,
    )
    fields = [
        pa.field(axis, holding(n), nullable=False)
        for axis, n in zip(contents.axes, contents.shape, strict=True)
    ]
    return pa.schema([*fields, pa.field(VALUE, holding(highest))])


def _groups(contents: Contents) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(position, value, whether missing) of all listed cells in order, about a million at a time."""
    n_rows, width = n_rows_and_width(contents.shape)
    lists = [c for c in (contents.positive, contents.missing, contents.negative) if c is not None]
    listed = np.sum([c.row_starts for c in lists], axis=0)
    start = 0
    while start < n_rows:
        stop = int(np.searchsorted(listed, listed[start] + CELLS_PER_GROUP, side="right")) - 1
        stop = min(max(stop, start + 1), n_rows)
        yield _group(contents, start, stop, width)
        start = stop


def _group(
    contents: Contents, start: int, stop: int, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    flat, values, missing = [], [], []
    for cells, sign in ((contents.positive, 1), (contents.negative, -1), (contents.missing, 0)):
        if cells is None:
            continue
        part = slice(cells.row_starts[start], cells.row_starts[stop])
        flat.append(row_indices(cells.row_starts, start, stop) * width + cells.columns[part])
        if isinstance(cells, Cells):
            values.append(cells.values[part].astype(np.int64) * sign)
        else:
            values.append(np.zeros(len(flat[-1]), dtype=np.int64))
        missing.append(np.full(len(flat[-1]), sign == 0))
    together = np.concatenate(flat), np.concatenate(values), np.concatenate(missing)
    if len(flat) == 1:
        return together
    order = np.argsort(together[0], kind="stable")
    return together[0][order], together[1][order], together[2][order]


def read_cells(file: pq.ParquetFile, draft: Contents, header: Header) -> ListedCells:
    """Read and check the table: names, types, ranges, order, signs, and the checksum of it all."""
    _check_schema(file.schema_arrow, draft)
    shape = draft.shape
    width = n_rows_and_width(shape)[1]
    positive, missing, negative = CellList(shape), CellList(shape), CellList(shape)
    last = -1
    for batch in file.iter_batches(batch_size=CELLS_PER_GROUP):
        flat, values, absent = _read_batch(batch, shape)
        if not len(flat):
            continue
        if flat[0] <= last or (np.diff(flat) <= 0).any():
            raise ReleaseFileError("expected cells in order, each once")
        last = int(flat[-1])
        if ((values == 0) & ~absent).any() or (not header.negative_kept and (values < 0).any()):
            raise ReleaseFileError("expected listed values above 0")
        rows, columns = np.divmod(flat, width)
        for kind, chosen in ((positive, values > 0), (negative, values < 0)):
            kind.add(rows[chosen], columns[chosen], np.abs(values[chosen]))
        missing.add(rows[absent], columns[absent])
    found = ListedCells(
        positive.cells(),
        missing.places() if missing else None,
        negative.cells() if header.negative_kept else None,
    )
    if cells_digest(*found) != header.cells_sha256:
        raise ReleaseFileError("the cells do not match their checksum")
    return found


def _check_schema(schema: pa.Schema, draft: Contents) -> None:
    import pyarrow as pa

    if schema.names != [*draft.axes, VALUE]:
        raise ReleaseFileError(f"expected the columns {[*draft.axes, VALUE]}, got {schema.names}")
    if not all(kind in (pa.int32(), pa.int64()) for kind in schema.types):
        raise ReleaseFileError("expected columns of whole numbers")


def _read_batch(batch: pa.RecordBatch, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(position, value, whether missing), missing cells with value 0."""
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
    return np.ravel_multi_index(tuple(indices), shape), values, absent
