"""``countveil merge``: chains that ran apart, as one run."""

from __future__ import annotations

import argparse
from typing import Any

from countveil.cli.commands.fit import check_output, report
from countveil.cli.judge import add_max_r_hat, exit_code
from countveil.cli.options import add_command

_DESCRIPTION = """\
Put together chains that ran apart, each by `countveil fit ... --chain I` in a
job of its own. The result is, bit by bit, the run of all of them together."""

_EXAMPLE = """\
example: countveil merge chain0.zarr chain1.zarr chain2.zarr -o run.zarr"""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(commands, "merge", "put chains that ran apart together", _DESCRIPTION, _EXAMPLE)
    add = parser.add_argument
    add("run_folders", metavar="RUN", nargs="+", help="the folders of the runs, complete, of one seed")
    add("-o", "--output", metavar="RUN", required=True, help="the folder to write, which must not exist yet")
    add_max_r_hat(parser)
    add("--quiet", action="store_true", help="print nothing but errors")
    return [parser]


def run(arguments: argparse.Namespace) -> int:
    """Merge them, and say how well they agree."""
    from countveil.posterior import Posterior
    from countveil.resuming import merge_runs

    check_output(arguments.output)
    posterior = merge_runs(arguments.run_folders, arguments.output)
    if not isinstance(posterior, Posterior):
        return exit_code(posterior, arguments.max_r_hat)
    return report(posterior, arguments, None)
