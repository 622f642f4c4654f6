"""Factors drawn row by row: the law of every entry, and the same draws one by one."""

import numba
import numpy as np
import pytest
from scipy import stats

from countveil.kernels import steps
from countveil.kernels.gamma import gamma_at, small_gamma_at
from countveil.kernels.philox import SweepKey, next_word, open_stream
from countveil.models.einsum.prior import PriorRates
from countveil.models.einsum.update import _draw_rows, draw_factor
from countveil.runtime.workers import Workers
from goodness_of_fit import SEED, continuous_pvalue, fits, rejects

RATE = 2.0
STEP = steps.FACTOR


def prior(shape, n_components):
    return PriorRates(shape, np.full(1, RATE), np.ones(n_components))


def drawn(n_rows, shape, tokens, exposure, first=0, start=0, sweep=0):
    out = np.full((n_rows, len(tokens)), np.nan)
    tokens = np.tile(tokens, (n_rows, 1))
    key = SweepKey(np.uint64(SEED), 1, sweep)
    _draw_rows(key, first, start, n_rows, prior(shape, tokens.shape[1]), tokens, exposure, out)
    return out


@pytest.mark.parametrize("shape", [0.01, 0.1, 0.9, 1.0, 2.5])
def test_the_law_of_entries(shape):
    tokens, exposure = np.array([0, 0, 1, 40]), np.array([[0.0, 3.0, 0.5, 10.0]])
    out = drawn(60_000, shape, tokens, exposure)
    for k in range(4):
        rate = RATE + exposure[0, k]
        law = stats.gamma(shape + tokens[k], scale=1 / rate)
        assert fits(continuous_pvalue(out[:, k], law.cdf)), (shape, k)
        wrong = stats.gamma(1.1 * (shape + tokens[k]), scale=1 / rate)
        assert rejects(continuous_pvalue(out[:, k], wrong.cdf)), (shape, k)


@numba.njit
def one_by_one(seed, row, shape, tokens, exposure):
    n = len(tokens)
    words, out = np.empty((n, 2), dtype=np.uint64), np.empty(n)
    stream = open_stream(seed, 1, 0, STEP, row)
    for k in range(n):
        words[k, 0], stream = next_word(stream)
        words[k, 1], stream = next_word(stream)
    for k in range(n):
        a, b = words[k]
        out[k], stream = gamma_at(a, b, stream, shape + tokens[k], 2.0 + exposure[k])
    return out


@pytest.mark.parametrize("n_columns", [1, 3, 20, 50, 1500])
def test_draws_are_those_of_gamma_at(n_columns):
    rng = np.random.default_rng(SEED)
    tokens, exposure = rng.poisson(0.3, n_columns), rng.random((1, n_columns))
    together = drawn(70, 0.1, tokens, exposure, first=1000)
    for i in (0, 1, 33, 69):
        alone = one_by_one(np.uint64(SEED), 1000 + i, 0.1, tokens, exposure[0])
        np.testing.assert_allclose(together[i], alone, rtol=1e-12)


def test_rows_do_not_depend_on_where_a_block_starts():
    tokens, exposure = np.array([0, 2, 0]), np.ones((900, 3))
    whole, later = (drawn(900, 0.1, tokens, exposure, start=start) for start in (0, 377))
    assert np.isnan(later[:377]).all()
    assert np.array_equal(whole[377:], later[377:])


def test_a_factor_of_any_shape_is_drawn_by_its_rows():
    rng = np.random.default_rng(SEED)
    key, tokens = SweepKey(np.uint64(SEED), 1, 0), rng.poisson(0.5, (70, 3, 4))
    whole = rng.random((70, 3, 4))
    for exposure in (whole, whole[:1], whole[:, :1], whole[:, :, :1], whole[:1, :1, :1]):
        drawn = draw_factor(key, 1000, prior(0.1, 12), tokens, exposure, Workers(1))
        spread = np.broadcast_to(exposure, tokens.shape).reshape(70, -1)
        for i in (0, 33, 69):
            alone = one_by_one(np.uint64(SEED), 1000 + i, 0.1, tokens[i].reshape(-1), spread[i])
            np.testing.assert_allclose(drawn[i].reshape(-1), alone, rtol=1e-12)


@numba.njit
def both_ways(seed, n, shape):
    quick, exact = np.empty(n), np.empty(n)
    for i in range(n):
        stream = open_stream(seed, 0, 0, 0, i)
        a, stream = next_word(stream)
        b, stream = next_word(stream)
        quick[i] = small_gamma_at(a, b, shape)
        exact[i], stream = gamma_at(a, b, stream, shape, 1.0)
    return quick, exact


@pytest.mark.parametrize("shape", [0.001, 0.1, 0.99, 1.0, 3.0])
def test_the_quick_way_gives_the_same_draw_or_none(shape):
    quick, exact = both_ways(np.uint64(SEED), 20_000, shape)
    seen = quick > 0
    np.testing.assert_allclose(quick[seen], exact[seen], rtol=1e-12)
    assert seen.any() == (shape < 1)
    if shape == 0.1:
        assert seen.mean() > 0.85, "what it is there for"
