"""Chains that stay in different places, by their mean rates in four parts of each chain (``sampled_rates``).

Let m_cs be the means of chain c in its part s = 1 .. S, and d_s = m_cs - m_c's what is between two chains (of two
groups: between their averages). If both move about in one place, and quickly enough, the d_s are independent, their
expectation is 0, and

    F = S |mean d|^2 / (sum_s |d_s - mean d|^2 / (S - 1))

is about 1. If they stay in different places mean d does not vanish, and F grows with their length: S |mean d|^2 is
then far above what a chain moves from part to part. Cells go together, so that F has the law of Fisher's F with nu
and (S - 1) nu degrees of freedom, nu the number of directions that vary: (tr C)^2 / tr C^2 with the covariance C of
the parts (Box 1954; the estimate is unbiased in numerator and denominator). As a test of places it is Anderson's
(2001) pseudo-F, with this law in place of permutations.

Two chains are apart if F is above the 1 - 1e-6 quantile of that law, and above 5: half of the squared distance of
two parts is then the same in all parts. The 5 is for chains that are slow: their parts go together, and F exceeds 1
without any second place; it is 5 where the autocorrelation time of the rates is nearly the length of a chain. Slow
chains also drift: the ratio g of |d_S - d_1|^2 to the mean of |d_(s+1) - d_s|^2 is 1 for parts that are independent
and up to 4 for those that wander. Where it is above 1, F must be above 5 g. A chain whose own g is above 2 is on
its way, or has jumped: unless it is far from all others it has not settled, and is counted with the group that it
is nearest to in the end.

Groups grow from single chains: the two with the smallest F, relative to what it must be above, become one, until
all are apart. What separates groups is the clearer the more chains they have; so that nobody hears of trifles, two
parts of different groups must also be 1.3 times as far apart as two parts of one chain, or more.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

#: Of more nothing is said: the time goes with their third power, and a stranger's run may have thousands.
MOST_CHAINS = 256
#: The chance of taking what varies for what stays, where parts are independent.
_FALSE_ALARM = 1e-6
#: F of groups of which half the squared distance of two parts stays: (F - 1) / (F - 1 + S), S = 4.
_STAYS = 5.0
#: Parts of chains in different groups are at least so many times as far apart as those of one chain.
_FURTHER = 1.3
#: The ratio g of chains that have jumped once is 3, of those that wander 4.
_DRIFTS = 2.0


class Clusters(NamedTuple):
    """Chains by the places they stay in."""

    groups: tuple[tuple[int, ...], ...]  # all chains, counted from 0
    unsettled: tuple[int, ...]  # those that have moved from one place to another, or still do
    #: How many times as far apart parts of chains are in different groups as in one chain, the least of all groups;
    #: NaN if there is one group.
    apart: float


def clusters_of(parts: np.ndarray) -> Clusters:
    """Of (chain, part, cell) means.

    >>> rng = np.random.default_rng(0)
    >>> parts = rng.normal(size=(4, 4, 50))
    >>> clusters_of(parts).groups
    ((0, 1, 2, 3),)
    >>> parts[[1, 3]] += 2 * rng.normal(size=50)
    >>> clusters_of(parts).groups
    ((0, 2), (1, 3))
    """
    compared = _Parts(parts)
    moving = [c for c in range(len(parts)) if compared.drift([c], ()) > _DRIFTS]
    groups: list[tuple[int, ...]] = [(c,) for c in range(len(parts)) if c not in moving]
    while len(groups) > 1:
        found = [(compared.apart(*pair), pair) for pair in itertools.combinations(groups, 2)]
        least, (one, other) = min(found)
        if least > 1:
            break
        groups = [*(group for group in groups if group not in (one, other)), tuple(sorted(one + other))]
    settled, unsettled = list(groups), []
    for chain in moving:
        near = [place for place, group in enumerate(settled) if compared.apart((chain,), group) <= 1]
        if not near:
            groups.append((chain,))
            settled.append((chain,))
            continue
        gaps = [_squared(parts[chain, -1] - parts[list(settled[k])].mean(axis=(0, 1))) for k in near]
        groups[near[int(np.argmin(gaps))]] += (chain,)
        unsettled.append(chain)
    ratio = math.nan
    if len(groups) > 1:
        ratio = min(compared.times_as_far(*pair) for pair in itertools.combinations(settled, 2))
    return Clusters(tuple(sorted(tuple(sorted(group)) for group in groups)), tuple(unsettled), ratio)


class _Parts:
    """Distances of groups of chains, all by the inner products of their parts: many chains take no time."""

    def __init__(self, parts: np.ndarray) -> None:
        self._n_parts = parts.shape[1]
        flat = parts - parts.mean(axis=(0, 1))
        inner = np.einsum("csv,dtv->csdt", flat, flat, optimize=True)
        around = flat - flat.mean(axis=1, keepdims=True)
        self._inner = inner
        self._around = np.einsum("csv,dtv->csdt", around, around, optimize=True)
        length = np.einsum("cscs->cs", inner)
        self._squared = length[:, :, None, None] + length - 2 * inner
        self._found: dict[tuple[Sequence[int], Sequence[int]], float] = {}

    def apart(self, one: tuple[int, ...], other: tuple[int, ...]) -> float:
        """F of two groups over what it must be above; or how far apart they are, if that is too little."""
        if (one, other) not in self._found:
            self._found[one, other] = self._apart(one, other)
        return self._found[one, other]

    def _apart(self, one: Sequence[int], other: Sequence[int]) -> float:
        between, s = self._between(one, other), self._n_parts
        mean, total = float(between.mean()), float(np.trace(between))
        within = (total - s * mean) / (s - 1)
        if within <= 1e-12 * total:  # chains that never move
            return math.inf if mean > 0 else 0.0
        nu = self.directions([*one, *other])
        least = max(
            _STAYS * max(1.0, self.drift(one, other)), float(stats.f.isf(_FALSE_ALARM, nu, (s - 1) * nu))
        )
        return min(s * mean / within / least, self.times_as_far(one, other) / _FURTHER)

    def _between(self, one: Sequence[int], other: Sequence[int]) -> np.ndarray:
        """Inner products of d_1 ... d_S between two groups; of the parts of the first if there is no other."""

        def inner(a: Sequence[int], b: Sequence[int]) -> np.ndarray:
            return self._inner[list(a)][:, :, list(b)].mean(axis=(0, 2))

        if not other:
            return inner(one, one)
        across = inner(one, other)
        return inner(one, one) + inner(other, other) - across - across.T

    def drift(self, one: Sequence[int], other: Sequence[int]) -> float:
        """g of what is between two groups; of the first if there is no other."""
        products = self._between(one, other)
        squared = np.diag(products)[:, None] + np.diag(products) - 2 * products
        steps = float(np.diag(squared, 1).mean())
        return float(squared[0, -1]) / steps if steps > 0 else 1.0

    def directions(self, chains: Sequence[int]) -> float:
        """nu, by the parts of these chains around their means: k of them, as far as they are free.

        With T = tr W and U = tr W^2 of their cross products W: E[U - T^2/k] = (k - 1)(k + 2) tr C^2 and
        E[T^2] = k^2 (tr C)^2 + 2 k tr C^2, if they are normal.
        """
        products, k = self._around[chains][:, :, chains], len(chains) * (self._n_parts - 1)
        total = float(np.einsum("cscs->", products))
        squares = (float((products**2).sum()) - total**2 / k) / ((k - 1) * (k + 2))
        return max(1.0, total**2 / (k**2 * squares) - 2 / k) if squares > 0 else float(k)

    def times_as_far(self, one: Sequence[int], other: Sequence[int]) -> float:
        """The root of the mean squared distance of parts of different groups over that of parts of one chain."""
        between = float(self._squared[list(one)][:, :, list(other)].mean())
        chains, s = [*one, *other], self._n_parts
        within = float(self._squared[chains, :, chains].mean()) * s / (s - 1)  # a part and itself are 0 apart
        return math.sqrt(between / within) if within > 0 else math.inf


def _squared(vector: np.ndarray) -> float:
    return float(vector @ vector)
