"""Poisson, binomial, multinomial and alias draws against their exact laws."""

import numba
import numpy as np
import pytest
from scipy import stats

from compiled_loop import draw_many
from countveil.kernels.alias import build_alias, draw_alias
from countveil.kernels.binomial import binomial, categorical, multinomial
from countveil.kernels.philox import open_stream
from countveil.kernels.poisson import few_at, poisson, poisson_at, stirling_error
from countveil.kernels.uniform import uniform
from goodness_of_fit import SEED, discrete_pvalue, fits, rejects

SIZE = 200_000


@pytest.mark.parametrize("mean", [0.05, 0.7, 3.0, 9.999, 10.0, 25.0, 300.0, 1e4, 1e6, 1e9])
def test_poisson(mean):
    # A 10 % error of a rate of 0.05 shows in a few more draws.
    k = draw_many(poisson, mean, size=SIZE * (10 if mean < 0.1 else 1), seed=SEED + 1)
    assert fits(discrete_pvalue(k, stats.poisson(mean).cdf))
    assert rejects(discrete_pvalue(k, stats.poisson(1.1 * mean).cdf))


@pytest.mark.parametrize("mean", [1e4, 1e6, 1e9])
def test_poisson_spread_of_large_means(mean):
    # At a large mean 10 % is a thousand standard deviations; a wrong spread is the error to fear.
    k = draw_many(poisson, mean, size=SIZE, seed=SEED + 2)
    stretched = np.rint(mean + 1.1 * (k - mean)).astype(np.int64)
    assert rejects(discrete_pvalue(stretched, stats.poisson(mean).cdf))


@numba.njit
def tiny_poisson_hits(seed, mean, boosts):
    """Poisson(mean) draws at uniforms as small as they come: count those that are positive."""
    stream = open_stream(seed, 0, 0, 0, 0)
    hits = 0
    for _ in range(boosts):
        k, stream = poisson(stream, mean)
        hits += k > 0
    return hits


def test_poisson_of_rare_events():
    # 4e8 draws would show 400 events at 1e-6; smaller rates only show that nothing happens.
    hits = tiny_poisson_hits(SEED + 3, 1e-5, 40_000_000)
    assert fits(stats.poisson(400).cdf(hits))
    assert fits(stats.poisson(400).sf(hits))
    assert rejects(stats.poisson(600).cdf(hits))
    for mean in (0.0, 1e-12):
        assert tiny_poisson_hits(SEED, mean, 1_000_000) == 0


def binomials():
    """Every n with half of all p, and the other way round; the other half in the long stage."""
    for i, n in enumerate([1, 2, 7, 60, 1000, 10**6, 10**9]):
        for j, p in enumerate([1e-4, 0.03, 0.3, 0.5, 0.77, 0.9999]):
            yield pytest.param(n, p, marks=pytest.mark.long if (i + j) % 2 else ())


@pytest.mark.parametrize(("n", "p"), [*binomials()])
def test_binomial(n, p):
    law = stats.binom(n, p)
    k = draw_many(binomial, n, p, size=SIZE, seed=SEED + 4)
    assert k.min() >= 0
    assert k.max() <= n
    assert fits(discrete_pvalue(k, law.cdf))
    # Power where the law has something to show: 10 % fewer of the rarer outcome.
    rarer = min(p, 1 - p)
    if SIZE * n * rarer > 10_000:
        wrong = stats.binom(n, 0.9 * p if p < 0.5 else 1 - 0.9 * rarer)
        assert rejects(discrete_pvalue(k, wrong.cdf))


def test_binomial_at_its_ends():
    for n, p, expected in ((0, 0.5, 0), (5, 0.0, 0), (5, 1.0, 5)):
        assert set(draw_many(binomial, n, p, size=100, seed=SEED)) == {expected}


WEIGHTS = np.array([0.0, 3.0, 1e-3, 0.0, 0.5, 2.0, 1e-30])


@numba.njit
def multinomials(seed, n, weights, draws):
    stream = open_stream(seed, 0, 0, 0, 0)
    out = np.zeros((draws, len(weights)), dtype=np.int64)
    for i in range(draws):
        stream = multinomial(stream, n, weights, out[i])
    return out


@pytest.mark.parametrize("n", [1, 4, 5, 40, 10**6])
def test_multinomial(n):
    draws = multinomials(SEED + 5, n, WEIGHTS, 50_000)
    assert (draws.sum(axis=1) == n).all()
    assert (draws[:, WEIGHTS == 0] == 0).all()
    share = WEIGHTS / WEIGHTS.sum()
    for k in (1, 4, 5):
        assert fits(discrete_pvalue(draws[:, k], stats.binom(n, share[k]).cdf))
        assert rejects(discrete_pvalue(draws[:, k], stats.binom(n, 0.9 * share[k]).cdf))
    # Jointly too: two entries together are binomial, which their margins alone do not imply.
    assert fits(discrete_pvalue(draws[:, 1] + draws[:, 4], stats.binom(n, share[1] + share[4]).cdf))


def test_multinomial_of_weights_that_all_underflowed_is_even():
    for n in (3, 9000):
        draws = multinomials(SEED + 6, n, np.zeros(3), 20_000)
        for k in range(3):
            assert fits(discrete_pvalue(draws[:, k], stats.binom(n, 1 / 3).cdf))


def categories_pvalue(drawn, weights):
    return discrete_pvalue(
        drawn, lambda k: np.cumsum(weights / weights.sum())[k], np.arange(len(weights) - 1)
    )


@pytest.mark.parametrize("weights", [WEIGHTS, np.array([2.0]), np.arange(300.0), 0.9 ** np.arange(2000.0)])
def test_categorical_and_alias_agree_with_the_weights(weights):
    @numba.njit
    def draw(seed, weights, use_alias, size):
        n = len(weights)
        keep, other, work = np.empty(n), np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
        total = build_alias(weights, keep, other, work)
        stream = open_stream(seed, 0, 0, 0, 0)
        out = np.empty(size, dtype=np.int64)
        for i in range(size):
            if use_alias:
                out[i], stream = draw_alias(stream, keep, other)
            else:
                out[i], stream = categorical(stream, weights, total)
        return out

    wrong = weights * np.where(np.arange(len(weights)) < len(weights) // 2, 1.1, 1.0)
    wrong[1 : len(weights) // 2 : 2] *= 0.8
    for use_alias in (True, False):
        drawn = draw(SEED + 7, weights, use_alias, SIZE)
        assert (weights[drawn] > 0).all()
        if len(weights) > 1:
            assert fits(categories_pvalue(drawn, weights))
            assert rejects(categories_pvalue(drawn, wrong))


def test_alias_table_holds_the_weights_exactly():
    # Enumerated, not sampled: the probability each slot hands out adds up to the weights.
    rng = np.random.default_rng(SEED)
    for n in (1, 2, 3, 17, 1000):
        weights = rng.gamma(0.1, size=n) * (rng.random(n) < 0.7)
        keep, other, work = np.empty(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        total = build_alias(weights, keep, other, work)
        handed = (keep + np.bincount(other, 1 - keep, minlength=n)) / n
        if total > 0:
            assert np.allclose(handed, weights / weights.sum(), atol=1e-15)
            assert (handed[weights == 0] == 0).all()
        else:
            assert np.allclose(handed, 1 / n)


@numba.njit
def few_and_all(seed, n, mean):
    few, drawn = np.empty(n), np.empty(n)
    for i in range(n):
        u, _ = uniform(open_stream(seed, 0, 0, 0, i))
        few[i], drawn[i] = few_at(u, mean), poisson_at(u, mean)
    return few, drawn


@pytest.mark.parametrize("mean", [0.0, 1e-12, 1e-3, 0.2, 1.0, 3.999, 4.0, 9.0])
def test_small_draws_in_plain_arithmetic(mean):
    few, drawn = few_and_all(np.uint64(SEED), 30_000, mean)
    seen = few >= 0
    assert np.array_equal(few[seen], drawn[seen])
    assert np.array_equal(seen, drawn <= 8) if mean < 4 else not seen.any()


@pytest.mark.parametrize(("p", "drawn"), [(np.nan, 0), (-np.inf, 0), (np.inf, 1000)])
def test_binomial_of_a_share_that_is_none_ends(p, drawn):
    assert (draw_many(binomial, 1000, p, size=100, seed=SEED) == drawn).all()


@pytest.mark.parametrize("n", [-1, -(2**40), -(2**63)])
def test_a_sum_that_wrapped_reads_no_table_elsewhere(n):
    assert stirling_error(n) == stirling_error(0)
