"""Every kind of model, and every kind of data: what everything must hold for."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

import countveil as cv
from countveil.counts import CombinedReleases
from countveil.models import CommunityModel, Factorization, TensorModel, TopicModel, UnknownNoise
from goodness_of_fit import SEED

#: Enough rows that real threads share them.
MATRIX, TENSOR, NETWORK = (100, 12), (90, 3, 4), (70, 70)


class LevelState(NamedTuple):
    level: np.ndarray


class Levels:
    """A model of one's own: one rate for every row."""

    dims: ClassVar = {"level": ("row",)}

    def init(self, data, rng):
        return LevelState(rng.exponential(size=data.shape[0]))

    def rates(self, state, rows):
        return np.repeat(state.level[rows, None], MATRIX[1], axis=1)

    def update(self, state, counts, rng):
        return LevelState(rng.gamma(1 + counts.sum(axis=1)) / (1 + counts.shape[1]))


_RNG = np.random.default_rng(SEED)
PHI = _RNG.gamma(1.0, size=(2, MATRIX[1]))
THETA = _RNG.gamma(1.0, size=(MATRIX[0], 2))
TUCKER, ACTORS = "ia,jb,tc,abc->ijt", {"names": ["actor", "actor", "time"]}
#: Every kind of model, and the shape of its data.
MODELS = {
    "topics": (TopicModel(3), MATRIX),
    "topics, fixed prior": (TopicModel(3, rate=1.0), MATRIX),
    "a directed network": (CommunityModel(2, rate=None), NETWORK),
    "a directed network, fixed prior": (CommunityModel(2, rate=1.0), NETWORK),
    "an undirected network": (CommunityModel(2, directed=False, rate=1.0), NETWORK),
    "CP": (TensorModel(2, rate=None), TENSOR),
    "CP in another order": (Factorization("tk,ki,kj->ijt", k=2), TENSOR),
    "Tucker": (Factorization(TUCKER, a=2, b=2, c=2, rate=None), TENSOR),
    "tied CP": (Factorization("ik,jk,tk->ijt", **ACTORS, k=2), (70, 70, 2)),
    "tied on later axes": (Factorization("tk,ik,jk->tij", names=["time", "actor", "actor"], k=2), (70, 3, 3)),
    "fixed columns": (Factorization("dk,kv->dv", names=["theta", "phi"], fixed={"phi": PHI}, k=2), MATRIX),
    "fixed rows": (Factorization("dk,kv->dv", names=["theta", "phi"], fixed={"theta": THETA}, k=2), MATRIX),
    "tied, not unfolding": (
        Factorization("tk,ik,jk,t->tij", names=["time", "actor", "actor", "level"], k=2),
        (70, 3, 3),
    ),
    "not unfolding": (Factorization("dvk,k->dv", k=2), MATRIX),
    "one's own": (Levels(), MATRIX),
    "unknown noise": (UnknownNoise(TopicModel(3)), MATRIX),
    "unknown noise of a network": (UnknownNoise(CommunityModel(2)), NETWORK),
}


def counts_of(shape, seed=SEED):
    """Counts with a few rows and columns that are large."""
    rng = np.random.default_rng(seed)
    rates = rng.gamma(0.4, size=shape)
    rates[:2] *= 20
    rates[..., :2] *= 8
    return rng.poisson(rates)


def masked(values, share):
    return np.random.default_rng(SEED + 1).random(values.shape) < share


def by_row(shape, low, high):
    return np.linspace(low, high, shape[0])[(np.arange(shape[0]) * 7) % shape[0]]


def released(counts, noise=1.0, seed=SEED, mask=None):
    rng = np.random.default_rng(seed)
    rho = np.asarray(noise, dtype=float)
    wide = rho.reshape(-1, *[1] * (counts.ndim - 1)) if rho.ndim == 1 else rho
    with np.errstate(divide="ignore"):
        one, two = rng.geometric(-np.expm1(-wide), (2, *counts.shape))
    return cv.PrivateCounts(counts + one - two, rho=rho, mask=mask)


def combined(counts):
    masks = [np.random.default_rng(SEED + r).random(counts.shape) < 0.2 for r in (2, 3)]
    noise = (0.8, by_row(counts.shape, 0.3, 1.5))
    return CombinedReleases(tuple(released(counts, noise[r], SEED + r, masks[r]) for r in (0, 1)))


def mixed(counts):
    return released(counts, np.where(np.arange(len(counts)) % 3 == 0, np.inf, 0.9), mask=masked(counts, 0.1))


#: Every kind of data.
DATA = {
    "plain": lambda counts: counts,
    "plain, missing": lambda counts: np.ma.array(counts, mask=masked(counts, 0.1)),
    "released": released,
    "much noise": lambda counts: released(counts, 0.4),
    "little noise": lambda counts: released(counts, 3.0),
    "per row": lambda counts: released(counts, by_row(counts.shape, 0.3, 2.0)),
    "per cell": lambda counts: released(counts, np.linspace(0.3, 2.5, counts.size).reshape(counts.shape)),
    "missing": lambda counts: released(counts, by_row(counts.shape, 0.3, 2.0), mask=masked(counts, 0.15)),
    "mostly missing": lambda counts: released(counts, 0.6, mask=masked(counts, 0.8)),
    "mixed": mixed,
    "combined": combined,
}
