"""``countveil fit MODEL``: a release in, a run out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countveil.cli.models import MODELS
from countveil.cli.options import add_command, read_label_file, spoken_as_options

if TYPE_CHECKING:
    import pandas as pd

    from countveil.counts.plain_counts import PlainCounts
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
        add("release", metavar="RELEASE", help="the release; with --plain a file of plain counts")
        add(
            "-o",
            "--output",
            metavar="RUN",
            required=True,
            help="the folder to write, which must not exist yet",
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
        "of rows, columns and components are found: the default for topics, 1 for other models",
    )
    add("--sweeps", type=int, default=1000, metavar="N", help="length of each chain (default 1000)")
    add("--burn-in", type=int, metavar="N", help="sweeps to throw away first (default half of them)")
    add("--thin", type=int, default=5, metavar="N", help="then keep every N-th sweep (default 5)")
    add("--chains", type=int, default=2, metavar="N", help="independent chains (default 2)")
    add("--seed", type=int, help="a number; the same seed gives the same draws (default: a new one)")
    add(
        "--method",
        choices=["exact", "bessel", "naive"],
        default="exact",
        help="exact (default); bessel, the paper's sampler; naive, which takes noise for counts and is biased",
    )
    add("--threads", type=int, metavar="N", help="default: all cores; draws do not depend on it")
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


def run(arguments: argparse.Namespace) -> int:
    """Fit, save, and say how well it went."""
    import json
    import warnings

    from countveil.counts import load_release
    from countveil.fitting import fit

    _check_output(Path(arguments.output))
    model = MODELS[arguments.model].model_of(arguments)
    if not arguments.plain:
        given = [f"--{name}" for name in ("index", "long", "rows", "columns") if getattr(arguments, name)]
        if given:
            raise ValueError(f"{', '.join(given)}: expected --plain beside it; a release has its own labels")
    data = _plain_counts(arguments) if arguments.plain else load_release(arguments.release)
    with warnings.catch_warnings():
        # That it was interrupted is said below, in words of this command.
        warnings.filterwarnings("ignore", message="interrupted", category=UserWarning)
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
            progress=not arguments.quiet,
        )
    posterior.save(arguments.output)
    interrupted = json.loads(posterior.tree.attrs["settings"])["interrupted"]
    if not arguments.quiet:
        _report(posterior, arguments, interrupted)
    return 130 if interrupted else 0


def _check_output(target: Path) -> None:
    """Before an hour of work, not after."""
    if target.exists():
        raise FileExistsError(f"--output: expected a new folder, got {str(target)!r}, which exists")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"--output: expected an existing folder around it, got {str(target.parent)!r}"
        )


def _plain_counts(arguments: argparse.Namespace) -> PlainCounts:
    """The counts as they lie in the file: what is sparse there stays so."""
    from countveil.counts.inputs.options import InputOptions
    from countveil.counts.plain_counts import read_plain_file

    if _is_release(arguments.release):
        raise ValueError("--plain: expected a file of plain counts, got a release; leave --plain out")
    options = InputOptions(
        rows=read_label_file(arguments.rows),
        columns=read_label_file(arguments.columns),
        public_labels=True,  # nothing is released here
        long=None if arguments.long is None else tuple(arguments.long.split(",")),
        index=arguments.index,
    )
    with spoken_as_options():
        counts = read_plain_file(arguments.release, options)
    if arguments.model == "topics" and len(counts.shape) != 2:
        raise ValueError(f"counts: expected a matrix for topics, got {len(counts.shape)} axes")
    return counts


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
    return None if text == "inferred" else float(text)


def _report(posterior: Posterior, arguments: argparse.Namespace, interrupted: bool) -> None:
    if interrupted:
        print("Stopped early; the draws kept until then:")
    print(f"{posterior!r}, method {arguments.method}")
    release = posterior.release
    if release is not None and release.guarantee is not None:
        print(release.guarantee)
    plain = getattr(release, "plain_rows", None)
    if plain is not None and plain.any():
        print(f"PLAIN: {plain.sum():,} of {len(plain):,} rows, which nothing protects.")
    print()
    table = posterior.summary()[["mean", "sd", "r_hat", "ess_bulk", "ess_tail"]]
    print(table.rename(index=_short).to_string(float_format="{:.4g}".format))
    print(_verdict(table))
    totals = posterior.totals()
    if totals is not None:
        print(totals)
    print()
    command = MODELS[arguments.model]
    if command.findings is not None:
        print(command.findings(posterior, arguments.shown))
        print()
    tables = f"countveil topics {arguments.output} --csv topics.csv"
    if command.in_python is not None:
        tables = f"countveil.load_posterior({arguments.output!r}) in Python"
    print(f"Wrote {arguments.output}. Tables: {tables}")


def _short(name: str, length: int = 46) -> str:
    return name if len(name) <= length else f"{name[: length - 2]}…]"


def _verdict(table: pd.DataFrame) -> str:
    least, worst = table[["ess_bulk", "ess_tail"]].min().min(), table["r_hat"].max()  # of those that have one
    if least != least:
        return "Too few draws for diagnostics: more --sweeps."
    if worst != worst:
        return (
            f"Smallest ESS {least:.0f}. One chain has no R-hat: --chains 2 or more show whether they agree."
        )
    facts = f"Worst R-hat {worst:.2f}, smallest ESS {least:.0f}."
    if worst <= 1.01 and least >= 400:
        return f"{facts} The chains agree."
    return f"{facts} Advised: R-hat at most 1.01, ESS at least 400. More --sweeps bring them nearer."
