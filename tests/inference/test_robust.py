"""Plain counts fitted as if they had been released."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import countveil as cv
from countveil.evaluation import held_out_log_score, log_likelihood
from goodness_of_fit import SEED

COUNTS = np.array([[9, 8, 0, 0], [0, 1, 7, 9], [8, 9, 1, 0], [0, 0, 9, 8]])
SETTINGS = {"sweeps": 60, "seed": SEED, "progress": False}


def test_it_is_the_fit_of_a_release_with_that_alpha():
    robust = cv.fit(cv.TopicModel(2), COUNTS, robust=0.3, **SETTINGS)
    released = cv.fit(cv.TopicModel(2), cv.PrivateCounts(COUNTS, alpha=0.3), **SETTINGS)
    for name in ("theta", "phi"):
        assert np.array_equal(robust.tree["posterior"][name], released.tree["posterior"][name])
    assert robust.tree["posterior"].attrs["robust"] == 0.3


def test_missing_cells_stay_missing():
    mask = COUNTS == 7
    robust = cv.fit(cv.TopicModel(2), np.ma.array(COUNTS, mask=mask), robust=0.3, **SETTINGS)
    released = cv.fit(cv.TopicModel(2), cv.PrivateCounts(COUNTS, alpha=0.3, mask=mask), **SETTINGS)
    assert np.array_equal(robust.tree["posterior"]["phi"], released.tree["posterior"]["phi"])


def test_the_counts_are_never_saved(tmp_path):
    robust = cv.fit(cv.TopicModel(2), COUNTS, robust=0.3, **SETTINGS)
    assert robust.release is None
    robust.save(tmp_path / "run.zarr")
    again = cv.load_posterior(tmp_path / "run.zarr")
    assert again.release is None
    assert again.tree["posterior"].attrs["robust"] == 0.3


@pytest.mark.parametrize("model", [cv.TopicModel(2), cv.CommunityModel(2, directed=False)], ids=repr)
def test_every_answer_takes_the_counts_for_noisy_ones(model):
    # The fit says x = max(y + tau, 0): as of a release, y is unknown and x has that law.
    mask = COUNTS == 8
    hidden = np.ma.array(COUNTS, mask=mask)
    robust = cv.fit(model, hidden, robust=0.3, **SETTINGS)
    released = cv.fit(model, cv.PrivateCounts(COUNTS, alpha=0.3, mask=mask), **SETTINGS)
    xr.testing.assert_identical(robust.true_counts(), released.true_counts())
    assert (robust.true_counts()["high"] > robust.true_counts()["low"]).any()
    likely = [log_likelihood(one)["log_likelihood"] for one in (robust, released)]
    assert np.array_equal(likely[0]["counts"], likely[1]["released"])
    cells = ([0, 1], [2, 3])
    likely = [log_likelihood(one, cells=cells)["log_likelihood"] for one in (robust, released)]
    assert np.array_equal(likely[0]["counts"], likely[1]["released"])
    # Hidden counts are noisy as well; a release has the noise it says.
    before = cv.PrivateCounts(COUNTS, alpha=0.3)
    assert held_out_log_score(robust, COUNTS) == held_out_log_score(released, before)
    assert held_out_log_score(robust, before) == held_out_log_score(released, before)
    assert held_out_log_score(released, COUNTS) != held_out_log_score(released, before)


@pytest.mark.long
def test_the_counts_behind_them_have_their_exact_law():
    # One fixed rate for all cells: P(y | x) is Poisson(y; rate) times the clamped noise, summed by hand.
    fixed = {"theta": np.ones((4, 1)), "phi": np.full((1, 4), 2.0)}
    model = cv.Factorization("dk,kv->dv", names=["theta", "phi"], fixed=fixed, k=1)
    settings = {**SETTINGS, "sweeps": 20_000, "thin": 5, "chains": 1}
    found = cv.fit(model, COUNTS, robust=0.3, **settings).true_counts()["mean"].to_numpy()
    y = np.arange(60)
    for x in np.unique(COUNTS):
        weights = stats.poisson.pmf(y, 2.0) * 0.3 ** np.abs(x - y)  # also for x = 0: P(tau <= -y) ~ alpha**y
        weights /= weights.sum()
        mean = weights @ y
        se = np.sqrt((weights @ (y - mean) ** 2) / 2000)
        assert np.abs(found[x == COUNTS] - mean).max() < 5.5 * se
        assert abs(x - mean) > 5.5 * se  # the plain counts themselves are something else


def test_one_odd_count_weighs_less():
    rng = np.random.default_rng(SEED)
    counts = rng.poisson(1.0, (40, 10))
    counts[0, 0] = 40
    settings = {"sweeps": 1500, "seed": SEED, "progress": False}
    plain, robust = (
        cv.fit(cv.TopicModel(1, shape=1.0), counts, robust=alpha, **settings)
        .rates(rows=[0], columns=[0])
        .item()
        for alpha in (None, 0.4)
    )
    assert robust < 0.6 * plain


@pytest.mark.parametrize("alpha", [0, 1, -0.2, 1.5, "much", True, float("nan")])
def test_what_is_no_alpha_is_refused(alpha):
    with pytest.raises(ValueError, match="robust: expected a number strictly between 0 and 1, got"):
        cv.fit(cv.TopicModel(2), COUNTS, robust=alpha, **SETTINGS)


def test_a_release_has_noise_of_its_own():
    with pytest.raises(ValueError, match="robust: expected None for a release, which has noise of its own"):
        cv.fit(cv.TopicModel(2), cv.PrivateCounts(COUNTS, alpha=0.3), robust=0.3, **SETTINGS)
