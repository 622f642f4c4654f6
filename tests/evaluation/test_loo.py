"""Leave-one-out scores: ArviZ's, of the cells that are modelled; by a sample with honest errors; and what they choose."""

import warnings
from dataclasses import replace

import arviz_stats
import numpy as np
import pandas as pd
import pytest

import countveil as cv
from countveil.evaluation import compare, log_likelihood, loo
from countveil.evaluation.chosen_cells import choose_cells
from countveil.evaluation.psis import smoothed_weights
from countveil.posterior import states
from goodness_of_fit import SEED

TRUTH = np.random.default_rng(SEED).poisson(0.2 + 4.0 * (np.arange(12) // 6 == (np.arange(10) % 2)[:, None]))
MASK = np.random.default_rng(SEED + 1).random(TRUTH.shape) < 0.2


@pytest.fixture(scope="module")
def release():
    return cv.simulate_release(TRUTH, epsilon=2, seed=SEED)


@pytest.fixture(scope="module")
def fit(release):
    def fit(n_topics, data=release, **options):
        settings = {"sweeps": 700, "burn_in": 300, "thin": 4, "seed": SEED, "progress": False, **options}
        return cv.fit(cv.TopicModel(n_topics), data, **settings)

    return fit


@pytest.fixture(scope="module")
def two(fit):
    return fit(2)


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about Pareto k, of so few draws
        return function(*arguments, **options)


def test_it_is_the_score_of_arviz(two, monkeypatch):
    theirs = quietly(arviz_stats.loo, log_likelihood(two, cells=np.ones(TRUTH.shape, bool)), pointwise=True)
    monkeypatch.setattr(states, "NUMBERS_PER_BLOCK", 4 * two.n_draws * 7)  # seven cells at a time
    ours = quietly(loo, two)
    np.testing.assert_allclose(
        [ours.elpd, ours.p, ours.good_k], [theirs.elpd, theirs.p, theirs.good_k], rtol=1e-9
    )
    # ArviZ 0.x has the variance with n in place of n - 1.
    assert ours.se in (pytest.approx(theirs.se), pytest.approx(theirs.se * np.sqrt(120 / 119)))
    np.testing.assert_allclose(ours.cells["pareto_k"], theirs.pareto_k.to_numpy().ravel(), atol=1e-6)
    np.testing.assert_allclose(ours.cells["elpd"], theirs.elpd_i.to_numpy().ravel(), rtol=1e-9)
    assert ours.subsampling_se == 0
    assert repr(ours).startswith(f"elpd_loo {ours.elpd:.1f} +- {ours.se:.1f}, p_loo ")


def test_arviz_does_not_take_what_is_watched_for_it(two):
    with pytest.raises((TypeError, KeyError, ValueError)):
        arviz_stats.loo(two.tree)


def test_cells_are_those_modelled(fit, release):
    hidden = fit(2, release.hide(MASK))
    found = quietly(loo, hidden)
    assert found.n_cells == (~MASK).sum()
    assert not MASK[found.cells["row"], found.cells["column"]].any()
    network = cv.simulate_release(TRUTH[:, :10], epsilon=2, seed=SEED).hide(([0, 3], [1, 2]))
    for directed, cells in ((True, 88), (False, 44)):
        model = cv.CommunityModel(2, directed=directed)
        posterior = cv.fit(model, network, sweeps=100, thin=2, seed=SEED, progress=False)
        found = quietly(loo, posterior)
        assert found.n_cells == len(found.cells) == cells
        assert (found.cells["row"] < found.cells["column"]).all() or directed
        assert (found.cells["row"] != found.cells["column"]).all()
    some = quietly(loo, hidden, cells=([1, 2], [3, 3])) if not MASK[[1, 2], [3, 3]].any() else None
    assert some is None or some.n_cells == 2
    with pytest.raises(
        ValueError, match=r"^cells: expected cells that were observed and are modelled, got 1 "
    ):
        loo(posterior, cells=([5], [5]))


@pytest.mark.parametrize("by_sign", [True, False])
def test_every_cell_is_as_likely_as_others_of_its_kind(fit, release, by_sign):
    hidden = fit(1, release.hide(MASK), sweeps=20, burn_in=0)
    data = hidden._observed(hidden._data)
    positive = np.where(MASK, False, release.to_dense() > 0)
    times = np.zeros(TRUTH.shape)
    for seed in range(2000):
        chosen = choose_cells(hidden, data, None, 20, seed, by_sign=by_sign)
        assert len(set(zip(chosen.rows.tolist(), chosen.columns.tolist(), strict=True))) == 20
        assert chosen.stands_for.sum() == pytest.approx((~MASK).sum())
        times[chosen.rows, chosen.columns] += 1
    assert not times[MASK].any()
    for kind in (positive, ~positive & ~MASK) if by_sign else (~MASK,):
        n = 10 if by_sign else 20
        share = n / kind.sum()
        spread = np.sqrt(2000 * share * (1 - share))
        assert np.abs(times[kind] - 2000 * share).max() < 5.5 * spread


def test_a_sample_has_an_honest_error(two):
    whole = quietly(loo, two)
    samples = [quietly(loo, two, sample=40, seed=seed) for seed in range(60)]
    away = np.array([(one.elpd - whole.elpd) / one.subsampling_se for one in samples])
    assert abs(away.mean()) < 0.5
    assert 0.7 < away.std() < 1.4
    assert np.mean([one.se for one in samples]) == pytest.approx(whole.se, rel=0.1)
    assert np.mean([one.p for one in samples]) == pytest.approx(whole.p, rel=0.15)
    assert "by a sample of 40" in repr(samples[0])
    # Errors of the choice are smaller than without strata.
    simple = np.sqrt(120**2 * (1 - 40 / 120) * whole.cells["elpd"].var() / 40)
    assert np.mean([one.subsampling_se for one in samples]) < simple


def test_models_are_compared_cell_by_cell(two, fit, release):
    one = fit(1)
    table = quietly(compare, {"two": two, "one": one})
    assert table.index.tolist() == ["two", "one"]
    scores = {name: quietly(loo, posterior) for name, posterior in (("two", two), ("one", one))}
    difference = scores["two"].cells["elpd"] - scores["one"].cells["elpd"]
    assert table.loc["one", "elpd_diff"] == pytest.approx(difference.sum())
    assert table.loc["one", "dse"] == pytest.approx(np.sqrt(len(difference) * difference.var(ddof=1)))
    assert table.loc["two", "elpd_diff"] == table.loc["two", "dse"] == 0
    assert table.loc["one", "elpd_diff"] > 4 * table.loc["one", "dse"]
    part = quietly(compare, {"two": two, "one": one}, sample=60)
    assert abs(part.loc["one", "elpd_diff"] - table.loc["one", "elpd_diff"]) < 4 * part.loc["one", "dse"]
    with pytest.raises(
        ValueError, match=r"^models: expected scores of the same data and cells, got other cells"
    ):
        compare({"two": scores["two"], "one": quietly(loo, one, sample=60)})
    other = fit(1, cv.simulate_release(TRUTH, epsilon=2, seed=SEED + 5))
    with pytest.raises(ValueError, match=r"got other values for 'other' than for 'two'"):
        quietly(compare, {"two": two, "other": other})
    with pytest.raises(ValueError, match=r"^models: expected a mapping with at least two models, got 1"):
        compare({"two": two})


def test_chains_that_disagree_are_told(two):
    import copy

    apart = copy.copy(two)
    apart.tree = two.tree.copy(deep=True)
    apart.tree["sample_stats"]["sampled_log_likelihood"][0] -= 1000.0
    with pytest.warns(UserWarning, match=r"^loo: an average over chains that do not agree"):
        loo(apart, cells=([0], [0]))
    with pytest.warns(
        UserWarning, match=r"^a mixture: loo: an average over chains that do not agree"
    ) as said:
        compare({"two": two, "a mixture": apart}, cells=([0], [0]))
    assert not [one for one in said if "two: " in str(one.message) and "average" in str(one.message)]
    assert {one.filename for one in said} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="loo: Pareto k")
        loo(two, cells=([0], [0]))


def test_errors_name_the_parameter(two, fit, tmp_path):
    with pytest.raises(TypeError, match=r"^posterior: expected a Posterior, got int"):
        loo(3)
    with pytest.raises(ValueError, match=r"^sample: expected a whole number >= 10, got 0"):
        loo(two, sample=0)
    with pytest.raises(ValueError, match=r"^posterior: expected at least 30 draws, got 10"):
        loo(fit(1, sweeps=40, burn_in=0, thin=8))
    plain = fit(1, TRUTH, sweeps=40, burn_in=0, thin=1)
    plain.save(tmp_path / "run.zarr")
    with pytest.raises(ValueError, match=r"^loo: expected the counts of this run, got none"):
        loo(cv.load_posterior(tmp_path / "run.zarr"))


@pytest.mark.long
def test_the_planted_number_of_communities_wins():
    """Three groups of actors, and chains that agree: the smallest model whose score is not worse than noise."""
    rng = np.random.default_rng(SEED)
    group, activity = np.arange(45) % 3, rng.gamma(5.0, 0.2, 45)
    mean = np.outer(activity, activity) * np.where(group[:, None] == group, 3.0, 0.2)
    release = cv.simulate_release(rng.poisson(mean), epsilon=2, seed=SEED)
    fits = {
        n: cv.fit(
            cv.CommunityModel(n, rate=None), release, sweeps=6000, burn_in=2000, thin=8, chains=2, seed=SEED,
            progress=False,
        )
        for n in (1, 2, 3, 4, 6)
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the chains agree, and so do the weights
        table = compare(fits)
    lacks = {int(n): row.elpd_diff for n, row in table.iterrows()}
    noise = {int(n): max(4.0, 2 * row.dse) for n, row in table.iterrows()}
    assert min(n for n in lacks if lacks[n] <= noise[n]) == 3
    assert lacks[2] > 4 * noise[2]
    assert lacks[1] > 4 * noise[1]


def test_a_tail_that_no_law_fits_is_not_trusted(two):
    """One draw in which a cell is 800 nats less likely: k is not known, and must not pass for good."""
    values = np.random.default_rng(SEED).normal(0, 0.1, (1000, 1))
    values[0] = -800
    found = smoothed_weights(values)
    assert found.log_weights.max() > -1e-6  # one draw has all the weight
    scored = quietly(loo, two)
    assert replace(scored, cells=pd.DataFrame({"pareto_k": found.pareto_k})).n_bad == 1


def test_samples_too_small_to_have_an_error_are_refused(two):
    with pytest.raises(ValueError, match="sample: expected a whole number"):
        loo(two, sample=2)
