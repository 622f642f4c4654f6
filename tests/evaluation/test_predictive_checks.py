"""Rootogram and PIT: exact probabilities, uniform where the model is right, and not where it is wrong."""

import numpy as np
import pytest
from scipy import stats

import countveil as cv
from countveil.evaluation import pit, rootogram
from countveil.evaluation.predictive_checks import value_probabilities
from countveil.posterior import states
from goodness_of_fit import SEED, continuous_pvalue, fits, rejects

RNG = np.random.default_rng(SEED)
RATES = RNG.gamma(2.0, 1.0, 40)[:, None] * RNG.gamma(5.0, 0.2, 25)
TRUTH = RNG.poisson(RATES)


def fitted(data, sweeps=600, **options):
    settings = {"burn_in": 200, "thin": 4, "seed": SEED, "progress": False, **options}
    return cv.fit(cv.TopicModel(1), data, sweeps=sweeps, **settings)


@pytest.fixture(scope="module")
def posterior():
    return fitted(cv.simulate_release(TRUTH, epsilon=1, seed=SEED).hide(RNG.random(TRUTH.shape) < 0.1))


@pytest.mark.parametrize("clamped", [True, False])
@pytest.mark.parametrize(("mu", "alpha"), [(0.0, 0.5), (0.3, 0.6), (4.0, 0.2), (60.0, 0.9), (2.0, 0.0)])
def test_probabilities_by_adding_up(mu, alpha, clamped):
    noise = alpha ** np.abs(np.arange(-500, 501.0))
    pmf = np.convolve(stats.poisson.pmf(np.arange(300), mu), noise / noise.sum())
    values = np.arange(-500, -500 + len(pmf))
    x = np.array([0, 1, 2, 7, 55] if clamped or not alpha else [-9, -1, 0, 1, 2, 7, 55])
    if clamped:
        pmf, values = np.concatenate([[pmf[values <= 0].sum()], pmf[values > 0]]), values[values >= 0]
    with np.errstate(divide="ignore"):
        rho = -np.log(alpha)
    below, at = value_probabilities(x, np.array(mu), np.array(rho), np.array(clamped))
    np.testing.assert_allclose(below, [pmf[values < one].sum() for one in x], atol=1e-12)
    np.testing.assert_allclose(at, [pmf[values == one].sum() for one in x], atol=1e-12)


def test_pit_is_uniform_where_the_model_is_right(posterior, monkeypatch):
    found = pit(posterior)
    assert len(found) == posterior.release.n_observed
    assert fits(continuous_pvalue(found, stats.uniform.cdf))
    monkeypatch.setattr(states, "NUMBERS_PER_BLOCK", 8 * posterior.n_draws * 400)  # 400 cells at a time
    np.testing.assert_allclose(pit(posterior), found, rtol=1e-12)
    cells = np.argwhere(np.isfinite(posterior.release.to_dense(missing=np.nan)))[[3, 99, 500]]
    np.testing.assert_allclose(pit(posterior, cells=tuple(cells.T)), found[[3, 99, 500]], rtol=1e-12)
    # The fit that has seen a cell is nearer to it than one that has not.
    seen = pit(posterior, loo=False)
    assert abs(seen - 0.5).mean() < abs(found - 0.5).mean()


def test_pit_sees_wrong_noise_and_bursts():
    """The same numbers of cells: noise taken for weaker than it is; counts that come five at a time."""
    released = cv.simulate_release(TRUTH, epsilon=0.3, seed=SEED).to_dense()
    wrong = fitted(cv.PrivateCounts(released, alpha=np.exp(-1.0), clamped=True))
    assert rejects(continuous_pvalue(pit(wrong), stats.uniform.cdf))
    bursts = fitted(5 * RNG.poisson(RATES / 5))
    assert rejects(continuous_pvalue(pit(bursts), stats.uniform.cdf))
    assert fits(continuous_pvalue(pit(fitted(TRUTH)), stats.uniform.cdf))


@pytest.mark.long
def test_pit_of_several_releases():
    both = cv.combine_releases(*(cv.simulate_release(TRUTH, epsilon=1, seed=SEED + s) for s in (1, 2)))
    found = pit(fitted(both))
    assert len(found) == 2 * TRUTH.size
    assert fits(continuous_pvalue(found, stats.uniform.cdf))


def test_rootogram_counts_values(posterior):
    table = rootogram(posterior, largest=6)
    released = posterior.release.to_dense().compressed()
    expected = [(released == v).sum() for v in range(6)] + [(released >= 6).sum()]
    assert table["observed"].tolist() == expected
    assert table["expected"].sum() == pytest.approx(len(released))
    drawn = posterior.posterior_predictive()["posterior_predictive"]["released"].to_numpy()
    np.testing.assert_allclose(table["expected"][2], (drawn == 2).sum() / posterior.n_draws, rtol=0.02)
    assert ((table["low"] <= table["observed"]) & (table["observed"] <= table["high"])).sum() >= 5
    part = rootogram(posterior, largest=6, sample=300)
    assert part["observed"].sum() == 300


def test_rootogram_sees_too_many_zeros():
    table = rootogram(fitted(TRUTH * (RNG.random(TRUTH.shape) < 0.7)))
    assert table["observed"][0] > table["high"][0]
    signed = fitted(cv.simulate_release(TRUTH, epsilon=1, seed=SEED, keep_negative=True), 250)
    table = rootogram(signed)
    assert table["value"].min() < 0
    assert table["observed"].sum() == TRUTH.size


def test_errors_name_the_parameter(posterior):
    for check in (pit, rootogram):
        with pytest.raises(TypeError, match=r"^posterior: expected a Posterior, got list"):
            check([])
        with pytest.raises(ValueError, match=r"^seed: expected a whole number or None, got 'a'"):
            check(posterior, seed="a")
    with pytest.raises(ValueError, match=r"^largest: expected a whole number >= 1, got 0"):
        rootogram(posterior, largest=0)
    with pytest.raises(ValueError, match=r"^posterior: expected at least 30 draws, got 4; or loo=False"):
        pit(fitted(TRUTH, 12, burn_in=4, thin=4))
