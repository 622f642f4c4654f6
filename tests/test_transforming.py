"""Memberships of new rows: their law given the topics, and the public function."""

import numpy as np
import pandas as pd
import pytest
from arviz_stats.base import array_stats
from scipy import stats

import countveil as cv
from countveil.counts.sources.plain_counts import read_plain_counts
from countveil.distributions import release_given_rate
from countveil.inference.engines.cpu.sampler import ViewSampler
from countveil.inference.new_rows import NewRows, RowPrior, _Rows, new_row_draws, sweep_new_rows
from countveil.inference.problem import make_problem
from countveil.models import TopicModel
from countveil.models.einsum.prior import PriorRates
from countveil.runtime.workers import Workers
from countveil.transforming import memberships, transform
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
        lambda rng: draw_rows(rng, ROWS, *case), sampler, FUNCTIONS, replicates=100, sweeps=3, seed=SEED + 1
    )
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


#: The size at which noise taken for counts is caught.
FULL = {"replicates": 2000, "sweeps": 4}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_joint_law_with_many_replicates(name):
    case = CASES[name]
    pvalues = joint_pvalues(
        lambda rng: draw_rows(rng, ROWS, *case),
        sampler,
        FUNCTIONS,
        **FULL,
        seed=SEED + 4,
    )
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
def test_the_joint_test_catches_noise_taken_for_counts():
    pvalues = joint_pvalues(
        lambda rng: draw_rows(rng, ROWS, 0.4),
        taking_noise_for_counts,
        FUNCTIONS,
        **FULL,
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
    (
        {"data": [[1, 2, 3, 4]], "labels": (None, WORDS[::-1])},
        "data: .* columns that were fitted, got them in another order",
    ),
    (
        {"data": [[1, 2, 3, 4]], "labels": (None, ["goal", "match", "vote", "lawn"])},
        r"got 'lawn' in place of 'law' \(place 3\)",
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


@pytest.fixture(scope="module")
def fitted():
    """Topics of labelled words, and plain rows for new releases."""
    rng = np.random.default_rng(SEED)
    counts = rng.poisson(rng.gamma(0.3, 1, (80, 3)) @ rng.gamma(0.3, 5, (3, 12)))
    words = [f"w{v}" for v in range(12)]
    model = cv.TopicModel(3, groups=["a", "b"] * 20)
    return cv.fit(
        model, counts[:40], labels=(None, words), sweeps=20, thin=5, seed=1, progress=False
    ), counts[40:]


def new_release(counts, kind):
    rng, n = np.random.default_rng(SEED), len(counts)
    hidden = rng.random(counts.shape) < (0.8 if kind == "mostly missing" else 0.2)
    # The plain rows of the first one are together, so that some blocks have nothing else.
    options = {
        "by row, some plain": {"rho": np.repeat([0.4, np.inf, 3.0], [n - 20, 12, 8])},
        "much noise, missing cells": {"rho": 0.5, "mask": hidden},
        "mostly missing": {"rho": 1.5, "mask": hidden},
    }
    return cv.PrivateCounts(counts, labels=([f"r{d}" for d in range(n)], None), **options[kind])


@pytest.mark.parametrize("kind", ["by row, some plain", "much noise, missing cells", "mostly missing"])
def test_blocks_of_any_size_on_disk_give_the_same_table(fitted, kind, tmp_path):
    posterior, counts = fitted
    release, settings = new_release(counts, kind), {"sweeps": 2, "burn_in": 3, "seed": 4, "progress": False}
    settings["groups"] = ["a", None] * 20
    release.save(tmp_path / "new.parquet")
    whole = transform(posterior, release, **settings).to_dataframe().reset_index()
    for n in (1, 7, 40):
        table = tmp_path / f"shares{n}.parquet"
        cv.transform_to_file(posterior, tmp_path / "new.parquet", table, rows_at_once=n, **settings)
        found = pd.read_parquet(table)
        assert list(found) == ["row", "topic", "mean", "low", "high"]
        for column in found:
            assert (found[column].to_numpy() == whole[column].to_numpy()).all()
    assert len(list(tmp_path.iterdir())) == 4  # nothing else was left


def test_parts_by_several_jobs_are_the_table(fitted, tmp_path):
    posterior, counts = fitted
    release, settings = (
        new_release(counts, "much noise, missing cells"),
        {"sweeps": 2, "burn_in": 3, "progress": False},
    )
    release.save(tmp_path / "new.parquet")
    whole = transform(posterior, release, seed=4, **settings).to_dataframe().reset_index()
    for n in (1, 3, 41):  # one of 41 parts of 40 rows is empty
        folder = tmp_path / f"{n}"
        folder.mkdir()
        for i in range(1, n + 1):
            cv.transform_to_file(
                posterior,
                tmp_path / "new.parquet",
                folder / f"{i:02}.parquet",
                part=(i, n),
                seed=4,
                **settings,
            )
        found = pd.read_parquet(folder)
        for column in found:
            assert (found[column].to_numpy() == whole[column].to_numpy()).all()
    for part, seed, error, message in (
        ((0, 3), 1, ValueError, "part: expected"),
        ((4, 3), 1, ValueError, "part: expected"),
        (3, 1, TypeError, "part: expected two whole numbers"),
        ((1, 3), None, ValueError, "seed: expected a number beside part"),
    ):
        with pytest.raises(error, match=message):
            cv.transform_to_file(
                posterior, release, tmp_path / "no.parquet", part=part, seed=seed, **settings
            )


def test_a_table_is_complete_or_not_there(fitted, tmp_path, monkeypatch):
    posterior, counts = fitted
    release, table = new_release(counts, "mostly missing"), tmp_path / "shares.parquet"
    settings = {"sweeps": 1, "burn_in": 0, "seed": 4, "progress": False, "rows_at_once": 20}
    draws = memberships.new_row_draws

    def stopped_in_the_second(*given, first_row, **options):
        if first_row:
            raise KeyboardInterrupt
        return draws(*given, first_row=first_row, **options)

    monkeypatch.setattr(memberships, "new_row_draws", stopped_in_the_second)
    with pytest.raises(KeyboardInterrupt):
        cv.transform_to_file(posterior, release, table, **settings)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    cv.transform_to_file(posterior, release, table, **settings)
    with pytest.raises(FileExistsError, match="path: expected a new name"):
        cv.transform_to_file(posterior, release, table, **settings)
    cv.transform_to_file(posterior, release, table, overwrite=True, **settings)
    assert len(pd.read_parquet(table)) == 40 * 3
    release.save(tmp_path / "new.parquet")
    for path, error, message in (
        (tmp_path / "new.parquet", FileExistsError, "expected a table of shares to replace"),
        (tmp_path / "none" / "x.parquet", FileNotFoundError, "path: expected a name in an existing folder"),
        (tmp_path / "x.csv", ValueError, "the table is Parquet"),
    ):
        with pytest.raises(error, match=message):
            cv.transform_to_file(posterior, release, path, overwrite=True, **settings)
    with pytest.raises(ValueError, match="rows_at_once: expected a whole number >= 1, got 0"):
        cv.transform_to_file(posterior, release, tmp_path / "y.parquet", **{**settings, "rows_at_once": 0})
