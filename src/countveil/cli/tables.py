"""Tables that commands write: as a whole or not at all, never in place of another file, safe for spreadsheets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_COMPRESSIONS: dict[str, Any] = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}


def check_free(table: pd.DataFrame, name: str, overwrite: bool) -> None:
    """Refuse a name that another file has, unless told otherwise; a table with the same columns is an older one."""
    columns = list(_for_spreadsheets(table.head(0)).columns)
    target = Path(os.path.realpath(name))
    if not target.is_file() or overwrite or _is_device(name):
        return
    if ".csv" not in target.suffixes or not _has_columns(target, columns):
        raise FileExistsError(
            f"expected a new name, or a table of this command to replace, got {name}, which is something else; "
            "--overwrite replaces it"
        )


def _has_columns(file: Path, columns: list[Any]) -> bool:
    import pandas as pd

    try:
        return list(pd.read_csv(file, nrows=0, compression=_COMPRESSIONS.get(file.suffix))) == columns
    except Exception:  # whatever it is, it is no such table
        return False


def _is_device(name: str) -> bool:
    """/dev/stdout and its like, which may lead to a pipe or a file of the shell's."""
    return Path(name).absolute().is_relative_to("/dev")


def write_table(table: pd.DataFrame, name: str) -> None:
    """Write a table that is complete or not there; what is no file (/dev/stdout, a pipe) gets it as it comes."""
    from countveil.counts.files.atomic import new_file
    from countveil.counts.shown_text import visible

    safe = _for_spreadsheets(table)
    target = Path(os.path.realpath(name))  # where a link leads
    if _is_device(name) or (target.exists() and not target.is_file()):
        safe.to_csv(name, index=False)
    else:
        with new_file(target, overwrite=True) as file:
            # Not by its name, which others may turn.
            safe.to_csv(file, index=False, compression=_COMPRESSIONS.get(target.suffix))
    print(f"Wrote {visible(name)}.")


def _for_spreadsheets(table: pd.DataFrame) -> pd.DataFrame:
    """The names and all the text of a table defused, its numbers as they are."""
    from countveil.counts.shown_text import defused

    def safe(cell: Any) -> Any:
        return defused(cell) if isinstance(cell, str) else cell

    found = table.copy()
    for name, column in table.select_dtypes(exclude="number").items():
        found[name] = column.map(safe)
    return found.rename(columns=safe)
