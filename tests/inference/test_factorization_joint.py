"""Every factorization leaves the joint law of factors and data invariant, for every method and kind of data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from countveil.models import CommunityModel, Factorization, TensorModel
from countveil.models.count_model import generator
from countveil.models.einsum.exposure import exposure_of
from goodness_of_fit import FALSE_ALARM, SEED
from inference.one_chain import IN_PLACE, OneChain, changed, observed
from joint_test import joint_pvalues

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
    kind: str = "tokens"  # tokens, integrated, fibers, cells, bessel, own, protocol


def draw_state(model, shape, rng):
    """From the prior, but for fixed factors."""
    found = []
    for name, size in zip(model._spec.factors, model._layout(shape).shapes, strict=True):
        prior = model._prior(name)
        drawn = rng.gamma(prior.shape, 1 / prior.rate, model._state_shape(name, size))
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
    """One data set: what is known of it, and its chain, made when needed."""

    def __init__(self, case, observed, values, noise=None):
        self.case, self.observed, self.values, self.noise = case, observed, values, noise
        self._chain = None

    @property
    def chain(self):
        if self._chain is None:
            self._chain = one_chain(self.case, self.case.model, self.observed, self.noise)
        return self._chain


def one_chain(case, model, observed, noise=None):
    algorithm = "cells" if case.kind in ("bessel", "own", "protocol") else case.kind
    method = "bessel" if case.kind == "bessel" else "exact"
    return OneChain(model, observed, case.shape, algorithm=algorithm, method=method, extra=noise)


def pair_of(case):
    hidden = hidden_cells(case)
    flat = (case.shape[0], -1)
    rho = None if case.rho is None else np.asarray(case.rho, dtype=float)

    def draw(rng):
        state = draw_state(case.model, case.shape, rng)
        rates = rates_of(case.model, state)
        if case.kind == "bessel":
            x, plus, minus = seen_by_bessel(rng, rates, rho)
            noise = {"noise_plus": plus.reshape(flat), "noise_minus": minus.reshape(flat)}
            seen = observed(x.reshape(flat), rho, missing=hidden.reshape(flat))
            return state, Seen(case, seen, np.where(hidden, 0, x), noise)
        x = rng.poisson(rates)
        if rho is None:
            seen = observed(x.reshape(flat), missing=hidden.reshape(flat))
            return state, Seen(case, seen, np.where(hidden, 0, x))
        one, two = rng.geometric(-np.expm1(-np.broadcast_to(rho, case.shape)), (2, *case.shape))
        x = x + one - two
        by_cell = rho.shape == case.shape
        seen = observed(
            x.reshape(flat),
            None if by_cell else rho.reshape(-1),
            rho.reshape(flat) if by_cell else None,
            hidden.reshape(flat),
        )
        return state, Seen(case, seen, np.where(hidden, 0, np.maximum(x, 0)))

    return draw


def seen_by_bessel(rng, rates, rho):
    """(x, plus, minus): the release with its values x < 0 clamped, and noise rates that fit it.

    The step takes a clamped value for x = 0, and its noise rates belong to that. All x <= 0 say the same about the
    rate of their cell, so where x < 0 counts and noise are drawn again, given the rate, until x = 0.
    """
    x = np.full(rates.shape, -1)
    plus, minus = np.empty((2, *rates.shape))
    again = np.ones(rates.shape, dtype=bool)
    first = True
    while again.any():
        ups, downs = rng.exponential(1 / np.expm1(rho), (2, *rates.shape))
        found = rng.poisson(rates) + rng.poisson(ups) - rng.poisson(downs)
        takes = again & (first | (found == 0))
        x[takes], plus[takes], minus[takes] = found[takes], ups[takes], downs[takes]
        again, first = x < 0, False
    return x, plus, minus


def sampler(state, data, key):
    if data.case.kind != "protocol":
        return data.chain.sweep(state, key)
    # The three functions that any model has, whatever else this one could.
    counts = data.chain.view.counts(state, key, IN_PLACE, {})
    return data.case.model.update(state, counts.reshape(data.case.shape), generator(key))


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
OWN_TIED = Factorization(
    "ta,tb,ic,jc,abc->tij",
    names=["one", "two", "actor", "actor", "core"],
    a=2,
    b=1,
    c=2,
    **STEEP,
)
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
    "matrix, integrated": Case(MATRIX, (3, 4), rho=0.4, kind="integrated"),
    "matrix, integrated, missing": Case(MATRIX, (3, 4), missing=0.3, kind="integrated"),
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
    "Tucker, integrated, mostly missing": Case(TUCKER, TENSOR, rho=0.5, missing=0.7, kind="integrated"),
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
    "any other spec, tied": Case(OWN_TIED, (2, 3, 3), kind="own"),
    "any other spec, tied, missing": Case(OWN_TIED, (2, 3, 3), missing=0.4, kind="own"),
    "any other spec by the plain path, missing": Case(OWN_SHARED, (3, 3), missing=0.2, kind="protocol"),
    "communities by the plain path": Case(LOOPS, (3, 3), rho=None, kind="protocol"),
    "undirected by the plain path": Case(UNDIRECTED, NET, rho=None, kind="protocol"),
}


#: Every model, algorithm and kind of data once; all of them, with their power, in `make test-long`.
QUICK = (
    "matrix, other order of indices", "matrix, a prior for each", "matrix, bessel, missing",
    "matrix, integrated, missing", "directed, cells", "directed, plain, mostly missing", "directed, noise per row",
    "undirected", "self-loops, missing", "undirected with self-loops, plain, missing", "CP, fibers, mostly missing",
    "CP of four axes, fibers, missing", "Tucker", "tied CP, missing", "tied pair", "dynamic network, missing",
    "fixed blocks", "fixed first factor, missing", "any other spec", "any other spec, tied, missing",
    "any other spec by the plain path, missing", "communities by the plain path",
)  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_joint_law(name):
    check(name, replicates=100, sweeps=3, seed=31)


#: The size at which the wrong samplers below are caught, and so the size of the test.
FULL = {"replicates": 2000, "sweeps": 5}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_joint_law_with_many_replicates(name):
    check(name, **FULL, seed=32)


# The power checks: samplers that are wrong in one place each.


def swept_otherwise(state, data, key, model=None, observed=None):
    """A sweep of another model, or of other data, than it should be."""
    return one_chain(data.case, model or data.case.model, observed or data.observed).sweep(state, key)


def all_rows_at_once(state, data, key):
    """The tied factor drawn given its old rows alone."""
    model, chain = data.case.model, data.chain
    statistics = {"": chain.statistics(state, key)}
    theta, pi = state
    weights = (pi + pi.T) @ (theta.sum(axis=0) - theta).T
    rng = np.random.default_rng(int(key.sweep))
    theta = rng.gamma(model.shape + statistics[""].tokens[0]) / (model.rate + weights.T)
    state = model.state_type(theta, pi)
    drawn = model.update_from_sums(state, statistics, chain.sampler._pairs, key, IN_PLACE)
    return model.state_type(theta, drawn.pi)


def with_the_diagonal(state, data, key):
    """Cells that are left out taken for zeros."""
    forgotten = changed(
        data.observed,
        missing_starts=np.zeros(data.observed.n_rows + 1, dtype=np.int64),
        missing_columns=np.zeros(0, dtype=np.int32),
    )
    return swept_otherwise(state, data, key, observed=forgotten)


def without_the_square(state, data, key):
    """The tied factor as if it did not meet itself: the rates of its own cells left out."""
    sampler = data.chain.sampler
    diagonal = CommunityModel(2, **PRIOR).left_out(data.case.shape)
    starts = np.arange(len(diagonal[0]) + 1)
    sampler._pairs = {
        name: one._replace(
            observed=False, self_starts=starts, self_t=np.zeros(len(starts) - 1, dtype=np.int64)
        )
        for name, one in sampler._pairs.items()
    }
    return data.chain.sweep(state, key)


def each_pair_twice(state, data, key):
    """Both halves of a symmetric network taken for independent counts."""
    values = data.values + data.values.T
    seen = observed(values, missing=np.eye(len(values), dtype=bool))
    return swept_otherwise(state, data, key, CommunityModel(2, **PRIOR), seen)


def with_a_wrong_prior(state, data, key):
    return swept_otherwise(
        state, data, key, TensorModel(rank=2, shape=1.3 * PRIOR["shape"], rate=PRIOR["rate"])
    )


def with_more_noise(state, data, key):
    """The release taken for noisier than it is."""
    seen = changed(data.observed, row_rho=0.7 * data.observed.row_rho)
    return swept_otherwise(state, data, key, observed=seen)


def with_missing_taken_for_zero(state, data, key):
    return with_the_diagonal(state, data, key)


class FreeScale(CommunityModel):
    """Trades scale as if the priors had no say: no rate changes, but the law of the factors does."""

    def _trade_scales(self, held, key, workers):
        scale = np.exp(0.5 * np.random.default_rng(int(key.sweep)).normal())
        held["theta"] *= scale
        held["pi"] /= scale**2


def with_a_free_scale(state, data, key):
    return swept_otherwise(state, data, key, FreeScale(2, **PRIOR))


def with_drawn_cells_left_out(state, data, key):
    """Missing counts are drawn, as of any other spec, but a tied factor takes them for unseen."""
    case, seen = data.case, data.observed
    exposure = exposure_of(seen.missing_starts, seen.missing_columns, seen.width)
    data.chain.sampler._pairs = case.model.pair_cells({"": exposure}, {"": case.shape})
    return data.chain.sweep(state, key)


WRONG = {
    "a scale move without the priors": ("directed, plain", with_a_free_scale),
    "all rows at once": ("directed, plain", all_rows_at_once),
    "diagonal not left out": ("directed", with_the_diagonal),
    "self-loops without the square": ("self-loops, plain", without_the_square),
    "both halves of an undirected network": ("undirected, plain, missing", each_pair_twice),
    "prior shape 30 % off": ("CP", with_a_wrong_prior),
    "noise 30 % off": ("CP", with_more_noise),
    "noise 30 % off, fibers": ("CP, fibers", with_more_noise),
    "noise of a network 30 % off": ("directed", with_more_noise),
    "drawn cells left out of a tied factor": ("any other spec, tied, missing", with_drawn_cells_left_out),
    "missing taken for zero": ("CP, missing", with_missing_taken_for_zero),
}


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_the_joint_test_catches(name):
    case, wrong = WRONG[name]
    functions = functions_of(CASES[case])
    pvalues = joint_pvalues(pair_of(CASES[case]), wrong, functions, **FULL, seed=SEED + 33)
    assert min(pvalues.values()) < FALSE_ALARM / len(functions), pvalues
