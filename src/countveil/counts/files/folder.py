"""The folder form of a release, for more labels than the metadata of one file should hold.

release.json              the header, as in a single file, with file names in place of the labels
generation-1/             the folder of all else; release.json names it
    rows.parquet          row, label, and the row's epsilon and precision as exact numbers in text
    columns.parquet       column, label; further axes are axis2.parquet and so on
    cells/part-*.parquet  the table of cells, sorted across the parts

A release that is overwritten gets its next generation in a folder beside the old one. The new release.json,
renamed, makes it the current one: at every moment the release is the old one or the new one. Folders that were
written before there were generations have all files beside release.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countveil.counts.bounded.pages import check_pages
from countveil.counts.bounded.room import TEXT, TEXT_BYTE, ReleaseFileError, Room
from countveil.counts.cells.layout import Contents
from countveil.counts.files.atomic import (
    final_modes,
    has_writers,
    held,
    new_folder,
    open_up,
    private_file,
    remove_unfinished,
    sync_folder,
    unfinished,
)
from countveil.counts.files.cells import CellFile, Listed
from countveil.counts.files.header import (
    FORMAT,
    LARGEST_HEADER,
    VERSION,
    encode_header,
    read_header,
)
from countveil.counts.files.pieces import Piece
from countveil.counts.places import Place, check_is_folder, is_there, open_place, read_place, size_at
from countveil.counts.remote import RemoteFile

if TYPE_CHECKING:
    import pyarrow as pa

CELLS_PER_PART = 1 << 24
TEXTS_PER_READ = 1 << 16
HEADER = "release.json"
_GENERATION, _LAST_GENERATION = re.compile(r"generation-[1-9][0-9]{0,17}"), 10**18 - 1
#: Writes all of a release but release.json into a folder, and gives what release.json is to say.
Writer = Callable[[Path], dict[str, Any]]


def write_folder(target: Path, write: Writer, *, overwrite: bool) -> None:
    """A new release folder, or with ``overwrite`` the next generation of the one that is there."""
    if overwrite and is_release_folder(target):
        _write_next(target, write)
        return
    with new_folder(target) as folder:
        first = folder / "generation-1"
        first.mkdir(mode=0o700)
        _write_header(folder, first.name, write(first))


def _write_next(target: Path, write: Writer) -> None:
    remove_unfinished(target.parent)
    was_flat = _current(target) is None
    _remove_old(target)
    with unfinished(target) as folder:
        new = folder / "generation"
        new.mkdir(mode=0o700)
        header = write(new)
        with held(folder) as inside:
            files, folders = final_modes(folder, inside)
        with held(new) as itself:
            place = _named(target, new)
            try:
                _write_header(place, place.name, header)
                open_up(
                    itself, files, folders, but_itself=True
                )  # nobody enters it before it is the current one
                (place / HEADER).replace(target / HEADER)
                sync_folder(target)
                if itself is not None:
                    os.fchmod(itself, folders)
            except BaseException:
                if _current(target) != place.name:
                    shutil.rmtree(place, ignore_errors=True)
                raise
    _remove_old(target)
    if was_flat and not has_writers(target):
        _remove_files(target)


def _named(target: Path, folder: Path) -> Path:
    """The folder under the name of the next generation that is free; after the last comes the first."""
    current = str(_current(target))
    number = int(current.removeprefix("generation-")) if _GENERATION.fullmatch(current) else 0
    while True:
        number = number % _LAST_GENERATION + 1
        place = target / f"generation-{number}"
        if os.path.lexists(place):  # another writer's, or whoever has put it there
            continue
        try:
            return folder.rename(place)
        except OSError:
            if not os.path.lexists(place):  # not that another writer has just taken that name
                raise


def _remove_old(target: Path) -> None:
    """Remove every generation but the current one; what somebody else has put there stays.

    While anyone is writing here, a generation may be about to be named: then the next writer removes what is old.
    """
    found = [path for path in target.iterdir() if _GENERATION.fullmatch(path.name)]
    if has_writers(target):
        return
    current = _current(target)  # last: what was written meanwhile has its name now
    for place in found:
        if current in (None, place.name) or place.is_symlink():
            continue
        with suppress(OSError), held(place) as itself:
            if itself is not None:
                os.fchmod(itself, 0o700)  # what is half removed is for nobody
        _remove_files(place)
        with suppress(OSError):
            (place / HEADER).unlink()
        with suppress(OSError):
            place.rmdir()


def _remove_files(place: Path) -> None:
    """Remove the files of a release, but for its header, from their folder."""
    cells = place / "cells"
    parts = [] if cells.is_symlink() else cells.glob("part-*.parquet")
    for path in [*parts, *place.glob("*.parquet")]:
        if re.fullmatch(r"part-\d{5,}" if path.parent == cells else r"rows|columns|axis\d+", path.stem):
            with suppress(OSError):
                path.unlink()
    with suppress(OSError):
        cells.rmdir()


def _current(target: Path) -> str | None:
    """The name of the current generation; None for a folder from before there were any."""
    return json.loads(_header_bytes(target)).get("generation")


def _write_header(folder: Path, generation: str, header: dict[str, Any]) -> None:
    with private_file(folder / HEADER) as file:
        file.write(encode_header({**header, "generation": generation}))


def _header_bytes(folder: Place) -> bytes:
    return read_place(folder / HEADER, LARGEST_HEADER)


def write_parts(folder: Path, contents: Contents, groups: Iterable[Listed]) -> list[list[Piece]]:
    """The cells, in as many files as it takes; the pieces of each."""
    pieces = []
    (folder / "cells").mkdir(mode=0o700)
    left, part = iter(groups), 0
    more = True
    while more:
        more = False
        with (
            private_file(_part(folder, part)) as file,
            CellFile(file, contents.axes, contents.shape) as cells,
        ):
            written = 0
            for listed in left:
                cells.add(listed)
                written += len(listed.flat)
                if written >= CELLS_PER_PART:
                    more = True
                    break
            pieces.append(cells.pieces)
        part += 1
    return pieces


def write_names(
    folder: Path, contents: Contents, tables: Iterable[pa.Table | None], header: dict[str, Any]
) -> dict[str, Any]:
    """The labels (``name_tables``), once the cells are written; and the header that names their files."""
    import pyarrow.parquet as pq

    files: list[Any] = []
    for place, table in enumerate(tables):
        if table is not None:
            with private_file(folder / _name_file(place)) as file:
                pq.write_table(table, file, compression="zstd", store_schema=False)
            digest = hashlib.sha256((folder / _name_file(place)).read_bytes()).hexdigest()
            files.append({"file": _name_file(place), "sha256": digest})
        else:
            files.append(None)
    by_row = None if header["row_guarantees"] is None else _name_file(0)
    parts = len(list((folder / "cells").iterdir()))
    return {
        **header,
        "version": VERSION,  # generations came with it
        "labels": [labels is not None for labels in contents.labels],
        "row_guarantees": by_row,
        "files": files,
        "parts": parts,
    }


def name_tables(contents: Contents) -> Iterator[pa.Table | None]:
    """What a folder holds of each axis: labels, and of rows guarantees; an error if no file can hold them."""
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


def read_folder(
    folder: Place, room: Room | None = None, *, named: bool = True
) -> tuple[dict[str, Any], list[Place], Room]:
    """The header with its labels, the files of cells, and what is left of the room that all of it may take.

    Without ``named`` the files of labels and of the rows' guarantees are left alone.
    """
    header, folder, files, parts, n_bytes = _described(folder)
    labelled, shape = header["labels"], header["shape"]
    names = [folder / name for name in _name_files(files)]
    room = room or Room(n_bytes + sum(map(size_at, (*parts, *names))))
    labels: list[list[str | None] | None] = []
    if not named:
        return header, parts, room
    for place, (entry, is_labelled) in enumerate(zip(files, labelled, strict=True)):
        by_row = place == 0 and header["row_guarantees"] is not None
        if by_row and entry is None:
            raise ReleaseFileError("expected the guarantees of the rows, got none")
        wanted = [*(["label"] if is_labelled else []), *(["epsilon", "precision"] if by_row else [])]
        texts: dict[str, list[str | None]] = {}
        if entry is not None:
            texts = _read_names(folder / _name_file(place), entry, wanted, shape[place], room)
        labels.append(texts.get("label"))
        if by_row:
            header["row_guarantees"] = _pairs(texts)
    header["labels"] = labels
    return header, parts, room


def files_of(folder: Place) -> Iterator[tuple[str, Place]]:
    """The files that ``read_folder`` reads, by their names from here on: what lies beside them is no part of it."""
    _, inner, files, parts, _ = _described(folder)
    below = "" if inner == folder else f"{inner.name}/"
    yield HEADER, folder / HEADER
    for name in _name_files(files):
        yield f"{below}{name}", inner / name
    for part in parts:
        yield f"{below}cells/{part.name}", part


def _described(folder: Place) -> tuple[dict[str, Any], Place, list[Any], list[Place], int]:
    """The header; the folder of all else; what is said of files of labels; those of cells; the header's size."""
    if not is_there(folder / HEADER):
        raise ReleaseFileError(f"expected a release, got a folder without {HEADER}")
    encoded = _header_bytes(folder)
    header = read_header(encoded)
    generation = header.pop("generation", None)
    if generation is not None:
        if not isinstance(generation, str) or not _GENERATION.fullmatch(generation):
            raise ReleaseFileError("expected the name of a generation, got another")
        folder = folder / generation
        check_is_folder(folder)
    parts, files = _found_parts(folder, header.pop("parts")), header.pop("files")
    if not isinstance(files, list) or not len(files) == len(header["labels"]) == len(header["shape"]):
        raise ReleaseFileError("expected an entry for the labels of each axis")
    return header, folder, files, parts, len(encoded)


def _found_parts(folder: Place, n: Any) -> list[Place]:
    if type(n) is not int or n < 1:
        raise ReleaseFileError("expected at least one part")
    check_is_folder(folder / "cells")
    found: list[Any] = sorted((folder / "cells").iterdir())
    if found != (expected := [_part(folder, i) for i in range(min(n, len(found) + 1))]) or len(found) != n:
        lost = next((part.name for part in expected if part not in found), None)
        got = "others beside them" if lost is None else f"no {lost}"
        raise ReleaseFileError(f"expected {n} parts in cells, got {got}")
    return found


def _read_names(
    path: Place, entry: Any, wanted: list[str], length: Any, room: Room
) -> dict[str, list[str | None]]:
    """The wanted columns of a file of ``length`` labels."""
    import pyarrow.parquet as pq

    texts: dict[str, list[str | None]] = {name: [] for name in wanted}
    with open_place(path) as source:
        if isinstance(source, RemoteFile):
            source.hold(0, source.n_bytes)
        if hashlib.file_digest(source, "sha256").hexdigest() != entry["sha256"]:  # type: ignore[arg-type]
            raise ReleaseFileError(f"{path.name} does not match its checksum")
        room.take(check_pages(source, room.left), 1, "labels")
        # As a dictionary: one long text that a file repeats is not repeated in memory before it is counted.
        with pq.ParquetFile(source, read_dictionary=wanted, page_checksum_verification=True) as file:
            if file.metadata.num_rows != length:
                raise ReleaseFileError(f"expected {length} labels in {path.name}, got others")
            for batch in file.iter_batches(TEXTS_PER_READ, columns=wanted, use_threads=False):
                for name in wanted:
                    texts[name] += _decoded(batch.column(name), room)
    return texts


def _decoded(column: pa.Array, room: Room) -> list[str | None]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type) or column.type.value_type != pa.string():
        raise ReleaseFileError("expected labels that are lists of text")
    n_bytes = pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0
    room.take(len(column), TEXT, "labels")
    room.take(n_bytes, TEXT_BYTE, "labels")
    return column.dictionary_decode().to_pylist()


def _pairs(texts: dict[str, list[str | None]]) -> dict[str, Any]:
    pairs = list(zip(texts["epsilon"], texts["precision"], strict=True))
    plain = (None, None)
    distinct = {pair: place for place, pair in enumerate(dict.fromkeys(p for p in pairs if p != plain))}
    return {
        "epsilon": [pair[0] for pair in distinct],
        "precision": [pair[1] for pair in distinct],
        "rows": [None if pair == plain else distinct[pair] for pair in pairs],
    }


def named_by(folder: Place) -> bytes | None:
    """What names the files of a release folder now; None for anything else."""
    with suppress(OSError, ReleaseFileError):
        return _header_bytes(folder)
    return None


def is_release_folder(folder: Path) -> bool:
    """Whether this is a folder that a release may replace."""
    try:
        return bool(json.loads(_header_bytes(folder))["format"] == FORMAT)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _name_file(place: int) -> str:
    return ("rows", "columns")[place] + ".parquet" if place < 2 else f"axis{place}.parquet"


def _name_files(files: list[Any]) -> list[str]:
    """Of the axes that have one."""
    return [_name_file(place) for place, entry in enumerate(files) if entry is not None]


def _part(folder: Any, number: int) -> Any:
    return folder / "cells" / f"part-{number:05}.parquet"
