"""Where scales start: totals of rows and columns from what was observed, without their noise."""

import numpy as np
import pytest

import countveil as cv
from countveil.inference.observed import margins_of, observe
from countveil.inference.problem import make_problem
from countveil.kernels.philox import SweepKey
from countveil.models import CommunityModel, TensorModel, TopicModel
from countveil.models.einsum.margins import relative_totals
from countveil.runtime.workers import Workers
from goodness_of_fit import SEED


def released(counts, rho, mask=None, seed=SEED):
    rng = np.random.default_rng(seed)
    wide = np.reshape(rho, (-1, *[1] * (counts.ndim - 1)))
    one, two = rng.geometric(-np.expm1(-np.broadcast_to(wide, counts.shape)), (2, *counts.shape))
    return cv.PrivateCounts(counts + one - two, rho=rho, mask=mask)


def test_totals_of_plain_counts():
    counts = np.arange(12).reshape(3, 4)
    found = margins_of(observe(make_problem(TopicModel(2), counts).views[""].data))
    assert found.rows.tolist() == counts.sum(axis=1).tolist()
    assert found.columns.tolist() == counts.sum(axis=0).tolist()
    assert not found.row_variances.any()


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_totals_of_a_release_are_unbiased(missing):
    counts = np.random.default_rng(SEED).poisson(3.0, (6, 5))
    mask = np.random.default_rng(SEED + 1).random(counts.shape) < missing
    rho = np.linspace(0.4, 2.0, 6)
    draws = [margins_of(observe(released(counts, rho, mask, SEED + i))) for i in range(4000)]
    for axis, (name, variance) in enumerate((("rows", "row_variances"), ("columns", "column_variances"))):
        seen = ~mask
        part = seen.shape[1 - axis] / seen.sum(axis=1 - axis)
        truth = (counts * seen).sum(axis=1 - axis) * part
        found = np.array([getattr(draw, name) for draw in draws])
        error = found.std(axis=0) / np.sqrt(len(draws))
        assert (np.abs(found.mean(axis=0) - truth) < 5 * error).all()
        # Clamped values tell a little more than the variance of the noise says: it is a bound.
        stated = getattr(draws[0], variance)
        assert (found.var(axis=0) < 1.1 * stated).all()
        assert (found.var(axis=0) > 0.5 * stated).all()
        # The check would see totals without their correction.
        assert not (np.abs(1.1 * found.mean(axis=0) - truth) < 5 * error).all()


def test_the_order_of_rows_does_not_matter():
    rho = np.random.default_rng(SEED).uniform(0.3, 2.0, 400)
    release = released(np.random.default_rng(SEED).poisson(2.0, (400, 7)), rho)
    values, order = release.to_dense(), np.random.default_rng(1).permutation(400)
    turned = cv.PrivateCounts(values[order], rho=rho[order])
    one, two = (margins_of(observe(r)) for r in (cv.PrivateCounts(values, rho=rho), turned))
    assert np.array_equal(one.columns, two.columns)
    assert np.array_equal(one.column_variances, two.column_variances)
    assert np.array_equal(one.rows[order], two.rows)


def test_zipf_is_found_behind_the_noise():
    truth = 3000 / np.arange(1, 3001)
    rng = np.random.default_rng(SEED)
    noisy = rng.poisson(truth) + rng.normal(0, 40, len(truth))
    found = relative_totals(noisy, np.full(len(truth), 1600.0))
    expected = truth / truth.mean()
    # The many rare ones together, of two counts each where the noise has forty: not to be known, but near.
    assert found[500:].mean() < 2.5 * expected[500:].mean()
    assert np.maximum(noisy, 0)[500:].mean() / truth.mean() > 7 * expected[500:].mean()
    assert found[:15] == pytest.approx(expected[:15], rel=0.35)
    assert (found > 0).all()


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (TopicModel(30), (60, 40)),
        (TensorModel(20, rate=None), (12, 10, 9)),
        (CommunityModel(20, rate=None), (30, 30)),
    ],
)
def test_starts_have_the_margins_of_the_data(model, shape):
    rng = np.random.default_rng(SEED)
    scales = [np.geomspace(0.1, 10, n) for n in shape]
    mean = 3.0
    for axis, scale in enumerate(scales):
        mean = mean * scale.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    release = released(rng.poisson(mean), 1.0)
    state = make_problem(model, release).start(SweepKey(np.uint64(1), 0, 0), Workers(1))
    rates = model.rates(state, slice(0, shape[0]))
    for axis in range(len(shape)):
        others = tuple(a for a in range(len(shape)) if a != axis)
        logs = np.log(rates.sum(axis=others)), np.log(scales[axis])
        assert np.corrcoef(*logs)[0, 1] > 0.9
