"""``countveil audit``: test the installed noise from outside."""

from __future__ import annotations

import argparse
import time
from typing import Any

from countveil.cli.options import add_command

_DESCRIPTION = """\
Test the noise of this installation from outside, before trusting it with
people's counts: whether it has the law it should have on every cell, whatever
the count and the form of the counts, what two neighbouring inputs show, whether
noise is shared between cells, rows or calls, and whether a seed or a forked
process can repeat it. Every line says the smallest defect that it finds with
probability 0.99. It takes some twenty seconds.

The exit code is 0 if all checks pass and 1 if not."""

_EXAMPLE = """\
example: countveil audit --epsilon 2 --precision 10"""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(commands, "audit", "test the installed noise from outside", _DESCRIPTION, _EXAMPLE)
    parser.add_argument("--epsilon", help="test the noise of this guarantee (default: three usual ones)")
    parser.add_argument("--precision", type=int, default=1, metavar="N", help="its precision (default 1)")
    parser.add_argument(
        "--samples", type=int, default=10_000_000, help="noisy counts per check (default 10,000,000)"
    )
    return [parser]


def run(arguments: argparse.Namespace) -> int:
    """Print the report; the verdict is the exit code."""
    from countveil.auditing import audit
    from countveil.privacy import Guarantee

    if arguments.epsilon is None and arguments.precision != 1:
        raise ValueError("--precision: expected --epsilon beside it, got none")
    guarantee = None if arguments.epsilon is None else Guarantee(arguments.epsilon, arguments.precision)
    begun = time.perf_counter()
    report = audit(guarantee, arguments.samples)
    print(report)
    print(f"{arguments.samples:,} noisy counts per check, {time.perf_counter() - begun:.0f} s")
    return 0 if report.passed else 1
