"""How a command judges a run: options by which it ends early, and the exit code by which a pipeline refuses it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from countveil.posterior import Posterior, SharedPosterior

#: Done, and the answer is no.
REFUSED = 1


def add_until(parser: Any, note: str = "") -> None:
    """Options by which chains end before their last sweep."""
    add = parser.add_argument
    add(
        "--until-ess",
        type=float,
        metavar="N",
        help=f"end before --sweeps once every monitored scalar has this effective sample size{note}",
    )
    add("--until-r-hat", type=float, metavar="R", help=f"the same for R-hat, such as 1.01{note}")
    add(
        "--max-seconds",
        type=float,
        metavar="S",
        help="end after this time, with the draws until then; countveil resume goes on",
    )


def until_of(arguments: argparse.Namespace) -> dict[str, float] | None:
    """What was asked for, as ``fit`` takes it."""
    asked = {"ess": arguments.until_ess, "r_hat": arguments.until_r_hat}
    return {name: value for name, value in asked.items() if value is not None} or None


def add_max_r_hat(parser: Any, more: str = "; the run is written all the same") -> None:
    """The option by which a run is refused."""
    parser.add_argument(
        "--max-r-hat",
        type=_r_hat,
        metavar="R",
        help=f"exit with code {REFUSED} if the worst R-hat is above this (1.05, say) or is not known{more}",
    )


def exit_code(posterior: Posterior | SharedPosterior, max_r_hat: float | None, code: int = 0) -> int:
    """``code``, or that of a run that is refused, with a line that says why."""
    if max_r_hat is None or code:
        return code
    table = posterior.summary()["r_hat"]
    worst = table.max()
    return refusal(worst, _shown(table.idxmax()) if worst == worst else "", max_r_hat, code)


def refusal(worst: float, where: str, max_r_hat: float, code: int) -> int:
    """The same for a worst R-hat that is known."""
    if worst <= max_r_hat:
        return code
    why = f"the worst R-hat is {worst:.6g} ({where})" if worst == worst else "no R-hat is known"
    print(f"countveil: refused: {why}, --max-r-hat {max_r_hat} was asked for", file=sys.stderr)
    return REFUSED


def _shown(name: Any) -> str:
    from countveil.counts.shown_text import visible

    return visible(str(name))


def _r_hat(text: str) -> float:
    value = float(text)
    if not value > 1:
        raise argparse.ArgumentTypeError(f"expected a number above 1, got {text}")
    return value
