"""Some rows released, some plain: the joint law holds, and plain rows are neither noisy nor protected."""

from typing import ClassVar, NamedTuple

import numpy as np
import pytest
from scipy import stats

import countveil as cv
from compiled_loop import draw_many
from countveil.evaluation import held_out_log_score, log_likelihood
from countveil.inference.engines.cpu.sampler import ViewSampler
from countveil.inference.engines.cpu.tokens import Tokens
from countveil.inference.problem import make_problem
from countveil.kernels.given_release.geometric import draw_count
from countveil.kernels.philox import SweepKey
from countveil.models import CommunityModel, TopicModel
from goodness_of_fit import FALSE_ALARM, SEED
from inference.one_chain import IN_PLACE, OneChain, TopicState, changed, observed
from joint_test import joint_pvalues

ROWS, COLUMNS, TOPICS = 3, 4, 2
MODEL = TopicModel(TOPICS, shape=1.0, rate=0.7)
NET = CommunityModel(2, shape=1.1, rate=1.2)
RHO = np.array([np.inf, 0.7, 0.4])
MISSING = np.array([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]], dtype=bool)
# The size at which the wrong samplers below are caught.
FULL = {"replicates": 4000, "sweeps": 6}


class Seen:
    """One data set, and its chain, made once."""

    def __init__(self, data, values, make):
        self.values, self.chain = values, make(data)


def release(rng, rates, rho, missing):
    geometric = rng.geometric(-np.expm1(-rho)[:, None], (2, *rates.shape))
    x = rng.poisson(rates) + geometric[0] - geometric[1]
    return observed(x, rho, missing=missing), np.where(missing, 0, x)


def topics_pair(make):
    def draw(rng):
        theta = rng.gamma(MODEL.shape, 1 / MODEL.rate, (ROWS, TOPICS))
        phi = rng.gamma(MODEL.shape, 1 / MODEL.rate, (COLUMNS, TOPICS)).T
        return TopicState(theta, phi), Seen(*release(rng, theta @ phi, RHO, MISSING), make)

    return draw


def network_pair(make):
    rho, diagonal = np.array([1.0, np.inf, 0.5]), np.eye(3, dtype=bool)

    def draw(rng):
        theta, pi = rng.gamma(NET.shape, 1 / NET.rate, (3, 2)), rng.gamma(NET.shape, 1 / NET.rate, (2, 2))
        return NET.state_type(theta, pi), Seen(*release(rng, theta @ pi @ theta.T, rho, diagonal), make)

    return draw


def sampler(state, data, key):
    return data.chain.sweep(state, key)


def mixed(data):
    return OneChain(MODEL, data, algorithm="tokens")


def integrated(data):
    chain = OneChain(MODEL, data, algorithm="integrated")
    assert chain.view._matrix._integrate
    return chain


def by_cells(data):
    return OneChain(MODEL, data, algorithm="cells")


def unfolded(data):
    return OneChain(NET, data, (3, 3), algorithm="tokens")


def taking_plain_rows_for_released(data):
    return mixed(changed(data, row_rho=np.where(np.isinf(RHO), 0.4, RHO)))


def with_the_exposure_of_released_rows(data):
    """Plain rows exposed like rows whose cells are integrated out."""
    chain = integrated(data)
    matrix, draw = chain.view._matrix, chain.view._matrix.draw

    def draw_with_wrong_exposure(*given):
        found = draw(*given)
        return found._replace(
            exposure=found.exposure._replace(alpha=np.exp(-np.where(np.isinf(RHO), 0.7, RHO)))
        )

    matrix.draw = draw_with_wrong_exposure
    return chain


def unfolded_taking_plain_rows_for_released(data):
    return unfolded(changed(data, row_rho=np.where(np.isinf(data.row_rho), 0.5, data.row_rho)))


RATES = {TopicState: lambda state: state.theta @ state.phi, NET.state_type: lambda s: s[0] @ s[1] @ s[0].T}


def rates(state):
    return RATES[type(state)](state)


FUNCTIONS = {
    "first row": lambda state, data: state[0][0, 0],
    "last row": lambda state, data: state[0][2, 1],
    "other factor": lambda state, data: state[1][1, 1],
    "fit of the first row": lambda state, data: rates(state)[0, 2] - max(data.values[0, 2], 0),
    "fit of the second row": lambda state, data: rates(state)[1, 2] - max(data.values[1, 2], 0),
    "total rate": lambda state, data: rates(state).sum(),
}
CASES = {
    "tokens": topics_pair(mixed),
    "integrated": topics_pair(integrated),
    "cells": topics_pair(by_cells),
    "network": network_pair(unfolded),
}
WRONG = {
    "plain rows taken for released": topics_pair(taking_plain_rows_for_released),
    "wrong exposure of plain rows": topics_pair(with_the_exposure_of_released_rows),
    "network, plain rows taken for released": network_pair(unfolded_taking_plain_rows_for_released),
}


@pytest.mark.parametrize("name", CASES)
def test_joint_law(name):
    pvalues = joint_pvalues(CASES[name], sampler, FUNCTIONS, replicates=100, sweeps=3, seed=SEED + 3)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_joint_law_with_many_replicates(name):
    pvalues = joint_pvalues(CASES[name], sampler, FUNCTIONS, **FULL, seed=SEED + 1)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_the_joint_test_catches(name):
    pvalues = joint_pvalues(WRONG[name], sampler, FUNCTIONS, **FULL, seed=SEED + 2)
    assert min(pvalues.values()) < FALSE_ALARM / len(FUNCTIONS), pvalues


def test_tokens_of_plain_rows_are_their_counts():
    for make in (mixed, integrated, by_cells):
        state, data = topics_pair(make)(np.random.default_rng(SEED))
        sums = data.chain.matrix_tokens(state, SweepKey(np.uint64(SEED), 0, 1))
        assert sums.rows[0].sum() == data.values[0].sum()
        assert sums.rows.sum() == sums.columns.sum()


def test_a_count_without_noise_is_what_was_seen():
    for x, mu in ((0, 3.0), (1, 1e-9), (13, 0.0), (10**6, 2.0)):
        assert set(draw_many(draw_count, x, mu, np.inf, size=20, seed=SEED)) == {x}


COUNTS = np.random.default_rng(3).poisson([[0.2, 4.0, 1.0, 6.0]], (150, 4))


def stacked(rho, n_released=140, hide=False):
    part = cv.simulate_release(COUNTS[:n_released], alpha=np.exp(-rho), seed=1)
    both = cv.stack_rows(part, COUNTS[n_released:])
    return both.hide(([0, 149], [1, 1])) if hide else both


def test_the_algorithm_is_chosen_by_the_noise_of_the_released_rows():
    def chosen(model, data, algorithm="auto"):
        found = ViewSampler(make_problem(model, data).views[""], algorithm, IN_PLACE)
        assert isinstance(found._matrix, Tokens)
        return found.algorithm

    both = stacked(0.5)
    assert chosen(MODEL, both) == "integrated"
    assert chosen(MODEL, both, "tokens") == "tokens"
    assert chosen(MODEL, stacked(2.0)) == "tokens"
    network = cv.stack_rows(cv.simulate_release(COUNTS[:3], alpha=0.6, seed=1), COUNTS[3:4])
    assert chosen(NET, network) == "tokens", "a tied factor is not integrated out"
    with pytest.raises(ValueError, match="method: expected 'exact' or 'naive' where some rows are plain"):
        make_problem(MODEL, both, "bessel")


def test_what_a_user_asks_of_plain_rows():
    both = stacked(1.5, hide=True)
    posterior = cv.fit(MODEL, both, sweeps=60, seed=1, progress=False)
    found = posterior.true_counts(rows=slice(140, 150))
    seen = np.arange(4) != 1
    for name in ("mean", "low", "high"):
        assert np.array_equal(found[name].to_numpy()[:, seen], COUNTS[140:, seen])
    assert found["high"].to_numpy()[9, 1] > found["low"].to_numpy()[9, 1]  # hidden, so not known
    by_row = log_likelihood(posterior)["log_likelihood"]["released"].to_numpy()
    expected = [stats.poisson.logpmf(COUNTS[145], s.theta[145] @ s.phi).sum() for s in posterior.states()]
    assert np.allclose(by_row.reshape(-1, 150)[:, 145], expected)
    score = held_out_log_score(posterior, stacked(1.5), cells=([149], [1]))
    likelihood = [stats.poisson.pmf(COUNTS[149, 1], s.theta[149] @ s.phi[:, 1]) for s in posterior.states()]
    assert score == pytest.approx(np.log(np.mean(likelihood)))


def test_the_monitored_likelihood_knows_plain_rows():
    both = stacked(1.5, n_released=1)
    posterior = cv.fit(MODEL, both, sweeps=30, thin=5, chains=1, seed=1, progress=False)
    whole = log_likelihood(posterior)["log_likelihood"]["released"].to_numpy().sum(axis=2)
    watched = posterior.tree["sample_stats"]["sampled_log_likelihood"].to_numpy()
    assert np.allclose(whole, watched, rtol=1e-5)  # kept draws are float32


@pytest.mark.parametrize("model", [MODEL, cv.Factorization("dk,kv->dv", k=2)])
def test_threads_and_masked_values_change_nothing(model):
    missing = np.random.default_rng(5).random(COUNTS.shape) < 0.2
    alpha = np.where(np.arange(150) % 3 == 0, 0, 0.4)
    draws = [
        cv.fit(
            model, cv.PrivateCounts(np.where(missing, garbage, COUNTS), alpha=alpha, mask=missing),
            sweeps=12, thin=1, chains=1, seed=1, threads=threads, progress=False,
        ).rates()
        for garbage, threads in ((0, 1), (10**9, 2))
    ]  # fmt: skip
    assert draws[0].equals(draws[1])


def test_naive_takes_plain_rows_as_they_are_and_other_ways_are_refused():
    both = stacked(1.0)
    naive = cv.fit(MODEL, both, method="naive", sweeps=20, seed=1, progress=False)
    assert np.array_equal(naive.true_counts()["mean"][140:], COUNTS[140:])
    with pytest.raises(ValueError, match="data: expected one noise parameter for all cells, got several"):
        cv.fit(cv.UnknownNoise(MODEL), both, progress=False)
    with pytest.raises(ValueError, match="robust: expected None for a release"):
        cv.fit(MODEL, both, robust=0.1, progress=False)


class LevelState(NamedTuple):
    level: np.ndarray


class Level:
    """A model of one's own: one rate for all cells."""

    dims: ClassVar = {"level": ()}

    def init(self, data, rng):
        return LevelState(np.float64(1.0))

    def rates(self, state, rows):
        return np.full((rows.stop - rows.start, 4), state.level)

    def update(self, state, counts, rng):
        self.seen = counts
        return LevelState(rng.gamma(1 + counts.sum()) / (1 + counts.size))


def test_a_model_of_ones_own_gets_the_plain_rows_as_they_are():
    model = Level()
    cv.fit(model, stacked(1.0), sweeps=10, seed=1, progress=False)
    assert np.array_equal(model.seen[140:], COUNTS[140:])
    assert not np.array_equal(model.seen[:140], COUNTS[:140])
