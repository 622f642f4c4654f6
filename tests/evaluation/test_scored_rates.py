"""Scores of predicted rates: against plain formulas, and whatever form rates and counts come in."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import logsumexp

from countveil.evaluation import log_score, mean_absolute_error

ROWS, COLUMNS, DRAWS = 7, 5, 4


@pytest.fixture
def problem():
    rng = np.random.default_rng(11)
    rates = rng.gamma(0.5, 2.0, size=(DRAWS, ROWS, COLUMNS))
    counts = rng.poisson(rates[0])
    cells = rng.random(counts.shape) < 0.4
    assert cells.any()
    assert (counts == 0).any()
    return rates, counts, cells


def in_blocks(array, axis, edges=(0, 3, 4, ROWS)):
    slices = [slice(a, b) for a, b in pairwise(edges)]
    return [(rows, array[(slice(None),) * axis + (rows,)]) for rows in reversed(slices)]


def plain_log_score(rates, counts, cells):
    per_draw = stats.poisson.logpmf(counts, rates)
    return (logsumexp(per_draw, axis=0) - np.log(len(rates)))[cells].mean()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("counts_form", [np.asarray, sparse.csr_array, sparse.coo_matrix, np.ndarray.tolist])
@pytest.mark.parametrize("rates_form", ["array", "float32", "list of blocks", "generator"])
def test_every_form_gives_the_plain_formula(problem, rates_form, counts_form, masked):
    draws, counts, cells = problem
    if rates_form == "float32":
        draws = draws.astype(np.float32)
    chosen = cells if masked else np.ones_like(cells)
    for score, rates, axis, plain in (
        (mean_absolute_error, draws[0], 0, lambda: np.abs(draws[0] - counts)[chosen].mean()),
        (log_score, draws, 1, lambda: plain_log_score(draws, counts, chosen)),
    ):
        given = {"list of blocks": in_blocks(rates, axis), "generator": iter(in_blocks(rates, axis))}
        found = score(given.get(rates_form, rates), counts_form(counts), cells=cells if masked else None)
        assert isinstance(found, float)
        assert found == pytest.approx(plain(), rel=1e-6 if rates_form == "float32" else 1e-12)


def test_a_large_array_is_cut_into_blocks_and_nothing_changes(problem, monkeypatch):
    draws, counts, cells = problem
    before = mean_absolute_error(draws[0], counts), log_score(draws, counts, cells=cells)
    monkeypatch.setattr("countveil.evaluation.rates.CELLS_PER_BLOCK", 1)
    after = mean_absolute_error(draws[0], counts), log_score(draws, counts, cells=cells)
    assert after == pytest.approx(before, rel=1e-13)


def test_a_sparse_mask_is_a_mask(problem):
    draws, counts, cells = problem
    assert log_score(draws, counts, cells=sparse.coo_array(cells)) == log_score(draws, counts, cells=cells)


def test_tensors_have_rows_too():
    rng = np.random.default_rng(3)
    rates = rng.gamma(1.0, size=(2, 3, 4, 5))
    counts = rng.poisson(1.0, size=(3, 4, 5))
    everything = np.ones(counts.shape, dtype=bool)
    assert mean_absolute_error(rates[0], counts) == pytest.approx(np.abs(rates[0] - counts).mean())
    assert log_score(rates, counts) == pytest.approx(plain_log_score(rates, counts, everything))


def test_anything_that_turns_into_an_array_is_an_array(problem):
    draws, counts, _ = problem

    class Labelled:
        def __array__(self, dtype=None, copy=None):
            return draws[0]

    assert mean_absolute_error(Labelled(), counts) == mean_absolute_error(draws[0], counts)


def test_silence_wins_by_absolute_error_and_loses_by_log_score():
    # The reason why the two stand side by side, on counts whose true rates are known.
    rng = np.random.default_rng(5)
    truth = rng.gamma(2.0, 0.05, size=(200, 100))
    counts = rng.poisson(truth)
    silence = np.full(truth.shape, 1e-3)
    assert mean_absolute_error(silence, counts) < mean_absolute_error(truth, counts)
    assert log_score(silence[None], counts) < log_score(truth[None], counts)


def test_by_hand():
    draws = np.array([[[1.0]], [[3.0]]])
    assert log_score(draws, [[2]]) == pytest.approx(np.log((np.exp(-1) / 2 + 9 * np.exp(-3) / 2) / 2))
    assert mean_absolute_error(np.array([1.5, 0.0]), [1, 0]) == 0.25


def test_extremes_of_the_log_score():
    assert log_score(np.zeros((3, 1, 2)), [[0, 0]]) == 0
    assert log_score(np.zeros((3, 1, 2)), [[0, 1]]) == -np.inf
    # One draw that thinks a count possible is enough.
    one = np.array([[[0.0]], [[2.0]]])
    assert log_score(one, [[2]]) == pytest.approx(stats.poisson.logpmf(2, 2.0) - np.log(2))
    # exp() of each of these underflows.
    assert log_score(np.full((2, 1, 1), 1e5), [[0]]) == pytest.approx(-1e5)
    assert log_score(np.full((2, 1, 1), 1e-300), [[7]]) == pytest.approx(stats.poisson.logpmf(7, 1e-300))
    assert log_score(np.full((2, 1, 1), 1e6), [[1_000_100]]) == pytest.approx(
        stats.poisson.logpmf(1_000_100, 1e6), rel=1e-8
    )


def test_the_arguments_are_left_as_they_were(problem):
    draws, counts, cells = problem
    kept = draws.copy(), counts.copy(), cells.copy()
    log_score(draws, counts, cells=cells)
    mean_absolute_error(draws[0], counts, cells=cells)
    for now, then in zip((draws, counts, cells), kept, strict=True):
        assert (now == then).all()


GOOD = np.ones((2, 3))


@pytest.mark.parametrize(
    ("rates", "counts", "cells", "message"),
    [
        (np.ones((3, 2)), np.ones((2, 3)), None, r"rates: expected shape \(2, 3\), got \(3, 2\)"),
        (-GOOD, np.ones((2, 3)), None, "rates: expected finite rates of at least 0, got negative"),
        (GOOD * np.nan, np.ones((2, 3)), None, "rates: expected finite rates"),
        (GOOD * np.inf, np.ones((2, 3)), None, "rates: expected finite rates"),
        (GOOD.astype(complex), np.ones((2, 3)), None, "rates: expected numbers, got complex128"),
        (3.0, np.ones((2, 3)), None, "rates: expected an array or .* pairs, got float"),
        (
            sparse.csr_array(GOOD),
            np.ones((2, 3)),
            None,
            "rates: expected an array or .* pairs, got csr_array",
        ),
        ([[1, 1, 1], [1, 1, 1]], np.ones((2, 3)), None, "rates: expected .* pairs, got list"),
        ([(slice(0, 1), GOOD[:1])], np.ones((2, 3)), None, "rates: expected all 2 rows, got 1"),
        ([(slice(0, 2), GOOD)] * 2, np.ones((2, 3)), None, "rates: expected every row once, got rows of"),
        (
            [(slice(0, 3), np.ones((3, 3)))],
            np.ones((2, 3)),
            None,
            "rates: expected slices of consecutive rows",
        ),
        ([(slice(0, 2, 2), GOOD)], np.ones((2, 3)), None, "rates: expected slices of consecutive rows"),
        ([(slice(0, 2), GOOD[:1])], np.ones((2, 3)), None, r"rates: expected shape \(2, 3\), got \(1, 3\)"),
        (GOOD, -np.ones((2, 3)), None, "counts: expected whole numbers of at least 0, got negative values"),
        (GOOD, np.ones((2, 3)) / 2, None, "counts: expected whole numbers of at least 0, got fractional"),
        (GOOD, np.ones((0, 3)), None, "counts: expected at least one cell"),
        (GOOD, np.ma.MaskedArray(np.ones((2, 3))), None, "counts: expected .* without a mask.* `cells`"),
        (GOOD, np.ones((2, 3)), np.ones((2, 3)), "cells: expected booleans, got float64"),
        (GOOD, np.ones((2, 3)), np.ones((3, 2), bool), r"cells: expected the shape of counts, \(2, 3\), got"),
        (GOOD, np.ones((2, 3)), np.zeros((2, 3), bool), "cells: expected at least one chosen cell, got none"),
    ],
)
def test_faults_are_named(rates, counts, cells, message):
    with pytest.raises((TypeError, ValueError), match=message):
        mean_absolute_error(rates, counts, cells=cells)


def test_draws_need_an_axis_of_their_own_and_at_least_one():
    with pytest.raises(ValueError, match=r"rate_draws: expected shape \(draws, 2, 3\), got \(2, 3\)"):
        log_score(GOOD, np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"rate_draws: expected shape \(draws, 2, 3\), got \(0, 2, 3\)"):
        log_score(np.ones((0, 2, 3)), np.ones((2, 3)))
