"""``countveil demo``: the whole way on a real corpus, in under three minutes."""

from __future__ import annotations

import argparse
from typing import Any

from countveil.cli.options import add_command, spoken_as_options

_DESCRIPTION = """\
See the whole way once, on texts that every installation has: the docstrings of
numpy and scipy play the private documents.

Their word counts are privatized with real noise. Then three topic models are
fitted and compared: to the true counts (not private), to the release with the
noise in the model (exact), and to the release taken at its face (naive).

It takes a minute or two, and writes a picture, the release and the exact fit."""

_EXAMPLE = """\
example: countveil demo -o demo-output"""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(
        commands, "demo", "see the whole way once, on texts that are already here", _DESCRIPTION, _EXAMPLE
    )
    add = parser.add_argument
    add(
        "-o",
        "--output",
        metavar="DIR",
        default="demo-output",
        help="folder to write to (default demo-output)",
    )
    add(
        "--epsilon", default="2", help="odds on one word shift by at most the factor exp(epsilon) (default 2)"
    )
    add("--topics", type=int, default=20, metavar="K", help="number of topics (default 20)")
    add("--sweeps", type=int, default=300, help="length of each chain (default 300)")
    add("--documents", type=int, default=3000, metavar="N", help="at most so many documents (default 3000)")
    add("--words", type=int, default=2500, metavar="N", help="at most so many words (default 2500)")
    return [parser]


def run(arguments: argparse.Namespace) -> int:
    """Run the demo and print what it found."""
    import sys

    from countveil.studies.demo.demo import run_demo
    from countveil.studies.demo.demo_text import demo_text

    with spoken_as_options({"output": "--output"}):
        result = run_demo(
            arguments.output,
            epsilon=arguments.epsilon,
            n_topics=arguments.topics,
            sweeps=arguments.sweeps,
            max_documents=arguments.documents,
            max_words=arguments.words,
            progress=sys.stderr.isatty(),
            say=lambda line: print(line, flush=True),
        )
    print()
    print(demo_text(result))
    return 0
