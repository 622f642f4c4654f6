"""``countveil fit MODEL``: a release in, a run out."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countveil.cli.judge import add_max_r_hat, add_until, exit_code, refusal, until_of
from countveil.cli.models import MODELS, FitCommand
from countveil.cli.options import add_command, read_label_file, spoken_as_options

if TYPE_CHECKING:
    from countveil.counts import PrivateCounts
    from countveil.counts.sources.plain_counts import PlainCounts
    from countveil.posterior import Posterior

_FIT = f"""\
Fit a model to a release: draw what the true counts and their structure may be,
given the noisy ones.

Models: {", ".join(MODELS)} (countveil fit topics --help)."""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command: a parser for each model."""
    fit = add_command(commands, "fit", "fit a model to a release", _FIT, None)
    models = fit.add_subparsers(dest="model", required=True, metavar="MODEL")
    parsers = []
    for name, command in MODELS.items():
        parser = add_command(models, name, command.summary, command.description, command.example)
        add = parser.add_argument
        add(
            "release",
            metavar="RELEASE",
            help="the release, a path or an address (s3://...); with --plain a file of plain counts",
        )
        add(
            "-o",
            "--output",
            metavar="RUN",
            required=True,
            help="the folder to write, as it goes; must not exist yet (countveil resume goes on with one)",
        )
        command.add_options(parser)
        _common_options(parser)
        parsers.append(parser)
    return parsers


def _common_options(parser: Any) -> None:
    add = parser.add_argument
    add("--shape", type=float, default=0.1, help="of the gamma priors; below 1 is sparse (default 0.1)")
    add(
        "--rate",
        type=_rate,
        default=argparse.SUPPRESS,
        help="of the gamma priors, the same for every entry (the paper has 1); or 'inferred', so that the scales "
        "of rows, columns and components are found: the default for topics and communities, 1 for other models",
    )
    add("--sweeps", type=int, default=1000, metavar="N", help="length of each chain (default 1000)")
    add("--burn-in", type=int, metavar="N", help="sweeps to throw away first (default half of them)")
    add("--thin", type=int, default=5, metavar="N", help="then keep every N-th sweep (default 5)")
    add("--chains", type=int, default=2, metavar="N", help="independent chains (default 2)")
    add(
        "--chain",
        type=int,
        metavar="I",
        help="run this one of them only, counted from 0, with the same --seed in every job; countveil merge puts "
        "them together",
    )
    add("--seed", type=int, help="a number; the same seed gives the same draws (default: a new one)")
    add(
        "--method",
        choices=["exact", "bessel", "naive"],
        default="exact",
        help="exact (default); bessel, the paper's sampler; naive, which takes noise for counts and is biased",
    )
    add_until(parser)
    add_max_r_hat(parser)
    add(
        "--keep",
        choices=["auto", "all", "columns", "summaries"],
        default="auto",
        help="of the draws: all; columns, and of rows running means; summaries, running means alone; auto (the "
        "default): all, unless those of rows would take more than 16 GiB",
    )
    add_engine(parser)
    add(
        "--start",
        choices=["auto", "plain", "collapsed"],
        default="auto",
        help="auto: chains are helped in burn-in where that is known to help; plain: ordinary sweeps alone; "
        "collapsed: topics climb faster, but to no better place",
    )
    add(
        "--algorithm",
        choices=["auto", "tokens", "integrated", "fibers", "cells", "cuda"],
        default="auto",
        help="cuda, with mpi or ray: every rank or actor has a GPU for the true counts of its rows; the others are "
        "for the curious",
    )
    add(
        "--scratch",
        metavar="FOLDER",
        help="for a release that is larger than memory: a folder on a disk with room, where it is unpacked",
    )
    add("--quiet", action="store_true", help="print nothing but errors")
    plain = parser.add_argument_group("plain counts (ordinary, non-private factorization)")
    add = plain.add_argument
    add(
        "--plain",
        action="store_true",
        help="RELEASE is a file of plain counts: CSV, TSV, Parquet, MTX, NPZ, NPY",
    )
    add("--index", metavar="NAME", help="the column of a wide table that holds the row labels")
    add("--long", metavar="ROW,COLUMN,COUNT", help="it is a long table with these columns")
    add("--rows", metavar="FILE", help="row labels, one per line")
    add("--columns", metavar="FILE", help="column labels, one per line (the vocabulary, say)")


def add_engine(parser: Any) -> None:
    """On what the chains run."""
    add = parser.add_argument
    add("--threads", type=int, metavar="N", help="default: all cores; draws do not depend on it")
    add(
        "--engine",
        choices=["auto", "cpu", "cuda", "mpi", "ray"],
        default="auto",
        help="auto: a GPU (cuda) where there is one and the work is large, else the processor; mpi: rows are "
        "spread over the ranks of an MPI job (mpirun -n 8 countveil fit ...), ray: over actors of a Ray cluster, "
        "with the draws of a processor",
    )
    add("--address", help="with --engine ray: of the cluster (default: one on this machine)")
    add(
        "--shards",
        type=int,
        metavar="N",
        help="with --engine ray: number of actors (default: one per machine)",
    )


def engine_of(arguments: argparse.Namespace) -> Any:
    """On what the chains run, as it was asked for."""
    if arguments.engine == "ray":
        from countveil.inference.settings import Ray

        return Ray(arguments.address, arguments.shards)
    for name in ("address", "shards"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"--{name}: expected --engine ray beside it, got {arguments.engine}")
    return arguments.engine


def run(arguments: argparse.Namespace) -> int:
    """Fit, and say how well it went."""
    from countveil.chains_to_posterior import join_shards
    from countveil.counts import load_release
    from countveil.fitting import fit

    join_shards(arguments.engine, arguments.threads)
    check_output(arguments.output)
    if arguments.max_r_hat is not None and (arguments.chains == 1 or arguments.chain is not None):
        raise ValueError("--max-r-hat: expected --chains 2 or more, run together, beside it, got one chain")
    model = MODELS[arguments.model].model_of(arguments)
    if not arguments.plain:
        given = [f"--{name}" for name in ("index", "long", "rows", "columns") if getattr(arguments, name)]
        if given:
            raise ValueError(f"{', '.join(given)}: expected --plain beside it; a release has its own labels")
    data: PlainCounts | PrivateCounts | str
    if arguments.plain:
        data = plain_counts(arguments.release, arguments)
        if arguments.model == "topics" and len(data.shape) != 2:
            raise ValueError(f"counts: expected a matrix for topics, got {len(data.shape)} axes")
    else:
        by_path = arguments.engine in ("mpi", "ray") or arguments.scratch is not None
        data = arguments.release if by_path else load_release(arguments.release)
    with interruption_is_told(arguments.output, arguments.quiet):
        posterior = fit(
            model,
            data,
            sweeps=arguments.sweeps,
            burn_in=arguments.burn_in,
            thin=arguments.thin,
            chains=arguments.chains,
            seed=arguments.seed,
            method=arguments.method,
            threads=arguments.threads,
            engine=engine_of(arguments),
            algorithm=arguments.algorithm,
            start=arguments.start,
            progress=not arguments.quiet,
            store=arguments.output,
            chain=arguments.chain,
            until=until_of(arguments),
            max_seconds=arguments.max_seconds,
            keep=arguments.keep,
            scratch=arguments.scratch,
        )
    return report(posterior, arguments, MODELS[arguments.model])


@contextmanager
def interruption_is_told(run: str, quiet: bool) -> Iterator[None]:
    """That a fit was stopped is said in words of the command, and how it goes on."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="interrupted", category=UserWarning)
            yield
    except KeyboardInterrupt:
        if not quiet:
            written = f"before the first draw. To go on: countveil resume {run}"
            told = written if Path(run).exists() else "before the chains began: nothing was written."
            print(f"Stopped {told}", file=sys.stderr)
        raise


def check_output(output: str) -> None:
    """Before an hour of work, not after."""
    from countveil.counts.places import local_path

    target = local_path(output, "--output")
    if os.path.lexists(target):  # also a link that leads nowhere
        raise FileExistsError(
            f"--output: expected a new folder, got {str(target)!r}, which exists "
            "(countveil resume goes on with a run)"
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"--output: expected an existing folder around it, got {str(target.parent)!r}"
        )


def plain_counts(path: str, arguments: argparse.Namespace) -> PlainCounts:
    """The counts as they lie in the file: what is sparse there stays so."""
    from countveil.counts.inputs.options import InputOptions
    from countveil.counts.sources.plain_counts import read_plain_file

    if _is_release(path):
        raise ValueError("--plain: expected a file of plain counts, got a release; leave --plain out")
    options = InputOptions(
        rows=read_label_file(arguments.rows),
        columns=read_label_file(arguments.columns),
        public_labels=True,  # nothing is released here
        long=None if arguments.long is None else tuple(arguments.long.split(",")),
        index=arguments.index,
    )
    with spoken_as_options():
        return read_plain_file(path, options)


def _is_release(path: str) -> bool:
    """Read as a plain table, the row numbers of a release would pass for counts."""
    from countveil.counts import ReleaseFileError, load_release

    if Path(path).suffix.lower() != ".parquet" or not Path(path).exists():
        return False
    try:
        load_release(path)
    except ReleaseFileError:
        return False
    return True


def _rate(text: str) -> float | None:
    """A number, or None where it is inferred."""
    try:
        return None if text == "inferred" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or 'inferred', got {text!r}") from None


def report(posterior: Posterior, arguments: argparse.Namespace, command: FitCommand | None) -> int:
    """Say how well a fit went and where it is, unless that is to be quiet; the exit code."""
    from countveil.counts.release_on_disk import ReleaseOnDisk
    from countveil.counts.shown_text import visible
    from countveil.posterior import ModesWarning
    from countveil.posterior.runs.packed_release import LARGEST_PACKED

    release = posterior.release
    if isinstance(release, ReleaseOnDisk) and release.is_unread and release.n_bytes > LARGEST_PACKED:
        return _report_unread(posterior, arguments)
    run, interrupted = posterior.path, posterior.settings["interrupted"]
    code = 130 if posterior.settings.get("stopped") == "interrupt" else 0
    if arguments.quiet:
        return exit_code(posterior, arguments.max_r_hat, code)
    if interrupted:
        print("Stopped early; the draws kept until then:")
    print(f"{posterior!r}, method {visible(posterior.settings['method'])}")
    if release is not None and release.guarantee is not None:
        print(release.guarantee)
    plain = getattr(release, "plain_rows", None)
    if plain is not None and plain.any():
        print(f"PLAIN: {plain.sum():,} of {len(plain):,} rows, which nothing protects.")
    print()
    summary = posterior.summary()
    table = summary[["mean", "sd", "r_hat", "ess_bulk", "ess_tail"]]
    print(table.rename(index=_short).to_string(float_format="{:.4g}".format))
    print(summary.verdict)
    totals = posterior.totals()
    if totals is not None:
        print(totals)
    print()
    if command is not None and command.findings is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModesWarning)  # the verdict has said it
            print(command.findings(posterior, arguments.shown))
        print()
    if interrupted:
        print(visible(f"To go on: countveil resume {run}"))
        return exit_code(posterior, arguments.max_r_hat, code)
    tables = f"countveil topics {run} --csv topics.csv"
    if command is None or command.in_python is not None:
        tables = f"countveil table {run} KIND -o FILE, or countveil.load_posterior({str(run)!r}) in Python"
    print(visible(f"Wrote {run}. Tables: {tables}"))
    return exit_code(posterior, arguments.max_r_hat, code)


def _report_unread(posterior: Posterior, arguments: argparse.Namespace) -> int:
    """The same where rows were spread over machines: neither counts nor draws of rows are read into this one."""
    from countveil.posterior.describe import describe_run

    assert posterior.path is not None
    told = describe_run(posterior.path)
    code = 130 if told.settings.get("stopped") == "interrupt" else 0
    if not arguments.quiet:
        print(told)
    if arguments.max_r_hat is None or code:
        return code
    worst = float("nan") if told.scalars is None else told.scalars["r_hat"].max()
    return refusal(worst, "of what is monitored", arguments.max_r_hat, code)


def _short(name: str, length: int = 46) -> str:
    from countveil.counts.shown_text import visible

    name = visible(name)
    return name if len(name) <= length else f"{name[: length - 2]}…]"
