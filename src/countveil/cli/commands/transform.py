"""``countveil transform``: where new rows stand among the topics or communities of a run."""

from __future__ import annotations

import argparse
from typing import Any

from countveil.cli.options import add_command, spoken_as_options

_DESCRIPTION = """\
Find each new row's shares of the topics (communities, components) of a run: of
documents that were not fitted, say. Their columns must be those of the fit. The
rows are read and written some at a time, so that there may be more of them than
memory holds; meanwhile the release is unpacked in the folder of the table. Jobs
on several machines take a --part each.

The table is Parquet, with a line for every row and topic: the mean share, and
from low to high the share of the draws that --interval says."""

_EXAMPLE = """\
example: countveil transform run.zarr new.parquet -o shares.parquet --seed 1"""

_OPTIONS = {
    "data": "RELEASE", "received": "--received", "path": "--output", "overwrite": "--overwrite",
    "part": "--part", "rows_at_once": "--rows-at-once", "sweeps": "--sweeps", "burn_in": "--burn-in",
    "seed": "--seed", "threads": "--threads", "interval": "--interval", "groups": "--groups",
}  # fmt: skip


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(commands, "transform", "find the shares of new rows", _DESCRIPTION, _EXAMPLE)
    add = parser.add_argument
    add("run_folder", metavar="RUN", help="the folder of the run")
    add("release", metavar="RELEASE", help="a release of new rows, a path or an address (s3://...)")
    add("-o", "--output", metavar="FILE", required=True, help="the table to write, a new name (.parquet)")
    add("--overwrite", action="store_true", help="replace a table that an earlier command wrote")
    add("--received", metavar="RELEASE", help="of a directed network: what the new actors received")
    add(
        "--groups",
        metavar="FILE.csv:COLUMN",
        help="of a run with groups: those of the new rows, as in fit topics",
    )
    add("--sweeps", type=int, default=20, metavar="N", help="sweeps for every draw of the run (default 20)")
    add("--burn-in", type=int, default=100, metavar="N", help="how many more before the first (default 100)")
    add("--interval", type=float, default=0.9, metavar="P", help="between low and high (default 0.9)")
    add("--seed", type=int, metavar="N", help="the same seed gives the same table")
    add("--threads", type=int, metavar="N", help="all cores by default")
    add(
        "--part",
        type=_part,
        metavar="I/N",
        help="the I-th of N parts of the rows alone, by jobs with one --seed",
    )
    add("--rows-at-once", type=int, metavar="N", help="by default as many as take about 256 MB")
    add("--quiet", action="store_true", help="print nothing but errors")
    return [parser]


def _part(text: str) -> tuple[int, int]:
    i, _, n = text.partition("/")
    return int(i), int(n)


def run(arguments: argparse.Namespace) -> int:
    """Write the table."""
    from countveil.cli.models import groups_of_rows
    from countveil.counts.shown_text import visible
    from countveil.posterior import load_posterior
    from countveil.transforming import transform_to_file

    groups = None if arguments.groups is None else groups_of_rows("--groups", arguments.groups)
    with spoken_as_options(_OPTIONS):
        transform_to_file(
            load_posterior(arguments.run_folder),  # type: ignore[arg-type]  # one of several arrays is refused
            arguments.release, arguments.output, arguments.received,
            overwrite=arguments.overwrite, part=arguments.part, rows_at_once=arguments.rows_at_once,
            sweeps=arguments.sweeps, burn_in=arguments.burn_in, seed=arguments.seed, threads=arguments.threads,
            interval=arguments.interval, groups=groups, progress=not arguments.quiet,
        )  # fmt: skip
    if not arguments.quiet:
        print(f"Wrote {visible(arguments.output)}.")
    return 0
