"""Views that share factors leave the joint law of factors and data invariant, released and plain ones together."""

from __future__ import annotations

from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest

import countveil as cv
from countveil.counts.sources.plain_counts import read_plain_counts
from countveil.inference.engines.cpu.sampler import CpuSampler
from countveil.inference.problem import make_problem
from countveil.models import CommunityModel, Factorization, SharedFactors, TopicModel
from countveil.models.einsum.exposure import exposure_at
from countveil.models.einsum.tied import PairCells, stacked_pairs
from goodness_of_fit import FALSE_ALARM, SEED
from inference.one_chain import IN_PLACE, sweep
from joint_test import joint_pvalues

# Shapes of 1 and more keep counts moderate, so that every branch of the samplers is visited.
PRIOR = {"shape": 1.1, "rate": 1.2}
#: Terms with many combinations need smaller factors.
STEEP = {"shape": 1.1, "rate": 2.0}
SWEEPS = 8
#: Enough for every wrong sampler below to be caught.
REPLICATES = 1250
#: Enough for a forgotten exposure.
FEW = 375


class Seen(NamedTuple):
    """How one view is seen."""

    shape: tuple[int, ...]
    rho: float | None = 1.0  # None: plain counts
    missing: float = 0.0  # share of missing cells


class Case(NamedTuple):
    model: SharedFactors
    views: dict[str, Seen]


class Data:
    """One data set, and its chain, made once."""

    def __init__(self, case, views, values):
        self.case, self.views = case, views
        self.values = values  # what is released of every view, 0 where nothing is
        self._chain = None

    def chain(self, model=None, views=None):
        if self._chain is None:
            problem = make_problem(model or self.case.model, views or self.views)
            self._chain = CpuSampler(problem, 0, 1, workers=IN_PLACE)
        return self._chain


def rates_of(model, state):
    held = dict(zip(model.factors, state, strict=True))
    found = {}
    for name, view in model.views.items():
        spec = view._spec
        text = f"{','.join(spec.terms)}->{spec.output}"
        found[name] = np.einsum(text, *(held[n] for n in spec.names), optimize=True)
    return found


def draw_state(case, rng):
    """From the prior, but for fixed factors."""
    held = {}
    for name, view in case.model.views.items():
        shapes = view._layout(case.views[name].shape).shapes
        for factor, shape in zip(view._spec.factors, shapes, strict=True):
            prior = view._prior(factor)
            drawn = rng.gamma(prior.shape, 1 / prior.rate, view._state_shape(factor, shape))
            if prior.symmetric:
                drawn = np.triu(drawn) + np.triu(drawn, 1).T
            held.setdefault(factor, np.array(view._fixed.get(factor, drawn)))
    return case.model.state_type(**held)


def pair_of(case):
    def draw(rng):
        state = draw_state(case, rng)
        data, values = {}, {}
        for number, (name, rates) in enumerate(rates_of(case.model, state).items()):
            shape, rho, missing = case.views[name]
            hidden = np.random.default_rng(7 + number).random(shape) < missing
            x = rng.poisson(rates)
            if rho is None:
                one = read_plain_counts(np.ma.array(x, mask=hidden))
            else:
                noise = rng.geometric(-np.expm1(-rho), (2, *shape))
                x = x + noise[0] - noise[1]
                one = cv.PrivateCounts(x, rho=rho, mask=hidden)
            data[name] = one
            outside = case.model.views[name].left_out(shape)
            if outside is not None:
                hidden[outside] = True
            values[name] = np.where(hidden, 0, np.maximum(x, 0))
        return state, Data(case, data, values)

    return draw


def sampler(state, data, key):
    return sweep(data.chain(), state, key)


def functions_of(case):
    model = case.model
    fixed = {factor for view in model.views.values() for factor in view._fixed}
    found = {}
    for number, name in enumerate(model.factors):
        if name not in fixed:
            found[name] = lambda state, data, i=number: state[i].reshape(-1)[-1]
            found[f"sum of {name}"] = lambda state, data, i=number: state[i].sum()
    for name in model.views:
        found[f"total of {name}"] = lambda state, data, v=name: rates_of(model, state)[v].sum()
        found[f"fit of {name}"] = lambda state, data, v=name: np.sum(
            (rates_of(model, state)[v] - data.values[v]) * (data.values[v] > 0)
        )
    return found


TOPICS = Factorization("dk,kv->dv", names=["theta", "phi"], k=2, **PRIOR)
AUTHORS = Factorization("ik,ka->ia", names=["theta", "psi"], k=2, **PRIOR)
OTHER_DOCUMENTS = Factorization("ek,kv->ev", names=["chi", "phi"], k=2, **PRIOR)
EVENTS = Factorization("dk,jk,tk->djt", names=["theta", "what", "when"], k=2, **PRIOR)
TUCKER = Factorization("ia,jb,tc,abc->ijt", names=["theta", "to", "when", "core"], a=2, b=1, c=2, **PRIOR)
NO_UNFOLDING = Factorization("dk,kv,dv->dv", names=["theta", "phi", "cell"], k=2, **PRIOR)
NO_UNFOLDING_TIED = Factorization(
    "ta,tb,ic,jc,abc->tij", names=["one", "two", "theta", "theta", "core"], a=2, b=1, c=2, **PRIOR
)
NETWORK = CommunityModel(2, **PRIOR)
LOOPS = CommunityModel(2, self_loops=True, **PRIOR)
UNDIRECTED = CommunityModel(2, directed=False, **PRIOR)
SECOND_NETWORK = Factorization(
    "tk,ic,jd,cdk->tij", names=["week", "theta", "theta", "core"], k=1, c=2, d=2, **PRIOR
)
WORDS_OF_ACTORS = Factorization("iw,wv->iv", names=["theta", "phi"], w=2, **PRIOR)
WRONG_PRIOR = SharedFactors(
    **{
        name: Factorization(
            view.spec,
            names=view.names,
            shape={**view.shape, "theta": 1.3 * PRIOR["shape"]},
            rate=PRIOR["rate"],
            k=2,
        )
        for name, view in {"words": TOPICS, "authors": AUTHORS}.items()
    }
)
FIXED = {"theta": [[1.0, 0.0], [0.1, 1.5], [2.0, 1.0]]}

CASES = {
    "released and plain": Case(
        SharedFactors(words=TOPICS, authors=AUTHORS), {"words": Seen((3, 4)), "authors": Seen((3, 4), None)}
    ),
    "topics, released, with plain authors": Case(
        SharedFactors(words=TopicModel(2, **PRIOR), authors=AUTHORS),
        {"words": Seen((3, 4), 0.6, 0.2), "authors": Seen((3, 4), None)},
    ),
    "missing, with a CP view": Case(
        SharedFactors(words=TOPICS, events=EVENTS),
        {"words": Seen((3, 4), 1.0, 0.3), "events": Seen((3, 2, 2), 0.7, 0.3)},
    ),
    "missing, with a Tucker view": Case(
        SharedFactors(ties=TUCKER, authors=AUTHORS),
        {"ties": Seen((3, 2, 2), 2.0, 0.3), "authors": Seen((3, 3), None, 0.7)},
    ),
    "a common last axis": Case(
        SharedFactors(words=TOPICS, others=OTHER_DOCUMENTS),
        {"words": Seen((3, 3), None), "others": Seen((2, 3), 1.0, 0.2)},
    ),
    "three views": Case(
        SharedFactors(words=TOPICS, authors=AUTHORS, others=OTHER_DOCUMENTS),
        {"words": Seen((3, 3), 0.5), "authors": Seen((3, 2), None), "others": Seen((2, 3), 2.0)},
    ),
    "a view drawn cell by cell": Case(
        SharedFactors(words=NO_UNFOLDING, authors=AUTHORS),
        {"words": Seen((3, 3), 1.0, 0.2), "authors": Seen((3, 2), None)},
    ),
    "a network and words": Case(
        SharedFactors(mails=NETWORK, words=WORDS_OF_ACTORS),
        {"mails": Seen((3, 3)), "words": Seen((3, 4), 1.0, 0.2)},
    ),
    "a network with self-loops and words, plain": Case(
        SharedFactors(words=WORDS_OF_ACTORS, mails=LOOPS),
        {"words": Seen((3, 2), None), "mails": Seen((3, 3), None)},
    ),
    "two networks": Case(
        SharedFactors(mails=LOOPS, calls=SECOND_NETWORK),
        {"mails": Seen((3, 3), 1.0, 0.2), "calls": Seen((2, 3, 3), None, 0.8)},
    ),
    "two networks, hardly anything missing": Case(
        SharedFactors(mails=LOOPS, calls=SECOND_NETWORK),
        {"mails": Seen((3, 3), 1.0), "calls": Seen((2, 3, 3), 1.0, 0.1)},
    ),
    "two undirected networks with the same blocks": Case(
        SharedFactors(mails=UNDIRECTED, calls=UNDIRECTED),
        {"mails": Seen((4, 4)), "calls": Seen((4, 4), None)},
    ),
    "a fixed factor": Case(
        SharedFactors(
            words=Factorization("dk,kv->dv", names=["theta", "phi"], k=2, fixed=FIXED, **PRIOR),
            authors=Factorization("dk,ka->da", names=["theta", "psi"], k=2, fixed=FIXED, **PRIOR),
            others=OTHER_DOCUMENTS,
        ),
        {"words": Seen((3, 3), 1.0), "authors": Seen((3, 2), None), "others": Seen((2, 3), 1.0)},
    ),
    "a view with a tied factor drawn cell by cell, missing": Case(
        SharedFactors(mails=LOOPS, weeks=NO_UNFOLDING_TIED),
        {"mails": Seen((3, 3), 1.0, 0.2), "weeks": Seen((2, 3, 3), 1.0, 0.4)},
    ),
    "one view": Case(SharedFactors(words=TOPICS), {"words": Seen((3, 4))}),
}


def check(name, wrong=None, replicates=REPLICATES, seed=41):
    case = CASES[name]
    functions = functions_of(case)
    return joint_pvalues(
        pair_of(case), wrong or sampler, functions, replicates=replicates, sweeps=SWEEPS, seed=SEED + seed
    ), FALSE_ALARM / len(functions)


def test_joint_law():
    pvalues, least = check("released and plain", replicates=FEW)
    assert min(pvalues.values()) > least, pvalues


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_joint_law_of_all_kinds(name):
    pvalues, least = check(name)
    assert min(pvalues.values()) > least, pvalues


# The power checks: samplers that are wrong in one place each, at the size of the test itself.


def statistics(chain, state, key):
    """What the factors are drawn from: the tokens of every view, of one sweep."""
    sweep(chain, state, key)
    return dict(chain._chains[key.chain].statistics)


def without_tokens(state, data, key):
    """The shared factor hears nothing of the authors' tokens."""
    found = statistics(data.chain(), state, key)
    theta, psi = found["authors"].tokens
    found["authors"] = found["authors"]._replace(tokens=[np.zeros_like(theta), psi])
    return data.case.model.update_from_sums(state, found, data.chain()._pairs, key, IN_PLACE)


def without_exposure(state, data, key):
    """The shared factor does not count the second view's exposure."""
    last = list(data.case.model.views.values())[-1]

    def forgetful(model, held, place, *given):
        found = exposure_at(model, held, place, *given)
        return 0 * found if model is last and model._spec.names[place] == "theta" else found

    with patch("countveil.models.einsum.update.exposure_at", forgetful):
        return sampler(state, data, key)


def with_a_wrong_prior(state, data, key):
    """The shape of the shared factor 30 % off."""
    return sweep(data.chain(WRONG_PRIOR), state, key)


def trade_freely(moves, held, prior_of, inferred, key, workers):
    """Trades scale as if the priors had no say: no rate changes, but the law of the factors does."""
    scale = np.exp(0.5 * np.random.default_rng(int(key.sweep)).normal())
    held["theta"] *= scale
    held["phi"] /= scale
    held["psi"] /= scale


def with_a_free_scale(state, data, key):
    with patch("countveil.models.shared_factors.trade_scales", trade_freely):
        return sampler(state, data, key)


def with_missing_taken_for_zero(state, data, key):
    """What the second view does not show is taken for 0."""
    views = dict(data.views)
    name = list(views)[-1]
    views[name] = cv.PrivateCounts(data.values[name], rho=data.case.views[name].rho)
    return sweep(data.chain(views=views), state, key)


def without_the_other_network(state, data, key):
    """The tied factor meets the cells of the first network alone."""
    found, model = statistics(data.chain(), state, key), data.case.model
    name, first = next(iter(model.views.items()))
    own = first.pair_cells({"": found[name].exposure}, {"": data.case.views[name].shape})
    pairs = {"theta": stacked_pairs([own["theta"], _nothing_observed(3)], [1, 2])}
    return model.update_from_sums(state, found, pairs, key, IN_PLACE)


def _nothing_observed(n):
    none, starts = np.zeros(0, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    return PairCells(True, starts, none, none, starts, none, none, starts, none)


WRONG = {
    "tokens of one view forgotten": ("released and plain", without_tokens),
    "exposure of one view forgotten": ("released and plain", without_exposure),
    "exposure of a CP view forgotten": ("missing, with a CP view", without_exposure),
    "prior shape 30 % off": ("released and plain", with_a_wrong_prior),
    "a scale move without the priors": ("released and plain", with_a_free_scale),
    "missing taken for zero": ("missing, with a CP view", with_missing_taken_for_zero),
    "exposure of words beside a network forgotten": ("a network and words", without_exposure),
    "a second network forgotten": ("two networks", without_the_other_network),
}


@pytest.mark.long
def test_the_joint_test_catches_a_forgotten_exposure():
    pvalues, least = check("released and plain", without_exposure, replicates=FEW)
    assert min(pvalues.values()) < least, pvalues


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_the_joint_test_catches(name):
    case, wrong = WRONG[name]
    pvalues, least = check(case, wrong)
    assert min(pvalues.values()) < least, pvalues
