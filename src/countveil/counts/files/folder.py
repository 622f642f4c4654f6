"""The folder form of a release, for more labels than the metadata of one file should hold.

release.json         the header, as in a single file, with file names in place of the labels
rows.parquet         row, label, and the row's epsilon and precision as exact numbers in text
columns.parquet      column, label; further axes are axis2.parquet and so on
cells/part-*.parquet the table of cells, sorted across the parts
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countveil.counts.files.cells import CellFile, Listed
from countveil.counts.files.header import FORMAT, ReleaseFileError, read_header, sign_header
from countveil.counts.layout import Contents

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

CELLS_PER_PART = 1 << 24
HEADER = "release.json"


def write_parts(folder: Path, contents: Contents, groups: Iterable[Listed]) -> None:
    """The cells, in as many files as it takes."""
    (folder / "cells").mkdir()
    left, part = iter(groups), 0
    more = True
    while more:
        more = False
        with (
            _part(folder, part).open("xb") as file,
            CellFile(file, contents.axes, contents.shape) as cells,
        ):
            written = 0
            for listed in left:
                cells.add(listed)
                written += len(listed.flat)
                if written >= CELLS_PER_PART:
                    more = True
                    break
        part += 1


def write_names(folder: Path, contents: Contents, header: dict[str, Any]) -> None:
    """The labels and the header, once the cells are written."""
    import pyarrow.parquet as pq

    files: list[Any] = []
    for place, table in enumerate(_name_tables(contents, header)):
        if table is not None:
            pq.write_table(table, folder / _name_file(place), compression="zstd", store_schema=False)
            digest = hashlib.sha256((folder / _name_file(place)).read_bytes()).hexdigest()
            files.append({"file": _name_file(place), "sha256": digest})
        else:
            files.append(None)
    by_row = None if header["row_guarantees"] is None else _name_file(0)
    parts = len(list((folder / "cells").iterdir()))
    whole = {
        **header,
        "labels": [labels is not None for labels in contents.labels],
        "row_guarantees": by_row,
        "files": files,
        "parts": parts,
    }
    (folder / HEADER).write_bytes(sign_header(whole))


def _name_tables(contents: Contents, header: dict[str, Any]) -> Iterator[pa.Table | None]:
    import pyarrow as pa

    for place, (axis, labels) in enumerate(zip(contents.axes, contents.labels, strict=True)):
        columns: dict[str, Any] = {}
        if labels is not None:
            columns["label"] = _texts(labels.tolist())
        if place == 0 and (contents.guarantee or contents.row_guarantees):
            each = contents.row_guarantees or (contents.guarantee,) * contents.shape[0]
            for name in ("epsilon", "precision"):
                texts = [None if g is None else str(getattr(g, name)) for g in each]  # None: a plain row
                columns[name] = pa.array(texts, pa.string())
        if columns:
            name = axis if axis.lower() not in columns else "place"
            yield pa.table({name: pa.array(range(contents.shape[place]), pa.int64()), **columns})
        else:
            yield None


def _texts(labels: list[str]) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(labels, pa.string())
    except UnicodeEncodeError as error:
        raise ValueError("labels: expected text that UTF-8 can hold, got half a character") from error


def read_folder(folder: Path) -> tuple[dict[str, Any], list[Path]]:
    """The header with its labels, and the files of cells."""
    if not (folder / HEADER).is_file():
        raise ReleaseFileError(f"expected a release, got a folder without {HEADER}")
    header = read_header((folder / HEADER).read_bytes())
    files, labelled = header.pop("files"), header["labels"]
    if not isinstance(files, list) or len(files) != len(labelled):
        raise ReleaseFileError("expected an entry for the labels of each axis")
    labels: list[list[str] | None] = []
    for place, (entry, is_labelled) in enumerate(zip(files, labelled, strict=True)):
        table = None if entry is None else _read_names(folder / _name_file(place), entry)
        labels.append(table["label"].to_pylist() if table is not None and is_labelled else None)
        if place == 0 and header["row_guarantees"] is not None:
            if table is None:
                raise ReleaseFileError("expected the guarantees of the rows, got none")
            header["row_guarantees"] = _pairs(table)
    header["labels"] = labels
    parts = header.pop("parts")
    if type(parts) is not int or parts < 1:
        raise ReleaseFileError("expected at least one part")
    found = sorted((folder / "cells").iterdir())
    if len(found) != parts or found != [_part(folder, i) for i in range(parts)]:
        raise ReleaseFileError(f"expected {parts} parts in cells, got others")
    return header, found


def _read_names(file: Path, entry: Any) -> Any:
    import pyarrow.parquet as pq

    if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != entry["sha256"]:
        raise ReleaseFileError(f"{file.name} is missing or does not match its checksum")
    return pq.read_table(file)


def _pairs(table: pa.Table) -> dict[str, Any]:
    pairs = list(zip(table["epsilon"].to_pylist(), table["precision"].to_pylist(), strict=True))
    plain = (None, None)
    distinct = {pair: place for place, pair in enumerate(dict.fromkeys(p for p in pairs if p != plain))}
    return {
        "epsilon": [pair[0] for pair in distinct],
        "precision": [pair[1] for pair in distinct],
        "rows": [None if pair == plain else distinct[pair] for pair in pairs],
    }


def opened(files: list[Path]) -> Iterator[pq.ParquetFile]:
    """One file after the other."""
    import pyarrow.parquet as pq

    for path in files:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file


def is_release_folder(folder: Path) -> bool:
    """Whether this is a folder that a release may replace."""
    try:
        return bool(json.loads((folder / HEADER).read_bytes())["format"] == FORMAT)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _name_file(place: int) -> str:
    return ("rows", "columns")[place] + ".parquet" if place < 2 else f"axis{place}.parquet"


def _part(folder: Path, number: int) -> Path:
    return folder / "cells" / f"part-{number:05}.parquet"
