"""Shares of topics in groups of rows: what they are, how groups differ, runs on disk, new rows, and warnings."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest

import countveil as cv
from countveil.inference.new_rows import NewGroups, NewRows, RowPrior, new_row_draws
from countveil.posterior.align.matching import all_draws
from countveil.posterior.align.memberships import pooling
from countveil.transforming import transform
from goodness_of_fit import SEED, continuous_pvalue, fits, rejects

#: Two topics of three words each; most of the first in "old", of the second in "new".
TRUTH = {"new": 0.25, "old": 0.75}
ROWS = ["old", "new"] * 15


def release_of(groups, seed=0, epsilon=3, labels=None, level=40):
    rng = np.random.default_rng(seed)
    phi = np.array([[0.4, 0.3, 0.3, 0, 0, 0], [0, 0, 0, 0.4, 0.3, 0.3]])
    share = np.array([TRUTH.get(group, 0.5) for group in groups])
    share = np.stack([share, 1 - share], axis=1)
    theta = rng.gamma(2.0, level * share / 2.0)
    return cv.simulate_release(rng.poisson(theta @ phi), epsilon=epsilon, seed=seed, labels=labels)


SHORT = {"sweeps": 300, "seed": 1, "threads": 1, "progress": False}
LABELS = ([f"d{i}" for i in range(30)], list("abcdef"))


@pytest.fixture(scope="module", params=[None, 1.0])
def posterior(request):
    return cv.fit(
        cv.TopicModel(2, shape=2.0, rate=request.param, groups=ROWS), release_of(ROWS, labels=LABELS), **SHORT
    )


def test_shares_of_topics_in_groups(posterior):
    found = posterior.prevalence(interval=0.8)
    assert found.groups == ("new", "old")
    assert found.shares.attrs["interval"] == 0.8
    first = int(
        posterior.topics(1).top_words()[0, 0] >= 3
    )  # whether the first topic is that of the last words
    mean = found.shares["mean"].to_numpy()
    assert np.allclose(mean.sum(axis=1), 1)
    assert abs(mean[0, first] - TRUTH["new"]) < 0.15
    assert abs(mean[1, first] - TRUTH["old"]) < 0.15
    assert found.table.equals(posterior.to_dataframe("prevalence", interval=0.8))
    assert len(found.table) == 4
    assert len(str(found).splitlines()) == 3


def test_the_formula(posterior):
    fields = posterior.tree["posterior"]
    means, phi = all_draws(fields["theta_mean"]).astype(float), all_draws(fields["phi"]).astype(float)
    order = posterior._aligned("prevalence", "topics").alignment.order
    for draw, places in enumerate(order):
        mass = (means[draw] * phi[draw].sum(axis=1))[:, places]
        assert np.allclose(
            posterior.prevalence().draws[draw], mass / mass.sum(axis=1, keepdims=True), rtol=1e-5
        )


def test_differences(posterior):
    found = posterior.prevalence()
    apart = found.differences()
    assert apart["group"].tolist() == ["old", "old"]
    assert apart["minus"].tolist() == ["new", "new"]
    each = found.draws[:, 1] - found.draws[:, 0]
    assert np.allclose(apart["mean"], each.mean(axis=0))
    assert np.allclose(apart["low"], np.quantile(each, 0.05, axis=0))
    assert np.allclose(apart["positive"], (each > 0).mean(axis=0))
    turned = found.differences(minus="old")
    assert np.allclose(turned["mean"], -apart["mean"])
    with pytest.raises(ValueError, match="minus: expected one of the groups 'new', 'old', got 'young'"):
        found.differences(minus="young")


def test_many_groups_need_one_to_compare_with():
    names = [f"g{i:02}" for i in range(30)]
    posterior = cv.fit(cv.TopicModel(2, groups=names), release_of(names), **SHORT)
    found = posterior.prevalence()  # a row each
    assert found.draws.shape[1:] == (30, 2)
    with pytest.raises(
        ValueError, match="minus: expected one of the 30 groups to compare the others with, got"
    ):
        found.differences()
    assert len(found.differences(minus="g00")) == 29 * 2


def test_one_group_and_rows_without():
    groups = ["a"] * 20 + [None] * 10
    posterior = cv.fit(cv.TopicModel(2, groups=groups), release_of(groups), **SHORT)
    assert posterior.tree["posterior"]["group"].to_numpy().tolist() == ["a", "(no group)"]
    found = posterior.prevalence()
    assert found.groups == ("a",)
    assert found.differences().empty


def test_what_is_refused():
    release = release_of(ROWS)
    plain = cv.fit(cv.TopicModel(2), release, **SHORT)
    with pytest.raises(ValueError, match="prevalence: expected a model with groups of rows, TopicModel"):
        plain.prevalence()
    with pytest.raises(ValueError, match="groups: expected None for a fit without groups, got some"):
        transform(plain, release, groups=ROWS, progress=False)
    with pytest.raises(ValueError, match="by: expected 'group', the groups of the model, got 'year'"):
        plain.prevalence(by="year")


def test_runs_keep_groups(tmp_path):
    by_label = pd.Series(ROWS[:12], index=LABELS[0][:12])[::-1]
    release = release_of(ROWS[:12], labels=(LABELS[0][:12], LABELS[1]))
    model = cv.TopicModel(2, groups=by_label)
    settings = {"sweeps": 30, "burn_in": 10, "thin": 2, "seed": 1, "threads": 1, "progress": False}
    whole = cv.fit(model, release, **settings)
    stored = cv.fit(model, release, **settings, store=tmp_path / "run.zarr")
    whole.save(tmp_path / "saved.zarr")
    shorter = cv.fit(model, release, **(settings | {"sweeps": 20}), store=tmp_path / "short.zarr")
    longer = cv.extend(tmp_path / "short.zarr", sweeps=30, model=model, progress=False)
    assert shorter.model == whole.model
    loaded = [cv.load_posterior(tmp_path / name) for name in ("run.zarr", "saved.zarr")]
    for other in (stored, longer, *loaded):
        assert other.model == whole.model
        assert np.array_equal(other.prevalence().draws, whole.prevalence().draws)
    others = cv.TopicModel(2, groups=["a", "b"] * 6)
    with pytest.raises(ValueError, match="model: expected that of this run"):
        cv.extend(tmp_path / "short.zarr", sweeps=40, model=others, progress=False)


def test_new_rows_of_a_group(posterior):
    """Rows that say nothing are like their group."""
    nothing = cv.PrivateCounts(
        np.zeros((3, 6), int), alpha=0.5, mask=np.ones((3, 6), bool), labels=(list("xyz"), LABELS[1])
    )
    shares = transform(
        posterior,
        nothing,
        groups={"x": "old", "y": "new", "z": None},
        sweeps=3,
        burn_in=20,
        seed=1,
        progress=False,
    )
    mean, of_groups = shares["mean"].to_numpy(), posterior.prevalence().shares["mean"].to_numpy()
    assert abs(mean[0, 0] - of_groups[1, 0]) < 0.2
    assert abs(mean[1, 0] - of_groups[0, 0]) < 0.2
    assert min(mean[:2, 0]) < mean[2, 0] < max(mean[:2, 0])
    with pytest.raises(
        ValueError, match=r"groups: expected groups that were fitted \('new', 'old'\), got 'young'"
    ):
        transform(posterior, nothing, groups=["old", "young", None], progress=False)
    with pytest.raises(ValueError, match="groups: expected a group, or None, for each of the 3 rows, got 2"):
        transform(posterior, nothing, groups=["old", "new"], progress=False)


def test_the_group_of_a_new_row_is_drawn_as_often_as_fitted_rows_have_it():
    """Without a cell to see, theta comes from the mixture of the groups: here two exponential laws, 3 to 1."""
    n, means = 4000, np.array([[0.5], [2.0]])
    unseen = cv.PrivateCounts(np.zeros((n, 1), int), alpha=0.5, mask=np.ones((n, 1), bool))
    view = NewRows(unseen, lambda chain, draw: np.ones((1, 1)))
    theta, _ = new_row_draws(
        RowPrior(1.0, lambda chain, draw: means), [view], (1, 1), sweeps=1, burn_in=60, seed=SEED, threads=1,
        groups=NewGroups(np.full(n, -1), np.array([3.0, 1.0])),
    )  # fmt: skip

    def mixture(weight):
        return lambda x: weight * -np.expm1(-x / 0.5) + (1 - weight) * -np.expm1(-x / 2.0)

    assert fits(continuous_pvalue(theta.reshape(-1), mixture(0.75)))
    assert rejects(continuous_pvalue(theta.reshape(-1), mixture(0.6)))


def test_means_that_lose_the_spread_of_rows():
    rng = np.random.default_rng(SEED)
    truth = rng.normal(size=(4000, 2))
    for noise in (0.5, 2.0):
        weight = 1 / (1 + noise**2)
        means = weight * (truth + noise * rng.normal(size=truth.shape))
        variances = np.full(truth.shape, weight * noise**2)
        lost = pooling(means, variances)
        assert abs(lost - (1 - weight)) < 0.03
        # So much closer are averages over groups of rows than the rows themselves.
        high = truth[:, 0] > 0
        apart, shown = (x[high, 0].mean() - x[~high, 0].mean() for x in (truth, means))
        assert abs(shown / apart - (1 - lost)) < 0.06
    assert math.isnan(pooling(means[:5], variances[:5]))


def test_memberships_warn_where_shrinkage_is_strong():
    noisy = cv.fit(cv.TopicModel(2), release_of(ROWS, epsilon=0.5, level=10), **SHORT)
    with pytest.warns(
        UserWarning, match=r"memberships: the data say little about single rows, whose means lose \d+%"
    ):
        assert noisy.memberships().attrs["pooling"] > 0.5
    clear = cv.fit(cv.TopicModel(2), release_of(ROWS, epsilon=3), **SHORT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clear.memberships().attrs["pooling"] < 0.5
        assert "pooling" not in noisy.memberships(rows=[0]).attrs
