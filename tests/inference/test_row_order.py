"""Sums over rows, and what is chosen by them, do not depend on the order of rows: to the last bit."""

import numpy as np
import pytest

import countveil as cv
from countveil.inference.engines.cpu import choose
from countveil.inference.engines.cpu.choose import choose_algorithm, make_plan
from countveil.inference.problem import make_problem
from countveil.kernels.exact_sum import exact_sums
from countveil.models import TopicModel
from countveil.models.count_model import mean_rate
from countveil.models.einsum import model, prior
from countveil.models.einsum.exposure import Exposure, exposure_of, ordered_sum
from goodness_of_fit import SEED
from inference.kinds import DATA, counts_of
from inference.one_chain import ALL_SPLITS, IN_PLACE, Splits
from inference.plain_sums import plain_sums, plain_sums_of_columns

ORDER = np.random.default_rng(SEED + 9).permutation(300)
FACTOR = np.random.default_rng(SEED + 8).gamma(0.2, size=(300, 5)) * 10.0 ** np.linspace(-3, 3, 300)[:, None]


def test_exact_sums_do_not_depend_on_the_order_of_rows():
    wanted = exact_sums(FACTOR, IN_PLACE)
    assert np.allclose(wanted, FACTOR.sum(axis=0), rtol=1e-15)
    assert np.array_equal(wanted, exact_sums(FACTOR[ORDER], Splits(7, -1)))
    assert not np.array_equal(ordered_sum(FACTOR), ordered_sum(FACTOR[ORDER])), "plain sums do"


def places(cells):
    """Row by row: where rows start, and columns."""
    return np.concatenate([[0], np.cumsum(cells.sum(axis=1))]), np.nonzero(cells)[1].astype(np.int32)


@pytest.mark.parametrize("integrated", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])
def test_exposure_of_columns_does_not_depend_on_the_order_of_rows(share, integrated):
    rng = np.random.default_rng(SEED)
    missing = rng.random((300, 20)) < share
    alpha = rng.uniform(0.1, 0.9, 300)
    alpha[::5] = 0.0  # plain rows
    kept = ~missing & (rng.random(missing.shape) < 0.3)

    def found(order, workers=IN_PLACE, shuffle=False):
        one = exposure_of(*places(missing[order]), 20)
        assert one.lists_observed == (share > 0.5)
        if integrated:
            rows, columns = np.nonzero(kept[order])
            listed = rng.permutation(len(rows)) if shuffle else slice(None)
            one = one._replace(
                alpha=alpha[order],
                kept_rows=rows[listed].astype(np.int32),
                kept_columns=columns[listed].astype(np.int32),
            )
        return one, one.of_columns(FACTOR[order], 20, workers)

    order = np.arange(300)
    one, wanted = found(order)
    cells = np.where(missing, 0.0, (1 - alpha)[:, None] + alpha[:, None] * kept if integrated else 1.0)
    assert np.allclose(np.broadcast_to(wanted, (20, 5)), cells.T @ FACTOR, rtol=1e-13)
    for workers in (IN_PLACE, *ALL_SPLITS):
        assert np.array_equal(wanted, found(ORDER, workers, shuffle=True)[1])
    plain = plain_sums_of_columns(one, FACTOR, 20, IN_PLACE)
    turned = plain_sums_of_columns(found(ORDER)[0], FACTOR[ORDER], 20, IN_PLACE)
    assert not np.array_equal(plain, turned), "plain sums do"


def in_order(data, counts, order):
    """A release of these rows in another order: the same values, noise and mask."""
    given = DATA[data](counts)
    if not isinstance(given, cv.PrivateCounts):
        return given[order]
    alpha = given.alpha[order] if given.rho.ndim else given.alpha
    hidden = np.zeros(given.shape, dtype=bool)
    if given.missing is not None:
        hidden[
            np.repeat(np.arange(given.shape[0]), np.diff(given.missing.row_starts)), given.missing.columns
        ] = True
    values = given.to_dense(missing=0)
    return cv.PrivateCounts(values[order], alpha=alpha, mask=hidden[order])


@pytest.mark.parametrize("data", [name for name in DATA if name != "combined"])
def test_choices_do_not_depend_on_the_order_of_rows(data, monkeypatch):
    counts = counts_of((200, 12))
    orders = [np.arange(200), ORDER[ORDER < 200], np.arange(200)[::-1]]
    releases = [in_order(data, counts, order) for order in orders]
    found = [make_problem(TopicModel(3), release).views[""] for release in releases]
    chosen = {choose_algorithm(view.observed, view.data.shape, 3, True, False) for view in found}
    assert len(chosen) == 1
    for integrated in (False, True):
        plans = [make_plan(view.observed, 3, integrated, IN_PLACE) for view in found]
        for plan, cells in plans[1:]:
            assert all(np.array_equal(one, two) for one, two in zip(plans[0][0], plan, strict=True))
            assert np.array_equal(np.sort(plans[0][1].columns), np.sort(cells.columns))
    # What the plan is made of, to the last bit.
    noisy = [~np.isinf(view.observed.row_rho) for view in found]
    if not noisy[0].any():
        return

    def sums():
        below = [
            choose._noise_below(view.observed, n, IN_PLACE) for view, n in zip(found, noisy, strict=True)
        ]
        means = [
            choose._mean(np.exp(view.observed.highest_rho[n]), IN_PLACE)
            for view, n in zip(found, noisy, strict=True)
        ]
        return [np.append(one, two) for one, two in zip(below, means, strict=True)]

    wanted, *others = sums()
    assert all(np.array_equal(wanted, other) for other in others)
    monkeypatch.setattr(choose, "exact_sums", plain_sums)
    monkeypatch.setattr(Exposure, "of_columns", plain_sums_of_columns)
    wanted, *others = sums()
    if data in ("per row", "per cell", "missing"):
        assert not all(np.array_equal(wanted, other) for other in others), "plain sums do"


@pytest.mark.parametrize("data", [name for name in DATA if name != "combined"])
def test_the_scale_of_the_start_does_not_depend_on_the_order_of_rows(data, monkeypatch):
    counts = counts_of((200, 12))
    orders = [np.arange(200), ORDER[ORDER < 200], np.arange(200)[::-1]]
    wanted = {
        mean_rate(make_problem(TopicModel(3), in_order(data, counts, o)).views[""].data) for o in orders
    }
    assert len(wanted) == 1
    one = TopicModel(5)
    held = [{"theta": FACTOR[:200][order], "phi": np.ones((1, 5))} for order in orders]  # by axis

    def totals():
        return {one._total(factors, IN_PLACE) for factors in held}

    def starts():
        return [prior.start_means(one._inferred, factors, IN_PLACE) for factors in held]

    assert len(totals()) == 1
    wanted, *others = starts()
    for order, other in zip(orders[1:], others, strict=True):
        assert wanted.keys() == other.keys() > {"theta_scale", "theta_mean", "phi_level"}
        scales_of_rows = wanted["theta_scale"][order]
        expected = {**wanted, "theta_scale": scales_of_rows}
        assert all(np.array_equal(expected[name], other[name]) for name in other)
    monkeypatch.setattr(model, "exact_sums", plain_sums)
    assert len(totals()) > 1, "plain sums do"
    monkeypatch.setattr(prior, "exact_sums", plain_sums)
    assert len({float(found["theta_mean"][0]) for found in starts()}) > 1, "plain sums do"
