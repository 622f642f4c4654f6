"""Every step of a sweep that groups of rows have a part in draws from its exact conditional law.

A joint test of whole sweeps sees next to nothing of a row that has the mean of another group, or of a scale move
that knows one group's means only: counts, factors and means follow each other, and what is wrong in one step the next
ones hide. So each step is taken apart here: state and tokens are drawn, one step is taken, and what it drew is put through
the distribution function of the law it should have, given all the rest. The values found are independent and uniform,
whatever the state was, and a Kolmogorov-Smirnov test of them is exact. Because the state may be any, its groups are
further apart than the prior would have them: a step that takes one for another is then far off.

The laws, for rows i of group g(i) in D rows, V columns, G groups, with a the shape of the factors, e that of the
inverse means, b0 their usual mean, n the tokens. (Scales u_i, w_v and the level are 1 where the rate r is fixed, and
phi has the rate r in place of a / w_v; b0 is 1, or a / r with a fixed rate.)

**A row**: theta_ik ~ Gamma(a + n_ik, a / (u_i b_g(i)k) + Phi_k), Phi_k = sum_v phi_kv: gamma prior, Poisson counts.

**The scale move** theta_.k * c, b_gk * c for every g, phi_k. / c leaves all rates as they are. Along the orbit of
such a group the posterior is p(moved state) |Jacobian| dc / c. In the coordinates (theta, beta = 1 / b, phi) the
Jacobian is c**(D - G - V). Of the prior, with s = log c:

    prod_i (beta / c)**a (c theta)**(a - 1) exp(-a beta theta / u)     goes as  c**-D: with c**D it cancels,
    prod_g (beta / c)**(e - 1) exp(-e b0 beta / c), with c**-G,        goes as  exp(-e G s - e b0 sum_g beta_gk / c),
    prod_v (phi / c)**(a - 1) exp(-a phi / (w c)), with c**-V,         goes as  exp(-a V s - a sum_v phi_kv / w_v / c).

So s has the density exp(-(e G + a V) s - B e**-s) with B = e b0 sum_g 1 / b_gk + a sum_v phi_kv / w_v, and B / c, which
is B after the move, is Gamma(e G + a V, 1). It can be seen without any Jacobian too: in the prior B is a sum of G
independent Gamma(e, 1) and V independent Gamma(a, 1), and B is all of the orbit that the move may change.

**Means**: 1 / b_gk ~ Gamma(e + a n_g, e b0 + a sum of theta_ik / u_i over the n_g rows of g).

**Scales**: g_i ~ Gamma(t + s, t + s / u_i), then 1 / u_i ~ Gamma(s + a K, s g_i + a sum_k theta_ik / b_g(i)k); the
distribution function of 1 / u_i is summed over quantiles of g_i.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from countveil.kernels.philox import SweepKey
from countveil.models import TopicModel
from countveil.models.einsum import prior, scales
from countveil.models.einsum.update import Statistics, draw_factors
from goodness_of_fit import SEED, continuous_pvalue, fits, rejects
from inference import test_groups_joint as joint
from inference.one_chain import IN_PLACE
from inference.test_inferred_means_joint import NARROW

A, E, RATE = joint.SHAPE, NARROW.mean_shape, 1.3
#: A group of five rows, one of a single row, and two rows without a group.
ROWS = ["a", "b", "a", None, "a", "a", None, "a"]
GROUP = np.array([{"a": 0, "b": 1, None: 2}[name] for name in ROWS])
G, D, V, K = 3, len(ROWS), 3, 2
#: By how much the means of every group are multiplied.
APART = np.array([5.0, 1.0, 0.2])
MODELS = {
    "inferred": TopicModel(K, shape=A, groups=ROWS),
    "fixed rate": TopicModel(K, shape=A, rate=RATE, groups=ROWS),
}
REPLICATES = 1000


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr(prior, "HYPER", NARROW)
    monkeypatch.setattr(joint, "ROWS", ROWS)


def held_by(state, model):
    """A copy of the state, phi by word, groups apart; and what a fixed rate stands for: u = 1, b0 = a / r."""
    held = {name: array.copy() for name, array in model._hold(state).items()}
    held["theta_mean"] *= APART[:, None]
    held["theta"] *= APART[GROUP, None]
    fixed = model.rate is not None
    u = np.ones(D) if fixed else held["theta_scale"].copy()
    return held, u, A / RATE if fixed else 1.0


def at_stake(model, held, b0):
    """B of every topic."""
    of_columns = RATE if model.rate is not None else A / held["phi_scale"][:, None]
    return E * b0 * (1 / held["theta_mean"]).sum(axis=0) + (of_columns * held["phi"]).sum(axis=0)


def one_of_each(model, rng, key):
    """Every step once: by name what was drawn, and the shape and the rate of the gamma law it should have."""
    state = joint.draw_state(model, (D, V), rng)
    held, u, b0 = held_by(state, model)
    tokens = rng.poisson(np.einsum("dk,vk->dkv", held["theta"], held["phi"]))
    counts = Statistics([tokens.sum(axis=2), tokens.sum(axis=0).T], model.exposure_of_counts((D, V)))

    rate = A / (u[:, None] * held["theta_mean"][GROUP]) + held["phi"].sum(axis=0)
    draw_factors(model.views, model._inferred, {"": counts}, {}, held, key, IN_PLACE)
    found = {"rows": (held["theta"].copy(), A + tokens.sum(axis=2), rate)}

    model._trade_scales(held, key, IN_PLACE)
    found["the scale move"] = (at_stake(model, held, b0), np.full(K, E * G + A * V), np.ones(K))

    theta, law = held["theta"].copy(), [held.get(f"theta_scale_{tail}") for tail in ("upper", "lower")]
    prior.draw_means(model._inferred, model._is_symmetric, held, key, IN_PLACE)
    members = np.arange(G)[:, None] == GROUP
    shape = np.repeat(E + A * members.sum(axis=1, keepdims=True), K, axis=1)
    found["means"] = (1 / held["theta_mean"], shape, E * b0 + A * members @ (theta / u[:, None]))

    if model.rate is None:
        s, t = map(float, law)
        of_theta = A * (theta / held["theta_mean"][GROUP]).sum(axis=1)
        g = stats.gamma.ppf(LEVELS[:, None], t + s, scale=1 / (t + s / u))
        drawn = np.broadcast_to(1 / held["theta_scale"], g.shape)
        found["scales"] = (drawn, np.full(g.shape, s + A * K), s * g + of_theta)
    return found


#: Where the law of g is taken.
LEVELS = (np.arange(50) + 0.5) / 50


def pvalues(model, seed, change=1.0):
    """Of every step; with ``change`` the laws' rates are wrong by that."""
    rng, seed = np.random.default_rng(SEED + seed), np.uint64(SEED + seed)
    each = [one_of_each(model, rng, SweepKey(seed, 0, i + 1)) for i in range(REPLICATES)]
    found = {}
    for name in each[0]:
        drawn, shape, rate = (np.array([one[name][j] for one in each]) for j in range(3))
        through = special.gammainc(shape, change * rate * drawn)
        if name == "scales":
            through = through.mean(axis=1)
        found[name] = len(each[0]) * continuous_pvalue(through.reshape(-1), stats.uniform.cdf)
    return found


@pytest.mark.parametrize("kind", MODELS)
def test_every_step_draws_from_its_law(kind):
    found = pvalues(MODELS[kind], seed=61)
    assert all(fits(p) for p in found.values()), found


@pytest.mark.parametrize("kind", MODELS)
def test_laws_that_are_wrong_by_a_tenth_are_rejected(kind):
    found = pvalues(MODELS[kind], seed=62, change=1.1)
    assert all(rejects(p) for p in found.values()), found


# The power checks: one step each is wrong.


def one_mean_for_all_groups(monkeypatch):
    """Every row has the means of the first group."""
    monkeypatch.setattr(prior, "_group_of", lambda inferred: prior.ONE_GROUP)


def a_move_with_means(change):
    def break_it(monkeypatch):
        right = scales._at_stake

        def wrong(*given):
            shape, table, weights, goes = right(*given)
            return shape, change(table) if goes == -1 else table, weights, goes

        monkeypatch.setattr(scales, "_at_stake", wrong)

    return break_it


WRONG = {
    "one mean for all groups": (one_mean_for_all_groups, {"rows", "scales"}),
    "means of all rows": (joint.means_of_all_rows, {"means"}),
    "a scale move with one group's means": (a_move_with_means(lambda table: table[:1]), {"the scale move"}),
    "a scale move that counts one law for all": (
        a_move_with_means(lambda table: table.sum(axis=0, keepdims=True)),
        {"the scale move"},
    ),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_step_is_caught(name, kind, monkeypatch):
    break_it, steps = WRONG[name]
    break_it(monkeypatch)
    found = pvalues(MODELS[kind], seed=63)
    assert {step for step, p in found.items() if rejects(p)} == steps & found.keys(), found
