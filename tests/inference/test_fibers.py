"""Tensors by fibers draw the same law of sums as cell by cell, in every branch."""

import math
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

import countveil as cv
from countveil.inference.engines.cpu.cells import Cells
from countveil.inference.engines.cpu.fibers import Fibers, _room_for, _scatter, point_buffer
from countveil.inference.engines.cpu.sampler import ViewSampler
from countveil.inference.problem import make_problem
from countveil.kernels.philox import SweepKey, open_stream
from countveil.models import Factorization, TensorModel
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers
from goodness_of_fit import FALSE_ALARM, SEED, continuous_pvalue, discrete_pvalue, fits, rejects
from inference.one_chain import IN_PLACE, OneChain, Splits, changed, observed
from inference.two_samples import two_sample_pvalue

SHAPE = (3, 2, 4)


def state_of(n_components, shape=SHAPE, scale=1.0):
    """Some factors; a few components have no weight in places."""
    rng = np.random.default_rng(n_components)
    found = [rng.gamma(2.0, size=(n, n_components)) * 0.6 for n in shape]
    found[0] *= scale * 1.5 / n_components
    if n_components > 1:
        found[0][1, 0] = found[-1][2, n_components - 1] = 0.0
    return TensorModel(n_components, n_axes=len(shape), rate=1.0).state_type(*found)


def seen(values, rho=None, **options):
    """What is known of a tensor."""
    flat = (values.shape[0], -1)
    options = {name: np.asarray(option).reshape(flat) for name, option in options.items()}
    return observed(values.reshape(flat), rho, **options)


# Cells of all kinds: x <= 0, rates far above and far below the release, several tokens and one.
VALUES = np.array(
    [[[1, 0, 2, 0], [0, 3, 0, 1]], [[5, 1, 1, 0], [0, 0, 0, 2]], [[2, 0, 1, 1], [0, 4, 0, 0]]],
)
FOUR_AXES = np.array([[VALUES[0], VALUES[1]], [VALUES[2], VALUES[0]]])
MISSING = np.random.default_rng(5).random(SHAPE) < 0.25
PER_CELL = np.linspace(0.3, 2.5, 24).reshape(SHAPE)

PROBLEMS = {
    "plain noise": (state_of(2), seen(VALUES, 1.0), SHAPE),
    "much noise": (state_of(2), seen(VALUES, 0.1), SHAPE),
    "little noise": (state_of(2), seen(VALUES, 2.5), SHAPE),
    "missing": (state_of(2), seen(VALUES, 1.0, missing=MISSING), SHAPE),
    "per row": (state_of(2), seen(VALUES, np.array([0.3, 1.0, 2.0])), SHAPE),
    "per cell, missing": (state_of(2), seen(VALUES, cell_rho=PER_CELL, missing=MISSING), SHAPE),
    "rates above the release": (state_of(2, scale=8.0), seen(VALUES, 1.0), SHAPE),
    "large values": (state_of(2, scale=300.0), seen(VALUES * 90, 0.5), SHAPE),
    "one component": (state_of(1), seen(VALUES, 1.0), SHAPE),
    "many components": (state_of(11, scale=2.0), seen(VALUES, 1.0), SHAPE),
    "four axes": (state_of(3, (2, 2, 2, 4)), seen(FOUR_AXES, 1.0), (2, 2, 2, 4)),
}
#: Tokens per cell beyond which a fiber is visited.
CROWDED = {"by tokens": math.inf, "sometimes visited": 3.0, "visited": -1.0}


def model_of(state, shape):
    return TensorModel(state[0].shape[1], n_axes=len(shape), rate=1.0)


def by_fibers(state, data, shape, crowded, listed=False):
    algorithm = Fibers(model_of(state, shape), data, shape, CROWDED[crowded])
    if listed:
        algorithm._options = algorithm._options._replace(codes=np.zeros((0, 0), dtype=np.uint8))
    return algorithm


def by_cells(state, data, shape):
    chain = OneChain(model_of(state, shape), data, shape, algorithm="cells")
    assert isinstance(chain.view._matrix, Cells)
    return chain


def draw_sums(algorithm, state, n, first):
    """(n, ...) tokens of all factors, one after the other."""
    out = []
    for i in range(n):
        key = SweepKey(np.uint64(SEED + 6), 0, first + i)
        tokens = algorithm.statistics(state, key, IN_PLACE).tokens
        out.append(np.concatenate([of_factor.ravel() for of_factor in tokens]))
    return np.array(out)


def pvalue(first, second):
    n = first.shape[1]
    pairs = [(0, 1), (0, n - 1), (1, n // 2), (2, n - 2), (n // 2, n - 1), (n // 2 + 1, n // 2 + 2)]
    return two_sample_pvalue(first, second, pairs)


@lru_cache(maxsize=2)  # the cases of a problem follow each other
def reference_sums(problem, n):
    state, data, shape = PROBLEMS[problem]
    return draw_sums(by_cells(state, data, shape), state, n, 0)


def check(problem, crowded, n):
    state, data, shape = PROBLEMS[problem]
    reference = reference_sums(problem, n)
    found = draw_sums(by_fibers(state, data, shape, crowded, listed=crowded == "visited"), state, n, 10**6)
    assert pvalue(reference, found) > FALSE_ALARM


#: Every problem once, and every way.
QUICK = [*zip(PROBLEMS, 4 * [*CROWDED], strict=False)]


@pytest.mark.parametrize(("problem", "crowded"), QUICK)
def test_one_sweep_has_the_law_of_the_reference(problem, crowded):
    check(problem, crowded, 1500)


#: The number of sweeps by which what is wrong below is caught.
FULL = 20_000


@pytest.mark.long
@pytest.mark.parametrize("crowded", CROWDED)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_one_sweep_has_the_law_of_the_reference_with_many_draws(problem, crowded):
    check(problem, crowded, FULL)


@pytest.mark.long
@pytest.mark.parametrize("crowded", CROWDED)
def test_the_comparison_catches_ten_percent(crowded):
    state, data, shape = PROBLEMS["plain noise"]
    reference = reference_sums("plain noise", FULL)
    for wrong_state, wrong_data in (
        (state, changed(data, row_rho=data.row_rho * 1.1)),
        (state._replace(factor0=state[0] * 1.1), data),
        (state, seen(np.where(VALUES == 5, 6, VALUES), 1.0)),
    ):
        algorithm = by_fibers(wrong_state, wrong_data, shape, crowded)
        assert pvalue(reference, draw_sums(algorithm, wrong_state, FULL, 10**6)) < FALSE_ALARM


@pytest.mark.long
def test_forgetting_to_thin_would_be_caught():
    # Tokens come at the rate of the row's smallest alpha: taking a larger one for it must show.
    state, data, shape = PROBLEMS["per cell, missing"]
    reference = reference_sums("per cell, missing", FULL)
    algorithm = by_fibers(state, data, shape, "by tokens")
    algorithm._options = algorithm._options._replace(highest_rho=data.cell_rho.mean(axis=1))
    assert pvalue(reference, draw_sums(algorithm, state, FULL, 10**6)) < FALSE_ALARM


@pytest.mark.parametrize("crowded", CROWDED)
def test_sums_do_not_depend_on_how_rows_are_split(crowded):
    rng = np.random.default_rng(SEED)
    shape = (40, 6, 5)
    values = rng.poisson(0.5, shape) + rng.geometric(0.6, shape) - rng.geometric(0.6, shape)
    data = seen(values, 1.0, missing=rng.random(shape) < 0.1)
    state = state_of(3, shape)
    algorithm, key = by_fibers(state, data, shape, crowded), SweepKey(np.uint64(3), 1, 9)
    whole = algorithm.statistics(state, key, IN_PLACE)
    also = by_fibers(state, data, shape, crowded, listed=True).statistics(state, key, IN_PLACE)
    for workers in (Splits(1), Splits(7), Splits(33), Workers(2), Workers(5)):
        with workers:
            split = algorithm.statistics(state, key, workers)
        for one, two, three in zip(whole.tokens, split.tokens, also.tokens, strict=True):
            assert np.array_equal(one, two)
            assert np.array_equal(one, three)
    assert len({tokens.sum() for tokens in whole.tokens}) == 1
    assert whole.tokens[0].sum() > 0


# Wide counters are compiled for the second alone.
@pytest.mark.parametrize("scale", [1e3, pytest.param(1e12, marks=pytest.mark.long)])
def test_missing_cells_take_no_tokens_and_huge_rates_no_memory(scale):
    missing = np.zeros(SHAPE, dtype=bool)
    missing[0] = True
    data = seen(VALUES, 1.0, missing=missing)
    state = state_of(2, scale=scale)
    sums = by_fibers(state, data, SHAPE, "sometimes visited").statistics(
        state, SweepKey(np.uint64(1), 0, 1), IN_PLACE
    )
    assert sums.tokens[0][0].sum() == 0
    assert sums.tokens[0][1:].sum() > 1e-3 * scale


@pytest.mark.parametrize("crowded", CROWDED)
def test_rates_that_underflow_have_no_tokens(crowded):
    state = state_of(2)._replace(factor1=np.full((2, 2), 1e-300), factor2=np.full((4, 2), 1e-300))
    for rho in (1.0, 800.0):
        algorithm = by_fibers(state, seen(VALUES, rho), SHAPE, crowded)
        sums = algorithm.statistics(state, SweepKey(np.uint64(1), 0, 1), IN_PLACE)
        assert [tokens.sum() for tokens in sums.tokens] == [0, 0, 0]


def test_fibers_are_chosen_where_they_pay():
    tensor = np.ones((4, 3, 5), dtype=int)

    def chosen(model, rho=1.0, values=tensor, method="exact", algorithm="auto"):
        view = make_problem(model, cv.PrivateCounts(values, rho=rho), method).views[""]
        sampler = ViewSampler(view, algorithm, IN_PLACE)
        assert isinstance(sampler._fibers, Fibers) == (sampler.algorithm == "fibers")
        return sampler.algorithm

    assert chosen(TensorModel(2)) == "fibers"
    assert chosen(TensorModel(2), algorithm="fibers") == "fibers"
    assert chosen(Factorization("tk,ki,kj->ijt", k=2)) == "fibers"
    assert chosen(TensorModel(2), rho=4.0) == "tokens", "proposals at exp(4) times the rates"
    assert chosen(TensorModel(1), values=np.ones((200, 3, 2), dtype=int)) == "tokens", "fibers of two cells"
    assert chosen(TensorModel(core=(2, 2, 2))) == "tokens"
    assert chosen(TensorModel(2), algorithm="tokens") == "tokens"
    assert chosen(TensorModel(2), algorithm="cells") == "cells"
    assert chosen(TensorModel(2), method="bessel") == "cells"
    assert chosen(TensorModel(2), method="naive") == "tokens"
    tied = Factorization("ik,jk,tk->ijt", names=["actor", "actor", "time"], k=2)
    assert chosen(tied, values=np.ones((3, 3, 4), dtype=int)) == "tokens"


def test_factors_in_any_order_get_their_own_tokens():
    rng = np.random.default_rng(SEED)
    values = rng.poisson(2.0, (3, 2, 4))
    first, second, third = (
        rng.gamma(1.0, size=(3, 2)),
        rng.gamma(1.0, size=(2, 2)),
        rng.gamma(1.0, size=(4, 2)),
    )
    key = SweepKey(np.uint64(1), 0, 1)
    data = seen(values, 1.0)
    plain = TensorModel(2, rate=1.0)
    turned = Factorization("tk,ki,jk->ijt", k=2, rate=1.0)
    wanted = (
        Fibers(plain, data, values.shape)
        .statistics(plain.state_type(first, second, third), key, IN_PLACE)
        .tokens
    )
    found = Fibers(turned, data, values.shape).statistics(
        turned.state_type(third, first.T, second), key, IN_PLACE
    )
    # By axis: the one of the data first, whatever the order of letters in the term.
    for one, two in zip((wanted[2], wanted[0], wanted[1]), found.tokens, strict=True):
        assert np.array_equal(one, two)


@compiled
def scattered(seed, n, ends, counts, places):
    """Numbers of points in every interval, n times; and where in the last interval its first point lay."""
    room = point_buffer(1)
    for i in range(n):
        room = _room_for(ends[-1], room)
        n_points, _ = _scatter(open_stream(seed, 0, 0, 0, i), ends, room.points, room.interval)
        places[i] = np.nan
        for a in range(n_points):
            interval = room.interval[a]
            if interval == len(ends) - 1 and counts[i, interval] == 0:
                places[i] = (room.points[a] - ends[-2]) / (ends[-1] - ends[-2])
            counts[i, interval] += 1


def test_points_on_a_line_are_a_poisson_process():
    lengths = np.array([0.3, 0.0, 2.0, 1e-3, 40.0, 0.7])
    n = 60_000
    counts, places = np.zeros((n, len(lengths)), dtype=np.int64), np.empty(n)
    scattered(np.uint64(SEED + 3), n, np.cumsum(lengths), counts, places)
    assert counts[:, 1].sum() == 0, "an empty interval"
    for j in (0, 2, 3, 4, 5):
        assert fits(discrete_pvalue(counts[:, j], stats.poisson(lengths[j]).cdf))
    for j in (2, 4):
        assert rejects(discrete_pvalue(counts[:, j], stats.poisson(1.1 * lengths[j]).cdf))
    # Neighbours are independent: given their sum, a binomial share.
    both = counts[:, 0] + counts[:, 2]
    shares = counts[both == 3, 0]
    assert fits(discrete_pvalue(shares, stats.binom(3, 0.3 / 2.3).cdf))
    # One point alone lies anywhere in its interval.
    alone = places[counts[:, 5] == 1]
    assert fits(continuous_pvalue(alone, stats.uniform.cdf))
    assert rejects(continuous_pvalue(alone**1.1, stats.uniform.cdf))


def test_no_points_on_a_line_without_length():
    counts, places = np.zeros((5, 2), dtype=np.int64), np.empty(5)
    scattered(np.uint64(1), 5, np.zeros(2), counts, places)
    assert counts.sum() == 0
