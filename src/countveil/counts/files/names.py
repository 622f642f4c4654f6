"""Names that are read out of files, perhaps a stranger's: none leads out of the folder it is meant for."""

from __future__ import annotations

import re
from pathlib import Path

_DRIVE = re.compile(r"[A-Za-z]:")


def is_plain_name(name: str) -> bool:
    r"""Whether a name means one entry of a folder on every system, not a place elsewhere on one of them.

    >>> [is_plain_name(name) for name in ("cells", "Öl: 3", "..", "a/b", "..\\a", "C:a", "\\\\host\\a", "")]
    [True, True, False, False, False, False, False, False]
    """
    return bool(name.strip(". ")) and not any(c in name for c in "/\\\0") and not _DRIVE.match(name)


def path_below(folder: Path, name: str) -> Path:
    """The place of ``name``, whose parts are joined by slashes, below a folder; ValueError if it leads elsewhere.

    >>> path_below(Path("run"), "posterior/theta").as_posix()
    'run/posterior/theta'
    >>> path_below(Path("run"), "posterior/../../theta")
    Traceback (most recent call last):
    ...
    ValueError: name: expected one that stays in its folder on every system, got 'posterior/../../theta'
    """
    if not isinstance(name, str) or not all(map(is_plain_name, name.split("/"))):
        raise ValueError(f"name: expected one that stays in its folder on every system, got {name!r}")
    return folder / name
