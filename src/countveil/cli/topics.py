"""``countveil topics``: what a run found, for people and for tables."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from countveil.cli.models import MODELS
from countveil.cli.options import add_command

_DESCRIPTION = """\
Show the topics of a run that `countveil fit topics` wrote.

share      how much of all expected counts belongs to the topic
agreement  how alike the topic is in all draws; 1 is identical, and below about
           0.7 the draws do not tell one story: do not read much into its words

The tables have a line per word (--csv) or per document and topic
(--memberships), with 90 % intervals from low to high."""

_EXAMPLE = """\
example: countveil topics run.zarr --words 15 --csv topics.csv --memberships shares.csv"""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(
        commands, "topics", "show the topics of a run, or write them as tables", _DESCRIPTION, _EXAMPLE
    )
    add = parser.add_argument
    add("run_folder", metavar="RUN", help="the folder of the run")
    add("--words", type=int, default=10, metavar="N", help="words of a topic (default 10)")
    add("--csv", metavar="FILE", help="write topics and words as a table")
    add("--memberships", metavar="FILE", help="write each document's shares of the topics as a table")
    return [parser]


def run(arguments: argparse.Namespace) -> int:
    """Print the topics and write the tables asked for."""
    from countveil.posterior import SharedPosterior, load_posterior

    for option in ("csv", "memberships"):
        file = getattr(arguments, option)
        if file is not None and not Path(file).parent.is_dir():
            raise FileNotFoundError(
                f"--{option}: expected an existing folder, got {str(Path(file).parent)!r}"
            )
    posterior = load_posterior(arguments.run_folder)
    if isinstance(posterior, SharedPosterior):
        lines = "print(list(posterior)); print(posterior.summary())"
        raise _without_topics("SharedFactors", lines, arguments.run_folder)
    try:
        topics = posterior.topics(arguments.words)
    except TypeError as error:  # its model has none
        kind = type(posterior.model).__name__
        # Of a model of the user's own a run holds no more than its draws.
        known = {command.model: command.in_python for command in MODELS.values()}.get(kind)
        what, lines = (kind, known) if known else ("another model", "print(posterior.tree)")
        raise _without_topics(what, lines, arguments.run_folder) from error
    print(topics)
    if arguments.csv is not None:
        topics.table.to_csv(arguments.csv, index=False)
        print(f"Wrote {arguments.csv}.")
    if arguments.memberships is not None:
        posterior.to_dataframe("memberships").to_csv(arguments.memberships, index=False)
        print(f"Wrote {arguments.memberships}.")
    return 0


def _without_topics(kind: str, lines: str, run: str) -> TypeError:
    """Says what kind of run it is, and how to see what it found."""
    return TypeError(
        f"RUN: expected a run of topics, got one of {kind}; "
        f"in Python: import countveil as cv; posterior = cv.load_posterior({run!r}); {lines}"
    )
