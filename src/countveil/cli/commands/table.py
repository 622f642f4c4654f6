"""``countveil table``: an answer of a run as a table, for spreadsheets and R."""

from __future__ import annotations

import argparse
from typing import Any

from countveil.cli.judge import add_max_r_hat, exit_code
from countveil.cli.options import add_command, chosen_view, spoken_as_options
from countveil.cli.tables import check_folder, check_free, write_table

#: Kinds, and what each has a line for; methods of a posterior have the same names.
KINDS = {
    "topics": "a word of a topic, with its weight",
    "memberships": "a row and a topic or community, with its share",
    "prevalence": "a group and a topic, with its share",
    "blocks": "two communities, with the rate from one to the other",
    "components": "a label of a component of a tensor, with its weight",
    "scales": "a row (of a network: a sender), with how active it is",
    "rates": "a cell, with its rate",
    "true_counts": "a cell, with its true count",
    "scalars": "a draw, with the numbers by which chains are watched",
}
_LINES = "\n".join(f"  {kind:12} {line}" for kind, line in KINDS.items())

_DESCRIPTION = f"""\
Write an answer of a run as a table in a CSV file. It has a line for

{_LINES}

with 90 % intervals from low to high, but for rates and scalars. So that no
spreadsheet runs a label as a formula, text that begins like one (= + - @) has an
apostrophe before it. In Python posterior.to_dataframe(KIND) is the same table,
with all labels as they are."""

_EXAMPLE = """\
example: countveil table run.zarr memberships -o shares.csv"""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(commands, "table", "write an answer of a run as a table", _DESCRIPTION, _EXAMPLE)
    add = parser.add_argument
    add("run_folder", metavar="RUN", help="the folder of the run")
    add("kind", metavar="KIND", help=f"one of {', '.join(KINDS)}")
    add("-o", "--output", metavar="FILE", required=True, help="the file to write: .csv or .csv.gz")
    add("--view", metavar="NAME", help="of a run of several arrays: the one to look at")
    add("--overwrite", action="store_true", help="replace a file that is no such table of an earlier command")
    add_max_r_hat(parser, "")
    return [parser]


def run(arguments: argparse.Namespace) -> int:
    """Write it."""
    if arguments.kind not in KINDS:
        raise ValueError(f"KIND: expected one of {', '.join(KINDS)}, got {arguments.kind!r}")
    check_folder(arguments.output, "--output")
    from countveil.posterior import SharedPosterior, load_posterior
    from countveil.posterior.export import table_blocks

    posterior = chosen_view(load_posterior(arguments.run_folder), arguments.view)
    if isinstance(posterior, SharedPosterior):
        raise ValueError(f"--view: expected one of {', '.join(posterior)}, got none")
    with spoken_as_options({"what": "KIND"}):
        tables = table_blocks(posterior, arguments.kind)
        first = next(tables)
    older = check_free(first, arguments.output, arguments.overwrite)
    write_table(first, arguments.output, tables, overwrite=older)
    return exit_code(posterior, arguments.max_r_hat)
