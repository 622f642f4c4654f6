"""Do the chains tell one story? Chains in different modes, found by the log-likelihood that is watched.

Within one mode the log-likelihood of a chain goes up and down by its spread s. Two chains whose means differ by
many times s are in different places, and as neither has come near the other, longer ones may not either. How many
times: the 1 - 1e-5 quantile of Student's t, whose degrees of freedom are the independent draws of the chain that
has fewer of them (its effective sample size by itself), less one. Chains that drift, that hardly move or that are
short have few, and must be further apart before anything is said: 4.8 times s with forty, 23 with five.

On chains of one mode (AR(1), four of them) it is silent unless their autocorrelation time is several times their
length: by then they look like chains that are stuck, and only much longer ones would tell.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from arviz_stats.base import array_stats
from scipy import stats

from countveil.inference.monitor import LOG_LIKELIHOOD

if TYPE_CHECKING:
    from countveil.posterior.states import KeptDraws

#: Fewer draws of a chain say nothing of its spread.
_FEWEST_DRAWS = 10
#: Chance of taking the spread of a single mode for two.
_FALSE_ALARM = 1e-5
#: No estimate of an effective sample size makes one believe that there are fewer degrees of freedom.
_LEAST_FREEDOM = 4.0
#: A chain with fewer independent draws drifts or jumps.
_SETTLED = 5.0


class Modes(NamedTuple):
    """Chains by the solutions they are in, as far as the log-likelihood tells them apart."""

    groups: tuple[tuple[int, ...], ...]  # numbers of chains, those with the highest log-likelihood first
    levels: tuple[float, ...]  # mean log-likelihood of each group
    spread: float  # within a chain, the median of them
    unsettled: tuple[int, ...]  # chains that still drift or jump

    @property
    def differ(self) -> bool:
        """Whether there is more than one."""
        return len(self.groups) > 1

    @property
    def finding(self) -> str:
        """Which chains are where, in words."""
        best, others = self.groups[0], self.groups[1:]
        below = [_rounded(self.levels[0] - level) for level in self.levels[1:]]
        spread = f"(within a chain it varies by {_rounded(self.spread)})"
        if len(best) == 1 and len(others) == 1 and len(others[0]) == 1:
            return (
                f"The two chains disagree: chain {others[0][0]} is {below[0]} below chain {best[0]} in "
                f"log-likelihood {spread}. Probably these are two solutions, which longer chains may not leave."
            )
        parts = [
            f"{_named(group)} {'is' if len(group) == 1 else 'are'} {gap}"
            for group, gap in zip(others, below, strict=True)
        ]
        rest = "the others" if len(others) == 1 else _named(best)
        told = f"{' and '.join(parts)} below {rest} in log-likelihood {spread}"
        what = "another solution" if sum(map(len, others)) == 1 else "other solutions"
        text = f"{told[0].upper()}{told[1:]}: probably {what}, which longer chains may not leave."
        if self.unsettled:
            rest = _named(self.unsettled)
            text += (
                f" {rest[0].upper()}{rest[1:]} {'has' if len(self.unsettled) == 1 else 'have'} not settled."
            )
        return text

    @property
    def advice(self) -> str:
        """What can be done."""
        best = [chain for chain in self.groups[0] if chain not in self.unsettled] or list(self.groups[0])
        return (
            "More chains show which solution is usual; "
            f"posterior.chains({best}) takes the best; compare them on hidden cells "
            "(docs/diagnostics.md)."
        )

    def __str__(self) -> str:
        return f"{self.finding} {self.advice}" if self.differ else ""


def modes_of(log_likelihood: np.ndarray, numbers: Sequence[int] | None = None) -> Modes:
    """Which chains are together, by their log-likelihoods (chain, draw); fewer than ten draws say nothing.

    >>> rng = np.random.default_rng(0)
    >>> draws = rng.normal(-12_276, 15, (4, 100))
    >>> modes_of(draws).groups
    ((0, 1, 2, 3),)
    >>> draws[2] -= 1257
    >>> print(modes_of(draws).finding)
    Chain 2 is 1,260 below the others in log-likelihood (within a chain it varies by 14.5): probably another \
solution, which longer chains may not leave.
    """
    numbers = range(len(log_likelihood)) if numbers is None else numbers
    values = np.asarray(log_likelihood, dtype=np.float64)
    if len(values) < 2 or values.shape[1] < _FEWEST_DRAWS or not np.isfinite(values).all():
        return Modes((tuple(map(int, numbers)),), (math.nan,), math.nan, ())
    level, spread = values.mean(axis=1), values.std(axis=1, ddof=1)
    independent = np.array([_independent(chain) for chain in values])

    def apart(one: int, other: int) -> bool:
        s = math.sqrt((spread[one] ** 2 + spread[other] ** 2) / 2)
        freedom = max(_LEAST_FREEDOM, min(independent[one], independent[other]) - 1.0)
        return abs(level[one] - level[other]) > s * stats.t.isf(_FALSE_ALARM, freedom)

    # Chains that stay where they are come first: one that wanders from one mode to another would join the two.
    falling = map(int, np.argsort(-level, kind="stable"))
    settled = [chain for chain in falling if independent[chain] >= _SETTLED]
    groups: list[list[int]] = []
    for chain in settled:
        # From the highest: else a row of small steps would join ends that are far apart.
        if groups and not apart(groups[-1][0], chain):
            groups[-1].append(chain)
        else:
            groups.append([chain])
    unsettled = []
    for chain in map(int, np.flatnonzero(independent < _SETTLED)):
        near = [group for group in groups if not all(apart(chain, other) for other in group)]
        if not near:
            groups.append([chain])
            continue
        at_last = values[chain, -(values.shape[1] // 4) :].mean()
        min(near, key=lambda group: abs(level[group].mean() - at_last)).append(chain)
        unsettled.append(chain)
    groups.sort(key=lambda group: -level[group].mean())
    return Modes(
        tuple(tuple(sorted(int(numbers[chain]) for chain in group)) for group in groups),
        tuple(float(level[[c for c in group if c not in unsettled] or group].mean()) for group in groups),
        float(np.median(spread)),
        tuple(sorted(int(numbers[chain]) for chain in unsettled)),
    )


def posterior_modes(posterior: KeptDraws) -> Modes:
    """Those of a posterior; of several views by the log-likelihoods of all of them together."""
    group = posterior.tree["sample_stats"]
    scalars = {str(name): values.to_numpy() for name, values in group.data_vars.items()}
    return modes_of(watched_log_likelihood(scalars), group["chain"].to_numpy().tolist())


def watched_log_likelihood(scalars: Mapping[str, np.ndarray]) -> np.ndarray:
    """Of the monitored scalars, (chain, draw) each, the log-likelihoods of all views together."""
    return np.sum([values for name, values in scalars.items() if name.startswith(LOG_LIKELIHOOD)], axis=0)


def warn_of_modes(posterior: KeptDraws, what: str, stacklevel: int = 3) -> None:
    """Warn that ``what`` is about to average over chains that are in different modes; silent if they are not.

    For whoever puts the draws of all chains together: scores, comparisons of models, predictive checks.
    ``stacklevel`` 3 is the line that called the function which calls this one.

    Examples
    --------
    >>> import countveil as cv
    >>> posterior = cv.fit(cv.TopicModel(1), [[9, 0], [8, 1]], sweeps=200, seed=1, progress=False)
    >>> warn_of_modes(posterior, "my_score")
    """
    modes = posterior_modes(posterior)
    if modes.differ:
        warnings.warn(
            f"{what}: an average over chains that do not agree. {modes}",
            category=ModesWarning,
            stacklevel=stacklevel,
        )


class ModesWarning(UserWarning):
    """An average over chains that are in different modes.

    >>> issubclass(ModesWarning, UserWarning)
    True
    """


def _independent(chain: np.ndarray) -> float:
    """The effective sample size of one chain by itself, at most the number of its draws."""
    if np.ptp(chain) == 0:
        return float(len(chain))
    return min(float(array_stats.ess(chain[None], method="mean")), float(len(chain)))


def _named(chains: Sequence[int]) -> str:
    """
    >>> _named([3]), _named([0, 3]), _named([0, 2, 3])
    ('chain 3', 'chains 0 and 3', 'chains 0, 2 and 3')
    """
    if len(chains) == 1:
        return f"chain {chains[0]}"
    return f"chains {', '.join(map(str, chains[:-1]))} and {chains[-1]}"


def _rounded(value: float) -> str:
    """Three digits are enough.

    >>> _rounded(1257.3), _rounded(35.24), _rounded(0.1234)
    ('1,260', '35.2', '0.123')
    """
    return f"{float(f'{value:.3g}'):,.12g}"
