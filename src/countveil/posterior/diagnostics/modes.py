"""Do the chains tell one story? Chains in different modes, found by their rates and by the log-likelihood.

**Rates.** Chains whose mean rates stay further apart than a chain moves from part to part are in different places
(``clusters``), however likely the data are there. This is looked at wherever rates can be had (``sampled_rates``).

**Log-likelihood**, where that finds nothing. Within one mode the log-likelihood of a chain goes up and down by its
spread s. Two chains whose means differ by many times s are in different places, and as neither has come near the
other, longer ones may not either. How many times: the 1 - 1e-5 quantile of Student's t, whose degrees of freedom
are the independent draws of the chain that has fewer of them (its effective sample size by itself), less one.
Chains that drift, that hardly move or that are short have few, and must be further apart before anything is said:
4.8 times s with forty, 23 with five. Of a chain that has jumped the last quarter counts: if that is as far from the
others, it is in another place than they are, though no longer in the one where it began.

However groups were found, what is said of them goes by their levels. Only groups about as high as the highest are
rivals, of which either may be reported; the others are below. A chain that has not settled and is above all that
have is on its way to something better: then nothing should be selected yet.

On chains of one mode both are silent unless their autocorrelation time is about their length or more: by then they
look like chains that are stuck, and only much longer ones would tell.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from countveil.inference.monitor import LOG_LIKELIHOOD
from countveil.posterior.diagnostics.clusters import MOST_CHAINS, clusters_of
from countveil.posterior.diagnostics.sampled_rates import rates_by_part
from countveil.runtime.own_settings import import_library

if TYPE_CHECKING:
    from countveil.posterior.states import KeptDraws

array_stats = import_library("arviz_stats.base").array_stats


#: Fewer draws of a chain say nothing of its spread.
_FEWEST_DRAWS = 10
#: Chance of taking the spread of a single mode for two.
_FALSE_ALARM = 1e-5
#: No estimate of an effective sample size makes one believe that there are fewer degrees of freedom.
_LEAST_FREEDOM = 4.0
#: A chain with fewer independent draws drifts or jumps.
_SETTLED = 5.0
#: Levels that differ by fewer spreads overlap.
_OVERLAP = 3.0
#: A chain whose last quarter is more spreads above its first has climbed while it was watched.
_CLIMBED = 6.0
_NUMBERS = {2: "two", 3: "three", 4: "four"}


class Modes(NamedTuple):
    """Chains by the solutions they are in, as far as rates or the log-likelihood tell them apart."""

    groups: tuple[tuple[int, ...], ...]  # numbers of chains, those with the highest log-likelihood first
    levels: tuple[
        float, ...
    ]  # mean log-likelihood of each group, of chains that have moved where they have come to
    spread: float  # within a chain, the median of them
    unsettled: tuple[int, ...]  # chains that still drift or jump
    #: How many times as far apart rates are between groups as within a chain; NaN if it was the level that told.
    apart: float = math.nan
    climbed: tuple[int, ...] = ()  # chains that came up to their level after burn-in
    ahead: tuple[tuple[int, float], ...] = ()  # unsettled ones above the best group, and by how much

    @property
    def differ(self) -> bool:
        """Whether there is more than one."""
        return len(self.groups) > 1

    @property
    def rivals(self) -> tuple[tuple[int, ...], ...]:
        """Groups in which the data are about as likely as in the best, which comes first."""
        if self.apart != self.apart:
            return self.groups[:1]
        near = [self.levels[0] - level <= _OVERLAP * self.spread for level in self.levels]
        return tuple(group for group, is_near in zip(self.groups, near, strict=True) if is_near)

    @property
    def finding(self) -> str:
        """Which chains are where, in words."""
        text = self._by_rates() if len(self.rivals) > 1 else self._by_level()
        ahead = dict(self.ahead)
        settling = [chain for chain in self.unsettled if chain not in ahead]
        if settling:
            text += f" {_capital(_named(settling))} {'has' if len(settling) == 1 else 'have'} not settled."
        for chain, gap in self.ahead:
            text += f" Chain {chain} has not settled, and is {_rounded(gap)} above all of them by now."
        return text

    def _by_rates(self) -> str:
        rivals, n = sorted(self.rivals), len(self.rivals)  # levels that overlap give no order
        lone = [group[0] for group in rivals if len(group) == 1]
        together = [_named(group) for group in rivals if len(group) > 1]
        if together:
            told = f"{together[0]} agree with each other"
            told += "".join(f", {each} with each other" for each in together[1:])
            told += f", {_named(lone)} with no other" if lone else ""
        elif n == len(self.groups):
            told = "the two chains disagree" if len(lone) == 2 else "no two chains agree"
        else:
            told = f"{_named(lone)} disagree"
        gap, many = _rounded(self.levels[0] - self.levels[n - 1]), _NUMBERS.get(n, "several")
        text = (
            f"{_capital(told)}: rates differ {_rounded(self.apart, 2)} times as much between them as within a "
            f"chain, though log-likelihoods are only {gap} apart (within a chain they vary by "
            f"{_rounded(self.spread)}). Probably {many} solutions, which longer chains may not leave."
        )
        if n < len(self.groups):
            below = sorted(chain for group in self.groups[n:] for chain in group)
            gaps = [_rounded(self.levels[0] - level) for level in (self.levels[n], self.levels[-1])]
            text += f" {_capital(_named(below))} {'is' if len(below) == 1 else 'are'} "
            text += (
                f"{gaps[0] if gaps[0] == gaps[1] else ' to '.join(gaps)} below: other, less likely solutions."
            )
        return text

    def _by_level(self) -> str:
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
        told = f"{_listed(parts)} below {rest} in log-likelihood {spread}"
        what = "another solution" if sum(map(len, others)) == 1 else "other solutions"
        return f"{_capital(told)}: probably {what}, which longer chains may not leave."

    @property
    def advice(self) -> str:
        """What can be done."""
        if self.ahead:
            return (
                "Select none of them yet: a longer burn-in (a new fit with more sweeps) lets others come there, "
                "too (docs/diagnostics.md)."
            )
        cure = "A longer burn-in (a new fit with more sweeps) or more chains may show a better solution"
        if len(self.rivals) > 1:
            each = " and ".join(
                f"posterior.chains({self._settled(group)})" for group in sorted(self.rivals[:2])
            )
            return f"{cure}; {each} take one each: report both (docs/diagnostics.md)."
        best = self._settled(self.groups[0])
        text = f"{cure}; posterior.chains({best}) takes the best of these (docs/diagnostics.md)."
        late = [chain for chain in best if chain in self.climbed]
        if late:
            text += f" {_capital(_named(late))} came there after burn-in: "
            text += "posterior.with_burn_in(N) leaves out what was before."
        return text

    def _settled(self, group: tuple[int, ...]) -> list[int]:
        """The chains of a group, without those that are on their way, if there are others."""
        return [chain for chain in group if chain not in self.unsettled] or list(group)

    def __str__(self) -> str:
        return f"{self.finding} {self.advice}" if self.differ else ""


def modes_of(
    log_likelihood: np.ndarray, numbers: Sequence[int] | None = None, rates: np.ndarray | None = None
) -> Modes:
    """Which chains are together, by ``rates_by_part`` if they are known, and by log-likelihoods (chain, draw).

    Fewer than ten draws say nothing, nor is anything said of more than ``MOST_CHAINS`` chains.

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
    if (
        not 2 <= len(values) <= MOST_CHAINS
        or values.shape[1] < _FEWEST_DRAWS
        or not np.isfinite(values).all()
    ):
        return Modes((tuple(map(int, numbers)),), (math.nan,), math.nan, ())
    clusters = None if rates is None else clusters_of(rates)
    if clusters is not None and len(clusters.groups) > 1:
        return _told(values, clusters.groups, clusters.unsettled, numbers, clusters.apart)
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
        last = values[chain, -(values.shape[1] // 4) :]
        near = [group for group in groups if not all(apart(chain, other) for other in group)]
        nearest = min(near, key=lambda group: abs(level[group].mean() - last.mean()), default=None)
        if nearest is None or _stays_away(last, [values[other] for other in nearest]):
            groups.append([chain])
        else:
            nearest.append(chain)
            unsettled.append(chain)
    return _told(values, groups, unsettled, numbers)


def _told(
    values: np.ndarray,
    groups: Sequence[Sequence[int]],
    unsettled: Sequence[int],
    numbers: Sequence[int],
    apart: float = math.nan,
) -> Modes:
    """Groups of chains with what their log-likelihoods (chain, draw) say of them, the highest first."""
    quarter = values.shape[1] // 4
    first, last = values[:, :quarter].mean(axis=1), values[:, -quarter:].mean(axis=1)
    spread = float(np.median([_spread(chain) for chain in values]))
    moved = np.abs(last - first) > _CLIMBED * spread
    level = np.where(moved, last, values.mean(axis=1))  # where it has come to
    levels = [
        float(level[[c for c in group if c not in unsettled] or list(group)].mean()) for group in groups
    ]
    falling = np.argsort(-np.array(levels), kind="stable")
    best = levels[falling[0]]
    ahead = [(c, float(last[c]) - best) for c in unsettled if last[c] > best + _OVERLAP * spread]

    def named(chains: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(int(numbers[chain]) for chain in chains))

    return Modes(
        tuple(named(groups[place]) for place in falling),
        tuple(levels[place] for place in falling),
        spread,
        named(unsettled),
        apart,
        named([c for c in range(len(values)) if moved[c] and last[c] > first[c]]),
        tuple((int(numbers[chain]), gap) for chain, gap in ahead),
    )


def _spread(chain: np.ndarray) -> float:
    """How far a chain goes up and down where it is; of one that has jumped, in a quarter of its length.

    >>> up_and_down = np.tile([-1.0, 1.0], 20)
    >>> round(_spread(up_and_down), 1), round(_spread(up_and_down + 500 * (np.arange(40) > 15)), 1)
    (1.0, 1.1)
    """
    whole = float(chain.std(ddof=1))
    parts = float(np.median([part.std(ddof=1) for part in np.array_split(chain, 4)]))
    return parts if whole > _OVERLAP * parts > 0 else whole


def _stays_away(last: np.ndarray, group: Sequence[np.ndarray]) -> bool:
    """Whether a chain that has jumped, or was on its way, is as far from a group in its last draws as modes are.

    Over all its draws its spread is that of the jump, beside which no distance seems large.
    """
    if len(last) < _FEWEST_DRAWS:
        return False
    within = [last.std(ddof=1), *(chain.std(ddof=1) for chain in group)]
    freedom = max(_LEAST_FREEDOM, min(map(_independent, (last, *group))) - 1.0)
    distance = abs(last.mean() - np.mean([chain.mean() for chain in group]))
    return bool(distance > max(within) * stats.t.isf(_FALSE_ALARM, freedom))


def posterior_modes(posterior: KeptDraws) -> Modes:
    """Those of a posterior; of several views by the rates and log-likelihoods of all of them together."""
    if posterior._modes is None:  # rates of a few thousand cells in some hundred draws: once is enough
        group = posterior.tree["sample_stats"]
        scalars = {str(name): values.to_numpy() for name, values in group.data_vars.items()}
        numbers = group["chain"].to_numpy().tolist()
        posterior._modes = modes_of(watched_log_likelihood(scalars), numbers, rates_by_part(posterior))
    return posterior._modes


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
    return f"chains {_listed([str(chain) for chain in chains])}"


def _listed(parts: Sequence[str]) -> str:
    """
    >>> _listed(["a", "b"]), _listed(["a", "b", "c"])
    ('a and b', 'a, b and c')
    """
    return " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _rounded(value: float, digits: int = 3) -> str:
    """Three digits are enough.

    >>> _rounded(1257.3), _rounded(35.24), _rounded(0.1234), _rounded(2.345, 2)
    ('1,260', '35.2', '0.123', '2.3')
    """
    return f"{float(f'{value:.{digits}g}'):,.12g}"
