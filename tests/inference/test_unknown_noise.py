"""Noise of unknown strength: alpha is drawn from its exact posterior, together with the model."""

from dataclasses import replace
from typing import NamedTuple

import numba
import numpy as np
import pytest
from scipy import stats

import countveil as cv
from countveil.inference.alpha import _draw_alpha, _sum_of_noise
from countveil.inference.engines.cpu.sampler import CpuSampler
from countveil.inference.problem import at_alpha, make_problem
from countveil.kernels.philox import SweepKey
from countveil.models import TopicModel
from countveil.models.community_model import CommunityModel
from countveil.models.unknown_noise import UnknownNoise
from goodness_of_fit import FALSE_ALARM, SEED, continuous_pvalue, discrete_pvalue, fits, rejects
from inference.one_chain import IN_PLACE, TopicState, observed, sweep
from joint_test import joint_pvalues

ROWS, COLUMNS, TOPICS = 3, 4, 2
MODEL = UnknownNoise(TopicModel(TOPICS, shape=1.0, rate=0.7), prior=(2, 3))
MISSING = np.array([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]], dtype=bool)


def alpha_grid(total, n, p, q):
    """alpha and its cumulative probability given the noise, by quadrature of the formula."""
    rho = np.logspace(-9, 3, 400_001)
    log_f = -(total + p - 1) * rho + (n + q - 1) * np.log(-np.expm1(-rho)) - n * np.log1p(np.exp(-rho))
    log_f += -rho + np.log(rho)  # d alpha = alpha d rho, d rho = rho d log(rho)
    f = np.exp(log_f - log_f.max())
    cdf = np.concatenate([[0.0], np.cumsum((f[1:] + f[:-1]) / 2)])
    return np.exp(-rho)[::-1], 1 - (cdf / cdf[-1])[::-1]


@pytest.mark.parametrize(
    ("total", "n", "p", "q"),
    [(0, 1, 1, 1), (3, 12, 2, 3), (700, 900, 1, 1), (50_000, 200, 0.5, 0.5), (2, 0, 1, 4)],
)
def test_alpha_given_the_noise(total, n, p, q):
    alphas, cdf = alpha_grid(total, n, p, q)
    size = 20_000
    start = np.interp(np.random.default_rng(SEED).random(size), cdf, alphas)
    after = steps_of_alpha(SEED, start, float(total), n, float(p), float(q))
    assert fits(continuous_pvalue(after, lambda x: np.interp(x, alphas, cdf)))
    # It moves: the test above is not about a step that stays.
    assert abs(np.corrcoef(start, after)[0, 1]) < 0.9
    for _ in range(8):
        start = steps_of_alpha(SEED + 1, start, float(total), n, float(p), 1.3 * q + 0.1 * n)
    assert rejects(continuous_pvalue(start, lambda x: np.interp(x, alphas, cdf)))


@numba.njit
def steps_of_alpha(seed, start, total, n, p, q):
    out = np.empty(len(start))
    for i in range(len(start)):
        out[i] = _draw_alpha(SweepKey(np.uint64(seed), 0, i), start[i], total, n, p, q)
    return out


def test_the_sum_of_the_noise():
    # One cell released as 3, and many cells x <= 0 whose sum of |x| is 7.
    mu, alpha, others = 1.7, 0.4, 5.0
    y = np.arange(60)
    weights = stats.poisson.pmf(y, mu) * alpha ** np.abs(3 - y)
    weights /= weights.sum()
    pmf = np.zeros(200)
    for z, p in zip(y, weights, strict=True):
        pmf[7 + abs(3 - z) :] += p * stats.poisson.pmf(np.arange(200 - 7 - abs(3 - z)), alpha * others)
    size = 50_000
    data, rates = observed(np.full((size, 1), 3), 1.0), np.full(size, mu)
    found, wrong = (
        7 + sums_of_rows(SweepKey(np.uint64(SEED), 0, 1), alpha, data, rates, np.full(size, rate))
        for rate in (others, 1.1 * others)
    )
    assert fits(discrete_pvalue(found, lambda k: np.cumsum(pmf)[k]))
    assert rejects(discrete_pvalue(wrong, lambda k: np.cumsum(pmf)[k]))


@numba.njit
def sums_of_rows(key, alpha, data, rates, others):
    """Of every row for itself: each has a stream of its own."""
    out = np.empty(len(others), dtype=np.int64)
    for d in range(len(out)):
        out[d] = _sum_of_noise(key, d, d + 1, alpha, data, rates, others)
    return out


class WithAlpha(NamedTuple):
    """A state of the model, and alpha."""

    of: object
    alpha: float


def draw_pair(missing):
    def draw(rng):
        inner = MODEL.model
        theta = rng.gamma(inner.shape, 1 / inner.rate, (ROWS, TOPICS))
        phi = rng.gamma(inner.shape, 1 / inner.rate, (COLUMNS, TOPICS)).T
        alpha = rng.beta(*MODEL.prior)
        geometric = rng.geometric(1 - alpha, (2, ROWS, COLUMNS))
        x = rng.poisson(theta @ phi) + geometric[0] - geometric[1]
        data = cv.PrivateCounts(x, alpha=0.5, mask=missing, clamped=False)
        return WithAlpha(TopicState(theta, phi), alpha), data

    return draw


def swept(chain, state, key):
    extra = {"alpha": np.asarray(state.alpha)}
    after = sweep(chain, state.of, key, extra=extra)
    return WithAlpha(after, float(extra["alpha"]))


def sampler(state, data, key):
    return swept(CpuSampler(make_problem(MODEL, data), 0, 1, "cells", IN_PLACE), state, key)


def taking_clamped_zeros_for_zeros(state, data, key):
    problem = make_problem(MODEL, data)
    problem = replace(problem, alpha=problem.alpha._replace(below=0.0))
    return swept(CpuSampler(problem, 0, 1, "cells", IN_PLACE), state, key)


FUNCTIONS = {
    "alpha": lambda state, data: state.alpha,
    "theta": lambda state, data: state.of.theta[0, 0],
    "total rate": lambda state, data: (state.of.theta @ state.of.phi).sum(),
    "alpha and the noise below": lambda state, data: state.alpha * (1 + data.nonpositive.total[0]),
    "fit": lambda state, data: (state.of.theta @ state.of.phi)[0, 0] - data.to_dense(missing=0)[0, 0],
}


@pytest.mark.parametrize("missing", [None, MISSING], ids=["complete", "missing"])
def test_joint_law(missing):
    pvalues = joint_pvalues(draw_pair(missing), sampler, FUNCTIONS, replicates=100, sweeps=3, seed=SEED + 1)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


#: The size at which the wrong sampler is caught.
FULL = {"replicates": 1600, "sweeps": 4}


@pytest.mark.long
@pytest.mark.parametrize("missing", [None, MISSING], ids=["complete", "missing"])
def test_joint_law_with_many_replicates(missing):
    pvalues = joint_pvalues(draw_pair(missing), sampler, FUNCTIONS, **FULL, seed=SEED + 2)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
def test_the_joint_test_catches_clamped_zeros_taken_for_zeros():
    pvalues = joint_pvalues(draw_pair(None), taking_clamped_zeros_for_zeros, FUNCTIONS, **FULL, seed=SEED + 3)
    assert min(pvalues.values()) < FALSE_ALARM / len(FUNCTIONS), pvalues


def simulated(alpha, keep_negative=False):
    """A release whose noise is not what it says: it says 0.5."""
    rng = np.random.default_rng(SEED)
    rates = rng.gamma(0.5, 1.0, (60, 3)) @ rng.gamma(0.5, 1.5, (3, 40))
    release = cv.simulate_release(rng.poisson(rates), alpha=alpha, seed=SEED, keep_negative=True)
    return cv.PrivateCounts(release.to_dense(), alpha=0.5, keep_negative=keep_negative)


@pytest.mark.parametrize(
    "alpha", [pytest.param(0.1, marks=pytest.mark.long), 0.4, pytest.param(0.7, marks=pytest.mark.long)]
)
def test_alpha_is_recovered(alpha):
    model = UnknownNoise(TopicModel(3, shape=0.5))
    posterior = cv.fit(model, simulated(alpha), sweeps=400, seed=SEED, progress=False)
    draws = posterior.tree["posterior"]["alpha"].to_numpy()
    assert abs(draws.mean() - alpha) < 5 * draws.std()
    assert draws.std() < 0.02
    assert posterior.release.alpha == pytest.approx(draws.mean())


def test_a_fit_with_unknown_noise_is_a_posterior_of_the_model(tmp_path):
    posterior = cv.fit(UnknownNoise(TopicModel(3)), simulated(0.4), sweeps=60, seed=SEED, progress=False)
    assert posterior.model == TopicModel(3)
    assert posterior.topics(2).top_words().shape == (3, 2)
    assert "alpha" in posterior.summary(0).index
    found = float(posterior.tree["posterior"]["alpha"].mean())
    cv.transform(posterior, at_alpha(simulated(0.4), found), sweeps=1, burn_in=0, progress=False)
    with pytest.warns(
        UserWarning, match=r"data: its noise is taken to be as declared, alpha=0.5. The fit inferred"
    ):
        cv.transform(posterior, simulated(0.4), sweeps=1, burn_in=0, progress=False)
    posterior.save(tmp_path / "run.zarr")
    again = cv.load_posterior(tmp_path / "run.zarr")
    assert np.array_equal(again.tree["posterior"]["alpha"], posterior.tree["posterior"]["alpha"])
    same = cv.fit(
        UnknownNoise(TopicModel(3)), simulated(0.4), sweeps=60, seed=SEED, threads=1, progress=False
    )
    assert np.array_equal(same.tree["posterior"]["alpha"], posterior.tree["posterior"]["alpha"])


ANSWERS = {
    "topics": (TopicModel(2), (6, 6), ["topics", "memberships"]),
    "factorization": (cv.Factorization("dk,kv->dv", k=2), (6, 6), ["topics", "memberships", "components"]),
    "communities": (CommunityModel(2), (6, 6), ["memberships", "blocks", "to_networkx"]),
    "tensor": (cv.TensorModel(rank=2), (6, 3, 4), ["components"]),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_wrapped_model_answers_all_it_could_alone(name, tmp_path):
    model, shape, methods = ANSWERS[name]
    values = np.random.default_rng(SEED).integers(-2, 6, shape)
    release = cv.PrivateCounts(values, alpha=0.5, keep_negative=True)
    posterior = cv.fit(UnknownNoise(model), release, sweeps=20, seed=SEED, progress=False)
    alone = cv.fit(model, release, sweeps=20, seed=SEED, progress=False)
    posterior.save(tmp_path / "run.zarr")
    for one in (posterior, cv.load_posterior(tmp_path / "run.zarr")):
        for method in methods:
            assert type(getattr(one, method)()) is type(getattr(alone, method)())
        for what in {"topics", "memberships", "blocks"} & set(methods):
            table, expected = one.to_dataframe(what), alone.to_dataframe(what)
            assert table.columns.tolist() == expected.columns.tolist()
            assert len(table) == len(expected)
        assert set(one.summary(2).index) == {*alone.summary(2).index, "alpha"}


def test_hiding_cells_keeps_what_is_needed_where_negatives_were_kept():
    hidden = simulated(0.4, keep_negative=True).hide((np.arange(60), np.arange(60) % 40))
    posterior = cv.fit(UnknownNoise(TopicModel(3)), hidden, sweeps=200, seed=SEED, progress=False)
    assert abs(float(posterior.tree["posterior"]["alpha"].mean()) - 0.4) < 0.05


REFUSED = {
    "clamped elsewhere": (
        cv.PrivateCounts([[3, 0], [1, 2]], alpha=0.4),
        "zeros are clamped: read as exact zeros",
    ),
    "hidden": (cv.PrivateCounts([[3, -1], [1, 2]], alpha=0.4).hide(([0], [1])), "keep_negative=True"),
    "several": (cv.PrivateCounts([[3, -1], [1, 2]], alpha=[0.4, 0.5]), "expected one noise parameter"),
    "plain": ([[1, 2]], "data: expected a release, whose noise is to be inferred, got plain counts"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_inferred_is_refused(name):
    data, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        cv.fit(UnknownNoise(TopicModel(2)), data, sweeps=10, progress=False)


def test_other_methods_are_refused():
    with pytest.raises(ValueError, match="method: expected 'exact' for noise that is not known, got 'naive'"):
        cv.fit(UnknownNoise(TopicModel(2)), simulated(0.4), method="naive", sweeps=10, progress=False)


@pytest.mark.parametrize("prior", [(1,), (0, 1), (1, "x"), 3])
def test_a_wrong_prior_is_refused(prior):
    with pytest.raises(ValueError, match="prior: expected"):
        UnknownNoise(TopicModel(2), prior=prior)


def test_something_that_is_no_model_is_refused():
    with pytest.raises(TypeError, match="model: expected a model such as"):
        UnknownNoise("topics")


def test_a_fit_of_a_release_with_a_guarantee_can_be_saved(tmp_path):
    """Its noise is inferred anew: what was promised of it is no longer said."""
    release = cv.privatize([[3, 0, 9], [1, 2, 4]], epsilon=1)
    posterior = cv.fit(UnknownNoise(TopicModel(2)), release, sweeps=20, seed=1, progress=False)
    posterior.save(tmp_path / "run.zarr")
    loaded = cv.load_posterior(tmp_path / "run.zarr").release
    assert loaded == posterior.release
    assert (loaded.guarantee, release.guarantee.epsilon) == (None, 1)
