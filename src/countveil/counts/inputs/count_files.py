"""Files of true counts: CSV, Parquet, Matrix Market, NumPy. Their errors may quote data, so none passes on."""

from __future__ import annotations

import gzip
import os
import re
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from countveil.counts.bounded.numpy_files import check_archive, check_array
from countveil.counts.bounded.pages import check_pages
from countveil.counts.bounded.room import CELL, ROW, ReleaseFileError, Room
from countveil.counts.bounded.within import data_size, has_hole
from countveil.counts.inputs.frames import Table
from countveil.counts.inputs.options import InputOptions
from countveil.counts.places import local_path

# Bytes that a cell of a table takes, and a letter of a file in which every other one is a number of its own.
_CELL, _LETTER, _LONGEST_NUMBER = 8, 50, 100
_TEXTS = ("string", "large_string", "binary", "large_binary")
_COLUMN = 10_000  # bytes that Arrow takes for one of a CSV file, whatever is in it
# Bytes of a line of text: a few million words.
_LONGEST_LINE = 2**26
# Numbers as people write them; what can be in a number as files have it; a cell without one.
_THOUSANDS = re.compile(r"[+-]?\d{1,3}([,.'\u2019\s]\d{3})+([.,]\d*)?")
_DIGIT_OR_WORD = re.compile(r"\d|inf|nan|true|false", re.IGNORECASE)
_NOTHING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", ".", "?")
_KINDS = ".csv, .tsv, .parquet, .mtx, .mtx.gz, .npz or .npy"


class _RefusedError(Exception):
    """What is not expected of a file, in words that quote nothing of it."""


class SymmetricMatrix(NamedTuple):
    """The entries of a symmetric matrix, those off the diagonal once for both of their places."""

    shape: tuple[int, int]
    ends: list[np.ndarray]  # row and column of every entry
    values: np.ndarray


def read_count_file(path: str | os.PathLike[str], options: InputOptions) -> Any:
    """What the file holds: a table, a sparse or symmetric matrix or an array."""
    source = local_path(path, "counts")
    kind = "".join(source.suffixes[-2:]) if source.suffix == ".gz" else source.suffix
    read = {
        ".csv": _csv, ".tsv": _csv, ".parquet": _parquet,
        ".mtx": _matrix_market, ".mtx.gz": _matrix_market, ".npz": _npz, ".npy": _npy,
    }.get(kind.lower())  # fmt: skip
    if read is None:
        # Not as what: it may be a text, which is to be counted.
        raise ValueError(
            f"counts: expected a file ending in {_KINDS}, got another name; texts come as a list, with a vocabulary"
        )
    if source.exists() and not (
        source.is_file() or source.is_dir()
    ):  # a pipe would be waited for, a device read
        raise ValueError(f"counts: expected a file, got {source}, which is something else")
    with source.open("rb") as file:  # what the system itself refuses keeps its own, clear error
        room = Room(data_size(file.fileno()))
        if has_hole(file.fileno()):
            raise ValueError(f"counts: expected a whole file, got {source}, which is mostly a hole")
    try:
        found = read(source, options, room)
        if sparse.issparse(found) or isinstance(found, SymmetricMatrix):
            room.take(found.shape[0], ROW, "rows")
            room.take(found.shape[1], CELL, "columns")  # a row at a time gets its noise
        return found
    except (MemoryError, ImportError):
        raise
    except ReleaseFileError:
        raise ValueError(
            f"counts: expected a file that takes at most 1 GiB and 1000 times its size when read, got {source}"
        ) from None
    except _RefusedError as error:
        raise ValueError(f"counts: expected {error}: {source}") from None
    except Exception as error:
        failed = type(error).__name__
    raise ValueError(
        f"counts: {source} cannot be read as {kind} ({failed}); a message could quote its contents"
    )


def _csv(source: Path, options: InputOptions, room: Room) -> Any:
    from pyarrow import csv, string

    parse = csv.ParseOptions(
        delimiter="\t" if source.suffix.lower() == ".tsv" else ",",
        newlines_in_values=True,  # or whether a quoted one passes would depend on where blocks of the file end
    )
    read = csv.ReadOptions(block_size=_LONGEST_LINE)
    with source.open("rb") as file:
        room.take(file.readline(_LONGEST_LINE).count(parse.delimiter.encode()), _COLUMN, "columns")
    with csv.open_csv(source, read_options=read, parse_options=parse) as opened:
        names = opened.schema.names
    if len(names) == 1 and re.search(r"[;\t|]", names[0]):
        raise _RefusedError(
            "commas between fields (tabs in .tsv), got a first line with other signs alone, as spreadsheets write "
            "them in some countries"
        )
    # All stays text. Labels: "007" is not 7, and "NA" is a label like others. Numbers: the lines that are released
    # are read as such; a type found by looking at all lines would tell of others.
    as_text = csv.ConvertOptions(column_types={name: string() for name in names})
    table = csv.read_csv(source, read_options=read, parse_options=parse, convert_options=as_text)
    _check_quotes(names, table.columns, parse.delimiter)
    return Table(
        table.column_names,
        lambda i: table.column(i).to_numpy(),
        table.num_rows,
        None,
        lambda i, lines: _parsed(table.column(i), lines),
    )


def _check_quotes(names: list[str], columns: Sequence[Any], delimiter: str) -> None:
    """Refuse fields of several lines: from a bare quotation mark to the next lie lines of the table, and counts.

    Where tabs stand between fields one with a tab in it, too, which people do not write.
    """
    import pyarrow as pa
    from pyarrow import compute

    # All at once: a table may have a hundred thousand columns.
    texts = pa.chunked_array(
        [pa.array(names, pa.string()), *(chunk for one in columns for chunk in one.chunks)]
    )
    swallowed = compute.match_substring_regex(texts, r"[\r\n\t]" if delimiter == "\t" else r"[\r\n]")
    if compute.any(swallowed).as_py():
        raise _RefusedError(
            "quotation marks around whole fields, doubled within them, and fields of one line, got one with the "
            "end of a line in it, as where a mark is a word itself; save it with all text quoted, or without that "
            "column"
        )


def _parsed(texts: Any, lines: np.ndarray) -> np.ndarray:
    """The texts in the chosen lines as numbers, or as they are if some are none."""
    import pyarrow as pa
    from pyarrow import compute

    chosen = compute.utf8_trim_whitespace(texts.filter(pa.array(lines)))
    for kind in (pa.int64(), pa.float64(), pa.bool_()):
        with suppress(pa.ArrowInvalid):
            return chosen.cast(kind).to_numpy()
    return chosen.to_numpy()


def may_be_counts(names: Iterable[str]) -> bool:
    """Whether names of columns are a line of counts, it seems: one is a number, or nothing stands in any.

    >>> [may_be_counts(names) for names in (["tea", "sea"], ["tea", "0x1F"], ["1,234"], ["NA", ""], ["Na", "K"])]
    [False, True, True, True, False]
    """
    import pyarrow as pa

    def is_number(name: str) -> bool:
        if _THOUSANDS.fullmatch(name):
            return True
        with suppress(ValueError):
            float(name)
            return True
        # As the cells are read.
        return bool(
            _DIGIT_OR_WORD.search(name)
            and _parsed(pa.chunked_array([[name]]), np.ones(1, bool)).dtype.kind in "biuf"
        )

    texts = [name.strip() for name in names]
    return any(map(is_number, texts)) or all(text.lower() in _NOTHING for text in texts)


def _parquet(source: Path, options: InputOptions, room: Room) -> Any:
    import pyarrow.parquet as pq

    with source.open("rb") as file:
        room.take(check_pages(file, room.left, any_encoding=True), 1, "bytes")
        metadata = pq.read_metadata(file)
        groups = map(metadata.row_group, range(metadata.num_row_groups))
        n_cells = sum(group.column(i).num_values for group in groups for i in range(group.num_columns))
        room.take(n_cells, _CELL, "cells")
        # Each text once, as it is in the file: one of megabytes may stand in a million lines.
        texts = [field.name for field in pq.read_schema(file) if str(field.type) in _TEXTS]
        table = pq.read_table(file, read_dictionary=texts)  # a path such as file:x.parquet is a URI to Arrow
    if b"countveil" in (table.schema.metadata or {}):
        # Its columns would pass for a table of counts, and noise would be taken for data.
        raise _RefusedError("a file of counts, got a release")
    return table


def _npz(source: Path, options: InputOptions, room: Room) -> Any:
    with source.open("rb") as file:
        with zipfile.ZipFile(file) as archive:
            check_archive(archive, room.left)
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            if len(arrays.files) == 1:
                return arrays[arrays.files[0]]
            if "offsets" in arrays.files:  # scipy cuts them to 32 bits before anybody could look
                offsets = arrays["offsets"]
                if offsets.dtype.kind not in "iu" or not (np.abs(offsets.astype(float)) < 2.0**31).all():
                    raise ValueError
        file.seek(0)
        return sparse.load_npz(file)


def _npy(source: Path, options: InputOptions, room: Room) -> Any:
    with source.open("rb") as file:
        check_array(file, os.fstat(file.fileno()).st_size)
        room.take(data_size(file.fileno()), 1, "bytes")
        file.seek(0)
        return np.load(file, allow_pickle=False)


def _matrix_market(
    source: Path, options: InputOptions, room: Room
) -> sparse.coo_array | SymmetricMatrix | np.ndarray:
    """A Matrix Market file, read here because scipy's reader can crash the process on a damaged one.

    %%MatrixMarket matrix coordinate integer general
    % comments
    rows columns entries
    row column count         (from 1; without the count where the field is "pattern")
    """
    with gzip.open(source) if source.suffix == ".gz" else source.open("rb") as file:
        banner = file.readline(_LONGEST_NUMBER).decode("ascii").lower().split()
        # A line, and each of its words, are objects.
        text = file.read(room.left // _LETTER + 1)
        room.take(len(text), _LETTER, "letters")
        lines = text.split(b"\n")
    if banner[:2] != ["%%matrixmarket", "matrix"] or len(banner) != 5:
        raise ValueError("expected the first line of a Matrix Market file")
    layout, field, symmetry = banner[2:]
    if layout not in ("coordinate", "array") or field not in ("integer", "real", "pattern"):
        raise ValueError("expected coordinates or an array of whole numbers")
    if symmetry not in ("general", "symmetric") or (layout == "array" and symmetry != "general"):
        raise ValueError("expected a general or symmetric matrix")
    rest = [line for line in lines if line.strip() and not line.lstrip().startswith(b"%")]
    size = [int(number) for number in rest[0].split()]
    if min(size) < 0:  # numpy would take -1 for "as many as there are"
        raise ValueError("expected sizes of at least 0")
    words = b" ".join(rest[1:]).split()
    if (
        max(map(len, words), default=0) > _LONGEST_NUMBER
    ):  # all of them would take as much room as the longest
        raise ValueError("expected numbers")
    numbers = np.array(words, dtype=np.bytes_).astype(np.float64)
    if layout == "array":
        n_rows, n_columns = size
        return numbers.reshape(n_columns, n_rows).T  # column after column
    n_rows, n_columns, entries = size
    return _coordinates(numbers, (n_rows, n_columns), entries, field == "pattern", symmetry == "symmetric")


def _coordinates(
    numbers: np.ndarray, shape: tuple[int, int], entries: int, pattern: bool, symmetric: bool
) -> sparse.coo_array | SymmetricMatrix:
    columns = numbers.reshape(entries, 2 if pattern else 3)
    if not (np.abs(columns[:, :2]) < 2**53).all():  # NaN too: neither is a place
        raise ValueError("expected places within the matrix")
    places = columns[:, :2].astype(np.int64) - 1
    if (places + 1 != columns[:, :2]).any() or (places < 0).any() or (places >= shape).any():
        raise ValueError("expected places within the matrix")
    values = np.ones(entries, np.int64) if pattern else columns[:, 2]
    row, column = places.T
    if not symmetric:
        return sparse.coo_array((values, (row, column)), shape=shape)
    if shape[0] != shape[1]:
        raise ValueError("expected a square matrix")
    return SymmetricMatrix(shape, [row, column], values)
