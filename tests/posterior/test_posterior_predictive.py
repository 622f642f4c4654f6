"""Posterior predictive draws: their law by brute force, with power; what is shown, and that blocks do not matter."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import countveil as cv
from countveil.posterior import axes, states
from goodness_of_fit import SEED, discrete_pvalue, fits, rejects

TRUTH = np.array([[3, 0, 1], [0, 2, 5], [1, 1, 0]])
MU = np.array([0.3, 1.5, 6.0])  # one rate for all cells of a row


def released_law(mu, alpha, clamped):
    """The distribution function of a released value, by adding up over counts and noise."""
    noise = alpha ** np.abs(np.arange(-400, 401.0))
    pmf = np.convolve(stats.poisson.pmf(np.arange(200), mu), noise / noise.sum())
    sums = np.cumsum(pmf)

    def cdf(x):
        x = np.asarray(x)
        below = sums[np.clip(x + 400, 0, len(sums) - 1)]
        return np.where(x < 0, 0.0, below) if clamped else below

    return cdf


def with_known_rates(posterior, with_draws, n_draws=1500, **further):
    """The same posterior with rates MU in every draw."""
    theta = np.broadcast_to(MU[:, None], (2, n_draws, 3, 1))
    return with_draws(posterior, theta=theta, phi=np.ones((2, n_draws, 1, 3)), **further)


def fitted(data, model=None, **options):
    return cv.fit(model or cv.TopicModel(1), data, sweeps=4, thin=1, seed=SEED, progress=False, **options)


ALPHAS = {
    "one alpha": 0.5,
    "by row": np.array([0.7, 0.5, 0.3]),
    "by cell": np.tile([0.6, 0.4, 0.5], (3, 1)),
}


@pytest.mark.parametrize("keep_negative", [False, True], ids=["clamped", "signed"])
@pytest.mark.parametrize("name", ALPHAS)
def test_law_of_released_values(name, keep_negative, with_draws):
    alpha = ALPHAS[name]
    release = cv.simulate_release(TRUTH, alpha=alpha, seed=SEED, keep_negative=keep_negative)
    tree = with_known_rates(fitted(release), with_draws, 5000).posterior_predictive()
    drawn = tree["posterior_predictive"]["released"].to_numpy()
    np.testing.assert_array_equal(tree["observed_data"]["released"], release.to_dense())
    assert (drawn.min() < 0) == keep_negative
    each = np.broadcast_to(np.reshape(alpha, (-1, 1) if name == "by row" else np.shape(alpha)), (3, 3))
    right, wrong = [], []
    for i, j in np.ndindex(3, 3):
        right.append(
            discrete_pvalue(drawn[..., i, j].ravel(), released_law(MU[i], each[i, j], not keep_negative))
        )
        wrong.append(
            discrete_pvalue(
                drawn[..., i, j].ravel(), released_law(MU[i], 1.1 * each[i, j], not keep_negative)
            )
        )
    assert fits(min(right) * 9)
    assert rejects(min(wrong) * 9)


def test_law_of_true_counts_and_of_plain_rows(with_draws):
    release = cv.stack_rows(cv.simulate_release(TRUTH[:1], alpha=0.5, seed=SEED), TRUTH[1:])
    posterior = with_known_rates(fitted(release), with_draws, 5000)
    true = posterior.posterior_predictive("true")["posterior_predictive"]["counts"].to_numpy()
    seen = posterior.posterior_predictive("released")["posterior_predictive"]["released"].to_numpy()
    np.testing.assert_array_equal(
        seen[:, :, 1:], true[:, :, 1:]
    )  # no noise there, and the same counts behind it
    for i, mu in enumerate(MU):
        drawn = true[:, :, i].ravel()
        assert fits(3 * discrete_pvalue(drawn, lambda k, mu=mu: stats.poisson.cdf(k, mu)))
        assert rejects(3 * discrete_pvalue(drawn, lambda k, mu=mu: stats.poisson.cdf(k, 1.1 * mu)))
    assert fits(discrete_pvalue(seen[:, :, 0].ravel(), released_law(MU[0], 0.5, True)))
    assert np.corrcoef(true[:, :, 2, 0].ravel(), true[:, :, 2, 1].ravel())[0, 1] == pytest.approx(0, abs=0.05)


def test_releases_of_one_count_share_it(with_draws):
    first = cv.simulate_release(TRUTH + 50, alpha=0.5, seed=SEED).hide(([0], [1]))
    second = cv.simulate_release(TRUTH + 50, alpha=np.array([0.2, 0.3, 0.4]), seed=SEED + 1)
    posterior = fitted(cv.combine_releases(first, second))
    theta = np.full((2, 5000, 3, 1), 60.0)
    tree = with_draws(posterior, theta=theta, phi=np.ones((2, 5000, 1, 3))).posterior_predictive()
    drawn = tree["posterior_predictive"]["released"]
    assert drawn.dims == ("chain", "draw", "row", "column", "release")
    assert np.isnan(drawn.isel(row=0, column=1, release=0)).all()
    assert np.isnan(tree["observed_data"]["released"]).sum() == 1
    for row, alpha in enumerate([0.2, 0.3, 0.4]):
        difference = (drawn.isel(release=0) - drawn.isel(release=1)).isel(row=row, column=2)
        parts = [a ** np.abs(np.arange(-99, 100.0)) for a in (0.5, alpha)]
        sums = np.cumsum(np.convolve(*(p / p.sum() for p in parts)))
        values = difference.to_numpy().ravel().astype(int)
        assert fits(3 * discrete_pvalue(values, lambda x, sums=sums: sums[x + 198]))
        # Independent counts would add 120 to the variance.
        assert values.var() < 30


def test_every_draw_has_its_own_alpha_where_it_was_inferred(with_draws):
    release = cv.simulate_release(TRUTH, alpha=0.5, seed=SEED)
    posterior = fitted(release, cv.UnknownNoise(cv.TopicModel(1)))
    alpha = np.repeat([[0.7], [0.85]], 5000, axis=1)
    drawn = with_known_rates(posterior, with_draws, 5000, alpha=alpha).posterior_predictive()
    for chain, own in enumerate([0.7, 0.85]):
        values = drawn["posterior_predictive"]["released"].to_numpy()[chain, :, 0].ravel()
        assert fits(2 * discrete_pvalue(values, released_law(MU[0], own, True)))
        assert rejects(2 * discrete_pvalue(values, released_law(MU[0], 1.1 * own, True)))


def test_neither_blocks_nor_choices_change_a_draw(posterior, release, monkeypatch):
    whole = posterior.posterior_predictive()
    assert whole["posterior_predictive"]["released"].dtype == np.float64  # two cells are missing
    one = posterior.posterior_predictive(rows=[4, 1, 4], columns=["power"])
    np.testing.assert_array_equal(
        one["posterior_predictive"]["released"],
        whole["posterior_predictive"]["released"].isel(document=[4, 1, 4], word=[2]),
    )
    monkeypatch.setattr(states, "NUMBERS_PER_BLOCK", 2 * 5 * posterior.n_draws)
    blocks = list(posterior.iter_posterior_predictive())
    assert [block["observed_data"].sizes["document"] for block in blocks] == [2, 2, 2]
    for group in ("posterior_predictive", "observed_data"):
        joined = xr.concat([block[group].to_dataset() for block in blocks], "document")
        np.testing.assert_array_equal(joined["released"], whole[group]["released"])
    other = posterior.posterior_predictive(seed=5)["posterior_predictive"]["released"]
    assert (other != whole["posterior_predictive"]["released"]).mean() > 0.2
    assert other.word.to_numpy().tolist() == release.labels[1].tolist()


def test_what_was_not_shown_is_not_drawn(posterior, release):
    tree = posterior.posterior_predictive()
    hidden = np.isnan(tree["observed_data"]["released"].to_numpy())
    assert np.argwhere(hidden).tolist() == [[0, 2], [3, 4]]
    np.testing.assert_array_equal(tree["observed_data"]["released"], release.to_dense(missing=np.nan))
    np.testing.assert_array_equal(
        np.isnan(tree["posterior_predictive"]["released"]).all(["chain", "draw"]), hidden
    )
    true = posterior.posterior_predictive("true")
    assert true["posterior_predictive"]["counts"].dtype == np.int64
    # Of another name: nobody pairs released values with draws of true counts.
    assert list(true["observed_data"].data_vars) == ["released"]


@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
def test_cells_that_a_network_leaves_out(directed):
    release = cv.simulate_release(np.arange(16).reshape(4, 4), epsilon=2, seed=SEED)
    posterior = fitted(release, cv.CommunityModel(2, directed=directed))
    seen = posterior.posterior_predictive()["posterior_predictive"]["released"].to_numpy()
    left_out = np.eye(4, dtype=bool) if directed else np.tri(4, dtype=bool)
    np.testing.assert_array_equal(np.isnan(seen).all(axis=(0, 1)), left_out)
    assert not np.isnan(seen[..., ~left_out]).any()
    true = posterior.posterior_predictive("true")["posterior_predictive"]["counts"].to_numpy()
    assert not true[..., np.arange(4), np.arange(4)].any()
    assert np.array_equal(true, np.swapaxes(true, 2, 3)) == (not directed)


def test_plain_counts_and_robust_fits(plain, tmp_path):
    tree = plain.posterior_predictive()
    assert tree["posterior_predictive"]["counts"].shape == (1, plain.n_draws, 6, 5)
    assert list(tree["observed_data"].data_vars) == ["counts"]
    plain.save(tmp_path / "run.zarr")
    again = cv.load_posterior(tmp_path / "run.zarr").posterior_predictive()
    np.testing.assert_array_equal(
        again["posterior_predictive"]["counts"], tree["posterior_predictive"]["counts"]
    )
    assert "observed_data" not in again.children
    robust = fitted(TRUTH, robust=0.3).posterior_predictive()
    assert list(robust["posterior_predictive"].data_vars) == ["released"]
    np.testing.assert_array_equal(robust["observed_data"]["released"], TRUTH)


def test_errors_name_the_parameter(posterior, plain, monkeypatch):
    with pytest.raises(ValueError, match=r"^kind: expected 'true' or 'released', got 'both'"):
        posterior.posterior_predictive("both")
    with pytest.raises(
        ValueError, match=r"^kind: expected 'true' for a fit without a release, got 'released'"
    ):
        plain.posterior_predictive("released")
    with pytest.raises(ValueError, match=r"^seed: expected a whole number or None, got 1.5"):
        posterior.posterior_predictive(seed=1.5)
    with pytest.raises(ValueError, match=r"^seed: expected an integer from 0"):
        posterior.posterior_predictive(seed=-1)
    monkeypatch.setattr(axes, "LARGEST_ANSWER", 1000)
    with pytest.raises(ValueError, match=r"expected at most 2 cells, got 30; .*iter_posterior_predictive"):
        posterior.posterior_predictive()
