"""The same counts released several times: the law of a sweep, the joint law, and a case by quadrature."""

from functools import cached_property

import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats
from scipy.special import logsumexp

import countveil as cv
from countveil.counts import CombinedReleases
from countveil.inference.engines.cpu.cells import Cells, draw_counts
from countveil.inference.engines.cpu.tokens import Tokens
from countveil.inference.new_rows import NewRows, RowPrior, new_row_draws
from countveil.inference.observed import observe
from countveil.inference.problem import make_problem
from countveil.kernels.philox import SweepKey
from countveil.models import CommunityModel, TopicModel
from exact_laws import cdf_of_log_weights
from goodness_of_fit import FALSE_ALARM, SEED, discrete_pvalue, fits, rejects
from inference.one_chain import IN_PLACE, OneChain, TopicState, changed
from joint_test import joint_pvalues

MODEL = TopicModel(2, shape=1.0, rate=0.7)
NET = CommunityModel(2, shape=1.1, rate=1.2)


def log_likelihood_of(y, seen):
    """log P(releases | y), up to a constant, from (x, rho) of the releases that show the cell."""
    return -sum(rho * np.abs(max(x, 0) - y) for x, rho in seen)


# A row of all kinds of cells: (first release, second release), None where it is missing.
KINDS = [(3, 6), (2, -1), (0, -4), (0, None), (None, 5), (None, -2), (None, None), (1, 0)]
NOISE = (0.4, 1.1)
STATE = TopicState(
    np.array([[1.0, 0.4]]), np.array([[2.0, 1, 3, 2, 1, 4, 2, 0.1], [1.0, 2, 0, 1, 5, 0, 3, 0.2]]).T.copy().T
)


def observed_kinds():
    values = np.array([[0 if x is None else x for x in kind] for kind in KINDS]).T
    missing = np.array([[x is None for x in kind] for kind in KINDS]).T
    both = [cv.PrivateCounts(values[r : r + 1], rho=NOISE[r], mask=missing[r : r + 1]) for r in (0, 1)]
    return observe(cv.combine_releases(*both))


SEEN = observed_kinds()


def allocated_by(algorithm):
    """(counts, tokens of the first topic) of the cells, of one sweep of an algorithm for the matrix form."""
    chain = OneChain(MODEL, SEEN, matrix=algorithm)

    def draw(key):
        sums = chain.matrix_tokens(STATE, key)
        counts = sums.columns.sum(axis=1)
        assert sums.rows.sum() == counts.sum()
        return counts, sums.columns[:, 0]

    return draw


def drawn_for_any_model(key):
    """Of a user's own model, and of factorizations that do not unfold: nothing is allocated yet."""
    shape = (1, len(KINDS))
    return draw_counts(MODEL, STATE, SEEN, shape, key, IN_PLACE, {})[0], None


WAYS = {
    "tokens": allocated_by(Tokens(SEEN, 2, IN_PLACE)),
    "tokens, crowded": allocated_by(Tokens(SEEN, 2, IN_PLACE, tokens_per_visit=0.0)),
    "cells": allocated_by(Cells(SEEN)),
    "any model": drawn_for_any_model,
}


@pytest.mark.parametrize(
    "way", [n if n != "tokens, crowded" else pytest.param(n, marks=pytest.mark.long) for n in WAYS]
)
def test_one_sweep_draws_every_kind_of_cell_from_its_exact_law(way):
    n = 30_000
    counts = np.empty((n, len(KINDS)), dtype=np.int64)
    of_topic = np.zeros((n, len(KINDS)), dtype=np.int64)
    for i in range(n):
        counts[i], found = WAYS[way](SweepKey(np.uint64(SEED), 0, i))
        of_topic[i] = 0 if found is None else found
    rates = (STATE.theta @ STATE.phi)[0]
    y = np.arange(200)
    for v, kind in enumerate(KINDS):
        seen = [(x, rho) for x, rho in zip(kind, NOISE, strict=True) if x is not None]
        if not seen and way != "any model":  # which gets missing counts drawn from their rates
            assert not counts[:, v].any()  # a missing cell takes no tokens
            continue
        likelihood = log_likelihood_of(y, seen) + np.zeros(len(y))

        def law(mu, likelihood=likelihood):
            return cdf_of_log_weights(stats.poisson.logpmf(y, mu) + likelihood, 0)

        assert fits(discrete_pvalue(counts[:, v], law(rates[v]))), kind
        if v < 7:  # the last cell is nearly always empty
            assert rejects(discrete_pvalue(counts[:, v], law(1.1 * rates[v]))), kind
        if way == "any model":
            continue
        # Allocated in proportion to the terms.
        share = STATE.theta[0, 0] * STATE.phi[0, v] / rates[v]
        total = counts[:, v].sum()
        assert abs(of_topic[:, v].sum() - share * total) <= 5 * np.sqrt(
            max(total * share * (1 - share), 1e-9)
        )


ROWS, COLUMNS = 3, 4
FIRST = np.array([[1.0], [0.3], [0.5]])
SECOND = np.array([[0.5], [0.5], [2.0]])
MASKS = (
    np.array([[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]], dtype=bool),
    np.array([[1, 0, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]], dtype=bool),
)


class Seen:
    """One data set, and its chain, made once."""

    def __init__(self, model, releases, kind):
        self.first, self.second = (release.to_dense(missing=0) for release in releases)
        self._given = model, releases, kind

    @cached_property
    def chain(self):
        model, releases, kind = self._given
        data = {"one twice": [releases[0]] * 2, "forgotten": releases[:1]}.get(kind, releases)
        found = make_problem(model, combined(data)).views[""].observed
        if kind == "masks":  # cells that one release does not show reached as if both did
            whole = np.repeat(found.look_rho.sum(axis=0), np.diff(found.partial_starts))
            found = changed(found, partial_rho=whole)
        return OneChain(model, found, algorithm="cells" if kind == "cells" else "auto")


def combined(releases):
    # Not by combine_releases: in tiny data two releases may agree by chance.
    return CombinedReleases(tuple(releases))


def noisy(rng, rates, masks):
    y = rng.poisson(rates)
    found = []
    for rho, mask in zip((FIRST, SECOND), masks, strict=True):
        one, two = rng.geometric(-np.expm1(-rho), (2, *y.shape))
        found.append(cv.PrivateCounts(y + one - two, rho=rho[:, 0], mask=mask))
    return found


def topics_pair(masks, kind=""):
    def draw(rng):
        theta = rng.gamma(MODEL.shape, 1 / MODEL.rate, (ROWS, 2))
        phi = rng.gamma(MODEL.shape, 1 / MODEL.rate, (COLUMNS, 2)).T
        return TopicState(theta, phi), Seen(MODEL, noisy(rng, theta @ phi, masks), kind)

    return draw


def network_pair(kind=""):
    diagonal = np.eye(3, dtype=bool)

    def draw(rng):
        theta, pi = rng.gamma(NET.shape, 1 / NET.rate, (3, 2)), rng.gamma(NET.shape, 1 / NET.rate, (2, 2))
        rates = theta @ pi @ theta.T
        return NET.state_type(theta, pi), Seen(NET, noisy(rng, rates, (diagonal, diagonal)), kind)

    return draw


WHOLE = cv.Factorization("dvk,k->dv", names=["theta", "level"], shape=1.1, rate=1.2, k=2)


def whole_pair(kind=""):
    """A model whose first axis stands in a factor with the second one."""

    def draw(rng):
        theta, level = rng.gamma(1.1, 1 / 1.2, (ROWS, COLUMNS, 2)), rng.gamma(1.1, 1 / 1.2, 2)
        return WHOLE.state_type(theta, level), Seen(WHOLE, noisy(rng, theta @ level, MASKS), kind)

    return draw


def sampler(state, data, key):
    return data.chain.sweep(state, key)


def rates_of(state):
    others = {"phi": lambda: state.phi, "pi": lambda: state.pi @ state.theta.T, "level": lambda: state.level}
    return state.theta @ others[state._fields[1]]()


def distance(rates, values):
    return np.abs(np.log(0.3 + rates) - np.log(0.3 + values)).sum()


FUNCTIONS = {
    "theta": lambda state, data: state[0][(0,) * state[0].ndim],
    "other factor": lambda state, data: state[1][(1,) * state[1].ndim],
    "total rate": lambda state, data: rates_of(state).sum(),
    "a cell and its first release": lambda state, data: rates_of(state)[0, 2] - data.first[0, 2],
    "distance from the first": lambda state, data: distance(rates_of(state), data.first),
    "distance from the second": lambda state, data: distance(rates_of(state), data.second),
}
CASES = {
    "topics": topics_pair((None, None)),
    "topics, different masks": topics_pair(MASKS),
    "topics by cells, different masks": topics_pair(MASKS, "cells"),
    "network": network_pair(),
    "network by cells": network_pair("cells"),
    "a factorization that does not unfold": whole_pair(),
}
WRONG = {
    "one release forgotten": topics_pair((None, None), "forgotten"),
    "one release taken twice": topics_pair((None, None), "one twice"),
    "masks forgotten in the tokens": topics_pair(MASKS, "masks"),
    "network, one release taken twice": network_pair("one twice"),
    "not unfolded, one release taken twice": whole_pair("one twice"),
}
# The size at which the wrong samplers are caught.
FULL = {"replicates": 4000, "sweeps": 6}


@pytest.mark.parametrize(
    "name", ["topics, different masks", "network", "a factorization that does not unfold"]
)
def test_joint_law(name):
    pvalues = joint_pvalues(CASES[name], sampler, FUNCTIONS, replicates=125, sweeps=3, seed=SEED + 3)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_joint_law_with_many_replicates(name):
    pvalues = joint_pvalues(CASES[name], sampler, FUNCTIONS, **FULL, seed=SEED + 1)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_the_joint_test_catches(name):
    pvalues = joint_pvalues(WRONG[name], sampler, FUNCTIONS, **FULL, seed=SEED + 2)
    assert min(pvalues.values()) < FALSE_ALARM / len(FUNCTIONS), pvalues


def test_agreement_with_quadrature():
    # One topic, one row, three cells released twice: a single unknown number, the true counts summed out by hand.
    phi, rho = np.array([[2.0, 0.5, 1.0]]), (0.8, 0.5)
    values = np.array([[6, -2, 1], [2, 1, -1]])
    y, grid = np.arange(150), np.linspace(1e-3, 20, 4000)
    log_f = stats.gamma.logpdf(grid, 1.3, scale=1 / 0.5)
    for v in range(3):
        seen = [(values[r, v], rho[r]) for r in (0, 1)]
        each = stats.poisson.logpmf(y, phi[0, v] * grid[:, None]) + log_likelihood_of(y, seen)
        log_f = log_f + logsumexp(each, axis=1)
    weights = np.exp(log_f - log_f.max())
    weights /= weights.sum()
    exact = (weights * grid).sum()
    settings = {"sweeps": 2, "burn_in": 50, "seed": SEED, "threads": 1}

    def draws_given(data):
        prior = RowPrior(1.3, lambda chain, draw: np.array([1.3 / 0.5]))
        drawn, _ = new_row_draws(prior, [NewRows(data, lambda chain, draw: phi)], (2, 6000), **settings)
        return drawn[..., 0, 0].astype(float)

    both = cv.combine_releases(*(cv.PrivateCounts(values[r : r + 1], rho=rho[r]) for r in (0, 1)))
    draws = draws_given(both)
    assert abs(draws.mean() - exact) < 5 * array_stats.mcse(draws)
    assert abs(1.1 * draws.mean() - exact) > 5 * array_stats.mcse(draws)
    alone = draws_given(cv.PrivateCounts(values[:1], rho=rho[0]))
    assert abs(alone.mean() - exact) > 5 * array_stats.mcse(alone)  # the second is no idle word


def draw_sums(data, state, n, first):
    """(n, sums) of all sweeps: row by topic, then column by topic."""
    chain = OneChain(TopicModel(2, rate=1.0), observe(data), algorithm="tokens")
    found = (chain.matrix_tokens(state, SweepKey(np.uint64(SEED + 5), 0, first + i)) for i in range(n))
    return np.array([np.concatenate([s.rows.ravel(), s.columns.ravel()]) for s in found])


def two_sample_pvalue(one, two):
    """Smallest chi-square p-value over all sums and their differences from the first, times their number."""
    pvalues = []
    for a, b in ((f(one, j), f(two, j)) for j in range(one.shape[1]) for f in (_margin, _difference)):
        edges = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0, 1, 12)[1:-1], method="nearest"))
        table = np.array([np.bincount(np.searchsorted(edges, s), minlength=len(edges) + 1) for s in (a, b)])
        table = table[:, table.sum(axis=0) > 0]
        if table.shape[1] > 1:
            pvalues.append(stats.chi2_contingency(table, correction=False).pvalue)
    return min(1.0, len(pvalues) * min(pvalues))


def _margin(sums, j):
    return sums[:, j]


def _difference(sums, j):
    return sums[:, j] - sums[:, 0]


@pytest.mark.long
def test_combined_from_a_single_release_it_has_the_law_of_the_ordinary_fit():
    values = np.array([[1, 0, 2, 0], [0, 3, 0, 1], [5, 1, 1, 0]])
    state = TopicState(
        np.array([[1.0, 0.2], [0.1, 0.8], [2.0, 1.0]]),
        np.array([[0.9, 0.1], [0.0, 1.5], [0.4, 0.3], [0.05, 0.6]]).T,
    )
    release = cv.PrivateCounts(values, alpha=[0.5, 0.3, 0.2], mask=values == 2)
    data = (
        CombinedReleases((release,)),
        release,
        cv.PrivateCounts(values, alpha=[0.55, 0.33, 0.22], mask=values == 2),
    )
    ours, ordinary, wrong = (
        draw_sums(one, state, 30_000, first) for one, first in zip(data, (0, 10**6, 2 * 10**6), strict=True)
    )
    assert two_sample_pvalue(ours, ordinary) > FALSE_ALARM
    assert two_sample_pvalue(ours, wrong) < FALSE_ALARM
