"""The whole sampler leaves the joint law of factors and data invariant, for every method and kind of data."""

import math

import numpy as np
import pytest

from countveil.distributions import release_given_rate
from countveil.inference.engines.cpu.cells import TopicCells
from countveil.inference.engines.cpu.integrated import TopicIntegrated
from countveil.inference.engines.cpu.own_model import OwnModel
from countveil.inference.engines.cpu.plain import TopicPlain
from countveil.inference.engines.cpu.tokens import TopicTokens
from countveil.models import TopicModel
from countveil.models.row_work import RowWork
from countveil.models.scale_move import trade_scale
from countveil.models.topic_model import TopicState
from goodness_of_fit import FALSE_ALARM, SEED
from inference.small_problems import observations
from inference.test_tokens import with_plan
from joint_test import joint_pvalues

ROWS, COLUMNS, TOPICS = 3, 4, 2
# Shapes of 1 and more keep counts moderate, so that every branch of the samplers is visited.
MODEL = TopicModel(TOPICS, shape=1.0, rate=0.7)
IN_PLACE = RowWork(1)
# The size at which the wrong samplers below are caught. The long tests run at it; the quick ones are smaller and
# would miss the subtler of them (noise 30 % off, prior shape 10 % off).
FULL = {"replicates": 15_000, "sweeps": 8}

FUNCTIONS = {
    "theta": lambda state, data: state.theta[0, 0],
    "phi": lambda state, data: state.phi[1, 2],
    "total rate": lambda state, data: (state.theta @ state.phi).sum(),
    "rate where released": lambda state, data: (state.theta @ state.phi)[0, 0] - data[1][0, 0],
    "fit": lambda state, data: np.sum((state.theta @ state.phi - data[1]) * (data[1] > 0)),
}


def draw_state(rng):
    theta = rng.gamma(MODEL.shape, 1 / MODEL.rate, (ROWS, TOPICS))
    phi = rng.gamma(MODEL.shape, 1 / MODEL.rate, (COLUMNS, TOPICS))
    return TopicState(theta, phi.T)


def release_pair(rho, missing=None):
    """(state, (observations, clamped release)) with the noise of ``rho`` (scalar, per row (n, 1), per cell)."""
    rho = np.asarray(rho, dtype=float)
    hidden = np.zeros((ROWS, COLUMNS), dtype=bool) if missing is None else missing

    def draw(rng):
        state = draw_state(rng)
        geometric = rng.geometric(-np.expm1(-rho), (2, ROWS, COLUMNS))
        x = rng.poisson(state.theta @ state.phi) + geometric[0] - geometric[1]
        by_cell = rho.shape == (ROWS, COLUMNS)
        data = observations(x, None if by_cell else rho.reshape(-1), rho if by_cell else None, missing)
        return state, (data, np.where(hidden, 0, np.maximum(x, 0)))

    return draw


def plain_pair(rng):
    state = draw_state(rng)
    y = rng.poisson(state.theta @ state.phi)
    return state, (observations(y), y)


def exact(state, data, key):
    return TopicCells(MODEL, data[0]).sweep(state, key, IN_PLACE)[0]


def tokens(columns_visited, columns_whole=(), tokens_per_visit=math.inf):
    """The token engine, visiting these columns and reaching the others by tokens."""

    def sampler(state, data, key):
        engine = with_plan(TopicTokens(MODEL, data[0]), columns_visited, columns_whole, tokens_per_visit)
        return engine.sweep(state, key, IN_PLACE)[0]

    return sampler


def integrated(columns_visited, tokens_per_visit=math.inf):
    """The integrated token engine."""

    def sampler(state, data, key):
        engine = with_plan(TopicIntegrated(MODEL, data[0]), columns_visited, (), tokens_per_visit)
        return engine.sweep(state, key, IN_PLACE)[0]

    return sampler


def exact_as_own_model(state, data, key):
    return OwnModel(MODEL, data[0], (ROWS, COLUMNS)).sweep(state, key, IN_PLACE)[0]


def plain(state, data, key):
    return TopicPlain(MODEL, data[0]).sweep(state, key, IN_PLACE)[0]


MISSING = np.array([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]], dtype=bool)
PER_ROW = np.array([[0.3], [1.0], [3.0]])
PER_CELL = np.linspace(0.2, 3.0, ROWS * COLUMNS).reshape(ROWS, COLUMNS)

SAMPLERS = {
    "exact": (release_pair(1.0), exact),
    "exact, little noise": (release_pair(3.0), exact),
    "exact, missing cells": (release_pair(1.0, MISSING), exact),
    "exact, noise per row": (release_pair(PER_ROW), exact),
    "exact, noise per cell": (release_pair(PER_CELL), exact),
    "tokens, all proposed": (release_pair(1.0), tokens([])),
    "tokens, all visited": (release_pair(1.0), tokens([0, 1, 2, 3])),
    "tokens, much noise": (release_pair(0.2), tokens([1])),
    "tokens, little noise": (release_pair(3.0), tokens([1, 2])),
    "tokens, missing cells": (release_pair(1.0, MISSING), tokens([0, 3], [1])),
    "tokens, noise per row": (release_pair(PER_ROW), tokens([2])),
    "tokens, noise per cell": (release_pair(PER_CELL), tokens([2], [1])),
    "tokens, crowded rows": (release_pair(PER_CELL, MISSING), tokens([2], [], 1.0)),
    "integrated, crowded rows": (release_pair(PER_ROW, MISSING), integrated([2], 1.0)),
    "integrated, all proposed": (release_pair(1.0), integrated([])),
    "integrated, all visited": (release_pair(1.0), integrated([0, 1, 2, 3])),
    "integrated, much noise": (release_pair(0.2), integrated([1])),
    "integrated, little noise": (release_pair(3.0), integrated([1, 2])),
    "integrated, missing cells": (release_pair(1.0, MISSING), integrated([0, 3])),
    "integrated, noise per row": (release_pair(PER_ROW), integrated([2])),
    "own model": (release_pair(1.0), exact_as_own_model),
    "own model, missing cells": (release_pair(1.0, MISSING), exact_as_own_model),
    "plain": (plain_pair, plain),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_joint_law(name):
    draw_pair, sampler = SAMPLERS[name]
    pvalues = joint_pvalues(draw_pair, sampler, FUNCTIONS, replicates=2500, sweeps=3, seed=SEED + 1)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLERS)
def test_joint_law_with_many_replicates(name):
    draw_pair, sampler = SAMPLERS[name]
    pvalues = joint_pvalues(draw_pair, sampler, FUNCTIONS, **FULL, seed=SEED + 2)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


class BesselPair:
    """Noise rates and release drawn together: the sampler's state includes the rates."""

    def __init__(self, rho):
        self.rho = rho

    def draw(self, rng):
        state = draw_state(rng)
        plus, minus = rng.exponential(1 / np.expm1(self.rho), (2, ROWS, COLUMNS))
        x = rng.poisson(state.theta @ state.phi) + rng.poisson(plus) - rng.poisson(minus)
        # The step's noise rates belong to the released value itself, so nothing is clamped here.
        return state, (signed_observations(x, self.rho), np.maximum(x, 0), [plus, minus])

    @staticmethod
    def sampler(state, data, key):
        engine = TopicCells(MODEL, data[0], bessel=True)
        engine._noise_rates._by_chain[0] = (data[2][0], data[2][1])
        return engine.sweep(state, key, IN_PLACE)[0]


def signed_observations(values, rho):
    """All cells listed with their signed values."""
    starts = np.arange(len(values) + 1) * values.shape[1]
    columns = np.tile(np.arange(values.shape[1], dtype=np.int32), len(values))
    empty = observations(np.zeros_like(values), rho)
    return empty._replace(row_starts=starts, columns=columns, values=values.reshape(-1).astype(np.int64))


@pytest.mark.parametrize("rho", [1.0, 3.0])
def test_joint_law_of_the_bessel_method(rho):
    pair = BesselPair(rho)
    pvalues = joint_pvalues(pair.draw, pair.sampler, FUNCTIONS, replicates=2500, sweeps=3, seed=SEED + 3)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
@pytest.mark.parametrize("rho", [0.3, 1.0, 3.0])
def test_joint_law_of_the_bessel_method_with_many_replicates(rho):
    pair = BesselPair(rho)
    pvalues = joint_pvalues(pair.draw, pair.sampler, FUNCTIONS, **FULL, seed=SEED + 4)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


# The power checks: samplers that are slightly wrong, each in one place.


def with_wrong_noise(state, data, key):
    wrong = data[0]._replace(row_rho=data[0].row_rho * 1.3)
    return TopicCells(MODEL, wrong).sweep(state, key, IN_PLACE)[0]


def with_wrong_prior(state, data, key):
    return TopicCells(TopicModel(TOPICS, shape=1.1, rate=0.7), data[0]).sweep(state, key, IN_PLACE)[0]


def with_the_wrong_exposure(state, data, key):
    """The integrated engine with exposure 1 everywhere."""
    engine = with_plan(TopicIntegrated(MODEL, data[0]), [0, 1, 2, 3])
    sums = engine.sums(state, key, IN_PLACE)
    everywhere = sums._replace(exposure=sums.exposure.observed)
    return MODEL.update_from_sums(state, everywhere, key, IN_PLACE)


def with_a_missing_cell_taken_for_zero(state, data, key):
    forgotten = data[0]._replace(
        missing_starts=np.zeros(ROWS + 1, dtype=np.int64), missing_columns=np.zeros(0, dtype=np.int32)
    )
    return TopicCells(MODEL, forgotten).sweep(state, key, IN_PLACE)[0]


def taking_noise_for_counts(state, data, key):
    return TopicPlain(MODEL, data[0]).sweep(state, key, IN_PLACE)[0]


def with_a_wrong_scale_move(state, data, key):
    state = exact(state, data, key)
    theta, phi = state.theta.copy(), state.phi.T.copy()
    wrong = (1.5 * MODEL.shape, MODEL.rate)
    trade_scale(*key._replace(chain=1), 0, *wrong, *wrong, theta, phi)
    return TopicState(theta, phi.T)


WRONG = {
    "scale move with a wrong power": (release_pair(1.0), with_a_wrong_scale_move),
    "noise 30 % off": (release_pair(1.0), with_wrong_noise),
    "prior shape 10 % off": (release_pair(1.0), with_wrong_prior),
    "missing taken for zero": (release_pair(1.0, MISSING), with_a_missing_cell_taken_for_zero),
    "integrated with the wrong exposure": (release_pair(1.0), with_the_wrong_exposure),
    "naive": (release_pair(1.0), taking_noise_for_counts),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_joint_test_catches(name):
    draw_pair, sampler = WRONG[name]
    pvalues = joint_pvalues(draw_pair, sampler, FUNCTIONS, **FULL, seed=SEED + 5)
    assert min(pvalues.values()) < FALSE_ALARM / len(FUNCTIONS), pvalues


def test_the_pairs_are_what_the_likelihood_says():
    # The simulation above and the closed-form likelihood agree, so the joint test tests the right joint.
    rng = np.random.default_rng(SEED)
    draw = release_pair(1.0)
    seen, expected = 0, 0.0
    for _ in range(4000):
        state, (_, clamped) = draw(rng)
        seen += clamped[0, 0] == 2
        expected += release_given_rate.pmf(2, (state.theta @ state.phi)[0, 0], 1.0)
    assert abs(seen - expected) < 5 * np.sqrt(expected)
