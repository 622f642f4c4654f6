"""``countveil ledger``: what was released of which data, and the budget."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from countveil.cli.options import OPTIONS, add_command, spoken_as_options

_DESCRIPTION = """\
Show a ledger: all releases of every dataset, what they cost together, and what
is left of the budget.

`countveil privatize --ledger FILE --dataset NAME` enters a release before any of
its noise is drawn. It stays charged whatever becomes of it. Costs are epsilon
per count: epsilon divided by the precision. Releases of one dataset add up;
those of different rows (the same columns, rows of other names) do not.

With --budget this command sets a budget instead: what would exceed it is then
refused."""

_EXAMPLE = """\
example: at most epsilon 2 at precision 10 for all releases of the letters:

  countveil ledger study.ledger --budget 2 --precision 10 --dataset letters"""


def configure(commands: Any) -> list[argparse.ArgumentParser]:
    """Describe the command."""
    parser = add_command(commands, "ledger", "what was released, and the budget", _DESCRIPTION, _EXAMPLE)
    add = parser.add_argument
    add("ledger", metavar="FILE", help="the ledger")
    add("--json", action="store_true", help="print it as JSON")
    add("--budget", metavar="EPSILON", help="set the budget of a dataset")
    add("--precision", type=int, default=1, metavar="N", help="its precision (default 1)")
    add("--dataset", metavar="NAME", help="whose budget it is")
    add("--raise", dest="raise_it", action="store_true", help="it may be larger than the present one")
    return [parser]


def run(arguments: argparse.Namespace) -> int:
    """Print the ledger, or set a budget."""
    from countveil.counts import Ledger
    from countveil.counts.places import local_path
    from countveil.privacy import Guarantee

    ledger = Ledger(local_path(arguments.ledger, "FILE"))
    if arguments.budget is not None:
        words = OPTIONS | {"budget": "--budget", "raise_it": "--raise"}
        with spoken_as_options(words):
            promise = Guarantee(arguments.budget, arguments.precision)
            ledger.set_budget(arguments.dataset, promise, raise_it=arguments.raise_it)
    elif not Path(arguments.ledger).exists():
        raise FileNotFoundError(f"FILE: expected a ledger, got {arguments.ledger}, which does not exist")
    print(json.dumps(ledger.to_dict(), indent=2) if arguments.json else ledger)
    return 0
