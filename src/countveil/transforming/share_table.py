"""A table of rows' shares on disk, written some rows at a time: a line for every row and topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from countveil.counts.files.atomic import new_file

if TYPE_CHECKING:
    import pyarrow as pa

#: In the metadata of the file: what it is.
KIND = b"countveil shares"


class ShareTable:
    """The lines of a Dataset of shares, as its ``to_dataframe().reset_index()`` has them."""

    def __init__(
        self,
        file: BinaryIO,
        row: str,
        dimension: str,
        labelled: bool,
        quantities: tuple[str, ...],
        interval: float,
    ) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        fields = [
            pa.field(row, pa.string() if labelled else pa.int64(), nullable=False),
            pa.field(dimension, pa.int32(), nullable=False),
            *(pa.field(name, pa.float64(), nullable=False) for name in quantities),
        ]
        self._schema = pa.schema(fields)
        self._said = {KIND: b"1", b"interval": repr(interval).encode()}
        self._writer = pq.ParquetWriter(
            file, self._schema, compression="zstd", write_page_checksum=True, store_schema=False
        )

    def add(self, rows: np.ndarray, shares: Mapping[str, np.ndarray]) -> None:
        """The labels or numbers of some rows, and every quantity of them, (rows, topics)."""
        import pyarrow as pa

        n_topics = next(iter(shares.values())).shape[1]
        columns: list[pa.Array] = [
            pa.array(np.repeat(rows, n_topics), self._schema.types[0]),
            pa.array(np.tile(np.arange(n_topics, dtype=np.int32), len(rows))),
            *(pa.array(values.ravel()) for values in shares.values()),
        ]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        """Write what a Parquet file ends with."""
        self._writer.add_key_value_metadata(self._said)
        self._writer.close()

    def __enter__(self) -> ShareTable:
        return self

    def __exit__(self, *_: Any) -> None:
        self._writer.close()  # a second time does nothing; after a failure it lets go of the file


@contextmanager
def new_share_file(path: Path, overwrite: bool) -> Iterator[BinaryIO]:
    """A file that takes its name when the block ends well."""
    try:
        with new_file(path, overwrite=overwrite) as file:
            yield file
    except OSError as error:
        if isinstance(error, FileExistsError) or error.filename:
            raise
        raise OSError(error.errno, f"cannot write the table: {error.strerror or error}", str(path)) from error


def check_share_file(path: Path, overwrite: bool) -> None:
    """Refuse, before any work, a name that is taken or lies nowhere; with ``overwrite`` what is no such table."""
    if not isinstance(overwrite, bool):
        raise TypeError(f"overwrite: expected True or False, got {type(overwrite).__name__}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path: expected a name in an existing folder, got {str(path)!r}")
    if path.suffix != ".parquet":
        raise ValueError(
            f"path: expected a name such as rows.parquet, got {path.name!r}: the table is Parquet"
        )
    if path.exists() and not overwrite:
        raise FileExistsError(
            f"path: expected a new name, got {path}, which exists; overwrite=True replaces it"
        )
    if path.exists() and not _is_share_file(path):
        raise FileExistsError(
            f"path: expected a table of shares to replace, got {path}, which is something else"
        )


def _is_share_file(path: Path) -> bool:
    import pyarrow.parquet as pq

    try:
        return KIND in (pq.read_metadata(path).metadata or {})
    except (OSError, ValueError):
        return False
