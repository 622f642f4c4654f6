"""Scales of the places of an axis, and totals by the release and by the fit."""

import numpy as np
import pytest

import countveil as cv
from countveil.posterior import scales as scales_module
from goodness_of_fit import SEED

QUIETLY = {"progress": False, "seed": 1}


def zipf(n_rows=200, n_words=60, mean=60.0, seed=SEED):
    """Counts of rows that differ in length and words that follow Zipf's law: (counts, rates)."""
    rng = np.random.default_rng(seed)
    rates = np.outer(rng.gamma(1.5, size=n_rows), 1 / np.arange(1, n_words + 1))
    rates *= mean * n_rows / rates.sum()
    return rng.poisson(rates), rates


@pytest.fixture(scope="module")
def fitted():
    counts, rates = zipf()
    words = [f"w{v}" for v in range(counts.shape[1])]
    release = cv.simulate_release(counts, epsilon=1, seed=SEED, labels={"letter": None, "word": words})
    return cv.fit(cv.TopicModel(2, shape=1.0), release, sweeps=1000, **QUIETLY), rates


def test_planted_words_and_rows_are_found(fitted):
    posterior, rates = fitted
    for axis in (0, 1):
        truth = np.log(rates.sum(axis=1 - axis))
        found = np.log(posterior.scales(axis)["mean"].to_numpy())
        assert np.corrcoef(found, truth)[0, 1] > 0.85
        # Nine of ten intervals of a row's or a word's total rate hold what was planted, rare words included.
        draws = np.concatenate([block for _, block in posterior.iter_rate_draws()], axis=1).sum(axis=2 - axis)
        low, high = np.quantile(draws, (0.05, 0.95), axis=0)
        inside = (low <= np.exp(truth)) & (np.exp(truth) <= high)
        assert inside.mean() > 0.8
        assert inside[len(inside) // 2 :].mean() > 0.8


def test_axes_by_name_and_number_with_labels(fitted):
    posterior, _ = fitted
    scales = posterior.scales("word", interval=0.5)
    assert scales.equals(posterior.scales(1, interval=0.5))
    assert scales["word"].to_numpy().tolist()[:2] == ["w0", "w1"]
    assert scales.attrs["interval"] == 0.5
    wide = posterior.scales("word")
    assert (wide["high"] - wide["low"] > scales["high"] - scales["low"]).all()
    table = posterior.to_dataframe("scales", axis="word")
    assert list(table.columns) == ["word", "mean", "low", "high"]
    # Relative to a typical place: logarithms of every draw have mean 0.
    assert abs(np.log(scales["mean"]).mean()) < 0.2


@pytest.mark.parametrize("axis", ["words", 2, -1, None, True, 0.0])
def test_axes_that_are_not_there(fitted, axis):
    with pytest.raises(ValueError, match="axis: expected one of 'letter', 'word'"):
        fitted[0].scales(axis)


def test_no_scales_with_a_fixed_prior():
    posterior = cv.fit(cv.TopicModel(2, rate=1.0), [[3, 0], [1, 4]], sweeps=20, **QUIETLY)
    with pytest.raises(ValueError, match="scales: expected an axis whose scales were inferred, got 'row'"):
        posterior.scales()


def test_a_network_has_two_kinds():
    n = 25
    rng = np.random.default_rng(SEED)
    sends, receives = np.geomspace(0.2, 5, n), rng.permutation(np.geomspace(0.2, 5, n))
    counts = rng.poisson(4.0 * np.outer(sends, receives))
    np.fill_diagonal(counts, 0)
    posterior = cv.fit(cv.CommunityModel(1, shape=1.0, rate=None), counts, sweeps=600, **QUIETLY)
    for axis, truth in enumerate((sends, receives)):
        assert np.corrcoef(np.log(posterior.scales(axis)["mean"]), np.log(truth))[0, 1] > 0.8
    assert np.corrcoef(np.log(posterior.scales(0)["mean"]), np.log(receives))[0, 1] < 0.6


def test_totals_agree_where_the_model_is_right(fitted):
    posterior, rates = fitted
    totals = posterior.totals()
    assert totals.release == posterior.release.total()
    assert abs(totals.release - rates.sum()) < 5 * totals.release_sd
    assert totals.agree
    assert str(totals).endswith("by the fit.")


def test_totals_say_which_cells_they_leave_out():
    counts = np.random.default_rng(SEED).poisson(3.0, (12, 12))
    release = cv.simulate_release(counts, epsilon=2, seed=1)
    totals = cv.fit(cv.CommunityModel(1), release, sweeps=60, **QUIETLY).totals()
    assert totals.left_out == 12
    told = "Counts in all (without the 12 cells that the model leaves out, which release.total() has): "
    assert str(totals).startswith(told)
    diagonal = release.hide(~np.eye(12, dtype=bool)).total()
    assert totals.release + diagonal == pytest.approx(release.total())
    whole = cv.fit(cv.CommunityModel(1, self_loops=True), release, sweeps=60, **QUIETLY).totals()
    assert whole.release == release.total()
    assert str(whole).startswith("Counts in all: ")


def test_totals_tell_of_bursts():
    counts, _ = zipf(mean=12.0)
    bursts = 6 * counts
    posterior = cv.fit(
        cv.TopicModel(2), cv.simulate_release(bursts, epsilon="0.7", seed=2), sweeps=600, **QUIETLY
    )
    totals = posterior.totals()
    assert totals.fit < totals.release
    assert not totals.agree
    assert "too few: bursts" in str(totals)


def test_totals_tell_of_a_prior():
    counts = np.random.default_rng(SEED).poisson(0.02, (300, 300))
    release = cv.simulate_release(counts, epsilon="0.5", seed=2)
    with pytest.warns(UserWarning, match="prior: "):
        posterior = cv.fit(cv.TopicModel(10, shape=1.0, rate=1.0), release, sweeps=60, **QUIETLY)
    assert not posterior.totals().agree
    assert "too many" in str(posterior.totals())


def test_totals_of_a_part():
    counts = np.random.default_rng(SEED).poisson(3.0, (30, 30))
    hidden = np.nonzero(np.random.default_rng(1).random(counts.shape) < 0.4)
    release = cv.simulate_release(counts, epsilon=2, seed=3).hide(hidden)
    totals = cv.fit(cv.CommunityModel(1), release, sweeps=300, **QUIETLY).totals()
    observed = np.ones(counts.shape, bool)
    observed[hidden] = False
    np.fill_diagonal(observed, False)
    assert abs(totals.release - counts[observed].sum()) < 5 * totals.release_sd
    assert totals.agree


def test_plain_counts_have_no_release():
    assert cv.fit(cv.TopicModel(2), [[3, 0], [1, 4]], sweeps=20, **QUIETLY).totals() is None


def test_totals_are_those_of_observed_cells_however_the_missing_ones_differ():
    """The heaviest words are hidden in half of the rows: the others do not stand for them."""
    rng = np.random.default_rng(SEED)
    truth = rng.poisson(np.outer(np.ones(60), 40.0 / np.arange(1, 41)))
    hidden = np.zeros(truth.shape, dtype=bool)
    hidden[:30, :5] = True
    release = cv.simulate_release(truth, epsilon=2, seed=SEED).hide(hidden)
    found = cv.fit(cv.TopicModel(2), release, sweeps=400, seed=SEED, progress=False).totals()
    assert found.agree
    assert abs(found.fit - truth[~hidden].sum()) < 0.05 * truth[~hidden].sum()


def test_totals_need_draws_only_where_cells_are_missing():
    release = cv.simulate_release(zipf(30, 10)[0], epsilon=1, seed=1)
    for keep in ("columns", "summaries"):
        assert cv.fit(cv.TopicModel(2), release, sweeps=40, keep=keep, **QUIETLY).totals() is not None
        hidden = release.hide(([0], [0]))
        assert cv.fit(cv.TopicModel(2), hidden, sweeps=40, keep=keep, **QUIETLY).totals() is None


def test_many_missing_cells_are_looked_at_in_part(monkeypatch):
    """A sample of the cells, in some of the draws, says what all of them say, within its own error."""
    truth, _ = zipf()
    hidden = np.random.default_rng(SEED).random(truth.shape) < 0.3
    release = cv.simulate_release(truth, epsilon=2, seed=SEED).hide(hidden)
    posterior = cv.fit(cv.TopicModel(2), release, sweeps=400, **QUIETLY)
    whole = posterior.totals()
    monkeypatch.setattr(scales_module, "_MOST_LOOKED_AT", int(hidden.sum()) // 2)
    monkeypatch.setattr(scales_module, "_RATES_IN_ALL", 50 * (int(hidden.sum()) // 2))
    part = posterior.totals()
    assert part.fit != whole.fit
    assert part.fit == pytest.approx(whole.fit, rel=0.02)


@pytest.mark.parametrize("levels", ["one", "rows", "cells"])
@pytest.mark.parametrize("mean", [0.0, 0.4, 4.0])
def test_the_sd_of_a_releases_total(levels, mean):
    """Errors of cells are independent with mean 0: their squares add up to the variance. An sd 10 % off is caught."""
    shape = (20_000, 12)
    rho = {
        "one": np.array(0.7),
        "rows": np.resize([0.3, 1.0, 2.5, np.inf], (shape[0], 1)),  # every fourth row is plain
        "cells": np.resize([0.3, 1.0, 2.5, 0.7, 1.5], shape),
    }[levels]
    counts = np.random.default_rng(SEED).poisson(mean, shape)
    release = cv.simulate_release(counts, alpha=np.exp(-rho).squeeze(), seed=SEED)
    values = release.to_dense()
    errors = np.where(values > 0, values, -1 / np.expm1(rho)) - counts
    assert errors.sum() == pytest.approx(release.total() - counts.sum())
    of_total = scales_module._variance_of_total(release)
    within = 5 * np.std(errors**2) * np.sqrt(errors.size)
    assert abs(errors.sum()) < 5 * np.sqrt(of_total)
    assert abs((errors**2).sum() - of_total) < within
    assert min(abs((errors**2).sum() - of_total * factor**2) for factor in (0.9, 1.1)) > within
