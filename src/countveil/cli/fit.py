"""``countveil fit MODEL``: a release in, a run out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countveil.cli.fit_models import add_other_models, findings_of, model_of
from countveil.cli.option_names import spoken_as_options

if TYPE_CHECKING:
    import pandas as pd

    from countveil.posterior import Posterior

_FIT = """\
Fit a model to a release: draw what the true counts and their structure may be,
given the noisy ones.

Models: topics, communities, tensor, factorization (countveil fit topics --help)."""

_DESCRIPTION = """\
Find topics in a release, or in plain counts.

A release is what `countveil privatize` writes. Its noise is part of the model,
so topics are those of the true counts, as far as the release tells, with
intervals that say how far that is.

The result is a folder, RUN. `countveil topics RUN` shows it again and writes
tables; in Python `countveil.load_posterior("RUN")` opens it.

How long? Start with the default. The diagnostics printed at the end say whether
the chains agree (R-hat near 1) and what their draws are worth (ESS). Ctrl-C
stops early and keeps what was drawn."""

_EXAMPLE = """\
examples:
  countveil fit topics release.parquet -o run.zarr --topics 50
  countveil fit topics release.parquet -o long.zarr --topics 50 --sweeps 4000 \\
      --burn-in 2000 --thin 20 --chains 4 --seed 1
  countveil fit topics counts.csv --plain --index document -o plain.zarr --topics 50"""


def configure(commands: Any) -> argparse.ArgumentParser:
    """Describe the command."""
    fit = commands.add_parser(
        "fit",
        help="fit a model to a release",
        description=_FIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    models = fit.add_subparsers(dest="model", required=True, metavar="MODEL")
    parser = _model_parser(
        models, "topics", "topics of documents, by Poisson factorization", _DESCRIPTION, _EXAMPLE
    )
    parser.add_argument("--topics", type=int, default=20, metavar="K", help="number of topics (default 20)")
    parser.add_argument(
        "--words", type=int, default=10, metavar="N", help="words of a topic to print (default 10)"
    )
    _common_options(parser)
    add_other_models(models, _model_parser, _finish)
    return parser


def _finish(parser: Any) -> None:
    """What `main` does for the one parser it is given."""
    _common_options(parser)
    parser.add_argument("--debug", action="store_true", help="show the whole traceback of an error")
    parser.set_defaults(run=run)


def _model_parser(models: Any, name: str, summary: str, description: str, example: str) -> Any:
    parser = models.add_parser(
        name,
        help=summary,
        description=description,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("release", metavar="RELEASE", help="the release; with --plain a file of plain counts")
    parser.add_argument(
        "-o", "--output", metavar="RUN", required=True, help="the folder to write, which must not exist yet"
    )
    return parser


def _common_options(parser: Any) -> None:
    add = parser.add_argument
    add("--shape", type=float, default=0.1, help="of the gamma priors; below 1 is sparse (default 0.1)")
    add("--rate", type=float, default=1.0, help="of the gamma priors (default 1)")
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
    model = model_of(arguments)
    if not arguments.plain:
        given = [f"--{name}" for name in ("index", "long", "rows", "columns") if getattr(arguments, name)]
        if given:
            raise ValueError(f"{', '.join(given)}: expected --plain beside it; a release has its own labels")
    labels = None
    if arguments.plain:
        data, labels = _plain_counts(arguments)
    else:
        data = load_release(arguments.release)
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
            labels=labels,
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


def _plain_counts(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The counts, and their labels axis by axis."""
    import numpy as np

    from countveil.cli.label_file import read_label_file
    from countveil.counts.form import Form
    from countveil.counts.given import read_given
    from countveil.counts.true_counts import blocks_of

    if _is_release(arguments.release):
        raise ValueError("--plain: expected a file of plain counts, got a release; leave --plain out")
    form = Form(
        rows=read_label_file(arguments.rows),
        columns=read_label_file(arguments.columns),
        public_labels=True,  # nothing is released here
        long=None if arguments.long is None else tuple(arguments.long.split(",")),
        index=arguments.index,
    )
    with spoken_as_options():
        given = read_given(arguments.release, form)
    if arguments.model == "topics" and len(given.counts.shape) != 2:
        raise ValueError(f"counts: expected a matrix for topics, got {len(given.counts.shape)} axes")
    values = np.concatenate([rows for *_, rows in blocks_of(given.counts)])
    return values.reshape(given.counts.shape), given.labels


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
    print()
    findings = findings_of(posterior, arguments)
    if findings:
        print(findings)
        print()
    tables = f"countveil topics {arguments.output} --csv topics.csv"
    if arguments.model != "topics":
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
