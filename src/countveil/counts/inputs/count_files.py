"""Files of true counts: CSV, Parquet, Matrix Market, NumPy. Their errors may quote data, so none passes on."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from countveil.counts.inputs.options import InputOptions

_KINDS = ".csv, .tsv, .parquet, .mtx, .mtx.gz, .npz or .npy"


class _ReleaseGivenError(Exception):
    """A release where true counts are expected."""


def read_count_file(path: str | os.PathLike[str], options: InputOptions) -> Any:
    """What the file holds: an Arrow table, a sparse matrix or an array."""
    source = Path(path)
    kind = "".join(source.suffixes[-2:]) if source.suffix == ".gz" else source.suffix
    read = {
        ".csv": _csv, ".tsv": _csv, ".parquet": _parquet,
        ".mtx": _matrix_market, ".mtx.gz": _matrix_market, ".npz": _npz, ".npy": _npy,
    }.get(kind.lower())  # fmt: skip
    if read is None:
        raise ValueError(f"counts: expected a file ending in {_KINDS}, got {source.name!r}")
    with source.open("rb"):  # what the system itself refuses keeps its own, clear error
        pass
    try:
        return read(source, options)
    except (MemoryError, ImportError):
        raise
    except _ReleaseGivenError:
        raise ValueError(f"counts: expected a file of counts, got a release: {source}") from None
    except Exception as error:
        failed = type(error).__name__
    raise ValueError(
        f"counts: {source} cannot be read as {kind} ({failed}); a message could quote its contents"
    )


def _csv(source: Path, options: InputOptions) -> Any:
    from pyarrow import csv, string

    # Labels stay text: "007" is not 7, and "NA" is a label like others.
    labels = [*list(options.long or ())[:-1], *([options.index] if options.index is not None else [])]
    return csv.read_csv(
        source,
        parse_options=csv.ParseOptions(delimiter="\t" if source.suffix.lower() == ".tsv" else ","),
        convert_options=csv.ConvertOptions(column_types={name: string() for name in labels}),
    )


def _parquet(source: Path, options: InputOptions) -> Any:
    import pyarrow.parquet as pq

    table = pq.read_table(source)
    if b"countveil" in (table.schema.metadata or {}):
        # Its columns would pass for a table of counts, and noise would be taken for data.
        raise _ReleaseGivenError
    return table


def _npz(source: Path, options: InputOptions) -> Any:
    with source.open("rb") as file:
        with np.load(file, allow_pickle=False) as arrays:
            if len(arrays.files) == 1:
                return arrays[arrays.files[0]]
        file.seek(0)
        return sparse.load_npz(file)


def _npy(source: Path, options: InputOptions) -> Any:
    with source.open("rb") as file:
        return np.load(file, allow_pickle=False)


def _matrix_market(source: Path, options: InputOptions) -> sparse.coo_array | np.ndarray:
    """A Matrix Market file, read here because scipy's reader can crash the process on a damaged one.

    %%MatrixMarket matrix coordinate integer general
    % comments
    rows columns entries
    row column count         (from 1; without the count where the field is "pattern")
    """
    with gzip.open(source) if source.suffix == ".gz" else source.open("rb") as file:
        banner = file.readline().decode("ascii").lower().split()
        lines = file.read().split(b"\n")
    if banner[:2] != ["%%matrixmarket", "matrix"] or len(banner) != 5:
        raise ValueError("expected the first line of a Matrix Market file")
    layout, field, symmetry = banner[2:]
    if layout not in ("coordinate", "array") or field not in ("integer", "real", "pattern"):
        raise ValueError("expected coordinates or an array of whole numbers")
    if symmetry not in ("general", "symmetric") or (layout == "array" and symmetry != "general"):
        raise ValueError("expected a general or symmetric matrix")
    rest = [line for line in lines if line.strip() and not line.lstrip().startswith(b"%")]
    size = [int(number) for number in rest[0].split()]
    numbers = np.array(b" ".join(rest[1:]).split(), dtype=np.bytes_).astype(np.float64)
    if layout == "array":
        n_rows, n_columns = size
        return numbers.reshape(n_columns, n_rows).T  # column after column
    n_rows, n_columns, entries = size
    return _coordinates(numbers, (n_rows, n_columns), entries, field == "pattern", symmetry == "symmetric")


def _coordinates(
    numbers: np.ndarray, shape: tuple[int, int], entries: int, pattern: bool, symmetric: bool
) -> sparse.coo_array:
    columns = numbers.reshape(entries, 2 if pattern else 3)
    places = columns[:, :2].astype(np.int64) - 1
    if (places + 1 != columns[:, :2]).any() or (places < 0).any() or (places >= shape).any():
        raise ValueError("expected places within the matrix")
    values = np.ones(entries, np.int64) if pattern else columns[:, 2]
    row, column = places.T
    if symmetric:
        mirrored = row != column
        row, column = np.concatenate([row, column[mirrored]]), np.concatenate([column, row[mirrored]])
        values = np.concatenate([values, values[mirrored]])
    return sparse.coo_array((values, (row, column)), shape=shape)
