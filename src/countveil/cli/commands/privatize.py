"""``countveil privatize``: a file of true counts in, a release out."""

from __future__ import annotations

import argparse
from typing import Any

from countveil.cli.options import add_command, check_not_counts, read_label_file, spoken_as_options

_DESCRIPTION = """\
Add noise to a file of counts so that it may be shown to others.

Run it where the counts are, and hand on the release only. Each release of the
same counts tells more: make one, and keep it.

COUNTS is a CSV, TSV or Parquet table, a Matrix Market (.mtx) file, or a NumPy
.npz or .npy file. A table is either wide (a line per document, a column per
word) or, with --long, long (a line per document, word and count).

Rows and columns must be known without looking at the counts: name files with
one label per line (--rows, --columns), or say --public-labels if anyone may
know which documents and words occur at all. Labels are released as they are."""

_EXAMPLE = """\
example: letters.csv has the columns author, word and n; up to 10 words of each
author's letters, added or removed, are to shift odds by a factor of exp(2) = 7.4 at most:

  countveil privatize letters.csv -o release.parquet --epsilon 2 --precision 10 \\
      --unit person --long author,word,n --rows authors.txt --columns words.txt"""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(
        commands,
        "privatize",
        "add noise to counts so that they may be shown to others",
        _DESCRIPTION,
        _EXAMPLE,
    )
    add = parser.add_argument
    add("counts", metavar="COUNTS", help="the file of true counts")
    add("-o", "--output", metavar="RELEASE", required=True, help="the release to write, under a new name")
    add(
        "--epsilon",
        required=True,
        help="how much odds may shift: by the factor exp(epsilon); such as 1 or 1/2",
    )
    add(
        "--precision",
        type=int,
        default=1,
        metavar="N",
        help="hide N counts, added or removed, that well; replaced ones are two each (default 1)",
    )
    add(
        "--unit",
        choices=["document", "cell", "person"],
        default="document",
        help="of one what: a row, a single count, or a person with several rows (default document)",
    )
    add("--rows", metavar="FILE", help="all row labels, one per line, in the order of the release")
    add("--columns", metavar="FILE", help="all column labels, one per line (the vocabulary, say)")
    add(
        "--public-labels",
        action="store_true",
        help="it is no secret which labels occur, and their order: take them from COUNTS",
    )
    add(
        "--long",
        metavar="ROW,COLUMN,COUNT",
        help="COUNTS is a long table with these columns; ROW,COLUMN, counts every line once",
    )
    add("--index", metavar="NAME", help="the column of a wide table that holds the row labels")
    add(
        "--ledger",
        metavar="FILE",
        help="enter the release there before any noise is drawn; keep one per study",
    )
    add("--dataset", metavar="NAME", help="what the ledger calls these data: releases of one dataset add up")
    add("--overwrite", action="store_true", help="replace RELEASE if it exists; refused otherwise")
    add("--explain", action="store_true", help="say at length what is protected and what is not")
    return [parser]


def run(arguments: argparse.Namespace) -> int:
    """Write the release and say what it promises."""
    from countveil.counts import privatize_to_file
    from countveil.counts.files.release import check_not_input
    from countveil.counts.shown_text import visible

    long = None if arguments.long is None else tuple(name or None for name in arguments.long.split(","))
    with spoken_as_options():
        check_not_input(arguments.output, arguments.rows, arguments.columns)  # the counts are checked there
        check_not_counts(arguments)
        promise = privatize_to_file(
            arguments.counts,
            arguments.output,
            arguments.epsilon,
            arguments.precision,
            unit=arguments.unit,
            rows=read_label_file(arguments.rows),
            columns=read_label_file(arguments.columns),
            public_labels=arguments.public_labels,
            long=long,
            index=arguments.index,
            overwrite=arguments.overwrite,
            ledger=arguments.ledger,
            dataset=arguments.dataset,
        )
    print(f"Wrote {visible(arguments.output)}.")
    print(promise.explain() if arguments.explain else promise)
    print("Labels of rows and columns are released as they are. Releasing the same counts again tells more.")
    return 0
