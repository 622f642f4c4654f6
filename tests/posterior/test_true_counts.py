"""The posterior of true counts is the exact conditional, mixed over the draws."""

import numpy as np
import pytest
from scipy import stats

import countveil as cv
from countveil.distributions import count_given_release
from goodness_of_fit import SEED, discrete_pvalue, fits, rejects

# One row for each: released value, noise, rate.
CASES = [(x, rho, mu) for x in (-3, 0, 1, 6, 40) for rho in (0.25, 2.0) for mu in (2.0, 5.0)]
WIDTH = 50_000


@pytest.fixture(scope="module")
def known(with_draws):
    """A single draw with known rates: the mean over the draws is then the drawn count itself."""
    values = np.repeat([[x] for x, _, _ in CASES], WIDTH, axis=1)
    mask = np.zeros(values.shape, dtype=bool)
    mask[-1] = True
    release = cv.PrivateCounts(values, rho=[rho for _, rho, _ in CASES], mask=mask)
    fitted = cv.fit(
        cv.TopicModel(1), release, sweeps=1, burn_in=0, thin=1, chains=1, seed=SEED, progress=False
    )
    theta = np.array([mu for _, _, mu in CASES])[None, None, :, None]
    return with_draws(fitted, theta=theta, phi=np.ones((1, 1, 1, WIDTH)))


@pytest.mark.parametrize("row", range(len(CASES)))
def test_the_exact_law(known, row):
    x, rho, mu = CASES[row]
    drawn = known.true_counts(rows=[row])["mean"].to_numpy()[0]
    if row == len(CASES) - 1:  # missing
        law, wrong = stats.poisson(mu).cdf, stats.poisson(1.1 * mu).cdf
    else:
        law = count_given_release(x=x, mu=mu, rho=rho).cdf
        wrong = count_given_release(x=x, mu=1.1 * mu, rho=rho).cdf
    assert fits(discrete_pvalue(drawn, law))
    if not (x == 40 and rho == 2.0):  # there a rate of 2 or 5 hardly matters beside a certain release
        assert rejects(discrete_pvalue(drawn, wrong))


def test_mean_over_the_kept_draws(posterior):
    """E[y] = mean over draws of E[y | x, mu], each in closed form, within its Monte Carlo error."""
    found = posterior.true_counts()
    values = posterior.release.to_dense(missing=-1)
    rho = float(posterior.release.rho)
    for d, v in np.ndindex(*values.shape):
        mu = np.array([state.theta[d] @ state.phi[:, v] for state in posterior.states()])
        missing = values[d, v] == -1
        laws = [
            stats.poisson(m) if missing else count_given_release(x=values[d, v], mu=m, rho=rho) for m in mu
        ]
        mean, variance = np.array([(float(law.mean()), float(law.var())) for law in laws]).T
        error = np.sqrt(variance.sum()) / len(mu)
        assert abs(float(found["mean"][d, v]) - mean.mean()) < 5 * error
        zero = np.array([float(law.pmf(0)) for law in laws])
        error = np.sqrt((zero * (1 - zero)).sum()) / len(mu) + 1e-9
        assert abs(float(found["positive"][d, v]) - (1 - zero.mean())) < 5 * error


# Two kept draws, (rate, alpha) of each far apart, by released value.
ALPHAS = (0.125, 0.75)
INFERRED = [
    (-3, (5.0, 8.0)),
    (0, (2.0, 3.0)),
    (1, (2.0, 3.0)),
    (6, (3.0, 2.0)),
    (6, (9.0, 14.0)),
    (40, (20.0, 30.0)),
]


@pytest.fixture(scope="module")
def inferred(with_draws):
    """Two draws with known rates, each with its own alpha; the last row is missing."""
    cases = [*INFERRED, (0, (5.0, 5.0))]
    values = np.repeat([[x] for x, _ in cases], WIDTH, axis=1)
    mask = np.zeros(values.shape, dtype=bool)
    mask[-1] = True
    model, release = cv.UnknownNoise(cv.TopicModel(1)), cv.PrivateCounts(values, alpha=0.5, mask=mask)
    fitted = cv.fit(model, release, sweeps=2, burn_in=0, thin=1, chains=1, seed=SEED, progress=False)
    theta = np.array([rates for _, rates in cases]).T[None, :, :, None]
    return with_draws(fitted, theta=theta, phi=np.ones((1, 2, 1, WIDTH)), alpha=np.array([ALPHAS]))


def mixture(x, rates, alphas):
    """P(y | x) = mean over the draws of Poisson(y; mu) alpha**abs(x - y), each over its sum; y < 200."""
    y = np.arange(200)
    each = [
        stats.poisson.pmf(y, mu) * alpha ** np.abs(x - y) for mu, alpha in zip(rates, alphas, strict=True)
    ]
    return np.mean([weights / weights.sum() for weights in each], axis=0)


def one_of_both(posterior, row):
    """In every cell the count of one draw, taken at random: the limits of two are both."""
    found = posterior.true_counts(rows=[row])
    low, high = found["low"].to_numpy()[0], found["high"].to_numpy()[0]
    assert np.array_equal(low + high, 2 * found["mean"].to_numpy()[0])
    return np.where(np.random.default_rng(SEED + row).random(WIDTH) < 0.5, low, high)


@pytest.mark.parametrize("row", range(len(INFERRED)))
def test_where_alpha_was_inferred_every_draw_goes_with_its_own(inferred, row):
    x, rates = INFERRED[row]
    wrong_alphas = {
        "their mean": [np.mean(ALPHAS)] * 2,
        "those of other draws": ALPHAS[::-1],
        "10 % off": [1.1 * alpha for alpha in ALPHAS],
    }
    law, drawn = mixture(x, rates, ALPHAS), one_of_both(inferred, row)
    assert fits(discrete_pvalue(drawn, lambda k: np.cumsum(law)[k]))
    for name, alphas in wrong_alphas.items():
        cdf = np.cumsum(mixture(x, rates, alphas))
        assert rejects(discrete_pvalue(drawn, lambda k, cdf=cdf: cdf[k])), name
    # Both draws of all cells: their mean is at least as sure as that of as many counts from the mixture.
    y, mean = np.arange(len(law)), float(inferred.true_counts(rows=[row])["mean"].mean())
    error = np.sqrt((y**2 @ law - (y @ law) ** 2) / (2 * WIDTH))
    assert abs(mean - y @ law) < 5 * error
    assert abs(mean - y @ mixture(x, rates, wrong_alphas["their mean"])) > 5 * error


def test_a_missing_count_does_not_depend_on_alpha(inferred):
    drawn = one_of_both(inferred, len(INFERRED))
    assert fits(discrete_pvalue(drawn, stats.poisson(5.0).cdf))
    assert rejects(discrete_pvalue(drawn, stats.poisson(5.5).cdf))


def test_a_saved_run_has_the_alpha_of_every_draw(tmp_path, with_draws):
    release = cv.PrivateCounts([[9, -1, 4], [-3, 2, 0], [6, 5, -1]], alpha=0.5)
    model = cv.UnknownNoise(cv.TopicModel(1, shape=2.0))
    posterior = cv.fit(model, release, sweeps=400, thin=1, seed=SEED, progress=False)
    posterior.save(tmp_path / "run.zarr")
    loaded = cv.load_posterior(tmp_path / "run.zarr")
    found = posterior.true_counts()
    assert loaded.true_counts().equals(found)
    draws = {name: values.to_numpy() for name, values in loaded.tree["posterior"].data_vars.items()}
    draws["alpha"] = np.full_like(draws["alpha"], draws["alpha"].mean())
    assert not with_draws(loaded, **draws).true_counts().equals(found)


def test_counts_are_not_rates(known):
    """E[y | x] and E[mu | x] differ; the rate of these cells is 2 whatever was released."""
    row = CASES.index((6, 2.0, 2.0))
    assert float(known.true_counts(rows=[row])["mean"].mean()) > 3
    assert float(known.rates(rows=[row]).mean()) == pytest.approx(2.0)


def test_a_cell_does_not_depend_on_what_else_is_asked(posterior, own):
    for one in (posterior, own):
        everything = one.true_counts()
        some = one.true_counts(rows=["g", "a\0"], columns=[4, 1])
        assert some.equals(everything.isel(document=[5, 2], word=[4, 1]))
        assert some.equals(one.true_counts(rows=[5, 2], columns=["x\n", "gas"]))


def test_nor_on_the_size_of_blocks(posterior, monkeypatch):
    whole = posterior.true_counts()
    monkeypatch.setattr("countveil.posterior.states.NUMBERS_PER_BLOCK", 400)
    assert posterior.true_counts().equals(whole)


def test_limits_are_counts_and_labels_come_along(posterior):
    found = posterior.true_counts(rows=["f"])
    assert found["low"].dtype == found["high"].dtype == np.int64
    assert found["mean"].dims == ("document", "word")
    assert found["document"].to_numpy().tolist() == ["f"]
    # Limits are whole: a mean of 0.03 may well have both at 0.
    assert ((found["low"] <= np.ceil(found["mean"])) & (np.floor(found["mean"]) <= found["high"])).all()
    assert posterior.true_counts(rows=[]).sizes == {"document": 0, "word": 5}


def test_plain_counts_are_known_and_missing_ones_are_not():
    counts = np.ma.masked_array([[3, 4], [8, 5]], mask=[[0, 0], [0, 1]])
    posterior = cv.fit(cv.TopicModel(1), counts, sweeps=400, seed=1, progress=False)
    found = posterior.true_counts()
    for name in ("mean", "low", "high"):
        assert found[name].to_numpy().reshape(-1)[:3].tolist() == [3, 4, 8]
    assert found["low"][1, 1] < found["high"][1, 1]
    assert found["positive"].to_numpy().reshape(-1)[:3].tolist() == [1, 1, 1]


def test_noise_by_cell():
    rho = np.array([[50.0, 0.05], [0.05, 50.0]])
    release = cv.PrivateCounts([[20, 20], [20, 20]], rho=rho)
    posterior = cv.fit(cv.TopicModel(1), release, sweeps=400, seed=1, progress=False)
    width = (posterior.true_counts()["high"] - posterior.true_counts()["low"]).to_numpy()
    assert width[0, 0] == width[1, 1] == 0
    assert width[0, 1] > 5


def test_the_naive_method_takes_the_release_for_the_truth():
    release = cv.PrivateCounts([[3, -1], [0, 9]], rho=0.5)
    posterior = cv.fit(cv.TopicModel(1), release, sweeps=40, seed=1, method="naive", progress=False)
    found = posterior.true_counts()
    assert found["low"].to_numpy().tolist() == found["high"].to_numpy().tolist() == [[3, 0], [0, 9]]
