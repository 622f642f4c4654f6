"""Priors whose means are inferred leave the joint law invariant too: factors, scales, their laws, and data."""

from __future__ import annotations

import numpy as np
import pytest

from countveil.models import CommunityModel, Factorization, TensorModel, TopicModel
from countveil.models.einsum import prior
from goodness_of_fit import FALSE_ALARM, SEED
from inference import test_factorization_joint as fixed
from joint_test import joint_pvalues

#: As wide as the default no product of factors stays within what can be counted: narrower laws, same steps.
NARROW = prior.Hyper(level=6.0, log_shape=1.0, log_shape_sd=0.4, mean_shape=3.0)


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr(prior, "HYPER", NARROW)


def draw_law(rng):
    return np.exp(rng.normal(NARROW.log_shape, NARROW.log_shape_sd))


def draw_tails(rng):
    """Shapes of both laws of scales: how heavy their upper and their lower tail is."""
    return draw_law(rng), draw_law(rng)


def draw_state(model, shape, rng):
    """Everything from the prior, as the module's text has it."""
    found = {}
    for name, size in zip(model._spec.factors, model._layout(shape).shapes, strict=True):
        one = model._inferred.get(name)
        if one is None:
            known = model._prior(name)
            drawn = rng.gamma(known.shape, 1 / (known.rate or 1.0), size)  # or it is fixed, below
        else:
            level = 1.0
            if one.level:
                level = rng.gamma(NARROW.level) / rng.gamma(NARROW.level)
                found[f"{name}_level"] = np.asarray(level)
            if one.is_scale:
                s = draw_law(rng)
                found[f"{name}_shape"] = np.asarray(s)
                drawn = rng.gamma(s, level / s, size)
            else:
                mean = np.ones(size)
                if one.scales:
                    s, t = draw_tails(rng)
                    scale = level * rng.gamma(t, 1 / t, size[0]) / rng.gamma(s, 1 / s, size[0])
                    found[f"{name}_scale"] = scale
                    found[f"{name}_scale_upper"], found[f"{name}_scale_lower"] = np.asarray(s), np.asarray(t)
                    mean = mean * scale.reshape(-1, *[1] * (len(size) - 1))
                else:
                    mean = mean * level
                if one.means:
                    e = NARROW.mean_shape
                    means = 1 / rng.gamma(e, 1 / e, size[1:])
                    found[f"{name}_mean"] = means
                    mean = mean * means
                drawn = rng.gamma(one.shape, mean / one.shape)
            if model._prior(name).symmetric:
                drawn = np.triu(drawn) + np.triu(drawn, 1).T
        turn = next(back for other, _, back in model._spec.turns if other == name)
        found[name] = np.array(model._fixed.get(name, drawn.transpose(turn)))
    return model.state_type(**found)


def rates_of(model, state):
    spec = f"{','.join(model._spec.terms)}->{model._spec.output}"
    return np.einsum(spec, *(getattr(state, n) for n in model._spec.names), optimize=True)


def functions_of(case):
    model = case.model

    def last(name):
        return lambda state, data: getattr(state, name).reshape(-1)[-1]

    found = {name: last(name) for name in model.state_type._fields if name not in model._fixed}
    found |= {
        f"product of {name}": lambda state, data, n=name: float(np.sum(np.log(getattr(state, n))))
        for name in model.state_type._fields
        if name not in model._fixed
    }
    return found | {
        "total rate": lambda state, data: rates_of(model, state).sum(),
        "first cell": lambda state, data: rates_of(model, state).reshape(-1)[1] - data.values.reshape(-1)[1],
    }


@pytest.fixture
def pvalues(monkeypatch):
    monkeypatch.setattr(fixed, "draw_state", draw_state)
    monkeypatch.setattr(fixed, "rates_of", rates_of)

    def found(case, sampler=fixed.sampler, *, replicates, sweeps, seed):
        functions = functions_of(case)
        each = joint_pvalues(
            fixed.pair_of(case), sampler, functions, replicates=replicates, sweeps=sweeps, seed=SEED + seed
        )
        return min(each.values()) * len(each), each

    return found


Case, NET, TENSOR = fixed.Case, fixed.NET, fixed.TENSOR
TOPICS = TopicModel(2, shape=1.1, rate=None)
NETWORK = CommunityModel(2, shape=1.1, rate=None)
TWO_LETTERS = Factorization("dkl,kv,lv->dv", k=2, l=1, shape=1.1, rate=None)

CASES = {
    "topics": Case(TOPICS, (3, 4)),
    "topics, more rows": Case(TOPICS, (6, 2)),
    "topics, plain": Case(TOPICS, (3, 4), rho=None),
    "topics, cells": Case(TOPICS, (3, 4), kind="cells"),
    "topics, bessel": Case(TOPICS, (3, 4), kind="bessel"),
    "topics, integrated, missing": Case(TOPICS, (3, 4), rho=0.5, missing=0.3, kind="integrated"),
    "topics, missing, noise per row": Case(TOPICS, (4, 3), rho=fixed.PER_ROW, missing=0.3),
    "words with a scale beside": Case(
        Factorization("dk,kv,v->dv", k=2, shape=1.1, rate=None), (3, 4), missing=0.2
    ),
    "rows at two summed indices": Case(TWO_LETTERS, (3, 3)),
    "directed": Case(NETWORK, NET),
    "directed, plain, missing": Case(NETWORK, NET, rho=None, missing=0.2),
    "directed, mostly missing": Case(NETWORK, NET, missing=0.7),
    "undirected": Case(CommunityModel(2, directed=False, shape=1.1, rate=None), NET),
    "self-loops": Case(CommunityModel(2, self_loops=True, shape=1.1, rate=None), NET, rho=None),
    "undirected with self-loops": Case(
        CommunityModel(2, directed=False, self_loops=True, shape=1.1, rate=None), NET
    ),
    "CP, fibers": Case(TensorModel(2, shape=1.1, rate=None), TENSOR, kind="fibers"),
    "CP, missing": Case(TensorModel(2, shape=1.1, rate=None), TENSOR, missing=0.3),
    "Tucker": Case(TensorModel(core=(2, 1, 2), shape=1.1, rate=None), TENSOR),
    "tied pair": Case(
        Factorization("ik,jk->ij", names=["actor", "actor"], k=2, shape=1.1, rate=None), (3, 3)
    ),
    "any other spec": Case(Factorization("dkv,k->dv", k=2, shape=1.1, rate=None), (3, 2), kind="own"),
    "one factor fixed": Case(
        Factorization(
            "dk,kv->dv", names=["theta", "phi"], k=2, shape=1.1, rate=None, fixed={"phi": np.ones((2, 3))}
        ),
        (3, 3),
    ),
    "one rate fixed": Case(Factorization("dk,kv->dv", k=2, shape=1.1, rate={"factor_dk": None}), (3, 3)),
}


#: One of each kind for every `make test`; all of them, with twenty times the replicates, in the long stage.
QUICK = (
    "topics", "topics, bessel", "topics, integrated, missing", "directed, plain, missing", "CP, fibers", "Tucker",
    "one rate fixed",
)  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_joint_law(name, pvalues):
    least, each = pvalues(CASES[name], replicates=100, sweeps=3, seed=41)
    assert least > FALSE_ALARM, each


FULL = {"replicates": 2000, "sweeps": 5}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_joint_law_with_many_replicates(name, pvalues):
    least, each = pvalues(CASES[name], **FULL, seed=42)
    assert least > FALSE_ALARM, each


# The power checks: one step each is wrong.


def without_the_level(monkeypatch):
    """Scales drawn as if their law had mean 1."""
    right = prior.new_scales
    monkeypatch.setattr(
        prior, "new_scales", lambda k, f, a, law, *rest: right(k, f, a, law._replace(level=1.0), *rest)
    )


def scales_with_one_entry_less(monkeypatch):
    """Scales drawn as if rows had one component less."""
    right = prior.new_scales
    monkeypatch.setattr(
        prior,
        "new_scales",
        lambda k, f, a, law, c, factor, *rest: right(k, f, a, law, c[:1], factor[:, :1].copy(), *rest),
    )


def a_law_of_thrice_the_rows(monkeypatch):
    right = prior._sums_of_law
    monkeypatch.setattr(prior, "_sums_of_law", lambda *given: tuple(3 * x for x in right(*given)))


def means_of_any_size(monkeypatch):
    """The scale move takes the means along as if they had no law."""
    from countveil.models.einsum import scales

    right = scales._at_stake

    def wrong(*given):
        shape, table, rates, goes = right(*given)
        return (0.0, table, 0.0 * rates, goes) if goes == -1 else (shape, table, rates, goes)

    monkeypatch.setattr(scales, "_at_stake", wrong)


def receiving_forgotten(monkeypatch):
    """The tied factor drawn as if everybody received what they send."""
    from countveil.models.einsum import update

    right = update.pair_weights
    monkeypatch.setattr(
        update, "pair_weights", lambda *given: (w := right(*given))._replace(h=np.ones_like(w.h))
    )


WRONG = {
    "scales without their level": ("topics", without_the_level),
    "scales that miss an entry": ("topics", scales_with_one_entry_less),
    "a law of thrice the rows": ("topics", a_law_of_thrice_the_rows),
    "a scale move without the law of the means": ("topics", means_of_any_size),
    "receiving forgotten": ("directed, plain, missing", receiving_forgotten),
}


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_the_joint_test_catches(name, pvalues, monkeypatch):
    case, break_it = WRONG[name]
    break_it(monkeypatch)
    least, each = pvalues(CASES[case], **FULL, seed=43)
    assert least < FALSE_ALARM, each
