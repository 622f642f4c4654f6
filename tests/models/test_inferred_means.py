"""Which factor has scales, means, a level; what the prior then is; and each draw given the factors."""

import warnings

import numpy as np
import pytest
from scipy import stats

import countveil as cv
from countveil.kernels.philox import SweepKey
from countveil.models import CommunityModel, Factorization, SharedFactors, TensorModel, TopicModel
from countveil.models.einsum.inferred import Inferred, inferred_means
from countveil.models.einsum.prior import (
    Law,
    _draw_means,
    new_scales,
    prior_rates,
    start_means,
)
from countveil.models.einsum.start import prior_total
from countveil.runtime.workers import Workers
from goodness_of_fit import SEED, continuous_pvalue, fits, rejects

ONE = Workers(1)


def roles(model):
    """For every factor the first letters of what it has: Scales, Means, Level, Itself a scale."""
    return {
        name: "".join(
            letter
            for letter, has in zip("smli", (one.scales, one.means, one.level, one.is_scale), strict=True)
            if has
        )
        for name, one in model._inferred.items()
    }


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (TopicModel(2), {"theta": "sm", "phi": "sl"}),
        (TopicModel(2, rate=1.0), {}),
        (CommunityModel(2, rate=None), {"theta": "sm", "pi": "l", "receiving": "i"}),
        (CommunityModel(2, directed=False, rate=None), {"theta": "sm", "pi": "l"}),
        (CommunityModel(2, rate=2.0), {}),
        (TensorModel(2, rate=None), {"factor0": "sm", "factor1": "s", "factor2": "sl"}),
        (TensorModel(core=(2, 2), rate=None), {"factor0": "sm", "factor1": "s", "core": "l"}),
        (
            Factorization("dk,kv,v->dv", k=2, rate=None),
            {"factor_dk": "sm", "factor_kv": "sl", "factor_v": "i"},
        ),
        (Factorization("ik,jk->ij", names=["one", "one"], k=2, rate=None), {"one": "sml"}),
        (
            Factorization("k,kd,kv->dv", k=2, rate=None),
            {"factor_k": "", "factor_kd": "sm", "factor_kv": "sl"},
        ),
        (
            Factorization("dk,kv->dv", names=["one", "two"], k=2, fixed={"two": np.ones((2, 3))}, rate=None),
            {"one": "sml"},
        ),
        (Factorization("dk,kv->dv", k=2, rate={"factor_dk": None}), {"factor_dk": "sml"}),
        (Factorization("d,v->dv", rate=None), {"factor_d": "i", "factor_v": "li"}),
    ],
)
def test_what_is_inferred_of_which_factor(model, expected):
    assert roles(model) == expected


def test_views_add_up():
    words = Factorization("dk,kv->dv", names=["theta", "phi"], k=2, rate=None)
    links = Factorization("vk,ka->va", names=["phi", "psi"], k=2, rate=None)
    # phi has a level in the words, where it comes last, and means in the links, where it comes first.
    with pytest.raises(ValueError, match="axes and summed indices"):
        SharedFactors(words=words, links=links)
    turned = Factorization("kv,ka->va", names=["phi", "psi"], k=2, rate=None)
    assert roles(SharedFactors(words=words, links=turned)) == {"theta": "sm", "phi": "sml", "psi": "sl"}


def test_states_have_what_is_inferred():
    model = TopicModel(2)
    scales = ["theta_scale", "theta_scale_upper", "theta_scale_lower", "theta_mean"]
    scales += ["phi_scale", "phi_scale_upper", "phi_scale_lower", "phi_level"]
    assert list(model.state_type._fields) == list(model.dims) == ["theta", "phi", *scales]
    assert model.dims["theta_scale"] == ("row",)
    assert model.dims["theta_mean"] == ("topic",)
    assert TopicModel(2, rate=1.0).state_type._fields == ("theta", "phi")


@pytest.mark.parametrize(
    "model", [TopicModel(3), CommunityModel(3, rate=None), Factorization("dk,kv,v->dv", k=2, rate=None)]
)
def test_the_start_has_the_scale_of_the_data(model):
    counts = np.random.default_rng(SEED).poisson(7.0, (9, 9))
    state = model.init(cv.PrivateCounts(counts, alpha=0.1), np.random.default_rng(1))
    held = model._hold(state)
    for name, one in model._inferred.items():
        rates = prior_rates(name, model._prior(name), one, held)
        # The prior's mean of every row is the row's, at the start.
        if one.scales:
            mean = rates.shape / (rates.of_rows[:, None] * rates.of_components)
            assert np.allclose(mean.mean(axis=1), held[name].reshape(len(mean), -1).mean(axis=1))
    assert set(start_means(model._inferred, held, ONE)) == set(state._fields[len(model._spec.factors) :])


LAW, SHAPE = Law(upper=1.7, lower=0.8, level=2.5), 0.6
FACTOR = np.array([[0.5, 0.1, 2.0]])
MEANS = np.array([2.0, 0.5, 1.0])


def test_scales_given_the_factor():
    many = np.repeat(FACTOR, 50_000, axis=0)
    key = SweepKey(np.uint64(SEED + 3), 0, 1)
    old = np.full(len(many), 1.3)
    drawn, lower = new_scales(key, 0, SHAPE, LAW, SHAPE / MEANS, many, old, ONE)
    s, t, m = LAW
    law_of_lower = stats.gamma(t + s, scale=1 / (t + s * m / 1.3))
    assert fits(continuous_pvalue(lower, law_of_lower.cdf))
    assert rejects(continuous_pvalue(1.1 * lower, law_of_lower.cdf))
    # Times its own rate every inverse is a standard gamma.
    standard = (s * m * lower + SHAPE * np.sum(FACTOR / MEANS)) / drawn
    assert fits(continuous_pvalue(standard, stats.gamma(s + 3 * SHAPE).cdf))
    assert rejects(continuous_pvalue(1.1 * standard, stats.gamma(s + 3 * SHAPE).cdf))


def test_means_given_the_factor():
    out = np.empty(50_000)
    _draw_means(SweepKey(np.uint64(SEED + 4), 0, 1), 0, 4.4, 1.4, np.full(len(out), 5.0), out)
    law = stats.gamma(4.4, scale=1 / (1.4 + 5.0))
    assert fits(continuous_pvalue(1 / out, law.cdf))
    assert rejects(continuous_pvalue(1.1 / out, law.cdf))


def test_what_a_fixed_prior_expects():
    total, spread = prior_total(TopicModel(50, shape=0.1, rate=1.0), (10_000, 10_000))
    assert total == pytest.approx(5e7)
    assert spread < 0.1
    assert prior_total(TopicModel(50), (10_000, 10_000)) is None
    state = np.random.default_rng(SEED).gamma(0.5, 1 / 2.0, (4, 30_000))
    model = CommunityModel(2, shape=0.5, rate=2.0, self_loops=True)
    # mean of theta_ic pi_cd theta_jd over i != j
    assert prior_total(model, (100, 100))[0] == pytest.approx(4 * 10_000 * state.mean() ** 3, rel=0.05)


def large_release(total=20_000.0):
    counts = np.random.default_rng(SEED).poisson(total / 90_000, (300, 300))
    return cv.simulate_release(counts, alpha=0.2, seed=1)


QUICKLY = {"sweeps": 4, "thin": 1, "burn_in": 2, "chains": 1, "progress": False, "seed": 1}


def test_a_prior_that_fights_the_release_is_named():
    with pytest.warns(
        UserWarning, match=r"expect about 1\.8e\+06 counts in all, the release tells of 1\.98e\+04"
    ):
        cv.fit(TopicModel(20, shape=1.0, rate=1.0), large_release(), **QUICKLY)
    with pytest.warns(UserWarning, match="prior: "):
        cv.fit(TopicModel(20, shape=1.0, rate=100.0), large_release(), **QUICKLY)


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (TopicModel(20), large_release()),
        (TopicModel(20, shape=1.0, rate=9.0), large_release()),
        # A handful of cells: the prior is sure of nothing.
        (TopicModel(2, shape=0.1, rate=1.0), cv.PrivateCounts([[90, 2], [1, 80]], alpha=0.2)),
        # Plain counts overrule any prior.
        (TopicModel(20, shape=1.0, rate=1.0), large_release().to_dense()),
    ],
)
def test_no_other_prior_is_named(model, data):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        cv.fit(model, data, **QUICKLY)
    assert [str(one.message) for one in found if "prior:" in str(one.message)] == []


def test_a_shape_and_a_rate():
    assert TopicModel(2, 0.3, 1).rate == 1.0
    for rate in (0, -1.0, float("nan"), "1", True):
        with pytest.raises(ValueError, match="rate: expected"):
            TopicModel(2, rate=rate)
    model = Factorization("dk,kv->dv", names=["theta", "phi"], k=2, rate={"theta": None, "phi": 3.0})
    assert model._prior("theta").rate is None
    assert model._prior("phi").rate == 3.0
    assert Factorization(**model.describe()) == model
    assert TopicModel(**TopicModel(2).describe()) == TopicModel(2)
    assert inferred_means({"": model})["theta"] == Inferred(0.1, True, True, True, False)
