"""Matrix Market files, read here because scipy's reader can crash the process on a damaged one.

%%MatrixMarket matrix coordinate integer general
% comments
rows columns entries
row column count         (from 1; without the count where the field is "pattern")
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from scipy import sparse


def read_matrix_market(source: Path) -> sparse.coo_array | np.ndarray:
    """The matrix; ValueError or the like where the file is not one. Messages may quote it: do not pass on."""
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
