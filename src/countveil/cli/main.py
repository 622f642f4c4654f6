"""Finds the command, runs it, and turns what goes wrong into one line and an exit code.

0: done. 1: done, and the answer is no (a failed audit, a run beyond --max-r-hat). 2: bad input. 130: stopped with
Ctrl-C; 143 and 129: by SIGTERM and SIGHUP, in the same orderly way.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import countveil

# The table of commands: modules of ``commands/``, each with ``configure(subparsers) -> parsers`` and
# ``run(arguments) -> int``. They import what they need inside ``run``, so that help comes at once.
COMMANDS = [
    "demo", "privatize", "append", "show", "ledger", "fit", "resume", "merge", "topics", "table", "transform",
    "plot", "study", "enron", "audit", "doctor",
]  # fmt: skip

_STOPPED = 128 + signal.SIGINT
_EXPECTED = (ValueError, TypeError, OSError, OverflowError, ImportError)
#: How messages of ours begin: they were written for people.
_OURS = re.compile(r"\w+: expected ")


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
    with _stopped_in_order() as signals, _warnings_in_words():
        code = _run(arguments)
    return 128 + signals[-1] if code == _STOPPED and signals else code


def _run(arguments: argparse.Namespace) -> int:
    try:
        return int(arguments.run(arguments))
    except KeyboardInterrupt:
        print("countveil: stopped", file=sys.stderr)
        return _STOPPED
    except BrokenPipeError:  # whoever read the output has enough of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python complains when it flushes at its end
        return 128 + 13
    except TimeoutError as error:
        from countveil.chains_to_posterior import BurnInNotEndedError

        if not isinstance(error, BurnInNotEndedError):
            print(f"countveil {arguments.command}: error: {_line(error)}", file=sys.stderr)
            return 2
        run = getattr(arguments, "run_folder", None) or arguments.output
        if not arguments.quiet:
            print(
                f"The time was up before burn-in had ended. To go on: countveil resume {run}", file=sys.stderr
            )
        return 0
    except Exception as error:
        if arguments.debug:
            raise
        if isinstance(error, _EXPECTED) or _OURS.match(str(error)):
            print(f"countveil {arguments.command}: error: {_line(error)}", file=sys.stderr)
            return 2
        # Nobody has looked at this message, and it might quote the data.
        kind = type(error).__name__
        print(f"countveil {arguments.command}: internal error ({kind}); --debug shows where", file=sys.stderr)
        return 2


@contextmanager
def _stopped_in_order() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP stop a command as Ctrl-C does, unless they are ignored (nohup). Gives those that came."""
    came: list[int] = []

    def stop(number: int, _: Any) -> None:
        came.append(number)
        raise KeyboardInterrupt

    stop.gives_way = True  # type: ignore[attr-defined]  # to a run that finishes its sweep first
    handled = []
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            try:
                signal.signal(number, stop)
            except ValueError:  # called in a thread, which handles no signals
                break
            handled.append(number)
    try:
        yield came
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _warnings_in_words() -> Iterator[None]:
    """What people are warned of is a line, without the place in our code that said it."""
    before = warnings.formatwarning

    def line(message: Any, category: Any, *where: Any) -> str:
        if not issubclass(category, UserWarning):
            return before(message, category, *where)
        return f"countveil: {_line(message)}\n"

    warnings.formatwarning = line  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.formatwarning = before


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """An error that quotes what was typed, which may hold anything."""
        from countveil.counts.shown_text import visible

        super().error(visible(message))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="countveil",
        description="Learn from counts you must not see.",
        epilog="countveil COMMAND --help explains a command and gives an example.",
    )
    parser.add_argument("--version", action="version", version=f"countveil {countveil.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f"countveil.cli.commands.{name}")
        for command in module.configure(commands):
            command.add_argument("--debug", action="store_true", help="show the whole traceback of an error")
            command.set_defaults(run=module.run)
    return parser


#: Letters of an error.
_LONGEST_LINE = 2000


def _line(error: BaseException) -> str:
    from countveil.counts.shown_text import visible  # names of files may hold anything

    if isinstance(error, OSError) and error.strerror:
        return visible(f"{error.strerror}: {error.filename}" if error.filename else error.strerror)
    text = visible(" ".join(str(error).split()))
    # A file may hold a number of thousands of digits; what was expected stands at the beginning.
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]} ..."
