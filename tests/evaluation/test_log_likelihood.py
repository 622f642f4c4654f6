"""The likelihood of the data, draw by draw, against brute force; and what is chosen by it."""

import warnings

import arviz_stats
import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

import countveil as cv
from countveil.distributions import release_given_rate
from countveil.evaluation import held_out_log_score, log_likelihood, log_score, loo, pit
from countveil.models.unknown_noise import UnknownNoise
from countveil.posterior import states
from goodness_of_fit import SEED

TRUTH = np.array([[9, 8, 0, 0], [0, 1, 7, 300], [8, 9, 1, 0], [0, 0, 9, 8], [7, 9, 0, 1]])
MASK = np.zeros(TRUTH.shape, dtype=bool)
MASK[0, 1] = MASK[3] = True


def rates_of(posterior):
    """(draws, rows, columns), as the posterior keeps them."""
    return np.stack([state.theta @ state.phi for state in posterior.states()])


def brute_force(posterior, values, rho):
    """log P of every cell in every draw: a release is clamped, so zero stands for x <= 0."""
    rates = rates_of(posterior)
    if rho is None:
        return stats.poisson.logpmf(values, rates)
    positive = release_given_rate.logpmf(np.maximum(values, 1), rates, rho)
    # All that is not positive, by the sum over positive values: no use of the formula for zero.
    t = np.arange(1, 2000)
    with np.errstate(divide="ignore"):
        flat = [
            np.log1p(-min(release_given_rate.pmf(t, r, p).sum(), 1.0))
            for r, p in zip(rates.ravel(), np.broadcast_to(rho, rates.shape).ravel(), strict=True)
        ]
    zero = np.reshape(flat, rates.shape)
    return np.where(values > 0, positive, zero)


RELEASES = {
    "one alpha": 0.4,
    "by row": np.array([0.2, 0.3, 0.4, 0.5, 0.6]),
    "by cell": np.linspace(0.1, 0.6, TRUTH.size).reshape(TRUTH.shape),
    "plain": None,
}


def small_posterior(alpha, mask=None):
    if alpha is None:
        data = np.ma.array(TRUTH, mask=mask)
    else:
        data = cv.simulate_release(TRUTH, alpha=alpha, seed=1)
        data = data if mask is None else data.hide(mask)
    return cv.fit(cv.TopicModel(2), data, sweeps=12, thin=2, seed=1, progress=False)


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize("mask", [None, MASK], ids=["complete", "missing"])
def test_rows_and_cells_against_brute_force(name, mask, monkeypatch):
    monkeypatch.setattr(states, "NUMBERS_PER_BLOCK", 8)  # two rows at a time
    alpha = RELEASES[name]
    posterior = small_posterior(alpha, mask)
    seen = np.ones(TRUTH.shape, bool) if mask is None else ~mask
    values = TRUTH if alpha is None else posterior.release.to_dense(missing=0)
    rho = None if alpha is None else np.broadcast_to(posterior.release.rho, TRUTH.shape)
    expected = brute_force(posterior, values, rho)
    variable = "counts" if alpha is None else "released"

    by_row = log_likelihood(posterior)["log_likelihood"][variable]
    assert by_row.dims == ("chain", "draw", "row")
    wanted = np.where(seen, expected, 0.0).sum(axis=2)
    np.testing.assert_allclose(by_row.to_numpy().reshape(wanted.shape), wanted, rtol=1e-6, atol=1e-6)

    for cells in (seen, np.nonzero(seen), sparse.csr_array(seen)):
        by_cell = log_likelihood(posterior, cells=cells)["log_likelihood"][variable]
        assert by_cell.dims == ("chain", "draw", "cell")
        wanted = expected[:, seen]
        np.testing.assert_allclose(by_cell.to_numpy().reshape(wanted.shape), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings(
    "ignore:.*average over chains that do not agree"
)  # one chain has a topic of one cell
def test_labels_and_monitored_scalars_come_along():
    labels = {"document": list("abcde"), "word": None}
    release = cv.simulate_release(TRUTH, epsilon=1, seed=1, labels=labels)
    posterior = cv.fit(cv.TopicModel(2), release, sweeps=400, thin=2, seed=1, progress=False)
    tree = log_likelihood(posterior)
    assert tree["log_likelihood"]["document"].to_numpy().tolist() == list("abcde")
    assert {"total_rate", "log_joint"} <= set(tree["posterior"].data_vars)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows are influential: Pareto k
        found = arviz_stats.loo(tree)
    assert found.n_data_points == 5
    assert np.isfinite(found.elpd)


def test_alpha_of_the_draw_is_used_where_it_was_inferred():
    release = cv.simulate_release(TRUTH, alpha=0.3, seed=1)
    posterior = cv.fit(UnknownNoise(cv.TopicModel(2)), release, sweeps=12, thin=2, seed=1, progress=False)
    rho = -np.log(posterior.tree["posterior"]["alpha"].to_numpy().reshape(-1, 1, 1))
    expected = brute_force(posterior, release.to_dense(), rho).sum(axis=2)
    found = log_likelihood(posterior)["log_likelihood"]["released"].to_numpy()
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-6)
    cells = log_likelihood(posterior, cells=np.ones(TRUTH.shape, bool))["log_likelihood"]["released"]
    np.testing.assert_allclose(cells.sum("cell").to_numpy().reshape(-1), expected.sum(axis=1), rtol=1e-6)


def test_a_robust_fit_has_the_likelihood_it_was_fitted_by():
    posterior = cv.fit(cv.TopicModel(2), TRUTH, robust=0.3, sweeps=12, thin=2, seed=1, progress=False)
    expected = brute_force(posterior, TRUTH, -np.log(0.3)).sum(axis=2)
    found = log_likelihood(posterior)["log_likelihood"]["counts"].to_numpy()
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-6)


def test_cells_are_answered_in_the_order_asked():
    """And as often: whoever asks puts the answer beside a list of cells."""
    counts = np.random.default_rng(SEED).poisson([[1.0, 1.0, 30.0]] * 30)
    posterior = cv.fit(cv.TopicModel(1), counts, sweeps=80, thin=2, seed=1, progress=False)
    asked = [0, 4, 0, 0], [2, 1, 0, 2]

    def of(*cells):
        return log_likelihood(posterior, cells=cells)["log_likelihood"]["counts"].to_numpy()

    alone = [np.concatenate([of([row], [column]) for row, column in zip(*asked, strict=True)], axis=-1)]
    assert np.array_equal(of(*asked), alone[0])
    each = [pit(posterior, cells=([row], [column]), seed=1)[0] for row, column in zip(*asked, strict=True)]
    assert pit(posterior, cells=asked, seed=1).tolist() == pytest.approx(each, rel=1e-12)
    with pytest.warns(UserWarning, match="Pareto k"):  # of so few draws
        once = loo(posterior, cells=asked)
    assert once.cells[["row", "column"]].to_numpy().tolist() == [[0, 0], [0, 2], [4, 1]]


def test_hidden_cells_are_scored_by_the_release_or_by_the_truth():
    release = cv.simulate_release(TRUTH, alpha=0.3, seed=1)
    posterior = cv.fit(cv.TopicModel(2), release.hide(MASK), sweeps=40, thin=2, seed=1, progress=False)
    each = brute_force(posterior, release.to_dense(), release.rho)[:, MASK]
    expected = np.log(np.exp(each).mean(axis=0)).mean()
    assert held_out_log_score(posterior, release) == pytest.approx(expected, rel=1e-6)
    assert held_out_log_score(posterior, release, cells=np.nonzero(MASK)) == pytest.approx(expected, rel=1e-6)
    expected = log_score(rates_of(posterior), TRUTH, cells=MASK)
    assert held_out_log_score(posterior, TRUTH) == pytest.approx(expected, rel=1e-6)


def test_a_count_that_was_declared_impossible():
    posterior = small_posterior(0.4, MASK)
    for name in ("theta", "phi"):
        posterior.tree["posterior"][name] = 0 * posterior.tree["posterior"][name]
    assert held_out_log_score(posterior, np.ones_like(TRUTH)) == -np.inf
    assert held_out_log_score(posterior, np.zeros_like(TRUTH)) == 0.0


def test_labels_must_be_those_that_were_fitted():
    named = cv.simulate_release(TRUTH, epsilon=1, seed=SEED, labels=(list("vwxyz"), list("abcd")))
    posterior = cv.fit(cv.TopicModel(2), named.hide(MASK), sweeps=20, thin=2, seed=1, progress=False)
    frame = pd.DataFrame(TRUTH, *named.labels)
    score = held_out_log_score(posterior, frame)
    for same in (TRUTH, pd.DataFrame(TRUTH), frame.reset_index(drop=True)):
        assert held_out_log_score(posterior, same) == score
    for other in (frame.iloc[::-1], frame.iloc[:, ::-1]):
        with pytest.raises(
            ValueError, match=r"data: expected the labels that were fitted along axis .* another order"
        ):
            held_out_log_score(posterior, other)
    with pytest.raises(
        ValueError, match="data: expected the labels that were fitted along axis 1, got 'x' in place"
    ):
        held_out_log_score(posterior, frame.rename(columns={"a": "x"}))


def test_what_cannot_be_scored_is_refused(tmp_path):
    posterior = small_posterior(0.4, MASK)
    with pytest.raises(ValueError, match="cells: expected cells that were observed, got 5 missing"):
        log_likelihood(posterior, cells=MASK)
    with pytest.raises(ValueError, match="by: expected 'row'"):
        log_likelihood(posterior, by="column")
    with pytest.raises(TypeError, match="posterior: expected a Posterior, got int"):
        log_likelihood(3)
    with pytest.raises(ValueError, match="cells: expected at least one cell, got none"):
        log_likelihood(posterior, cells=np.zeros(TRUTH.shape, bool))
    with pytest.raises(
        ValueError, match="cells: expected cells that were missing in the fit, got 15 that were not"
    ):
        held_out_log_score(posterior, TRUTH, cells=~MASK)
    with pytest.raises(ValueError, match=r"data: expected the shape that was fitted, \(5, 4\), got \(2, 4\)"):
        held_out_log_score(posterior, TRUTH[:2])
    with pytest.raises(
        ValueError, match="data: expected values of cells that were missing in the fit, got none"
    ):
        held_out_log_score(posterior, posterior.release)
    plain = small_posterior(None)
    plain.save(tmp_path / "plain.zarr")
    with pytest.raises(ValueError, match="plain counts are not saved"):
        log_likelihood(cv.load_posterior(tmp_path / "plain.zarr"))


def planted(n_rows, seed):
    """Three groups of rows, each with three words of its own out of nine."""
    rng = np.random.default_rng(seed)
    theme = np.repeat([0, 1, 2], n_rows // 3)
    return rng.poisson(0.1 + 4.0 * (np.arange(9) // 3 == theme[:, None]))


# Two topics for three groups of rows: chains differ in which groups they put together.
@pytest.mark.filterwarnings("ignore:.*average over chains that do not agree")
def test_the_planted_number_of_topics_wins_on_hidden_cells():
    release = cv.simulate_release(planted(60, SEED), epsilon=2, seed=SEED)
    hidden = np.random.default_rng(SEED).random(release.shape) < 0.1
    scores = {
        k: held_out_log_score(
            cv.fit(cv.TopicModel(k), release.hide(hidden), sweeps=400, seed=SEED, progress=False), release
        )
        for k in (1, 2, 3)
    }
    assert scores[3] > scores[2] > scores[1]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto:UserWarning")
@pytest.mark.filterwarnings("ignore:.*average over chains that do not agree")
def test_loo_prefers_the_planted_number_of_topics():
    release = cv.simulate_release(planted(60, SEED), epsilon=2, seed=SEED)
    cells = np.ones(release.shape, bool)
    found = {}
    for k in (1, 2, 3):
        posterior = cv.fit(cv.TopicModel(k), release, sweeps=4000, thin=4, seed=SEED, progress=False)
        found[k] = arviz_stats.loo(log_likelihood(posterior, cells=cells)).elpd
    assert found[3] > found[2] + 50 > found[1] + 100
