"""The whole sampler leaves the joint law of factors and data invariant, for every method and kind of data."""

import math
from typing import ClassVar

import numpy as np
import pytest

from countveil.distributions import release_given_rate
from countveil.inference.observed import MISSING as MISSING_VALUE
from countveil.models import TopicModel
from countveil.models.einsum.inferred import Prior
from countveil.models.einsum.scales import moves_of, trade_scales
from goodness_of_fit import FALSE_ALARM, SEED
from inference.one_chain import IN_PLACE, OneChain, TopicState, changed, observed
from inference.one_chain import tokens as token_algorithm
from joint_test import joint_pvalues

ROWS, COLUMNS, TOPICS = 3, 4, 2
# Shapes of 1 and more keep counts moderate, so that every branch of the samplers is visited.
MODEL = TopicModel(TOPICS, shape=1.0, rate=0.7)
# The size at which all the wrong samplers below are caught; every algorithm is run at it with data that go through
# most of its code. Other data take a third, at which grosser mistakes are caught. The quick tests show that all goes
# together.
FULL = {"replicates": 10_000, "sweeps": 4}
THIRD = {"replicates": 3300, "sweeps": 4}
QUICK = {"replicates": 125, "sweeps": 3}

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


class Given(tuple):
    """(observed, clamped release), and the chain of the sampler that is tried on them, made once."""

    def chain(self, make):
        if not hasattr(self, "made"):
            self.made = make(self[0])
        return self.made


def release_pair(rho, missing=None):
    """(state, (observed, clamped release)) with the noise of ``rho`` (scalar, per row (n, 1), per cell)."""
    rho = np.asarray(rho, dtype=float)
    hidden = np.zeros((ROWS, COLUMNS), dtype=bool) if missing is None else missing

    def draw(rng):
        state = draw_state(rng)
        geometric = rng.geometric(-np.expm1(-rho), (2, ROWS, COLUMNS))
        x = rng.poisson(state.theta @ state.phi) + geometric[0] - geometric[1]
        by_cell = rho.shape == (ROWS, COLUMNS)
        data = observed(x, None if by_cell else rho.reshape(-1), rho if by_cell else None, missing)
        return state, Given((data, np.where(hidden, 0, np.maximum(x, 0))))

    return draw


def plain_pair(rng):
    state = draw_state(rng)
    y = rng.poisson(state.theta @ state.phi)
    return state, Given((observed(y), y))


def sampler_of(make):
    """The sampler of the chain that ``make`` makes for given data."""

    def sampler(state, data, key):
        return data.chain(make).sweep(state, key)

    return sampler


exact = sampler_of(lambda data: OneChain(MODEL, data, algorithm="cells"))
plain = sampler_of(lambda data: OneChain(MODEL, data, algorithm="tokens"))


def tokens(columns_visited, columns_whole=(), tokens_per_visit=math.inf, integrate=False):
    """The token algorithm, visiting these columns and reaching the others by tokens."""
    options = (columns_visited, columns_whole, tokens_per_visit, integrate)
    return sampler_of(lambda data: OneChain(MODEL, data, matrix=token_algorithm(data, TOPICS, *options)))


def integrated(columns_visited, tokens_per_visit=math.inf):
    """The same with cells integrated out."""
    return tokens(columns_visited, (), tokens_per_visit, integrate=True)


class Own:
    """The model as a user would bring it: by its rates, and its update given all counts."""

    dims: ClassVar = MODEL.dims

    def init(self, data, rng):
        return TopicState(np.ones((ROWS, TOPICS)), np.ones((TOPICS, COLUMNS)))

    def rates(self, state, rows):
        return MODEL.rates(state, rows)

    def update(self, state, counts, rng):
        return MODEL.update(state, counts, rng)


exact_as_own_model = sampler_of(lambda data: OneChain(Own(), data))


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


IN_FULL = (
    "exact", "exact, missing cells", "tokens, crowded rows", "tokens, all visited", "integrated, crowded rows",
    "integrated, all visited", "own model, missing cells", "plain",
)  # fmt: skip


@pytest.mark.parametrize("name", SAMPLERS)
def test_joint_law(name):
    draw_pair, sampler = SAMPLERS[name]
    pvalues = joint_pvalues(draw_pair, sampler, FUNCTIONS, **QUICK, seed=SEED + 1)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLERS)
def test_joint_law_with_many_replicates(name):
    draw_pair, sampler = SAMPLERS[name]
    size = FULL if name in IN_FULL else THIRD
    pvalues = joint_pvalues(draw_pair, sampler, FUNCTIONS, **size, seed=SEED + 2)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


class BesselPair:
    """Noise rates and release drawn together: the sampler's state includes the rates."""

    def __init__(self, rho):
        self.rho = rho

    def draw(self, rng):
        state = draw_state(rng)
        plus, minus = rng.exponential(1 / np.expm1(self.rho), (2, ROWS, COLUMNS))
        x = rng.poisson(state.theta @ state.phi) + rng.poisson(plus) - rng.poisson(minus)
        if (x == MISSING_VALUE).any():
            # A signed value that stands for a missing cell. Sweeps leave x as it is, so that the joint law given
            # that there is none is left as it is, too.
            return self.draw(rng)
        # The step's noise rates belong to the released value itself, so nothing is clamped here.
        data = Given((signed(x, self.rho), np.maximum(x, 0)))
        data.rates = {"noise_plus": plus, "noise_minus": minus}
        return state, data

    @staticmethod
    def sampler(state, data, key):
        chain = data.chain(lambda seen: OneChain(MODEL, seen, method="bessel", extra=data.rates))
        return chain.sweep(state, key)


def signed(values, rho):
    """All cells listed with their signed values."""
    starts = np.arange(len(values) + 1) * values.shape[1]
    columns = np.tile(np.arange(values.shape[1], dtype=np.int32), len(values))
    empty = observed(np.zeros_like(values), rho)
    return changed(empty, row_starts=starts, columns=columns, values=values.reshape(-1).astype(np.int64))


@pytest.mark.parametrize("rho", [1.0])
def test_joint_law_of_the_bessel_method(rho):
    pair = BesselPair(rho)
    pvalues = joint_pvalues(pair.draw, pair.sampler, FUNCTIONS, **QUICK, seed=SEED + 3)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
@pytest.mark.parametrize("rho", [0.3, 1.0, 3.0])
def test_joint_law_of_the_bessel_method_with_many_replicates(rho):
    pair = BesselPair(rho)
    size = FULL if rho == 1.0 else THIRD
    pvalues = joint_pvalues(pair.draw, pair.sampler, FUNCTIONS, **size, seed=SEED + 4)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


# The power checks: samplers that are slightly wrong, each in one place.


def reference(model, change=lambda data: data):
    """The reference, given changed data."""
    return sampler_of(lambda data: OneChain(model, change(data), algorithm="cells"))


with_wrong_noise = reference(MODEL, lambda data: changed(data, row_rho=data.row_rho * 1.3))
with_half_the_noise = reference(MODEL, lambda data: changed(data, row_rho=data.row_rho * 2))
with_wrong_prior = reference(TopicModel(TOPICS, shape=1.1, rate=0.7))
with_a_missing_cell_taken_for_zero = reference(
    MODEL,
    lambda data: changed(
        data, missing_starts=np.zeros(ROWS + 1, dtype=np.int64), missing_columns=np.zeros(0, dtype=np.int32)
    ),
)
taking_noise_for_counts = sampler_of(
    lambda data: OneChain(MODEL, changed(data, row_rho=np.full(ROWS, np.inf)), algorithm="tokens")
)


def with_the_wrong_exposure(state, data, key):
    """Cells integrated out, with exposure 1 everywhere."""
    found = data.chain(integrated_everywhere).statistics(state, key)
    assert found.exposure.alpha is not None
    everywhere = found._replace(exposure=found.exposure._replace(alpha=None))
    return MODEL.update_from_sums(state, {"": everywhere}, {}, key, IN_PLACE)


def integrated_everywhere(data):
    return OneChain(MODEL, data, matrix=token_algorithm(data, TOPICS, [0, 1, 2, 3], integrate=True))


def with_a_wrong_scale_move(state, data, key):
    state = exact(state, data, key)
    held, wrong = MODEL._hold(state), Prior(1.5 * MODEL.shape, MODEL.rate)
    trade_scales(
        moves_of(MODEL._spec.by_axis, ()), held, lambda name: wrong, {}, key._replace(chain=1), IN_PLACE
    )
    return MODEL._state(held)


#: What data can make an algorithm do wrong.
GROSS = {
    "noise twice as small": (release_pair(1.0), with_half_the_noise),
    "missing taken for zero": (release_pair(1.0, MISSING), with_a_missing_cell_taken_for_zero),
    "integrated with the wrong exposure": (release_pair(1.0), with_the_wrong_exposure),
    "naive": (release_pair(1.0), taking_noise_for_counts),
}
WRONG = {
    "scale move with a wrong power": (release_pair(1.0), with_a_wrong_scale_move),
    "noise 30 % off": (release_pair(1.0), with_wrong_noise),
    "prior shape 10 % off": (release_pair(1.0), with_wrong_prior),
}


@pytest.mark.long
@pytest.mark.parametrize("name", GROSS)
def test_a_third_of_the_full_size_catches(name):
    draw_pair, sampler = GROSS[name]
    pvalues = joint_pvalues(draw_pair, sampler, FUNCTIONS, **THIRD, seed=SEED + 5)
    assert min(pvalues.values()) < FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
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
