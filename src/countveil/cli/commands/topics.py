"""``countveil topics``: what a run found, for people and for tables."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from countveil.cli.judge import add_max_r_hat, exit_code
from countveil.cli.models import MODELS
from countveil.cli.options import add_command
from countveil.cli.tables import check_folder, check_free, write_table

if TYPE_CHECKING:
    pass

_DESCRIPTION = """\
Show the topics of a run that `countveil fit topics` wrote.

share      how much of all expected counts belongs to the topic
agreement  how alike the topic is in all draws; 1 is identical, and below about
           0.7 the draws do not tell one story: do not read much into its words

The tables have a line per word (--csv) or per document and topic
(--memberships), with 90 % intervals from low to high. So that no spreadsheet
runs a label as a formula, text that begins like one (= + - @) has an apostrophe
before it there. In Python posterior.topics().table and
posterior.to_dataframe("memberships") have all labels as they are."""

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
    add("--csv", metavar="FILE", help="write topics and words as a table (formulas defused, see above)")
    add("--memberships", metavar="FILE", help="write each document's shares of the topics as a table (alike)")
    add(
        "--overwrite", action="store_true", help="replace files that are no such tables of an earlier command"
    )
    add_max_r_hat(parser, "")
    return [parser]


def run(arguments: argparse.Namespace) -> int:
    """Print the topics and write the tables asked for."""
    from countveil.posterior import SharedPosterior, load_posterior

    for option in ("csv", "memberships"):
        file = getattr(arguments, option)
        if file is not None:
            check_folder(file, f"--{option}")
    if arguments.csv is not None and arguments.csv == arguments.memberships:
        raise ValueError(f"--memberships: expected another file than --csv, got {arguments.csv!r}")
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
    tables = {}
    if arguments.csv is not None:
        tables[arguments.csv] = topics.table
    if arguments.memberships is not None:
        tables[arguments.memberships] = posterior.to_dataframe("memberships")
    # All before any is written.
    older = {name: check_free(table, name, arguments.overwrite) for name, table in tables.items()}
    for name, table in tables.items():
        write_table(table, name, overwrite=older[name])
    return exit_code(posterior, arguments.max_r_hat)


def _without_topics(kind: str, lines: str, run: str) -> TypeError:
    """Says what kind of run it is, and how to see what it found."""
    return TypeError(
        f"RUN: expected a run of topics, got one of {kind}; "
        f"in Python: import countveil as cv; posterior = cv.load_posterior({run!r}); {lines}"
    )
