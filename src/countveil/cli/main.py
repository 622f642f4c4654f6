"""Finds the command, runs it, and turns what goes wrong into one line and an exit code.

0: done. 1: done, and the answer is no (a failed audit). 2: bad input. 130: stopped with Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

import countveil

# The table of commands: modules of this folder, each with ``configure(subparsers) -> parsers`` and ``run(arguments)
# -> int``. They import what they need inside ``run``, so that help comes at once.
COMMANDS = ["demo", "privatize", "fit", "topics", "audit"]

_EXPECTED = (ValueError, TypeError, OSError, OverflowError, ImportError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code.

    >>> main(["--version"])  # doctest: +ELLIPSIS
    countveil ...
    0
    """
    parser = _parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as stop:  # argparse has said why
        return stop.code if isinstance(stop.code, int) else 2
    try:
        return int(arguments.run(arguments))
    except KeyboardInterrupt:
        print("countveil: stopped", file=sys.stderr)
        return 130
    except _EXPECTED as error:
        if arguments.debug:
            raise
        print(f"countveil {arguments.command}: error: {_line(error)}", file=sys.stderr)
        return 2
    except Exception as error:
        if arguments.debug:
            raise
        # Nobody has looked at this message, and it might quote the data.
        kind = type(error).__name__
        print(f"countveil {arguments.command}: internal error ({kind}); --debug shows where", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="countveil",
        description="Learn from counts you must not see.",
        epilog="countveil COMMAND --help explains a command and gives an example.",
    )
    parser.add_argument("--version", action="version", version=f"countveil {countveil.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f"countveil.cli.{name}")
        for command in module.configure(commands):
            command.add_argument("--debug", action="store_true", help="show the whole traceback of an error")
            command.set_defaults(run=module.run)
    return parser


def _line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return " ".join(str(error).split())
