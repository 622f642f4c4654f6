"""``countveil resume``: a run that was stopped or killed goes on, or becomes longer."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from countveil.cli.commands.fit import add_engine, engine_of, interruption_is_told, plain_counts, report
from countveil.cli.judge import add_max_r_hat, add_until, exit_code, until_of
from countveil.cli.models import MODELS
from countveil.cli.options import add_command

_DESCRIPTION = """\
Go on with a run that `countveil fit` has begun and something has stopped: its
draws are, bit by bit, those of a run that nothing has stopped. With --sweeps
the chains of a run, finished or not, become longer; burn-in stays as it was. If
it was too short, posterior.with_burn_in(N) in Python leaves early draws out."""

_EXAMPLE = """\
example: countveil resume run.zarr --sweeps 20000"""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(
        commands, "resume", "go on with a run that was stopped, or make it longer", _DESCRIPTION, _EXAMPLE
    )
    add = parser.add_argument
    add("run_folder", metavar="RUN", help="the folder of the run")
    add("--sweeps", type=int, metavar="N", help="the new length of each chain, burn-in included")
    add_until(parser, " (with --sweeps; a run that is resumed keeps its own)")
    add_max_r_hat(parser)
    add_engine(parser)
    add("--plain", metavar="FILE", help="the plain counts of a run of such, which it does not hold")
    add("--index", metavar="NAME", help="with --plain: the column of a wide table that holds the row labels")
    add("--long", metavar="ROW,COLUMN,COUNT", help="with --plain: it is a long table with these columns")
    add("--rows", metavar="FILE", help="with --plain: row labels, one per line")
    add("--columns", metavar="FILE", help="with --plain: column labels, one per line")
    add(
        "--release",
        metavar="PATH",
        help="where the release lies, path or address, if the run does not hold it and it has moved",
    )
    add("--scratch", metavar="FOLDER", help="as for countveil fit: where such a release is unpacked")
    add("--quiet", action="store_true", help="print nothing but errors")
    return [parser]


def run(arguments: argparse.Namespace) -> int:
    """Go on, and say how well it went."""
    with _signals_held():
        posterior = _longer(arguments)
    from countveil.posterior import Posterior

    if not isinstance(posterior, Posterior):
        if not arguments.quiet:
            print(posterior)
        code = 130 if posterior.settings.get("stopped") == "interrupt" else 0
        return exit_code(posterior, arguments.max_r_hat, code)
    known = {command.model: command for command in MODELS.values()}
    command = known.get(type(posterior.model).__name__)
    arguments.shown = None if command is None or command.shown is None else command.shown.settings["default"]
    return report(posterior, arguments, command)


def _longer(arguments: argparse.Namespace) -> Any:
    from countveil.chains_to_posterior import join_shards
    from countveil.resuming import extend, resume

    join_shards(arguments.engine, arguments.threads)
    if arguments.plain is not None and arguments.release is not None:
        raise ValueError("--release: expected no --plain beside it, got both")
    data: Any = arguments.release
    if arguments.plain is not None:
        data = plain_counts(arguments.plain, arguments)
    options: dict[str, Any] = {
        "data": data, "threads": arguments.threads, "engine": engine_of(arguments),
        "progress": not arguments.quiet, "max_seconds": arguments.max_seconds,
        "scratch": arguments.scratch,
    }  # fmt: skip
    until = until_of(arguments)
    if until is not None and arguments.sweeps is None:
        raise ValueError("--until-ess, --until-r-hat: expected --sweeps beside them, the new limit, got none")
    with interruption_is_told(arguments.run_folder, arguments.quiet):
        if arguments.sweeps is None:
            return resume(arguments.run_folder, **options)
        return extend(arguments.run_folder, arguments.sweeps, until=until, **options)


@contextmanager
def _signals_held() -> Iterator[None]:
    """SIGTERM and SIGHUP wait until the run is open: else a stop in the first seconds would forget --sweeps.

    ``posterior.runs.signals`` takes over what was held; if it never comes to that the command stops as always.
    """
    before: dict[int, Any] = {}
    held: list[int] = []

    def hold(number: int, _: Any) -> None:
        held.append(number)

    hold.gives_way, hold.held = True, held  # type: ignore[attr-defined]
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and getattr(signal.getsignal(number), "gives_way", False):
            before[number] = signal.signal(number, hold)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            before[held[0]](held[0], None)
