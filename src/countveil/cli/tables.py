"""Tables that commands write: as a whole or not at all, never in place of another file, safe for spreadsheets."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import os
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_COMPRESSIONS: dict[str, Any] = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}
_MOST_LINKS = 40


def check_folder(name: str, option: str) -> None:
    """Refuse a file of a folder that is not there, before any work; an address is not shown."""
    from countveil.counts.places import local_path

    folder = local_path(name, option).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{option}: expected an existing folder, got {str(folder)!r}")


def check_free(table: pd.DataFrame, name: str, overwrite: bool) -> bool:
    """Refuse a name that another file has, unless told otherwise; a table with the same columns is an older one.

    Whether there is a file to be replaced: what comes there later is not.
    """
    columns = list(_for_spreadsheets(table.head(0)).columns)
    target = Path(os.path.realpath(name))
    if not target.is_file() or overwrite or _descriptor(name) is not None:
        return overwrite
    if ".csv" not in target.suffixes or not _has_columns(target, columns):
        raise FileExistsError(
            f"expected a new name, or a table of this command to replace, got {name}, which is something else; "
            "--overwrite replaces it"
        )
    return True


def _has_columns(file: Path, columns: list[Any]) -> bool:
    import pandas as pd

    try:
        return list(pd.read_csv(file, nrows=0, compression=_COMPRESSIONS.get(file.suffix))) == columns
    except Exception:  # whatever it is, it is no such table
        return False


def _descriptor(name: str) -> int | None:
    """The number of an open file, by a name that leads to one: /dev/stdout and its like, wherever that leads.

    What lies below /dev is asked what it is, too: /dev/shm has files of people.
    """
    opened = {os.path.realpath(place) for place in ("/dev/fd", "/proc/self/fd")}
    path = Path(name).absolute()
    for _ in range(_MOST_LINKS):
        folder = Path(os.path.realpath(path.parent))
        if str(folder) in opened and path.name.isdecimal():
            return int(path.name)
        path = folder / path.name
        if not path.is_symlink():
            return None
        path = folder / path.readlink()
    return None


def write_table(
    table: pd.DataFrame, name: str, more: Iterable[pd.DataFrame] = (), *, overwrite: bool = False
) -> None:
    """Write a table that is complete or not there; what is no file (/dev/stdout, a pipe) gets it as it comes.

    ``overwrite`` says whether there is one to be replaced (``check_free``).
    ``more`` are further lines of it, made while it is written.
    """
    from countveil.counts.files.atomic import new_file
    from countveil.counts.shown_text import visible

    target, descriptor = Path(os.path.realpath(name)), _descriptor(name)  # where a link leads
    if descriptor is not None:
        sys.stdout.flush()
        with os.fdopen(os.dup(descriptor), "wb") as file:  # at its place: what was printed stays
            _write(file, table, more, shown=file.isatty())
    elif target.exists() and not target.is_file():
        with target.open("wb") as file:
            _write(file, table, more, shown=file.isatty())
    else:
        # Not by its name, which others may turn.
        with new_file(target, overwrite=overwrite) as new, _compressed(new, target.suffix) as packed:
            _write(packed, table, more)
    print(f"Wrote {visible(name)}.")


def _write(file: Any, table: pd.DataFrame, more: Iterable[pd.DataFrame], *, shown: bool = False) -> None:
    """``shown``: on a terminal, where labels must not do what they say."""
    for part, has_names in chain([(table, True)], ((one, False) for one in more)):
        safe = _for_spreadsheets(part, shown=shown)
        safe.to_csv(file, mode="wb", index=False, header=has_names, quoting=_quoting(safe))


def _quoting(table: pd.DataFrame) -> Any:
    """Around all text where some has a carriage return: Python before 3.13 leaves it bare, and a line is two."""
    texts = table.select_dtypes(exclude="number")
    bare = any("\r" in str(cell) for cell in chain(table.columns, *(texts[name] for name in texts)))
    return csv.QUOTE_NONNUMERIC if bare else csv.QUOTE_MINIMAL


def _compressed(file: Any, suffix: str) -> AbstractContextManager[Any]:
    """One stream for all lines; the file itself stays open."""
    if suffix == ".gz":
        return gzip.GzipFile("", "wb", fileobj=file)
    if suffix == ".bz2":
        return bz2.BZ2File(file, "wb")
    if suffix == ".xz":
        return lzma.LZMAFile(file, "wb")
    if suffix == ".zst":
        import pyarrow as pa

        return pa.CompressedOutputStream(os.fdopen(os.dup(file.fileno()), "wb"), "zstd")
    return nullcontext(file)


def _for_spreadsheets(table: pd.DataFrame, *, shown: bool = False) -> pd.DataFrame:
    """The names and all the text of a table defused, its numbers as they are; made visible, too, if it is shown."""
    from countveil.counts.shown_text import defused, visible

    def safe(cell: Any) -> Any:
        if not isinstance(cell, str):
            return cell
        return visible(defused(cell)) if shown else defused(cell)

    found = table.copy()
    for name, column in table.select_dtypes(exclude="number").items():
        found[name] = column.map(safe)
    return found.rename(columns=safe)
