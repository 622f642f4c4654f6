"""Models that do not unfold have their missing counts drawn: tied factors then meet every cell, observed or not."""

from functools import cached_property

import numpy as np
import pytest

from countveil.models import Factorization
from countveil.models.einsum.exposure import exposure_of
from goodness_of_fit import FALSE_ALARM, SEED
from inference.one_chain import OneChain, observed
from joint_test import joint_pvalues

SHAPE = (2, 3, 3)
SPEC = "tk,ik,jk,t->tij"  # the first axis stands at two terms
MODEL = Factorization(SPEC, names=["time", "actor", "actor", "level"], shape=1.2, rate=1.2, k=2)
MISSING = np.random.default_rng(1).random((2, 9)) < 0.5

FUNCTIONS = {
    "actor": lambda state, data: state.actor[0, 0],
    "all actors": lambda state, data: state.actor.sum(),
    "time": lambda state, data: state.time[0, 0],
    "level": lambda state, data: state.level[0],
    "fit": lambda state, data: np.sum((rates_of(state) - data.values) * ~MISSING),
}


def rates_of(state):
    return np.einsum(SPEC, state.time, state.actor, state.actor, state.level).reshape(2, 9)


class Seen:
    """One data set, and its chain, made once."""

    def __init__(self, values, rho, wrong):
        self.values, self._rho, self._wrong = values, rho, wrong

    @cached_property
    def chain(self):
        data = observed(self.values, self._rho, missing=MISSING)
        found = OneChain(MODEL, data, SHAPE)
        if self._wrong:  # the tied factor meets observed cells alone, and has the tokens of all
            seen = exposure_of(data.missing_starts, data.missing_columns, data.width)
            found.sampler._pairs = MODEL.pair_cells({"": seen}, {"": SHAPE})
        return found


def pair(rho=None, wrong=False):
    def draw(rng):
        state = MODEL.state_type(*(rng.gamma(1.2, 1 / 1.2, size) for size in ((2, 2), (3, 2), 2)))
        values = rng.poisson(rates_of(state))
        if rho is not None:
            one, two = rng.geometric(-np.expm1(-rho), (2, *values.shape))
            values = values + one - two
        return state, Seen(values, rho, wrong)

    return draw


#: The size at which the wrong sampler is caught.
FULL = 650


def pvalues_of(draw_pair, replicates=FULL):
    def sampler(state, data, key):
        return data.chain.sweep(state, key)

    return joint_pvalues(draw_pair, sampler, FUNCTIONS, replicates=replicates, sweeps=4, seed=SEED + 1)


@pytest.mark.parametrize("replicates", [100, pytest.param(FULL, marks=pytest.mark.long)])
@pytest.mark.parametrize("rho", [None, 1.0])
def test_joint_law(rho, replicates):
    pvalues = pvalues_of(pair(rho), replicates)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
def test_the_joint_test_catches_pairs_that_were_not_observed():
    pvalues = pvalues_of(pair(wrong=True))
    assert min(pvalues.values()) < FALSE_ALARM / len(FUNCTIONS), pvalues
