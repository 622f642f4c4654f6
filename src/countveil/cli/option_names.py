"""Errors of the library in the words of the command line: ``rows=[...]`` is ``--rows`` there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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
}


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
    except (ValueError, TypeError, FileExistsError) as error:
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
