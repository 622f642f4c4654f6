"""``countveil append`` and ``countveil stack``: releases of further rows become one with others."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from countveil.cli.options import add_command

_APPEND = """\
Append the rows of releases to one that is there. It is replaced in one step:
whatever happens, it is the old release or the new one. Rows must have labels,
and one that is there already is refused: what was released twice tells more."""

_STACK = """\
Put many releases together, one below the other: those of a thousand people who
each sent their own, say. Rows must have labels, every one once; columns and the
unit of the guarantees must be the same. A folder stands for all releases in it,
whatever their names; hidden and other files there are passed over."""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the commands."""
    example = "example: countveil append study.parquet monday/*.parquet"
    append = add_command(commands, "append", "append releases to one that grows", _APPEND, example)
    append.add_argument("release", metavar="RELEASE", help="the release that grows")
    append.add_argument("parts", metavar="PART", nargs="+", help="releases of further rows")
    example = "example: countveil stack inbox/ -o study.parquet"
    stack = add_command(commands, "stack", "put many releases together as one", _STACK, example)
    stack.add_argument("parts", metavar="PART", nargs="+", help="releases, or folders of releases")
    stack.add_argument(
        "-o", "--output", metavar="RELEASE", required=True, help="the release to write, a new name"
    )
    return [append, stack]


def run(arguments: argparse.Namespace) -> int:
    """Put them together, and say what there is now."""
    from countveil.counts.sources.append import append_release, stack_files

    if arguments.command == "append":
        print(append_release(arguments.release, *arguments.parts))
    else:
        parts = [path for part in arguments.parts for path in _releases(part)]
        print(stack_files(parts, arguments.output))
    return 0


def _releases(part: str) -> Sequence[str | Path]:
    """Itself; or what lies in a folder that is no release."""
    from countveil.counts.files.folder import is_release_folder
    from countveil.counts.places import scheme_of

    folder = Path(part)
    if scheme_of(part) is not None or not folder.is_dir() or is_release_folder(folder):
        return [part]
    # A release has any name, and is a folder where it has many labels: what may be one is never passed over.
    entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if any(path.is_symlink() for path in entries):  # whoever may write there could name any release of ours
        raise ValueError(f"PART: expected releases in the folder {part!r}, got a link")
    for path in entries:
        if path.is_dir() and not is_release_folder(path):
            raise ValueError(f"PART: expected releases in the folder {part!r}, got the folder {path.name!r}")
    found = [path for path in entries if path.is_dir() or _is_parquet(path)]
    if not found:
        raise FileNotFoundError(f"PART: expected releases in the folder {part!r}, got none")
    return found


def _is_parquet(path: Path) -> bool:
    if not path.is_file():  # a pipe would never end
        return False
    with path.open("rb") as file:
        return path.suffix.lower() == ".parquet" or file.read(4) == b"PAR1"
