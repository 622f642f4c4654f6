"""Memberships of new rows: their law given the topics, and the public function."""

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats

import countveil as cv
from countveil.counts.plain_counts import read_plain_counts
from countveil.distributions import release_given_rate
from countveil.inference.engines.cpu.sampler import ViewSampler
from countveil.inference.new_rows import NewRows, RowPrior, _Rows, new_row_draws, sweep_new_rows
from countveil.inference.problem import make_problem
from countveil.models import TopicModel
from countveil.models.einsum.prior import PriorRates
from countveil.runtime.workers import Workers
from countveil.transforming import transform
from goodness_of_fit import FALSE_ALARM, SEED, fits, rejects
from joint_test import joint_pvalues

ROWS, COLUMNS, TOPICS = 3, 4, 2
MODEL = TopicModel(TOPICS, shape=1.0, rate=0.7)
PHI = np.array([[2.0, 0.2, 1.0, 0.0], [0.3, 3.0, 0.1, 1.5]])
MISSING = np.array([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]], dtype=bool)
IN_PLACE = Workers(1)


def draw_rows(rng, n_rows, rho, missing=None):
    """theta from its prior, and a release (rho) or plain counts (None) of rows with these topics."""
    theta = rng.gamma(MODEL.shape, 1 / MODEL.rate, (n_rows, TOPICS))
    y = rng.poisson(theta @ PHI)
    if rho is None:
        return theta, read_plain_counts(np.ma.array(y, mask=missing) if missing is not None else y)
    geometric = rng.geometric(-np.expm1(-rho), (2, *y.shape))
    return theta, cv.PrivateCounts(y + geometric[0] - geometric[1], rho=rho, mask=missing)


def sampler(theta, data, key, method="exact"):
    problem = make_problem(MODEL, data, method)
    algorithm = ViewSampler(problem.views[""], "auto", IN_PLACE)._matrix
    phi = np.ascontiguousarray(PHI.T)
    ready = algorithm.prepare(phi, IN_PLACE)
    prior, rows = PriorRates(MODEL.shape, np.full(1, MODEL.rate), np.ones(TOPICS)), _Rows(theta, 1)
    sweep_new_rows(prior, [algorithm], rows, [phi], [ready], [None], [key], IN_PLACE)
    return rows.theta


def membership_draws(model, data, topics, **settings):
    """theta for topics (chain, draw, topics, columns)."""
    view = NewRows(data, lambda chain, draw: topics[chain, draw])
    prior = RowPrior(model.shape, lambda chain, draw: np.full(model.n_topics, model.shape / model.rate))
    return new_row_draws(prior, [view], topics.shape[:2], **settings)[0]


def taking_noise_for_counts(theta, data, key):
    return sampler(theta, data, key, method="naive")


FUNCTIONS = {
    "theta": lambda theta, data: theta[0, 0],
    "other topic": lambda theta, data: theta[1, 1],
    "total": lambda theta, data: theta.sum(),
    "fit": lambda theta, data: (theta @ PHI)[2, 1] - data.positive.values.sum(),
}
CASES = {
    "release": (1.0, None),
    "little noise, missing cells": (3.0, MISSING),
    "much noise": (0.3, None),
    "plain, missing cells": (None, MISSING),
}


@pytest.mark.parametrize("name", CASES)
def test_joint_law(name):
    case = CASES[name]
    pvalues = joint_pvalues(
        lambda rng: draw_rows(rng, ROWS, *case), sampler, FUNCTIONS, replicates=150, sweeps=3, seed=SEED + 1
    )
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_joint_law_with_many_replicates(name):
    case = CASES[name]
    pvalues = joint_pvalues(
        lambda rng: draw_rows(rng, ROWS, *case),
        sampler,
        FUNCTIONS,
        replicates=20_000,
        sweeps=4,
        seed=SEED + 4,
    )
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
def test_the_joint_test_catches_noise_taken_for_counts():
    pvalues = joint_pvalues(
        lambda rng: draw_rows(rng, ROWS, 0.4),
        taking_noise_for_counts,
        FUNCTIONS,
        replicates=3000,
        sweeps=4,
        seed=SEED + 2,
    )
    assert min(pvalues.values()) < FALSE_ALARM / len(FUNCTIONS), pvalues


def rank_pvalue(rho, said_rho, n_rows, n_draws=19):
    """Simulation-based calibration over rows: the rank of the true theta among its draws is uniform."""
    theta, data = draw_rows(np.random.default_rng(SEED + 3), n_rows, rho)
    if said_rho != rho:
        data = cv.PrivateCounts(data.to_dense(), rho=said_rho)
    topics = np.broadcast_to(PHI.astype(np.float32), (1, n_draws, *PHI.shape))
    draws = membership_draws(MODEL, data, topics, sweeps=25, burn_in=100, seed=SEED, threads=1)[0]
    ranks = (draws[:, :, 0] < theta[:, 0]).sum(axis=0)
    return stats.chisquare(np.bincount(ranks, minlength=n_draws + 1)).pvalue


@pytest.mark.long
def test_intervals_are_calibrated():
    assert fits(rank_pvalue(1.0, 1.0, 3000))
    assert rejects(rank_pvalue(1.0, 2.0, 6000))


def test_agreement_with_quadrature():
    # One topic, one row: a single unknown number, the true counts summed out in closed form.
    phi, values, rho = np.array([[2.0, 0.5, 1.0]]), np.array([[6, -2, 1]]), 0.8
    grid = np.linspace(1e-4, 30, 30_000)
    log_f = stats.gamma.logpdf(grid, 1.3, scale=1 / 0.5)
    for x, p in zip(values[0], phi[0], strict=True):
        log_f = log_f + release_given_rate.logpmf(x, p * grid, rho)
    weights = np.exp(log_f - log_f.max())
    weights /= weights.sum()
    exact = (weights * grid).sum()
    model, topics = TopicModel(1, shape=1.3, rate=0.5), np.broadcast_to(phi, (2, 4000, 1, 3))
    draws = membership_draws(
        model, cv.PrivateCounts(values, rho=rho), topics, sweeps=3, burn_in=50, seed=SEED, threads=1
    )[..., 0, 0].astype(float)
    assert abs(draws.mean() - exact) < 5 * array_stats.mcse(draws)
    assert abs(1.1 * draws.mean() - exact) > 5 * array_stats.mcse(draws)
    assert abs((draws < exact).mean() - weights[grid < exact].sum()) < 0.05


WORDS = ["goal", "match", "vote", "law"]
COUNTS = np.array([[9, 8, 0, 0], [8, 9, 1, 0], [0, 0, 9, 8], [9, 7, 0, 0], [1, 0, 8, 9], [7, 9, 0, 1]])


@pytest.fixture(scope="module")
def posterior():
    release = cv.simulate_release(COUNTS, epsilon=2, seed=1, labels={"document": None, "word": WORDS})
    return cv.fit(cv.TopicModel(2), release, sweeps=300, seed=1, progress=False)


def test_new_rows_are_found_where_they_belong(posterior):
    new = cv.PrivateCounts(
        [[7, 9, -1, 0], [0, 1, 8, 8], [0, 0, 0, 0]],
        alpha=0.2,
        mask=[[False] * 4, [True, False, False, False], [True] * 4],
        labels={"letter": ["a", "b", "nothing seen"], "word": WORDS},
    )
    shares = transform(posterior, new, seed=1, progress=False)
    assert shares["mean"].dims == ("letter", "topic")
    assert shares["letter"].to_numpy().tolist() == ["a", "b", "nothing seen"]
    assert np.allclose(shares["mean"].sum("topic"), 1)
    sports = posterior.topics(1).top_words()[:, 0] < 2
    of_sports = shares["mean"].to_numpy() @ sports
    assert of_sports[0] > 0.9
    assert of_sports[1] < 0.1
    # Nothing observed: the prior, which knows nothing and says so.
    width = (shares["high"] - shares["low"]).to_numpy()
    assert width[2].min() > 0.8 > width[:2].max()


def test_rows_of_the_fit_come_out_as_in_the_fit(posterior):
    # Two ways to the same posterior, but for the topics, which the rows themselves have shaped.
    again = transform(posterior, posterior.release, seed=1, progress=False)
    assert np.abs(again["mean"].to_numpy() - posterior.memberships()["mean"].to_numpy()).max() < 0.1


def test_plain_counts_and_frames_will_do(posterior):
    import pandas as pd

    frame = pd.DataFrame([[0, 0, 5, 6]], index=["x"], columns=WORDS)
    a = transform(posterior, frame, seed=1, progress=False)
    b = transform(posterior, [[0, 0, 5, 6]], seed=1, progress=False, labels=(["x"], None))
    assert a["mean"].equals(b["mean"])


def test_draws_depend_on_the_seed_alone(posterior):
    new = cv.simulate_release(np.tile(COUNTS, (20, 1)), epsilon=1, seed=2)
    one, two, other = (
        transform(posterior, new, seed=seed, threads=threads, sweeps=3, burn_in=3, progress=False)["mean"]
        for seed, threads in ((1, 1), (1, 2), (2, 1))
    )
    assert one.equals(two)
    assert not one.equals(other)


RELEASE = cv.PrivateCounts([[1, 2, 0, 0]], alpha=0.3)
BAD = [
    ({"data": [[1, 2]]}, "data: expected the 4 columns that were fitted, got 2"),
    ({"data": np.ones((2, 2, 2), int)}, "data: expected a matrix, got 3 axes"),
    ({"data": [[1, 2, 3, 4]], "labels": (None, WORDS[::-1])}, "data: expected the columns in the order"),
    (
        {"data": [[1, 2, 3, 4]], "labels": (None, ["goal", "match", "vote", "lawn"])},
        r"got 'lawn' in place of 'law' \(column 3\)",
    ),
    ({"data": [[1, -2, 3, 4]]}, "say so: cv.PrivateCounts"),
    ({"data": RELEASE, "labels": (["a"], None)}, "labels: expected None for a release"),
    ({"data": RELEASE, "sweeps": 0}, "sweeps: expected a whole number"),
    ({"data": RELEASE, "burn_in": -1}, "burn_in: expected a whole number >= 0, got -1"),
    ({"data": RELEASE, "interval": 2}, "interval: expected a number between 0 and 1, got 2"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input(posterior, arguments, message):
    with pytest.raises(ValueError, match=message):
        transform(posterior, **{"progress": False, **arguments})


def test_only_topics_have_new_rows():
    with pytest.raises(TypeError, match="posterior: expected a Posterior, got str"):
        transform("run.zarr", RELEASE)
