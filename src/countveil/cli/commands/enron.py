"""``countveil enron build``: the counts of the paper's case studies, from the raw e-mail archive."""

from __future__ import annotations

import argparse
from typing import Any

from countveil.cli.options import add_command, read_label_file, spoken_as_options

_DESCRIPTION = """\
Build the counts of the paper's case studies from the public Enron e-mails: a
folder of mailboxes, as the archive unpacks (maildir/).

DIR gets documents.npz (10,000 e-mails x 10,000 words), network.npz (who wrote to
whom) and edges.csv.gz (time, sender, recipient), for countveil study. Actors are
the owners of the mailboxes, or those of a list of addresses; in the files they
are numbers. The counts are true ones: nothing in DIR is private."""

_EXAMPLE = """\
example: countveil enron build maildir -o enron"""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(
        commands, "enron", "build the counts of the paper's case studies", _DESCRIPTION, _EXAMPLE
    )
    add = parser.add_argument
    add("what", choices=["build"], help="build: read the archive and write the counts")
    add("maildir", metavar="MAILDIR", help="the folder of mailboxes")
    add(
        "-o",
        "--output",
        metavar="DIR",
        required=True,
        help="folder to write to; what is there is not replaced",
    )
    add(
        "--addresses",
        metavar="FILE",
        help="addresses of the actors, one a line (default: owners of mailboxes)",
    )
    add("--seed", type=int, default=0, help="of the choice of documents (default 0)")
    return [parser]


def run(arguments: argparse.Namespace) -> int:
    """Build them."""
    from countveil.counts.shown_text import visible
    from countveil.studies.enron import build_enron

    if arguments.seed < 0:
        raise ValueError(f"--seed: expected a whole number of at least 0, got {arguments.seed}")
    with spoken_as_options({"maildir": "MAILDIR", "output": "--output"}):
        build_enron(
            arguments.maildir, arguments.output, addresses=read_label_file(arguments.addresses),
            seed=arguments.seed, say=lambda line: print(line, flush=True),
        )  # fmt: skip
    print(visible(f"Wrote {arguments.output}."))
    return 0
