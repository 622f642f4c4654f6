"""Chains in different modes are told from chains that are slow, short or on their way; averages over them warn."""

import copy
import warnings

import numpy as np
import pytest
from scipy.signal import lfilter

import countveil as cv
from countveil.evaluation import held_out_log_score, log_likelihood
from countveil.posterior import warn_of_modes
from countveil.posterior.diagnostics.modes import modes_of, posterior_modes
from countveil.posterior.diagnostics.summary import summarize
from countveil.posterior.diagnostics.verdict import convergence
from goodness_of_fit import SEED


def chains(rng, correlation, draws, n=4):
    """Chains of one mode that begin in it: AR(1) with standard deviation 1."""
    noise = rng.normal(size=(n, draws)) * np.sqrt(1 - correlation**2)
    start = correlation * rng.normal(size=(n, 1))
    return lfilter([1.0], [1.0, -correlation], noise, axis=1, zi=start)[0]


# The last has an autocorrelation time, (1 + 0.99) / (1 - 0.99) = 199 draws, of twice its length: nobody could be sure.
@pytest.mark.parametrize(
    ("correlation", "draws", "most"),
    [(0.0, 10, 0), (0.0, 500, 0), (0.9, 500, 0), (0.97, 500, 0), (0.99, 100, 8)],
)
def test_one_mode_is_one_mode_and_another_is_found(correlation, draws, most):
    rng, repetitions = np.random.default_rng(SEED), 40
    alarms = found = 0
    for _ in range(repetitions):
        values = chains(rng, correlation, draws)
        alarms += modes_of(values).differ
        values[2] -= 60.0
        found += (2,) in modes_of(values).groups
    assert alarms <= most
    assert found == repetitions


def test_a_chain_on_its_way_is_not_in_another_mode():
    rng, time = np.random.default_rng(SEED), np.linspace(0, 1, 100)
    for pace in (0.2, 1.0, 3.0):  # with 3 it goes from 100 below to 72 below: at that pace it arrives
        values = 5 * chains(rng, 0.5, 100)
        values[2] -= 100 * np.exp(-time / pace)
        assert not modes_of(values).differ
    stuck = 5 * chains(rng, 0.5, 100)
    stuck[2] -= 86  # as far below on average, and it stays there
    assert modes_of(stuck).differ


def test_the_words():
    rng = np.random.default_rng(SEED)
    values = rng.normal(-12_276, 15, (4, 200))
    assert str(modes_of(values)) == ""
    values[2] -= 1257
    told = str(modes_of(values))
    assert "Chain 2 is 1,2" in told
    assert "below the others in log-likelihood" in told
    assert "probably another solution, which longer chains may not leave" in told
    assert "posterior.chains([0, 1, 3]) takes the best" in told
    values[1] -= 335
    told = str(modes_of(values))
    assert told.index("hain 1 is 33") < told.index("and chain 2 is 1,2") < told.index("below chains 0 and 3")
    assert "other solutions" in told
    told = str(modes_of(values[[0, 2]], [0, 2]))
    assert told.startswith("The two chains disagree: chain 2 is 1,2")
    assert "below chain 0" in told
    assert not modes_of(values[2:3]).differ
    assert not modes_of(values[:, :9]).differ, "nine draws say nothing of the spread"
    assert not modes_of(np.where(np.arange(200) == 3, -np.inf, values)).differ
    flat = np.repeat([[1.0], [2.0]], 20, axis=1)
    assert modes_of(flat).differ, "two chains that never move are not in one place"
    assert not modes_of(np.ones((2, 20))).differ


def test_a_chain_that_wanders_joins_no_two_modes():
    """As seen on a network: chain 0 leaves its mode for the best one halfway."""
    values = np.random.default_rng(SEED).normal(-3485, 10, (5, 100))
    values[3] -= 384
    values[4] -= 523
    values[0, :50] -= 400
    found = modes_of(values)
    assert found.groups == ((0, 1, 2), (3,), (4,))
    assert found.unsettled == (0,)
    assert "Chain 0 has not settled." in str(found)
    assert "posterior.chains([1, 2]) takes the best" in str(found)
    assert found.levels[0] == pytest.approx(-3485, abs=5), "the level of those that stay"
    assert "chain 4 is 52" in str(found)
    only = modes_of(values[:2])
    assert not only.differ, "one of them is on its way: nothing speaks of two solutions"


@pytest.fixture
def apart(posterior):
    """A posterior whose chain 1 is 500 below."""
    other = copy.copy(posterior)
    other.tree = posterior.tree.copy(deep=True)
    other.tree["sample_stats"]["sampled_log_likelihood"][1] -= 500
    return other


def test_the_summary_says_so(posterior, apart):
    told = apart.summary(2).verdict
    assert "The two chains disagree: chain 1 is" in told
    assert "posterior.chains([0])" in told
    assert "Worst R-hat" in told
    assert "More sweeps" not in told
    assert str(apart.summary(2)).endswith(told)
    assert "The two chains disagree" in apart.summary(2)._repr_html_()
    assert "disagree" not in str(posterior.summary(2))
    assert type(apart.summary(2)[["mean"]]).__name__ == "DataFrame"


def test_averages_over_them_warn(posterior, apart, release):
    true = np.ones(release.shape, int)
    averages = {
        "rates": lambda p: p.rates(),
        "true_counts": lambda p: p.true_counts([0]),
        "log_likelihood": log_likelihood,
        "held_out_log_score": lambda p: held_out_log_score(p, true),
        "transform": lambda p: cv.transform(p, [[9, 8, 0, 0, 1]], seed=1, progress=False),
        "my_check": lambda p: warn_of_modes(p, "my_check", stacklevel=2),
    }
    for name, average in averages.items():
        with pytest.warns(UserWarning, match=f"^{name}: an average over chains that do not agree") as found:
            average(apart)
        assert found[0].filename == __file__, name
        assert found[0].category.__name__ == "ModesWarning"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            average(posterior)
            average(apart.chains([0]))


@pytest.mark.long
def test_the_modes_of_a_network():
    """Planted communities, from many starts: the levels that chains end at, and what the verdict makes of them."""
    rng = np.random.default_rng(3)
    group = rng.integers(8, size=60)  # so many that one chain in four does not find them
    counts = rng.poisson(np.where(group[:, None] == group, 4.0, 0.2))
    np.fill_diagonal(counts, 0)
    release = cv.simulate_release(counts, epsilon=2, seed=0)
    posterior = cv.fit(
        cv.CommunityModel(8), release, sweeps=800, burn_in=600, chains=12, seed=SEED, progress=False
    )
    level = posterior.tree["sample_stats"]["sampled_log_likelihood"]
    means, spread = level.mean("draw").to_numpy(), float(level.std("draw").median())
    far = np.flatnonzero(means < means.max() - 6 * spread)
    assert len(far), "these starts end at several levels"
    best = {chain for group in posterior_modes(posterior).rivals for chain in group}
    assert int(means.argmax()) in best
    assert not set(far) & best
    assert "which longer chains may not leave" in posterior.summary(0).verdict


def places(rng, groups):
    """Mean rates of chains by part, (chain, 4, cell): chains of one group are about one place."""
    where = {group: rng.normal(0, 5, 50) for group in set(groups)}
    return np.array([where[group] + rng.normal(size=(4, 50)) for group in groups])


def test_chains_far_below_are_no_rivals_of_the_best():
    """As seen on a network: eight chains, two of them in the best solution, six in others far below."""
    rng = np.random.default_rng(SEED)
    levels = np.array([-8717.0, -8544, -8624, -8595, -8857, -8817, -7951, -7951])
    values = levels[:, None] + rng.normal(0, 13, (8, 20))
    found = modes_of(values, rates=places(rng, "abcdefgg"))
    assert found.rivals == ((6, 7),)
    assert "below chains 6 and 7 in log-likelihood" in found.finding
    assert "posterior.chains([6, 7]) takes the best" in found.advice
    assert "report both" not in found.advice
    values[5] = values[7] - 5  # as likely as the best, with other rates
    found = modes_of(values, rates=places(rng, "abcdefgg"))
    assert found.rivals in (((6, 7), (5,)), ((5,), (6, 7)))
    assert found.finding.startswith(
        "Chains 6 and 7 agree with each other, chain 5 with no other: rates differ"
    )
    assert "Probably two solutions" in found.finding
    assert "Chains 0, 1, 2, 3 and 4 are 5" in found.finding
    assert "posterior.chains([5]) and posterior.chains([6, 7]) take one each: report both" in found.advice


@pytest.mark.parametrize("with_rates", [True, False])
def test_a_chain_that_climbs_above_the_others_keeps_one_from_selecting(with_rates):
    rng = np.random.default_rng(SEED)
    values = np.array([-8600.0, -8906, -8617, -8617])[:, None] + rng.normal(0, 10, (4, 40))
    values[0, 20:] += 650
    rates = places(rng, "abcc")
    rates[0, :2] = rates[2, :2]  # where the others are, at first
    found = modes_of(values, rates=rates if with_rates else None)
    assert found.differ
    said = str(found)
    if 0 in found.unsettled:
        assert "Chain 0 has not settled, and is 6" in said
        assert "Select none of them yet: a longer burn-in" in said
        assert "takes the best" not in said
    else:  # a solution of its own, at the level it has come to
        assert found.groups[0] == (0,)
        assert found.levels[0] == pytest.approx(-7950, abs=10)
        assert "posterior.chains([0]) takes the best" in said
        assert "Chain 0 came there after burn-in: posterior.with_burn_in(N)" in said


def test_small_steps_do_not_join_ends_that_are_far_apart():
    rng = np.random.default_rng(SEED)
    levels = np.array([-6704.0, -6736.0, -6748.0, -6786.0])  # of four chains of one network
    found = modes_of(levels[:, None] + rng.normal(0, 12, (4, 200)))
    assert found.differ
    assert 0 in found.groups[0]
    assert 3 in found.groups[-1]


def test_chains_that_disagree_are_promised_nothing():
    table = summarize({"rate": np.random.default_rng(SEED).normal([[0], [1], [2], [3]], 1, (4, 100))}, 0.9)
    one = modes_of(np.random.default_rng(SEED).normal(0, 1, (4, 100)))
    told = convergence(table, one, 4)
    assert "The chains disagree" in told
    assert "bring them nearer" not in told


def test_a_chain_that_has_jumped_and_is_still_below_is_in_another_mode():
    """Its spread over all draws is that of the jump, beside which no distance seems large."""
    draws = np.random.default_rng(0).normal(-3680, 10, (4, 100))
    draws[3, :60] -= 864
    arrived = modes_of(draws)  # at the level of the others
    assert (arrived.groups, arrived.unsettled) == (((0, 1, 2, 3),), (3,))
    draws[3, 60:] -= 446
    below = modes_of(draws)
    assert below.groups == ((0, 1, 2), (3,))
    assert "Chain 3 is 447 below the others" in below.finding


def test_slow_chains_of_one_mode_are_not_called_two():
    """An autocorrelation time of a third of their length."""
    for seed in range(100):
        rng, chains = np.random.default_rng(seed), np.empty((4, 100))
        chains[:, 0] = rng.normal(size=4)
        for t in range(1, 100):
            chains[:, t] = 0.97 * chains[:, t - 1] + np.sqrt(1 - 0.97**2) * rng.normal(size=4)
        assert not modes_of(chains).differ


def test_of_thousands_of_chains_nothing_is_said():
    """The time would go with their third power, and a stranger's run may have so many."""
    values = np.random.default_rng(0).normal(size=(4000, 20))
    values[::2] += 1000
    assert modes_of(values[:200]).differ
    assert modes_of(values, rates=np.zeros((4000, 4, 3))).groups == (tuple(range(4000)),)
