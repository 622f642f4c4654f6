"""What a summary says about the chains, in words: which they are, why they ended, modes, convergence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from countveil.posterior.diagnostics.modes import Modes, posterior_modes
from countveil.posterior.diagnostics.select import selection_of
from countveil.posterior.diagnostics.summary import Summary

if TYPE_CHECKING:
    from countveil.posterior.states import KeptDraws

#: Vehtari et al. (2021).
ADVISED_R_HAT, ADVISED_ESS = 1.01, 400
#: Beyond this nobody can promise that longer chains will agree.
_DISAGREE = 1.1


def with_verdict(table: pd.DataFrame, posterior: KeptDraws) -> Summary:
    """The table, and below it the verdict."""
    summary = Summary(table)
    summary.verdict = verdict_of(posterior, table)
    return summary


def verdict_of(posterior: KeptDraws, table: pd.DataFrame) -> str:
    """Some lines; ``table`` has the diagnostics."""
    sizes = tuple(posterior.tree["sample_stats"].sizes[dim] for dim in ("chain", "draw"))
    first = [selection_of(posterior.tree), why_it_ended(posterior.settings, sizes[1])]
    return "\n".join(
        line for line in [*first, convergence(table, posterior_modes(posterior), sizes[0])] if line
    )


def convergence(table: pd.DataFrame, modes: Modes, chains: int, agree: str = "The chains agree.") -> str:
    """What the diagnostics and the modes of so many chains say; ``agree``, where they are good."""
    lines = []
    least, worst = table[["ess_bulk", "ess_tail"]].min().min(), table["r_hat"].max()  # of those that have one
    if modes.differ:
        lines += [modes.finding, modes.advice]
    if chains == 1:
        lines.append(
            "One chain: whether there are other solutions (modes) cannot be seen, nor an R-hat; run several."
        )
    if least != least:
        lines.append("Too few draws for diagnostics: more sweeps.")
    elif worst != worst:
        lines.append(f"Smallest ESS {least:.0f}; advised at least {ADVISED_ESS}.")
    else:
        digits = 3 if ADVISED_R_HAT < worst < ADVISED_R_HAT + 0.005 else 2  # 1.01 would be what is advised
        facts = f"Worst R-hat {worst:.{digits}f}, smallest ESS {least:.0f}."
        advised = f"Advised: R-hat at most {ADVISED_R_HAT}, ESS at least {ADVISED_ESS}."
        if modes.differ:
            lines.append(facts)
        elif worst <= ADVISED_R_HAT and least >= ADVISED_ESS:
            lines.append(f"{facts} {agree}")
        elif worst > _DISAGREE:
            lines.append(
                f"{facts} {advised} The chains disagree. Plot the traces: chains level and apart are in different "
                "solutions, and more sweeps may not help; if they still drift, more sweeps do; if they lie over "
                "each other, single rates move slowly or differ by solution, and more sweeps tell "
                "(docs/diagnostics.md)."
            )
        else:
            lines.append(f"{facts} {advised} More sweeps bring them nearer.")
    return "\n".join(lines)


def why_it_ended(settings: dict[str, Any], draws: int) -> str:
    """In words, where it was not simply the last sweep.

    >>> settings = {"sweeps": 1000, "burn_in": 500, "thin": 5, "until_ess": 400.0, "until_r_hat": 1.01}
    >>> print(why_it_ended(settings | {"stopped": "precision"}, 40))
    Ended after 700 of at most 1,000 sweeps: the monitored scalars have ESS 400 and R-hat 1.01, as asked.
    >>> print(why_it_ended(settings | {"stopped": "sweeps"}, 100))
    Ended at its limit of 1,000 sweeps, before the monitored scalars had ESS 400 and R-hat 1.01, as asked.
    >>> print(why_it_ended({"sweeps": 1000, "burn_in": 500, "thin": 5, "stopped": "time"}, 40))
    Ended when its time was up, with 40 of 100 draws per chain.
    """
    asked = [
        f"{name} {settings[key]:g}"
        for name, key in (("ESS", "until_ess"), ("R-hat", "until_r_hat"))
        if settings.get(key) is not None
    ]
    done, planned = settings["burn_in"] + settings["thin"] * draws, settings["sweeps"]
    kept = (planned - settings["burn_in"]) // settings["thin"]
    stopped = settings.get("stopped", "interrupt" if settings.get("interrupted") else "sweeps")
    if stopped == "precision":
        return (
            f"Ended after {done:,} of at most {planned:,} sweeps: the monitored scalars have "
            f"{' and '.join(asked)}, as asked."
        )
    if stopped == "time":
        return f"Ended when its time was up, with {draws:,} of {kept:,} draws per chain."
    if stopped == "interrupt":
        return f"Interrupted, with {draws:,} of {kept:,} draws per chain."
    if asked:
        return (
            f"Ended at its limit of {planned:,} sweeps, before the monitored scalars had {' and '.join(asked)}, "
            "as asked."
        )
    return ""
