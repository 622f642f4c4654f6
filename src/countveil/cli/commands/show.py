"""``countveil show``: what a release, or a run, says of itself."""

from __future__ import annotations

import argparse
import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any

from countveil.cli.options import add_command

_DESCRIPTION = """\
Show what a release says of itself: its size, what it promises about whom and
what it does not protect, how it came about, and where its labels are from.
All of the file is checked on the way. No counts are printed.

Of a run, complete or not: its model, data, guarantee and settings, how far it
is, whether its chains agree, its size, versions and checkpoints. Large draws
are not read, so that this is quick for large runs too."""

_EXAMPLE = """\
examples:
  countveil show release.parquet --json
  countveil show run.zarr"""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(
        commands, "show", "what a release promises; how far a run is", _DESCRIPTION, _EXAMPLE
    )
    parser.add_argument(
        "path",
        metavar="RELEASE|RUN",
        help="the file, folder or address (s3://...) of the release; or the run",
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    return [parser]


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    if (Path(arguments.path) / "zarr.json").exists():
        return _show_run(arguments)
    from countveil.counts import load_release

    release = load_release(arguments.path)
    if arguments.json:
        parts = json.JSONEncoder(indent=2).iterencode(release.to_dict())
        while some := "".join(islice(parts, 10_000)):  # there may be millions of rows
            sys.stdout.write(some)
        print()
    else:
        print(release)
        print(release.explain())
    return 0


def _show_run(arguments: argparse.Namespace) -> int:
    from countveil.posterior.describe import describe_run

    found = describe_run(arguments.path)
    if arguments.json:
        print(json.dumps(found.to_dict(), indent=2))
        return 0
    print(found)
    if found.scalars is not None:
        print(found.scalars.to_string(float_format="{:.4g}".format))
    print(found.verdict)
    return 0
