"""Bessel draws, the exact count conditional, and the paper's chain, against brute-force laws."""

import itertools

import numba
import numpy as np
import pytest
from scipy import stats

from compiled_loop import draw_many
from countveil.kernels.given_release.bessel import bessel, draw_count_by_bessel
from countveil.kernels.given_release.geometric import (
    FEW_TOKENS,
    draw_count,
    draw_count_at,
    draw_count_directly,
    few_count_at,
)
from countveil.kernels.philox import open_stream
from countveil.kernels.uniform import exponential, uniform
from exact_laws import bessel_cdf, count_given_release_cdf
from goodness_of_fit import FALSE_ALARM, SEED, discrete_pvalue, fits, rejects

RELEASES = [-5, 0, 1, 3, 13, 14, 750, 10_000, 1_000_000]
RATES = [1e-3, 0.7, 5.0, 14.2, 30.0, 800.0, 1e4, 1e6]
RHOS = [1e-3, 0.1, 1.0, 3.0, 20.0]


@numba.njit(error_model="numpy")
def draw_after_a_look(stream, x, mu, rho):
    """A caller who looks at a uniform first, then makes the best of it, and only then draws."""
    u, stream = uniform(stream)
    z, w = mu * np.exp(rho), mu * np.exp(-rho)
    mean = z if x > 0 else w
    if not u < mean:
        return np.int64(0), stream
    # Codes end at 254: so do the releases that a caller looks at.
    y = few_count_at(u, min(max(x, 0), 254), mean, np.exp(-2.0 * rho))
    if y >= 0.0:
        return np.int64(y), stream
    return draw_count_at(u, stream, x, mu, rho, z, w)


DRAWS = [draw_count, draw_count_directly, draw_after_a_look]


def all_draws(values, quick):
    """(value, draw): all values with the first draw, some with the others; the rest in the long stage."""
    return [
        pytest.param(value, draw, marks=() if draw is draw_count or value in quick else pytest.mark.long)
        for value, draw in itertools.product(values, DRAWS)
    ]


@pytest.mark.parametrize(("rho", "draw"), all_draws(RHOS, [0.1, 3.0]))
def test_count_given_release_over_the_grid(rho, draw):
    cells = [
        (x, mu) for x, mu in itertools.product(RELEASES, RATES) if x > 0 or draw is not draw_count_directly
    ]
    for i, (x, mu) in enumerate(cells):
        y = draw_many(draw, x, mu, rho, size=20_000, seed=SEED + i)
        pvalue = discrete_pvalue(y, count_given_release_cdf(x, mu, rho))
        assert pvalue > FALSE_ALARM / len(cells), (x, mu, rho, pvalue)


CELLS = [
    (1, 1.0, 1.0),
    (14, 14.2, 1.0),
    (3, 5.0, 1.0),
    (3, 0.5, 1.0),
    (14, 14.2, 0.1),
    (13, 30.0, 1.0),
    (750, 800.0, 0.1),
    (750, 750.0, 0.01),
]


@pytest.mark.parametrize(("cell", "draw"), all_draws(CELLS, [CELLS[2], CELLS[4]]))
def test_count_given_release_has_power(cell, draw):
    x, mu, rho = cell
    y = draw_many(draw, x, mu, rho, size=400_000, seed=SEED + 1)
    assert fits(discrete_pvalue(y, count_given_release_cdf(x, mu, rho)))
    assert rejects(discrete_pvalue(y, count_given_release_cdf(x, 1.1 * mu, rho)))
    if rho >= 0.1:
        assert rejects(discrete_pvalue(y, count_given_release_cdf(x, mu, 1.1 * rho)))
        assert rejects(discrete_pvalue(y, count_given_release_cdf(x + 1, mu, rho)))


def test_count_where_the_release_is_not_positive_has_power():
    y = draw_many(draw_count, -2, 5.0, 1.0, size=400_000, seed=SEED + 1)
    assert fits(discrete_pvalue(y, count_given_release_cdf(-2, 5.0, 1.0)))
    assert rejects(discrete_pvalue(y, count_given_release_cdf(-2, 1.1 * 5.0, 1.0)))


def test_count_of_a_cell_that_cannot_have_one():
    for x in (-3, 0, 1, 20, 10**6):
        for draw in (draw_count, draw_after_a_look):
            assert set(draw_many(draw, x, 0.0, 1.0, size=50, seed=SEED)) == {0}


def test_count_with_hardly_any_noise_is_the_release():
    # exp(800) overflows; the draw must not.
    for x in (1, 12, 13, 1_000_000):
        for draw in DRAWS:
            assert set(draw_many(draw, x, 1e6, 800.0, size=50, seed=SEED)) == {x}


@pytest.mark.parametrize("mu", [2.0**53, 1e20, 1e100, 1e300, np.inf, np.nan])
@pytest.mark.parametrize("rho", [1e-9, 0.1, 3.0])
def test_rates_beyond_all_counts_end(mu, rho):
    for x in (1, 20, 10**6, 2**53):
        for draw in DRAWS:
            assert (draw_many(draw, x, mu, rho, size=3, seed=SEED) >= 0).all()


@numba.njit(error_model="numpy")
def both_ways(seed, n, x, mu, rho):
    few, drawn = np.empty(n), np.empty(n)
    z, w = mu * np.exp(rho), mu * np.exp(-rho)
    for i in range(n):
        u, stream = uniform(open_stream(seed, 0, 0, 0, i))
        few[i] = few_count_at(u, x, z if x > 0 else w, np.exp(-2.0 * rho))
        drawn[i], stream = draw_count_at(u, stream, x, mu, rho, z, w)
    return few, drawn


def test_what_is_seen_in_the_uniform_is_what_is_drawn():
    shares = []
    for x, mu in itertools.product(
        [0, 1, 2, 7, 15, 16, 254], [1e-9, 1e-3, 0.1, 0.3, 0.6, 1.0, 1.4, 3.0, 20.0]
    ):
        few, drawn = both_ways(np.uint64(SEED), 4000, x, mu, 1.0)
        seen = few >= 0
        assert (few[seen] == drawn[seen]).all(), (x, mu)
        shares.append(seen.mean())
        assert few.max() <= FEW_TOKENS
    assert min(shares) == 0, "some must be drawn"
    assert np.mean(shares) > 0.5, "what it is there for"


@pytest.mark.parametrize("mu", [0.3, 4.0, 60.0])
def test_clamping_leaves_the_conditional_unchanged(mu):
    # Not only in law: the very draws agree, so a clamped release loses nothing.
    draws = [draw_many(draw_count, x, mu, 1.0, size=5000, seed=SEED) for x in (0, -1, -1000)]
    assert (draws[0] == draws[1]).all()
    assert (draws[0] == draws[2]).all()
    # And in law it is the law of the unclamped one.
    law = count_given_release_cdf(-1000, mu, 1.0)
    y = draw_many(draw_count, 0, mu, 1.0, size=400_000, seed=SEED + 2)
    assert fits(discrete_pvalue(y, law))
    assert rejects(discrete_pvalue(y, count_given_release_cdf(int(mu) + 1, mu, 1.0)))


ORDERS = [0, 1, 7, 300, 20_000, 1_000_000]
ARGUMENTS = [0.0, 1e-3, 0.5, 6.0, 25.0, 30.0, 288.0, 2000.0, 1e6]


@pytest.mark.parametrize("v", ORDERS)
def test_bessel_over_the_grid(v):
    for i, a in enumerate(ARGUMENTS):
        m = draw_many(bessel, v, a, size=20_000, seed=SEED + i)
        pvalue = discrete_pvalue(m, bessel_cdf(v, a))
        assert pvalue > FALSE_ALARM / len(ARGUMENTS), (v, a, pvalue)


@pytest.mark.parametrize(
    ("v", "a"), [(0, 0.5), (0, 6.0), (0, 288.0), (7, 25.0), (300, 288.0), (1_000_000, 1e6)]
)
def test_bessel_has_power(v, a):
    m = draw_many(bessel, v, a, size=400_000, seed=SEED + 1)
    assert fits(discrete_pvalue(m, bessel_cdf(v, a)))
    assert rejects(discrete_pvalue(m, bessel_cdf(v, 1.1 * a)))


def test_bessel_of_zero_is_zero():
    assert set(draw_many(bessel, 0, 0.0, size=100, seed=SEED)) == {0}


@numba.njit
def bessel_chain_ends(seed, x, mu, alpha, steps, chains):
    """The last count of many short chains, each started from the prior of its rates."""
    out = np.empty(chains, dtype=np.int64)
    for i in range(chains):
        stream = open_stream(seed, 0, 0, 0, i)
        plus, stream = exponential(stream)
        minus, stream = exponential(stream)
        plus *= alpha / (1 - alpha)
        minus *= alpha / (1 - alpha)
        y = np.int64(0)
        for _ in range(steps):
            y, plus, minus, stream = draw_count_by_bessel(stream, x, mu, alpha, plus, minus)
        out[i] = y
    return out


def chains():
    """Every x and mu once; all of them together, and other noise, in the long stage."""
    for x, mu, rho in itertools.product([-4, 0, 1, 6, 30], [0.2, 3.0, 20.0], [0.5, 1.0, 3.0]):
        quick = rho == 1.0 and (mu == 3.0 or (x, mu) in ((1, 0.2), (0, 20.0)))
        yield pytest.param(x, mu, rho, marks=() if quick else pytest.mark.long)


@pytest.mark.parametrize(("x", "mu", "rho"), [*chains()])
def test_the_bessel_chain_reaches_the_exact_conditional(x, mu, rho):
    # Independent chains, so their ends are independent draws and the test is exact once they have converged.
    steps = 300 if rho < 1 else 100
    y = bessel_chain_ends(SEED + 1, x, mu, np.exp(-rho), steps, 10_000)
    assert fits(discrete_pvalue(y, count_given_release_cdf(x, mu, rho)))
    if mu > 10 and x < 10 and rho <= 1:
        assert rejects(discrete_pvalue(y, count_given_release_cdf(x, 1.1 * mu, rho)))


def test_exact_and_bessel_draws_agree_with_each_other():
    x, mu, rho = 2, 1.3, 1.0
    exact = draw_many(draw_count, x, mu, rho, size=40_000, seed=SEED)
    chain = bessel_chain_ends(SEED + 2, x, mu, np.exp(-rho), 200, 40_000)
    table = np.array([np.bincount(np.minimum(s, 6), minlength=7) for s in (exact, chain)])
    assert fits(stats.chi2_contingency(table).pvalue)
    wrong = draw_many(draw_count, x, 1.1 * mu, rho, size=40_000, seed=SEED + 3)
    table[1] = np.bincount(np.minimum(wrong, 6), minlength=7)
    assert rejects(stats.chi2_contingency(table).pvalue)
