"""The collapsed pass: exact where it says so, in burn-in alone, and nothing is held from sweep to sweep."""

from __future__ import annotations

from itertools import product
from unittest.mock import patch

import numba
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import countveil as cv
from countveil.distributions import count_given_release
from countveil.inference.carry import Carry
from countveil.inference.engines.cpu import collapsed
from countveil.inference.engines.cpu.collapsed import _pass_over, _Weights, collapsed_of, collapsed_sweeps
from countveil.inference.engines.cpu.rows import Factors
from countveil.inference.engines.cpu.sampler import open_problem
from countveil.inference.problem import make_problem
from countveil.inference.settings import check_settings
from countveil.kernels.philox import SweepKey
from countveil.models.einsum.prior import ONE_GROUP, PriorRates
from countveil.runtime.workers import Workers
from goodness_of_fit import SEED, discrete_pvalue, fits, rejects

COUNTS = np.random.default_rng(3).poisson(5.0, (70, 9))
BURN_IN = 40
LAST = collapsed_sweeps(BURN_IN)[-1]


def settings(**changes):
    given = {"sweeps": 60, "burn_in": BURN_IN, "thin": 1, "chains": 1, "seed": SEED, "method": "exact"}
    return check_settings(**{**given, "engine": "cpu", "threads": 1, "start": "collapsed", **changes})


def released(counts, rho=3.0, share=0.1):
    hidden = np.random.default_rng(1).random(counts.shape) < share
    return cv.simulate_release(counts, alpha=np.exp(-rho), seed=2).hide(np.nonzero(hidden))


DATA = {
    "plain": COUNTS,
    "plain, missing": np.ma.array(COUNTS, mask=np.random.default_rng(1).random(COUNTS.shape) < 0.2),
    "release": released(COUNTS),
    "mixed rows": cv.stack_rows(released(COUNTS[:40], share=0.0), COUNTS[40:]),
}
MODELS = {
    "inferred": cv.TopicModel(3),
    "fixed": cv.TopicModel(3, rate=1.0),
    "groups": cv.TopicModel(3, groups=["one", "two"] * 35),
    "factorization": cv.Factorization("dk,kv->dv", k=3),
}


def swept(problem, chosen, until, carry=None):
    """The carry of a chain after so many sweeps."""
    with open_problem(problem, chosen) as sampler:
        if carry is None:
            sampler.start(0)
        else:
            sampler.load(carry)
        while sampler.carry(0).sweep < until:
            sampler.sweep(0)
        return sampler.carry(0)


def same(one, two):
    return one.sweep == two.sweep and all(np.array_equal(one.state[n], two.state[n]) for n in one.state)


@pytest.mark.parametrize(
    ("model", "data"), [*((m, "release") for m in MODELS), *(("inferred", d) for d in DATA if d != "release")]
)
def test_draws_depend_neither_on_threads_nor_on_a_stop(model, data):
    problem = make_problem(MODELS[model], DATA[data])
    with patch.object(collapsed, "TOKENS_OF_PART", 100):
        whole = swept(problem, settings(), LAST + 2)
        assert same(whole, swept(problem, settings(threads=3), LAST + 2))
        middle = swept(problem, settings(), LAST - 3)
        assert same(whole, swept(problem, settings(), LAST + 2, Carry.from_bytes(middle.to_bytes())))
        assert len(collapsed_of(problem, settings())._ends) > 2
    assert middle.extra == {}
    assert not same(whole, swept(problem, settings(start="plain"), LAST + 2))


def test_after_its_sweeps_the_kernel_is_the_plain_one():
    problem = make_problem(MODELS["inferred"], DATA["release"])
    at_end = swept(problem, settings(), LAST)
    with_it, without = (swept(problem, settings(start=s), LAST + 5, at_end) for s in ("collapsed", "plain"))
    assert same(with_it, without)
    # Power: with passes it is another one.
    longer = swept(problem, settings(burn_in=56), LAST + 5, at_end)
    assert not same(longer, without)


@pytest.mark.parametrize("burn_in", [0, 3, 4, 100, 1001])
def test_passes_end_long_before_burn_in(burn_in):
    found = collapsed_sweeps(burn_in)
    assert len(found) == burn_in // 4
    assert all(1 <= sweep <= burn_in / 4 for sweep in found)


# A table of 3 x 2 whose tokens have 2**6 allocations to two topics.
TABLE = np.array([[2, 1], [0, 1], [1, 1]])
SHAPE, TOTALS, RATE = 0.5, np.array([0.3, 2.0]), 1.0


def law_of_topics():
    """P(topics of all tokens | Phi), by enumeration: bit i is the topic of token i."""
    rows, columns = np.repeat(np.argwhere(TABLE), TABLE[TABLE > 0], axis=0).T
    logs = []
    for bits in product((0, 1), repeat=len(rows)):
        topics = np.array(bits)[::-1]
        log = 0.0
        for k in range(2):
            mine = topics == k
            by_row, by_column = np.bincount(rows[mine], minlength=3), np.bincount(columns[mine], minlength=2)
            log += gammaln(SHAPE + by_row).sum() - mine.sum() * np.log(RATE + TOTALS[k])
            log += gammaln(SHAPE + by_column).sum() - gammaln(2 * SHAPE + mine.sum())
            log += mine.sum() * np.log(TOTALS[k])
        logs.append(log)
    weights = np.exp(np.array(logs) - max(logs))
    return rows, columns, weights / weights.sum()


@numba.njit
def allocations(seed, tokens, weights, n_passes, found):
    starts, column, topic = tokens
    for i in range(len(found)):
        topic[:] = 0
        by_row = np.zeros((len(starts) - 1, 2), np.int32)
        by_column = np.zeros((2, 2), np.int32)
        for d in range(len(starts) - 1):
            for t in range(starts[d], starts[d + 1]):
                by_row[d, 0] += 1
                by_column[column[t], 0] += 1
        for number in range(n_passes):
            key = SweepKey(seed, 0, i)
            _pass_over(key, number, (0, len(starts) - 1), tokens, weights, by_row, by_column)
        for t in range(len(topic)):
            found[i] += topic[t] << t


def pvalue_of_pass(totals):
    rows, columns, law = law_of_topics()
    starts = np.searchsorted(rows, np.arange(4)).astype(np.int64)
    tokens = collapsed.Listed(starts, columns.astype(np.int32), np.zeros(len(rows), np.int32))
    prior = PriorRates(SHAPE, np.full(1, RATE), np.ones(2), ONE_GROUP)
    per_token = np.tile([0.4, 0.9], (2, 1))  # it cancels, where it is the same for all columns
    weights = _Weights(SHAPE, SHAPE, totals, prior, TOTALS[None], per_token)
    found = np.zeros(20_000, np.int64)
    allocations(np.uint64(SEED), tokens, weights, 40, found)
    return discrete_pvalue(found, lambda codes: np.cumsum(law)[codes], np.arange(len(law) - 1))


def test_a_pass_draws_from_the_law_that_enumeration_gives():
    assert fits(pvalue_of_pass(TOTALS))
    # Without Phi in it, which whole chains do not notice, it is another law.
    assert rejects(pvalue_of_pass(np.ones(2)))


N_ROWS, RHO = 20_000, 2.6
ROW = np.array([-1, 1, 2, 6, 3])
PHI = np.array([[1.2, 0.3], [0.5, 0.5], [0.1, 1.0], [2.0, 2.5], [1.0, 1.0]])


def listed():
    """Tokens of rows that are all alike, the last cell of each missing."""
    hidden = np.zeros((N_ROWS, 5), dtype=bool)
    hidden[:, -1] = True
    data = cv.PrivateCounts(np.tile(ROW, (N_ROWS, 1)), alpha=np.exp(-RHO), mask=hidden)
    passes = collapsed_of(make_problem(cv.TopicModel(2), data), settings())
    factors = Factors(np.ones((N_ROWS, 2)), PHI)
    return passes._listed(factors, SweepKey(np.uint64(SEED), 0, 1), Workers(1))


def test_listed_tokens_are_those_of_the_true_counts():
    tokens = listed()
    rows = np.repeat(np.arange(N_ROWS), np.diff(tokens.starts))
    counts = np.zeros((N_ROWS, 5), dtype=np.int64)
    np.add.at(counts, (rows, tokens.column), 1)
    assert not counts[:, -1].any()
    for v in range(4):
        law = {"x": ROW[v], "mu": PHI[v].sum(), "rho": RHO}
        assert fits(discrete_pvalue(counts[:, v], lambda y, law=law: count_given_release.cdf(y, **law)))
        share, mine = PHI[v, 0] / PHI[v].sum(), tokens.column == v
        drawn = int((tokens.topic[mine] == 0).sum()), int(mine.sum())
        assert fits(stats.binomtest(*drawn, share).pvalue)
    wrong = {"x": 2, "mu": 1.15 * PHI[2].sum(), "rho": RHO}
    assert rejects(discrete_pvalue(counts[:, 2], lambda y: count_given_release.cdf(y, **wrong)))


def test_the_order_of_tokens_does_not_tell_their_topics():
    starts, _, topic = listed()

    def first_is_like_any(topic):
        """Whether the first token of a row has topic 0 as often as its tokens do."""
        some = np.flatnonzero(np.diff(starts))
        share = np.add.reduceat(topic == 0, starts[some]) / np.diff(starts)[some]
        excess = (topic[starts[some]] == 0) - share
        return 2 * stats.norm.sf(abs(excess.sum()) / np.sqrt((share * (1 - share)).sum()))

    assert fits(first_is_like_any(topic))
    # As the engine's proposals come, topic by topic, it would.
    rows = np.repeat(np.arange(N_ROWS), np.diff(starts))
    assert rejects(first_is_like_any(topic[np.lexsort((topic, rows))]))


def test_plain_counts_are_listed_as_they_are():
    problem = make_problem(cv.TopicModel(3), COUNTS)
    factors = Factors(np.ones((70, 3)), np.ones((9, 3)))
    tokens = collapsed_of(problem, settings())._listed(factors, SweepKey(np.uint64(1), 0, 1), Workers(1))
    counts = np.zeros(COUNTS.shape, dtype=np.int64)
    np.add.at(counts, (np.repeat(np.arange(70), np.diff(tokens.starts)), tokens.column), 1)
    assert np.array_equal(counts, COUNTS)


def test_who_is_served():
    def serves(model, data, method="exact", **changes):
        return collapsed_of(make_problem(model, data, method), settings(**changes)) is not None

    topics, release = cv.TopicModel(3), DATA["release"]
    assert serves(topics, release)
    assert serves(topics, COUNTS)
    assert not serves(topics, release, start="plain")
    assert not serves(topics, release, burn_in=3)
    assert not serves(cv.TopicModel(1), release)
    assert not serves(topics, COUNTS[:40])
    assert not serves(topics, release, method="bessel")
    assert not serves(topics, released(COUNTS, rho=2.0))
    assert not serves(topics, cv.combine_releases(release, cv.simulate_release(COUNTS, alpha=0.05, seed=3)))
    assert not serves(cv.CommunityModel(3), COUNTS[:9, :9])
    assert not serves(
        cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2, fixed={"phi": np.ones((2, 9))}), COUNTS
    )
    with patch.object(collapsed, "MOST_TOKENS", COUNTS.sum() - 1):
        assert not serves(topics, COUNTS)


@pytest.mark.parametrize("rho", [3.0, None])
def test_topics_are_found_sooner(rho):
    """After as many sweeps chains with passes are at a likelihood that plain ones reach later."""
    rng = np.random.default_rng(8)
    topics = rng.dirichlet(np.full(300, 0.05), 12)
    counts = rng.poisson(60 * rng.dirichlet(np.full(12, 0.1), 250) @ topics)
    data = counts if rho is None else released(counts, rho, share=0.0)
    problem, ends = make_problem(cv.TopicModel(12), data), {}
    for start in ("plain", "collapsed"):
        with open_problem(problem, settings(start=start, burn_in=100, sweeps=120)) as sampler:
            for chain in range(3):
                sampler.start(chain)
                for _ in range(25):
                    sampler.sweep(chain)
            ends[start] = [sampler.monitor(chain)["log_joint"] for chain in range(3)]
    assert min(ends["collapsed"]) > max(ends["plain"])
