"""Topic models with groups of rows leave the joint law of factors, means of groups and data as it is."""

from __future__ import annotations

import numpy as np
import pytest

from countveil.kernels.philox import SweepKey
from countveil.models import TopicModel
from countveil.models.einsum import prior
from countveil.models.groups import Groups
from goodness_of_fit import FALSE_ALARM, SEED
from inference import test_factorization_joint as fixed
from inference.one_chain import IN_PLACE
from inference.test_inferred_means_joint import NARROW, functions_of, rates_of
from joint_test import joint_pvalues

E, SHAPE = NARROW.mean_shape, 1.1
#: A group of three rows, one of a single row, and a row without a group.
ROWS = ["a", "b", "a", None, "a"]


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr(prior, "HYPER", NARROW)


def scale_law(rng, n, level):
    s, t = np.exp(rng.normal(NARROW.log_shape, NARROW.log_shape_sd, 2))
    return s, t, level * rng.gamma(t, 1 / t, n) / rng.gamma(s, 1 / s, n)


def draw_state(model, shape, rng):
    """Everything from the prior, as the text of ``prior`` has it; the groups by hand."""
    group = np.array([{"a": 0, "b": 1, None: 2}[name] for name in ROWS[: shape[0]]])
    n_groups, n_topics = group.max() + 1, model.n_topics
    if model.rate is None:
        mean = 1 / rng.gamma(E, 1 / E, (n_groups, n_topics))
        upper, lower, u = scale_law(rng, shape[0], 1.0)
        theta = rng.gamma(SHAPE, mean[group] * u[:, None] / SHAPE)
        level = rng.gamma(NARROW.level) / rng.gamma(NARROW.level)
        phi_upper, phi_lower, w = scale_law(rng, shape[1], level)
        phi = rng.gamma(SHAPE, w[:, None] / SHAPE, (shape[1], n_topics)).T
        further = (u, upper, lower, mean, w, phi_upper, phi_lower, level)
    else:
        # The rates of a group's entries: beta ~ Gamma(e, e / rate), whose mean is the rate.
        beta = rng.gamma(E, model.rate / E, (n_groups, n_topics))
        theta = rng.gamma(SHAPE, 1 / beta[group])
        phi = rng.gamma(SHAPE, 1 / model.rate, (n_topics, shape[1]))
        further = (SHAPE / beta,)
    return model.state_type(theta, phi, *map(np.asarray, further))


@pytest.fixture
def pvalues(monkeypatch):
    monkeypatch.setattr(fixed, "draw_state", draw_state)
    monkeypatch.setattr(fixed, "rates_of", rates_of)

    def found(case, *, replicates, sweeps, seed):
        functions = functions_of(case) | {
            "first mean": lambda state, data: state.theta_mean[0, 0],
            "means apart": lambda state, data: np.log(state.theta_mean[0, 0] / state.theta_mean[1, 0]),
            "means together": lambda state, data: np.prod(np.log(state.theta_mean[:2, 0])),
            "a row and its mean": lambda state, data: state.theta[2, 1] / state.theta_mean[0, 1],
            "another one": lambda state, data: state.theta[1, 1] / state.theta_mean[1, 1],
        }
        each = joint_pvalues(
            fixed.pair_of(case),
            fixed.sampler,
            functions,
            replicates=replicates,
            sweeps=sweeps,
            seed=SEED + seed,
        )
        return min(each.values()) * len(each), each

    return found


INFERRED = TopicModel(2, shape=SHAPE, groups=ROWS)
FIXED = TopicModel(2, shape=SHAPE, rate=1.3, groups=ROWS)
FEW = TopicModel(2, shape=SHAPE, rate=1.3, groups=ROWS[:3])
CASES = {
    "inferred": fixed.Case(INFERRED, (5, 3)),
    "fixed rate": fixed.Case(FIXED, (5, 3)),
    "fixed rate, few rows": fixed.Case(FEW, (3, 4), rho=None),
    "inferred, missing, integrated": fixed.Case(INFERRED, (5, 3), rho=0.5, missing=0.3, kind="integrated"),
    "inferred, bessel": fixed.Case(INFERRED, (5, 3), kind="bessel"),
    "fixed rate, cells, by the protocol": fixed.Case(FIXED, (5, 3), kind="protocol"),
}


@pytest.mark.parametrize("name", ["inferred", "fixed rate"])
def test_joint_law(name, pvalues):
    least, each = pvalues(CASES[name], replicates=100, sweeps=3, seed=51)
    assert least > FALSE_ALARM, each


FULL = {"replicates": 2000, "sweeps": 5}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_joint_law_with_many_replicates(name, pvalues):
    least, each = pvalues(CASES[name], **FULL, seed=52)
    assert least > FALSE_ALARM, each


# The power checks: one step each is wrong.


def means_of_all_rows(monkeypatch):
    """Every group's mean drawn from the sums of all rows."""
    monkeypatch.setattr(Groups, "members", property(lambda g: (np.arange(len(g.codes)),) * len(g.labels)))


def a_wrong_law_of_the_means(monkeypatch):
    """Means drawn as if their law had half the usual mean."""
    right = prior._draw_means
    monkeypatch.setattr(
        prior,
        "_draw_means",
        lambda key, row, shape, rate, *rest: right(key, row, shape, rate / 2, *rest),
    )


WRONG = {
    "means of all rows": ("inferred", means_of_all_rows),
    "means of all rows, fixed": ("fixed rate", means_of_all_rows),
    "a wrong law of the means": ("fixed rate", a_wrong_law_of_the_means),
}


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_the_joint_test_catches(name, pvalues, monkeypatch):
    case, break_it = WRONG[name]
    break_it(monkeypatch)
    least, each = pvalues(CASES[case], **FULL, seed=53)
    assert least < FALSE_ALARM, each


@pytest.mark.parametrize("model", [INFERRED, FIXED], ids=["inferred", "fixed rate"])
def test_every_row_has_the_rates_of_its_own_group(model):
    """By hand: with the means of another group the joint test above sees next to nothing."""
    state = draw_state(model, (5, 3), np.random.default_rng(SEED))
    held = model._hold(state)
    found = prior.prior_rates("theta", model._prior("theta"), model._inferred["theta"], held)
    for row, name in enumerate(ROWS):
        mean = state.theta_mean[{"a": 0, "b": 1, None: 2}[name]]
        scale = state.theta_scale[row] if model.rate is None else 1.0
        first = found.group_of[row] * 2
        of_row = found.of_rows[row if len(found.of_rows) > 1 else 0]
        assert np.allclose(of_row * found.of_components[first : first + 2], SHAPE / (scale * mean))


def test_the_scale_move_leaves_rates_and_shares_as_they_are():
    state = draw_state(INFERRED, (5, 3), np.random.default_rng(SEED))
    held = INFERRED._hold(state)
    before = {name: array.copy() for name, array in held.items()}
    INFERRED._trade_scales(held, SweepKey(np.uint64(SEED), 0, 1), IN_PLACE)
    assert not np.allclose(held["theta"], before["theta"])
    assert np.allclose(held["theta"] @ held["phi"].T, before["theta"] @ before["phi"].T, rtol=1e-9)
    ratio = held["theta_mean"] / before["theta_mean"]
    assert np.allclose(ratio, ratio[0])  # all groups alike
    group = [0, 1, 0, 2, 0]
    relative, was = (each["theta"] / each["theta_mean"][group] for each in (held, before))
    assert np.allclose(relative, was)
