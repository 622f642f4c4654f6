"""Plain counts fitted as if they had been released."""

import numpy as np
import pytest

import countveil as cv
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
