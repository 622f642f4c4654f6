"""Diagnostics of quantities without labels."""

import arviz_stats
import numpy as np
import pytest

import countveil as cv

COLUMNS = ["mean", "sd", "low", "high", "mcse_mean", "ess_bulk", "ess_tail", "r_hat"]


def test_it_agrees_with_arviz(posterior):
    table = posterior.summary()
    assert table.columns.tolist() == COLUMNS
    for name, draws in posterior.tree["sample_stats"].data_vars.items():
        row, group = table.loc[name], posterior.tree["sample_stats"].to_dataset()[[name]]
        assert row["mean"] == pytest.approx(float(draws.mean()))
        assert row["sd"] == pytest.approx(float(draws.std(ddof=1)))
        assert [row["low"], row["high"]] == pytest.approx(np.quantile(draws, [0.05, 0.95]).tolist())
        assert row["r_hat"] == pytest.approx(float(arviz_stats.rhat(group)[name]))
        assert row["ess_bulk"] == pytest.approx(float(arviz_stats.ess(group, method="bulk")[name]))
        assert row["ess_tail"] == pytest.approx(
            float(arviz_stats.ess(group, method="tail", prob=(0.05, 0.95))[name])
        )
        assert row["mcse_mean"] == pytest.approx(float(arviz_stats.mcse(group)[name]))


def test_rates_of_cells_by_name(posterior):
    table = posterior.summary(4)
    rates = [name for name in table.index if name.startswith("rate[")]
    assert len(rates) == 4
    assert (rates[0], rates[-1]) == ("rate[, oil]", "rate[g, x\n]")
    assert table.loc["rate[, oil]", "mean"] == pytest.approx(float(posterior.rates("", "oil")[0, 0]))
    draws = next(posterior.iter_rate_draws())[1][:, -1, -1].reshape(2, -1)
    assert table.loc[rates[-1], "r_hat"] == pytest.approx(float(arviz_stats.rhat(draws)))


def test_the_order_of_topics_does_not_matter(posterior, with_draws):
    group = posterior.tree["posterior"]
    theta, phi = group["theta"].to_numpy().copy(), group["phi"].to_numpy().copy()
    theta[1], phi[1] = theta[1][..., ::-1], phi[1][:, ::-1]
    np.testing.assert_allclose(
        with_draws(posterior, theta=theta, phi=phi).summary(), posterior.summary(), rtol=1e-5
    )


def test_what_never_moves_has_no_diagnostics(posterior, with_draws):
    phi = np.tile(posterior.tree["posterior"]["phi"].to_numpy()[:1, :1], (2, 30, 1, 1))
    theta = np.tile(posterior.tree["posterior"]["theta"].to_numpy()[:1, :1], (2, 30, 1, 1))
    row = with_draws(posterior, theta=theta, phi=phi).summary(1).loc["rate[, oil]"]
    assert row["low"] == row["high"] == pytest.approx(row["mean"])
    assert row[["mcse_mean", "ess_bulk", "ess_tail", "r_hat"]].isna().all()


def test_chains_stuck_at_different_values_are_found_out(posterior, with_draws):
    group = posterior.tree["posterior"]
    theta, phi = (np.tile(group[name].to_numpy()[:, :1], (1, 30, 1, 1)) for name in ("theta", "phi"))
    row = with_draws(posterior, theta=theta, phi=phi).summary(1).loc["rate[, oil]"]
    assert row["r_hat"] > 10


def test_one_chain_and_few_draws(plain):
    assert plain.summary(2)["ess_bulk"].notna().all()
    assert plain.summary(2)["r_hat"].isna().all()
    few = cv.fit(cv.TopicModel(1), [[3, 1]], sweeps=6, burn_in=3, thin=1, chains=2, seed=1, progress=False)
    assert few.summary()["ess_bulk"].isna().all()
    assert few.summary()["mean"].notna().all()
    one = cv.fit(cv.TopicModel(1), [[3, 1]], sweeps=1, burn_in=0, thin=1, chains=1, seed=1, progress=False)
    assert one.summary()["sd"].isna().all()
    assert repr(one) == "Posterior(TopicModel(n_topics=1, shape=0.1, rate=None), 1 x 2, 1 chain x 1 draw)"


def test_what_is_not_finite_gives_no_diagnostics(posterior, with_draws):
    group = posterior.tree["posterior"]
    theta, phi = group["theta"].to_numpy().copy(), group["phi"].to_numpy()
    theta[0, 0] = np.inf
    row = with_draws(posterior, theta=theta, phi=np.maximum(phi, 1e-30)).summary(1).loc["rate[, oil]"]
    assert np.isinf(row["mean"])
    assert np.isnan(row["r_hat"])


def test_numbers_of_rates(posterior):
    assert len(posterior.summary(0)) == 3
    assert len(posterior.summary(10**6)) == 3 + 30
    for n_rates in (-1, 2.5, "all"):
        with pytest.raises(ValueError, match="n_rates: expected a whole number >= 0, got"):
            posterior.summary(n_rates)
