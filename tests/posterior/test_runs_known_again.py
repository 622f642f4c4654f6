"""A posterior answers with the draws of the run that was fitted, wherever its folder goes and whatever takes its place."""

import shutil

import numpy as np
import pytest

import countveil as cv

OPTIONS = {"sweeps": 60, "thin": 3, "seed": 1, "progress": False}
REPLACED = r"path: expected the run that was fitted, got another one in .*run.zarr'"


def fitted(place, level, names, topics=2, **options):
    counts = np.full((3, 2), level)
    release = cv.simulate_release(counts, epsilon=2, seed=1, labels={"doc": names, "word": ["x", "y"]})
    return cv.fit(cv.TopicModel(topics), release, store=place, **{**OPTIONS, **options})


ANN, DAN = ["ann", "bob", "cy"], ["dan", "eve", "fay"]


def test_another_folder_to_work_in_is_no_other_run(tmp_path, monkeypatch):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    small = fitted("run.zarr", 2, ANN)
    monkeypatch.chdir(tmp_path / "other")
    fitted("run.zarr", 500, DAN)
    assert small.rates().coords["doc"].values.tolist() == ANN
    assert float(small.rates().max()) < 50
    assert cv.extend(small, sweeps=90, progress=False).rates().coords["doc"].values.tolist() == ANN
    assert cv.load_posterior("run.zarr").n_draws == 20  # nor was that one extended
    loaded = cv.load_posterior("run.zarr")
    monkeypatch.chdir(tmp_path)
    assert cv.extend(loaded, sweeps=90, progress=False).n_draws == 40


@pytest.mark.parametrize("keep", ["all", "summaries"])
@pytest.mark.parametrize("topics", [2, 3])
@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_a_run_that_was_replaced_is_not_taken_for_it(how, topics, keep, tmp_path):
    place = tmp_path / "run.zarr"
    small, loaded = fitted(place, 2, ANN, keep=keep), cv.load_posterior(place)
    shutil.rmtree(place) if how == "deleted" else place.rename(tmp_path / "old.zarr")
    fitted(place, 500, DAN, topics)
    for ask in (small.topics, small.summary, lambda: small.save(tmp_path / "new.zarr")):
        with pytest.raises(ValueError, match=REPLACED):
            ask()
    for one in (small, loaded):
        with pytest.raises(ValueError, match=REPLACED):
            cv.extend(one, sweeps=90, progress=False)
    assert loaded.topics().weights.sizes["topic"] == 2  # its draws are in memory
    assert not (tmp_path / "new.zarr").exists()


def test_the_same_run_grown_longer_is_known_again(tmp_path):
    small = fitted(tmp_path / "run.zarr", 2, ANN)
    longer = cv.extend(small, sweeps=120, progress=False)
    assert small.n_draws == 20
    assert np.array_equal(small.tree["posterior"]["phi"], longer.tree["posterior"]["phi"][:, :10])
    again = cv.extend(small, sweeps=150, progress=False)
    assert again.n_draws == longer.n_draws + 20


def test_the_same_draws_under_other_names_are_another_run(tmp_path):
    place = tmp_path / "run.zarr"
    ann, loaded = fitted(place, 2, ANN), cv.load_posterior(place)
    shutil.rmtree(place)
    bob = fitted(place, 2, ANN[::-1])
    assert np.array_equal(bob.tree["posterior"]["phi"], loaded.tree["posterior"]["phi"])  # by the same seed
    for one in (ann, loaded):
        with pytest.raises(ValueError, match=REPLACED):
            cv.extend(one, sweeps=90, progress=False)
    with pytest.raises(ValueError, match=REPLACED):
        ann.topics()
