"""Sums of products, running sums, and the tokens that are shared out by them."""

from itertools import accumulate

import numba
import numpy as np
import pytest
from scipy import stats

from countveil.inference.engines.cpu.products import LANES, running_sums, sum_of_products, sums_of_rows
from countveil.inference.engines.cpu.rows import FEW_TOKENS, allocate, scratch_size
from countveil.kernels.philox import open_stream
from goodness_of_fit import FALSE_ALARM, SEED, discrete_pvalue, fits, rejects

SIZES = [1, 2, 7, 8, 9, 15, 16, 17, 50]


@numba.njit
def both(left, right, i, j, out):
    running_sums(left, i, right, j, out)
    return sum_of_products(left, i, right, j)


@pytest.mark.parametrize("n", SIZES)
def test_every_bit_is_that_of_plain_python(n):
    rng = np.random.default_rng(n)
    left, right = rng.gamma(0.2, size=(3, n)), rng.gamma(0.2, size=(4, n))
    out = np.full(scratch_size(n), np.nan)
    total = both(left, right, 2, 1, out)
    products = [float(a) * float(b) for a, b in zip(left[2], right[1], strict=True)]
    whole = n // LANES * LANES
    lanes = [0.0] * LANES
    for k in range(n):
        lanes[k % LANES] += products[k]
        assert out[k] == lanes[k % LANES]
    # The last eight are the sums of the lanes.
    assert [out[whole + lane] for lane in range(LANES)] == lanes
    # Added one by one: from Python 3.12 on sum() compensates for rounding.
    parts = [list(accumulate(products[lane:whole:LANES], initial=0.0))[-1] for lane in range(LANES)]
    while len(parts) > 1:
        parts = [parts[p] + parts[p + 1] for p in range(0, len(parts), 2)]
    assert total == list(accumulate(products[whole:], initial=parts[0]))[-1]


@numba.njit
def add_rows(weights, i, matrix, out):
    sums_of_rows(weights, i, matrix, out)


@pytest.mark.parametrize("n", [1, 3, 20])
def test_sums_of_rows_have_every_bit_of_plain_python(n):
    rng = np.random.default_rng(n)
    weights, matrix, out = (
        rng.gamma(0.2, size=(3, n)),
        rng.gamma(0.2, size=(n, 3 * LANES)),
        np.empty(3 * LANES),
    )
    add_rows(weights, 2, matrix, out)
    for c in range(3 * LANES):
        total = 0.0
        for k in range(n):
            total += float(weights[2, k]) * float(matrix[k, c])
        assert out[c] == total


def test_other_layouts_are_refused():
    left = np.ones((3, 9))
    with pytest.raises(numba.TypingError, match="expected a matrix in C order"):
        both(left, np.asfortranarray(np.ones((3, 9))), 0, 0, np.empty(16))
    with pytest.raises(numba.TypingError, match="expected float64"):
        both(left, np.ones((3, 9), dtype=np.float32), 0, 0, np.empty(16))


@numba.njit
def share_out(seed, repetitions, count, theta, phi, row_topic, column_topic):
    scratch = np.empty(scratch_size(theta.shape[1]))
    for i in range(repetitions):
        stream = open_stream(seed, 0, 0, 0, i)
        allocate(stream, 1, 2, count, theta, phi, scratch, row_topic, column_topic)


def shared(theta, phi, count, repetitions):
    row_topic, column_topic = np.zeros(theta.shape, dtype=np.int64), np.zeros(phi.shape, dtype=np.int64)
    share_out(np.uint64(SEED), repetitions, count, theta, phi, row_topic, column_topic)
    assert np.array_equal(row_topic[1], column_topic[2])
    assert row_topic.sum() == column_topic.sum() == count * repetitions
    assert row_topic[1].sum() == row_topic.sum()
    return row_topic[1]


@pytest.mark.parametrize("count", [1, FEW_TOKENS, FEW_TOKENS + 1, 1000])
@pytest.mark.parametrize("n", SIZES)
def test_tokens_are_shared_out_by_weight(n, count):
    rng = np.random.default_rng(n)
    theta, phi = rng.gamma(0.5, size=(3, n)), rng.gamma(0.5, size=(4, n))
    if n > 2:
        theta[1, n // 2] = 0.0
    weights = theta[1] * phi[2]
    found = shared(theta, phi, count, 400_000 // count)
    assert (found[weights == 0] == 0).all()
    if n == 1:
        return
    expected = weights / weights.sum() * found.sum()
    assert _pvalue(found, expected) > FALSE_ALARM
    wrong = weights * np.where(np.arange(n) == np.argmax(weights), 0.9, 1.0)
    assert _pvalue(found, wrong / wrong.sum() * found.sum()) < FALSE_ALARM


def _pvalue(found, expected):
    seen = expected > 5
    return stats.chi2.sf(((found - expected)[seen] ** 2 / expected[seen]).sum(), max(seen.sum() - 1, 1))


@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("n", [3, 11])
def test_products_that_underflow_count_as_equal(n, count):
    tiny = np.full((4, n), 1e-200)
    found = shared(tiny[:3], tiny, count, 20_000)
    assert _pvalue(found, np.full(n, found.sum() / n)) > FALSE_ALARM


@pytest.mark.parametrize("count", [FEW_TOKENS, 40, 500])
def test_the_share_of_a_topic_varies_like_a_binomial(count):
    theta, phi = np.ones((3, 5)), np.ones((4, 5))
    phi[2] = [0.05, 0.3, 0.0, 0.5, 0.15]
    found = np.array([shared_once(theta, phi, count, i) for i in range(20_000)])
    for k in (0, 1, 3, 4):
        law = stats.binom(count, phi[2, k]).cdf
        assert fits(discrete_pvalue(found[:, k], law))
        assert rejects(discrete_pvalue(found[:, k], stats.binom(count, 1.1 * phi[2, k]).cdf)) or k == 0
    # Two together as well: given what both have, one has a binomial share.
    both = found[:, 0] + found[:, 1]
    common = np.bincount(both).argmax()
    assert fits(discrete_pvalue(found[both == common, 0], stats.binom(common, 0.05 / 0.35).cdf))


def shared_once(theta, phi, count, seed):
    row_topic, column_topic = np.zeros(theta.shape, dtype=np.int64), np.zeros(phi.shape, dtype=np.int64)
    share_out(np.uint64(SEED + 1000 + seed), 1, count, theta, phi, row_topic, column_topic)
    return row_topic[1]
