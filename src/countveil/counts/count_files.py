"""Files of true counts: CSV, Parquet, Matrix Market, NumPy. Their errors may quote data, so none passes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from countveil.counts.form import Form
from countveil.counts.matrix_market import read_matrix_market

_KINDS = ".csv, .tsv, .parquet, .mtx, .mtx.gz, .npz or .npy"


class _ReleaseGivenError(Exception):
    """A release where true counts are expected."""


def read_count_file(path: str | os.PathLike[str], form: Form) -> Any:
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
        return read(source, form)
    except (MemoryError, ImportError):
        raise
    except _ReleaseGivenError:
        raise ValueError(f"counts: expected a file of counts, got a release: {source}") from None
    except Exception as error:
        failed = type(error).__name__
    raise ValueError(
        f"counts: {source} cannot be read as {kind} ({failed}); a message could quote its contents"
    )


def _csv(source: Path, form: Form) -> Any:
    from pyarrow import csv, string

    # Labels stay text: "007" is not 7, and "NA" is a label like others.
    labels = [*list(form.long or ())[:-1], *([form.index] if form.index is not None else [])]
    return csv.read_csv(
        source,
        parse_options=csv.ParseOptions(delimiter="\t" if source.suffix.lower() == ".tsv" else ","),
        convert_options=csv.ConvertOptions(column_types={name: string() for name in labels}),
    )


def _parquet(source: Path, form: Form) -> Any:
    import pyarrow.parquet as pq

    table = pq.read_table(source)
    if b"countveil" in (table.schema.metadata or {}):
        # Its columns would pass for a table of counts, and noise would be taken for data.
        raise _ReleaseGivenError
    return table


def _matrix_market(source: Path, form: Form) -> Any:
    return read_matrix_market(source)


def _npz(source: Path, form: Form) -> Any:
    with source.open("rb") as file:
        with np.load(file, allow_pickle=False) as arrays:
            if len(arrays.files) == 1:
                return arrays[arrays.files[0]]
        file.seek(0)
        return sparse.load_npz(file)


def _npy(source: Path, form: Form) -> Any:
    with source.open("rb") as file:
        return np.load(file, allow_pickle=False)
