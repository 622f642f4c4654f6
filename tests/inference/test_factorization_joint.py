"""Every factorization leaves the joint law of factors and data invariant, for every method and kind of data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from countveil.inference.engines.cpu.fibers import CpFibers
from countveil.inference.engines.cpu.own_model import OwnModel
from countveil.inference.engines.cpu.unfolded import Unfolded
from countveil.models import CommunityModel, Factorization, TensorModel
from countveil.models.row_work import RowWork
from goodness_of_fit import FALSE_ALARM, SEED
from inference.small_problems import observations
from joint_test import joint_pvalues

IN_PLACE = RowWork(1)
# Shapes of 1 and more keep counts moderate, so that every branch of the samplers is visited.
PRIOR = {"shape": 1.1, "rate": 1.2}
#: Terms with many combinations need smaller factors.
STEEP = {"shape": 1.1, "rate": 2.0}


class Case(NamedTuple):
    """A model, the shape of its data, and how they are seen."""

    model: object
    shape: tuple[int, ...]
    rho: object = 1.0  # None: plain counts
    missing: object = None  # share of missing cells, or the cells
    kind: str = "tokens"  # tokens, fibers, cells, bessel, own


def draw_state(model, shape, rng):
    """From the prior, but for fixed factors."""
    layout = model._layout(shape)
    found = []
    for name, size in zip(model._spec.factors, layout.shapes, strict=True):
        prior = model._prior(name)
        drawn = rng.gamma(prior.shape, 1 / prior.rate, size)
        if prior.symmetric:
            drawn = np.triu(drawn) + np.triu(drawn, 1).T
        found.append(np.array(model._fixed.get(name, drawn)))
    return model.state_type(*found)


def rates_of(model, state):
    held = dict(zip(model._spec.factors, state, strict=True))
    spec = f"{','.join(model._spec.terms)}->{model._spec.output}"
    return np.einsum(spec, *(held[n] for n in model._spec.names), optimize=True)


def hidden_cells(case):
    hidden = np.zeros(case.shape, dtype=bool)
    if isinstance(case.missing, float):
        hidden = np.random.default_rng(7).random(case.shape) < case.missing
    elif case.missing is not None:
        hidden = case.missing
    outside = case.model.left_out(case.shape)
    if outside is not None:
        hidden = hidden.copy()
        hidden[outside] = True
    return hidden


class Seen:
    """One data set: its observations and an engine, made when needed."""

    def __init__(self, case, observed, values, noise=None):
        self.case, self.observed, self.values, self.noise = case, observed, values, noise
        self._engine = None

    @property
    def engine(self):
        if self._engine is None:
            case = self.case
            kinds = {"tokens": (False, False), "cells": (False, True), "bessel": (True, True)}
            if case.kind == "own":
                self._engine = OwnModel(case.model, self.observed, case.shape)
            elif case.kind == "fibers":
                self._engine = CpFibers(case.model, self.observed, case.shape)
            else:
                self._engine = Unfolded(case.model, self.observed, case.shape, *kinds[case.kind])
            if self.noise is not None:
                self._engine._engine._noise_rates._by_chain[0] = self.noise
        return self._engine


def pair_of(case):
    hidden = hidden_cells(case)
    flat = (case.shape[0], -1)
    rho = None if case.rho is None else np.asarray(case.rho, dtype=float)

    def draw(rng):
        state = draw_state(case.model, case.shape, rng)
        x = rng.poisson(rates_of(case.model, state))
        clamped = np.where(hidden, 0, np.maximum(x, 0))
        if rho is None:
            seen = observations(x.reshape(flat), missing=hidden.reshape(flat))
            return state, Seen(case, seen, clamped)
        if case.kind == "bessel":
            plus, minus = rng.exponential(1 / np.expm1(rho), (2, *case.shape))
            x = x + rng.poisson(plus) - rng.poisson(minus)
            seen = signed_observations(x.reshape(flat), rho, hidden.reshape(flat))
            noise = (plus.reshape(flat), minus.reshape(flat))
            return state, Seen(case, seen, np.where(hidden, 0, np.maximum(x, 0)), noise)
        one, two = rng.geometric(-np.expm1(-np.broadcast_to(rho, case.shape)), (2, *case.shape))
        x = x + one - two
        by_cell = rho.shape == case.shape
        seen = observations(
            x.reshape(flat),
            None if by_cell else rho.reshape(-1),
            rho.reshape(flat) if by_cell else None,
            hidden.reshape(flat),
        )
        return state, Seen(case, seen, np.where(hidden, 0, np.maximum(x, 0)))

    return draw


def signed_observations(values, rho, missing):
    """All observed cells listed with their signed values: the step's noise rates belong to the value itself."""
    kept = ~missing
    empty = observations(np.zeros_like(values), rho, missing=missing)
    return empty._replace(
        row_starts=np.concatenate([[0], np.cumsum(kept.sum(axis=1))]),
        columns=np.nonzero(kept)[1].astype(np.int32),
        values=values[kept].astype(np.int64),
    )


def sampler(state, data, key):
    return data.engine.sweep(state, key, IN_PLACE)[0]


def functions_of(case):
    model = case.model

    def entry(number):
        return lambda state, data: state[number].reshape(-1)[-1]

    def fit(state, data):
        return np.sum((rates_of(model, state) - data.values) * (data.values > 0))

    found = {name: entry(i) for i, name in enumerate(model._spec.factors) if name not in model._fixed}
    sums = {
        f"sum of {name}": lambda state, data, i=i: state[i].sum()
        for i, name in enumerate(model._spec.factors)
        if name not in model._fixed
    }
    return {
        **found,
        **sums,
        "total rate": lambda state, data: rates_of(model, state).sum(),
        "first cell": lambda state, data: rates_of(model, state).reshape(-1)[1] - data.values.reshape(-1)[1],
        "fit": fit,
    }


def check(name, replicates, sweeps, seed):
    case = CASES[name]
    functions = functions_of(case)
    pvalues = joint_pvalues(
        pair_of(case), sampler, functions, replicates=replicates, sweeps=sweeps, seed=SEED + seed
    )
    assert min(pvalues.values()) > FALSE_ALARM / len(functions), pvalues


MATRIX = Factorization("dk,kv->dv", k=2, **PRIOR)
TURNED = Factorization("vk,kd->dv", k=2, **PRIOR)
DIRECTED = CommunityModel(2, **PRIOR)
UNDIRECTED = CommunityModel(2, directed=False, **PRIOR)
LOOPS = CommunityModel(2, self_loops=True, **PRIOR)
UNDIRECTED_LOOPS = CommunityModel(2, directed=False, self_loops=True, **PRIOR)
CP = TensorModel(rank=2, **PRIOR)
FOUR_AXES = TensorModel(rank=2, n_axes=4, **STEEP)
TUCKER = TensorModel(core=(2, 1, 2), **PRIOR)
TIED_CP = Factorization("ik,jk,tk->ijt", names=["actor", "actor", "time"], k=2, **STEEP)
TIED_PAIR = Factorization("ik,jk->ij", names=["actor", "actor"], k=2, **PRIOR)
DYNAMIC = Factorization("tk,ic,jd,cdk->tij", names=["time", "actor", "actor", "core"], k=1, c=2, d=2, **STEEP)
FIXED = Factorization(
    "ic,cd,jd->ij", names=["theta", "pi", "theta"], c=2, d=2, fixed={"pi": [[1.0, 0.2], [0.1, 1.5]]}, **PRIOR
)
FIXED_FIRST = Factorization(
    "dk,kv->dv", names=["theta", "phi"], k=2, fixed={"theta": [[1.0, 0.0], [0.1, 1.5], [2.0, 1.0]]}, **PRIOR
)
OWN = Factorization("dkv,k->dv", k=2, **PRIOR)
OWN_SHARED = Factorization("dk,kv,dv->dv", k=2, **PRIOR)
PER_PRIOR = Factorization(
    "dk,kv->dv",
    names=["theta", "phi"],
    k=2,
    shape={"theta": 1.0, "phi": 2.0},
    rate={"theta": 2.0, "phi": 1.0},
)

NET, TENSOR = (4, 4), (3, 2, 3)
PER_ROW = np.array([[0.3], [1.0], [3.0], [1.5]])
PER_CELL = np.linspace(0.2, 3.0, 16).reshape(NET)
PER_TENSOR_CELL = np.linspace(0.2, 2.5, 18).reshape(TENSOR)

CASES = {
    "matrix": Case(MATRIX, (3, 4)),
    "matrix, other order of indices": Case(TURNED, (3, 4)),
    "matrix, a prior for each": Case(PER_PRIOR, (3, 4)),
    "matrix, bessel, missing": Case(MATRIX, (3, 4), missing=0.2, kind="bessel"),
    "directed": Case(DIRECTED, NET),
    "directed, cells": Case(DIRECTED, NET, kind="cells"),
    "directed, bessel": Case(DIRECTED, NET, kind="bessel"),
    "directed, plain": Case(DIRECTED, NET, rho=None),
    "directed, missing": Case(DIRECTED, NET, missing=0.2),
    "directed, mostly missing": Case(DIRECTED, NET, missing=0.7),
    "directed, plain, mostly missing": Case(DIRECTED, NET, rho=None, missing=0.7),
    "directed, noise per row": Case(DIRECTED, NET, rho=PER_ROW),
    "directed, noise per cell, missing": Case(DIRECTED, NET, rho=PER_CELL, missing=0.2),
    "undirected": Case(UNDIRECTED, NET),
    "undirected, bessel": Case(UNDIRECTED, NET, kind="bessel"),
    "undirected, plain, missing": Case(UNDIRECTED, NET, rho=None, missing=0.2),
    "self-loops": Case(LOOPS, NET),
    "self-loops, plain": Case(LOOPS, NET, rho=None),
    "self-loops, missing": Case(LOOPS, NET, missing=0.3),
    "self-loops, mostly missing": Case(LOOPS, NET, missing=0.7),
    "undirected with self-loops": Case(UNDIRECTED_LOOPS, NET),
    "undirected with self-loops, plain, missing": Case(UNDIRECTED_LOOPS, NET, rho=None, missing=0.2),
    "CP": Case(CP, TENSOR),
    "CP, cells, missing": Case(CP, TENSOR, missing=0.2, kind="cells"),
    "CP, missing": Case(CP, TENSOR, missing=0.3),
    "CP, fibers": Case(CP, TENSOR, kind="fibers"),
    "CP, fibers, mostly missing": Case(CP, TENSOR, missing=0.7, kind="fibers"),
    "CP, fibers, noise per cell, missing": Case(CP, TENSOR, rho=PER_TENSOR_CELL, missing=0.2, kind="fibers"),
    "CP of four axes, fibers, missing": Case(FOUR_AXES, (2, 2, 2, 3), missing=0.2, kind="fibers"),
    "CP, plain, mostly missing": Case(CP, TENSOR, rho=None, missing=0.7),
    "Tucker": Case(TUCKER, TENSOR),
    "Tucker, missing": Case(TUCKER, TENSOR, missing=0.3),
    "Tucker, bessel": Case(TUCKER, TENSOR, kind="bessel"),
    "tied CP, meeting itself": Case(TIED_CP, (3, 3, 2)),
    "tied CP, missing": Case(TIED_CP, (3, 3, 2), missing=0.3),
    "tied CP, plain, mostly missing": Case(TIED_CP, (3, 3, 2), rho=None, missing=0.7),
    "tied pair": Case(TIED_PAIR, (3, 3)),
    "dynamic network, missing": Case(DYNAMIC, (2, 3, 3), missing=0.3),
    "fixed blocks": Case(FIXED, (3, 3)),
    "fixed first factor, missing": Case(FIXED_FIRST, (3, 4), missing=0.2),
    "any other spec": Case(OWN, (3, 2), kind="own"),
    "any other spec, missing": Case(OWN_SHARED, (3, 3), missing=0.2, kind="own"),
    "communities by the plain path": Case(LOOPS, (3, 3), rho=None, kind="own"),
    "undirected by the plain path": Case(UNDIRECTED, NET, rho=None, kind="own"),
}


@pytest.mark.parametrize("name", CASES)
def test_joint_law(name):
    check(name, replicates=300, sweeps=3, seed=31)


#: The size at which the wrong samplers below are caught, and so the size of the test.
FULL = {"replicates": 3000, "sweeps": 5}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_joint_law_with_many_replicates(name):
    check(name, **FULL, seed=32)


# The power checks: samplers that are wrong in one place each.


def all_rows_at_once(state, data, key):
    """The tied factor drawn given its old rows alone."""
    model, engine = data.case.model, data.engine
    sums = model.share(
        state, engine._engine.sums(model.unfold(state), key, IN_PLACE), engine._observed, key, IN_PLACE
    )
    theta, pi = state
    weights = (pi + pi.T) @ (theta.sum(axis=0) - theta).T
    rng = np.random.default_rng(int(key.sweep))
    theta = rng.gamma(model.shape + sums.tokens[0]) / (model.rate + weights.T)
    state = model.state_type(theta, pi)
    drawn = model.update_from_sums(state, sums, key, IN_PLACE)
    return model.state_type(theta, drawn.pi)


def with_the_diagonal(state, data, key):
    """Cells that are left out taken for zeros."""
    forgotten = data.observed._replace(
        missing_starts=np.zeros(data.observed.n_rows + 1, dtype=np.int64),
        missing_columns=np.zeros(0, dtype=np.int32),
    )
    return Unfolded(data.case.model, forgotten, data.case.shape).sweep(state, key, IN_PLACE)[0]


def without_the_square(state, data, key):
    """The tied factor as if it did not meet itself: the rates of its own cells left out."""
    engine = data.engine
    pairs = {name: one._replace(observed=False) for name, one in engine._observed.pairs.items()}
    diagonal = CommunityModel(2, **PRIOR).left_out(data.case.shape)
    starts = np.arange(len(diagonal[0]) + 1)
    pairs = {
        name: one._replace(self_starts=starts, self_t=np.zeros(len(starts) - 1, dtype=np.int64))
        for name, one in pairs.items()
    }
    engine._observed = engine._observed._replace(pairs=pairs)
    return engine.sweep(state, key, IN_PLACE)[0]


def each_pair_twice(state, data, key):
    """Both halves of a symmetric network taken for independent counts."""
    case = data.case._replace(model=CommunityModel(2, **PRIOR))
    values = data.values + data.values.T
    seen = observations(values, missing=np.eye(len(values), dtype=bool))
    return Unfolded(case.model, seen, case.shape).sweep(state, key, IN_PLACE)[0]


def with_a_wrong_prior(state, data, key):
    model = TensorModel(rank=2, shape=1.3 * PRIOR["shape"], rate=PRIOR["rate"])
    return Unfolded(model, data.observed, data.case.shape).sweep(state, key, IN_PLACE)[0]


def with_more_noise(state, data, key):
    """The release taken for noisier than it is."""
    seen = data.observed._replace(row_rho=0.7 * data.observed.row_rho)
    return Unfolded(data.case.model, seen, data.case.shape).sweep(state, key, IN_PLACE)[0]


def by_fibers_with_more_noise(state, data, key):
    seen = data.observed._replace(row_rho=0.7 * data.observed.row_rho)
    return CpFibers(data.case.model, seen, data.case.shape).sweep(state, key, IN_PLACE)[0]


def with_missing_taken_for_zero(state, data, key):
    return with_the_diagonal(state, data, key)


class FreeScale(CommunityModel):
    """Trades scale as if the priors had no say: no rate changes, but the law of the factors does."""

    def _trade_scales(self, held, key):
        scale = np.exp(0.5 * np.random.default_rng(int(key.sweep)).normal())
        held["theta"] *= scale
        held["pi"] /= scale**2


def with_a_free_scale(state, data, key):
    return Unfolded(FreeScale(2, **PRIOR), data.observed, data.case.shape).sweep(state, key, IN_PLACE)[0]


WRONG = {
    "a scale move without the priors": ("directed, plain", with_a_free_scale),
    "all rows at once": ("directed, plain", all_rows_at_once),
    "diagonal not left out": ("directed", with_the_diagonal),
    "self-loops without the square": ("self-loops, plain", without_the_square),
    "both halves of an undirected network": ("undirected, plain, missing", each_pair_twice),
    "prior shape 30 % off": ("CP", with_a_wrong_prior),
    "noise 30 % off": ("CP", with_more_noise),
    "noise 30 % off, fibers": ("CP, fibers", by_fibers_with_more_noise),
    "noise of a network 30 % off": ("directed", with_more_noise),
    "missing taken for zero": ("CP, missing", with_missing_taken_for_zero),
}


#: Of the power checks, which take their time, those of every `make test`.
QUICK = ("diagonal not left out", "prior shape 30 % off", "noise 30 % off, fibers")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in WRONG]
)
def test_the_joint_test_catches(name):
    case, wrong = WRONG[name]
    functions = functions_of(CASES[case])
    pvalues = joint_pvalues(pair_of(CASES[case]), wrong, functions, **FULL, seed=SEED + 33)
    assert min(pvalues.values()) < FALSE_ALARM / len(functions), pvalues
