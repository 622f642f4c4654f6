"""What commands share: how one is described, files of labels, and the library's errors in words of options."""

from __future__ import annotations

import argparse
import csv
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from countveil.posterior import Posterior, SharedPosterior

#: What the library calls the options of ``countveil privatize`` and of plain counts.
OPTIONS = {
    "path": "--output",
    "epsilon": "--epsilon",
    "precision": "--precision",
    "rows": "--rows",
    "columns": "--columns",
    "public_labels": "--public-labels",
    "long": "--long",
    "index": "--index",
    "overwrite": "--overwrite",
    "ledger": "--ledger",
    "dataset": "--dataset",
    "unit": "--unit",
}

#: As many as the header of a release may have: a device, such as /dev/zero, would never end.
_MOST_LABELS = 1 << 28


def add_command(
    commands: Any, name: str, summary: str, description: str, example: str | None
) -> argparse.ArgumentParser:
    """A parser whose help keeps the lines of its description and its example."""
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def read_label_file(file: str | None) -> list[str] | None:
    """One label per line, as a text editor or R writes them, quoted too; an empty line is none. None stays None."""
    if file is None:
        return None
    from countveil.counts.places import local_path

    encoded = bytearray()
    with local_path(file, "--rows, --columns").open(
        "rb"
    ) as opened:  # which may be a pipe; read(n) would ask for n bytes of memory at once
        while len(encoded) <= _MOST_LABELS and (part := opened.read(1 << 20)):
            if 0 in part:  # as in a file that is a hole
                raise ValueError(f"{file}: expected labels as UTF-8 text, got something else")
            encoded += part
    if len(encoded) > _MOST_LABELS:
        raise ValueError(f"{file}: expected at most {_MOST_LABELS:,} bytes of labels, got more")
    try:
        text = encoded.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise ValueError(f"{file}: expected labels as UTF-8 text, got something else") from None
    lines = [line for line in text.split("\n") if line]
    quoted = [len(line) > 1 and line[0] == line[-1] == '"' for line in lines]
    # R quotes all text, pandas and spreadsheets what has a comma or a quotation mark in it.
    needed = (
        "," in line or '""' in line[1:-1] for line, is_quoted in zip(lines, quoted, strict=True) if is_quoted
    )
    if not lines or not (all(quoted) or any(needed)):
        return lines
    fields = []
    with suppress(csv.Error):  # as where a quotation mark ends in the middle
        fields = [
            next(csv.reader([line], strict=True)) if q else [line]
            for line, q in zip(lines, quoted, strict=True)
        ]
    if not fields or any(len(each) != 1 for each in fields):
        raise ValueError(f"{file}: expected one label per line, got several quoted fields in some")
    return [each[0] for each in fields]


def check_not_counts(arguments: argparse.Namespace) -> None:
    """Refuse the counts in place of labels, which are released as they are."""
    for option in ("rows", "columns"):
        file = getattr(arguments, option)
        with suppress(OSError):  # what is not there is said later
            if file is not None and os.path.samefile(file, arguments.counts):  # noqa: PTH121 (also of what is no Path)
                raise ValueError(f"{option}: expected a file of labels, one per line, got the file of counts")


@contextmanager
def spoken_as_options(options: Mapping[str, str] = OPTIONS) -> Iterator[None]:
    """Raise what the library raises, with options in place of parameters.

    >>> with spoken_as_options():
    ...     raise ValueError("rows: expected rows=[...], got none; index= names a column, public_labels=True none")
    Traceback (most recent call last):
    ...
    ValueError: --rows: expected --rows FILE, got none; --index names a column, --public-labels none
    """
    try:
        yield
    except (ValueError, TypeError, FileExistsError, FileNotFoundError, IsADirectoryError) as error:
        if len(error.args) != 1 or not isinstance(error.args[0], str):
            raise
        raise type(error)(_translated(error.args[0], options)) from error


def _translated(message: str, options: Mapping[str, str]) -> str:
    names = "|".join(options)
    first = re.match(rf"((?:{names})(?:, (?:{names}))*): ", message)
    if first:
        named = ", ".join(options[name] for name in first[1].split(", "))
        message = f"{named}: {message[first.end() :]}"
    return re.sub(
        rf"(?<![\w-])({names})=(\[\.\.\.\]|True)?",
        lambda found: options[found[1]] + (" FILE" if found[2] == "[...]" else ""),
        message,
    )


def chosen_view(posterior: Posterior | SharedPosterior, view: str | None) -> Posterior | SharedPosterior:
    """The view that was asked for, or all of a run."""
    from countveil.posterior import SharedPosterior

    if view is None:
        return posterior
    if not isinstance(posterior, SharedPosterior):
        raise ValueError(
            f"--view: expected a run of several arrays, got one of {type(posterior.model).__name__}"
        )
    if view not in posterior:
        raise ValueError(f"--view: expected one of {', '.join(posterior)}, got {view!r}")
    return posterior[view]
