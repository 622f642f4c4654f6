"""Noise of unknown strength in a network, whose release also holds cells that are no part of it."""

from dataclasses import replace

import numpy as np
import pytest

import countveil as cv
from countveil.inference.alpha import AlphaStep
from countveil.inference.engines.cpu.sampler import CpuSampler
from countveil.inference.problem import make_problem
from countveil.models import TopicModel
from countveil.models.community_model import CommunityModel
from countveil.models.count_model import rates_at
from countveil.models.unknown_noise import UnknownNoise
from goodness_of_fit import FALSE_ALARM, SEED
from inference.one_chain import IN_PLACE
from inference.test_unknown_noise import WithAlpha, swept
from joint_test import joint_pvalues

LEFT_OUT = {
    "topics": (TopicModel(2), np.zeros((5, 5), dtype=bool)),
    "communities": (CommunityModel(2), np.eye(5, dtype=bool)),
    "undirected communities": (CommunityModel(2, directed=False), np.tri(5, dtype=bool)),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_the_rate_of_cells_below_is_that_of_the_cells_the_model_speaks_of(name):
    model, left_out = LEFT_OUT[name]
    rng = np.random.default_rng(SEED)
    hidden = rng.random((5, 5)) < 0.2
    values = rng.integers(-3, 5, (5, 5))
    state = model.init(cv.PrivateCounts(values, alpha=0.5), rng)
    below = ~hidden & ~left_out & (values <= 0)
    expected = (model.rates(state, slice(0, 5)) * below).sum(axis=1)
    # Whether such cells are hidden or not says nothing about the others.
    for mask in (hidden, hidden | left_out):
        release = cv.PrivateCounts(values, alpha=0.5, mask=mask, clamped=False)
        problem = make_problem(UnknownNoise(model), release)
        step = AlphaStep(problem.views[""], problem.alpha)
        rates = rates_at(model, state, (5, 5), step._rows, step._columns)
        assert step.rates_of_others(state, rates) == pytest.approx(expected)


def test_alpha_is_recovered_from_a_network():
    rng = np.random.default_rng(SEED)
    theta, blocks = rng.gamma(0.5, 1.0, (50, 2)), np.array([[1.5, 0.1], [0.3, 1.0]])
    counts = rng.poisson(theta @ blocks @ theta.T)
    release = cv.simulate_release(counts, alpha=0.4, seed=SEED, keep_negative=True)
    release = cv.PrivateCounts(release.to_dense(), alpha=0.6, keep_negative=True)
    model = UnknownNoise(CommunityModel(2, shape=0.5))
    posterior = cv.fit(model, release, sweeps=300, seed=SEED, progress=False)
    draws = posterior.tree["posterior"]["alpha"].to_numpy()
    assert abs(draws.mean() - 0.4) < 5 * draws.std() < 0.1


ACTORS, COMMUNITIES = 4, 2
NETWORKS = {
    "directed": UnknownNoise(CommunityModel(COMMUNITIES, shape=1.1, rate=1.2), prior=(2, 3)),
    "undirected": UnknownNoise(
        CommunityModel(COMMUNITIES, directed=False, shape=1.1, rate=1.2), prior=(2, 3)
    ),
}


class Network:
    """A release, and its chain, made once."""

    def __init__(self, model, release):
        self.model, self.release = model, release
        self._chain = None

    def chain(self, forgotten):
        if self._chain is None:
            problem = make_problem(self.model, self.release)
            if forgotten is not None:
                problem = replace(problem, alpha=problem.alpha._replace(**{forgotten: 0}))
            self._chain = CpuSampler(problem, 0, 1, workers=IN_PLACE)
        return self._chain


def draw_network(model):
    """alpha, factors and an ordinary release: the whole square, with cells that are no part of the network.

    Of such a cell only abs(x) tells of alpha, and only given that x <= 0. Which of them are <= 0 is decided first, so
    that it says nothing about alpha; their true counts, which nobody knows, are then drawn given that.
    """
    inner = model.model

    def draw(rng):
        theta = rng.gamma(inner.shape, 1 / inner.rate, (ACTORS, COMMUNITIES))
        pi = rng.gamma(inner.shape, 1 / inner.rate, (COMMUNITIES, COMMUNITIES))
        if not inner.directed:
            pi = np.triu(pi) + np.triu(pi, 1).T
        alpha = rng.beta(*model.prior)
        x = noisy(rng, rng.poisson(theta @ pi @ theta.T), alpha)
        rows, columns = inner.left_out(x.shape)
        wanted = np.arange(len(rows)) % 3 > 0  # two thirds of them are x <= 0
        for i, j, below in zip(rows, columns, wanted, strict=True):
            x[i, j] = noisy(rng, rng.integers(0, 3), alpha)
            while (x[i, j] <= 0) != below:
                # A sign that is rare where alpha is small: counts from anything, so from what shows it.
                x[i, j] = noisy(rng, 0 if below else 1 + rng.integers(0, 3), alpha)
        release = cv.PrivateCounts(x, alpha=0.5, clamped=False)
        return WithAlpha(inner.state_type(theta, pi), alpha), Network(model, release)

    return draw


def noisy(rng, y, alpha):
    one, two = rng.geometric(1 - alpha, (2, *np.shape(y)))
    return y + one - two


def network_rates(state):
    theta, pi = state.of
    return theta @ pi @ theta.T


NETWORK_FUNCTIONS = {
    "alpha": lambda state, data: state.alpha,
    "alpha and the noise below": lambda state, data: state.alpha * (1 + data.release.nonpositive.total[0]),
    "theta": lambda state, data: state.of.theta[0, 0],
    "blocks": lambda state, data: state.of.pi.sum(),
    "total rate": lambda state, data: network_rates(state).sum(),
    "fit": lambda state, data: network_rates(state)[0, 1] - data.release.to_dense()[0, 1],
}
# The size at which what is forgotten is caught.
NETWORK_SIZE = {"replicates": 2500, "sweeps": 4}


def network_pvalues(name, forgotten=None, seed=4):
    model = NETWORKS[name]
    return joint_pvalues(
        draw_network(model),
        lambda state, data, key: swept(data.chain(forgotten), state, key),
        NETWORK_FUNCTIONS,
        **NETWORK_SIZE,
        seed=SEED + seed,
    )


BOTH = pytest.mark.parametrize("name", ["directed", pytest.param("undirected", marks=pytest.mark.long)])


@pytest.mark.long
@BOTH
def test_joint_law_of_an_ordinary_release_of_a_network(name):
    pvalues = network_pvalues(name)
    assert min(pvalues.values()) > FALSE_ALARM / len(NETWORK_FUNCTIONS), pvalues


@pytest.mark.long
@pytest.mark.parametrize("name", ["directed", "undirected"])
def test_the_joint_test_catches_cells_that_are_not_counted(name):
    pvalues = network_pvalues(name, forgotten="n_geometric")
    assert min(pvalues.values()) < FALSE_ALARM / len(NETWORK_FUNCTIONS), pvalues


def test_what_a_network_leaves_out_need_not_be_hidden():
    # A release without its negative values cannot tell them apart: the sum is of the diagonal, too.
    values = np.random.default_rng(SEED).integers(-2, 6, (6, 6))
    release = cv.PrivateCounts(values, alpha=0.5)
    unknown = make_problem(UnknownNoise(CommunityModel(2)), release).alpha
    assert unknown.below == -np.minimum(values, 0).sum()
    assert unknown.n_geometric == (np.diag(values) <= 0).sum()
    posterior = cv.fit(UnknownNoise(CommunityModel(2)), release, sweeps=20, seed=SEED, progress=False)
    assert 0 < float(posterior.tree["posterior"]["alpha"].mean()) < 1


def test_zeros_where_a_network_has_no_cells_are_no_evidence():
    """People put them there: np.triu, fill_diagonal. Where noise is, some values are positive."""
    values = np.random.default_rng(SEED).integers(-3, 6, (12, 12))
    undirected, directed = (UnknownNoise(CommunityModel(2, directed=one)) for one in (False, True))
    diagonal, below = np.eye(12, dtype=bool), np.tri(12, dtype=bool)

    def alpha_of(model, values, mask=None, **kept):
        return make_problem(model, cv.PrivateCounts(values, alpha=0.5, mask=mask, **kept)).alpha

    for model, left_out in ((undirected, below), (directed, diagonal)):
        zeros = np.where(left_out, 0, values)
        assert alpha_of(model, zeros) == alpha_of(model, values, left_out)
        assert alpha_of(model, values) != alpha_of(model, values, left_out)
        # One by one they are told apart.
        assert alpha_of(model, values, keep_negative=True) == alpha_of(model, values, left_out)
    half = np.triu(values)
    assert alpha_of(undirected, half).n_geometric == (np.diag(values) <= 0).sum()


def test_pairs_that_stand_in_both_halves_are_no_further_evidence():
    values = np.random.default_rng(SEED).integers(-3, 6, (12, 12))
    upper, diagonal = np.triu(values, 1), np.eye(12, dtype=bool)
    alone = np.ma.array(upper, mask=np.tri(12, dtype=bool))
    both = np.ma.array(upper + upper.T, mask=diagonal)
    model = UnknownNoise(CommunityModel(2, directed=False))
    once = make_problem(model, cv.PrivateCounts(alone, alpha=0.5)).alpha
    kept = make_problem(model, cv.PrivateCounts(both, alpha=0.5, keep_negative=True)).alpha
    assert kept == once
    words = "data: expected each pair of a network without directions once"
    with pytest.raises(ValueError, match=words):
        make_problem(model, cv.PrivateCounts(both, alpha=0.5))
    some = both.copy()
    some[3:5, :2] = np.ma.masked
    with pytest.raises(ValueError, match=words):
        make_problem(model, cv.PrivateCounts(some, alpha=0.5))
    # Noise of its own on each half is evidence, and what a mask says is followed.
    halves = np.ma.array(values, mask=diagonal)
    assert (
        make_problem(model, cv.PrivateCounts(halves, alpha=0.5)).alpha.n_geometric
        == (values[np.tri(12, k=-1, dtype=bool)] <= 0).sum()
    )
    masked = cv.PrivateCounts(both, alpha=0.5, mask=np.tri(12, dtype=bool))
    assert make_problem(model, masked).alpha == once
    assert (
        make_problem(UnknownNoise(CommunityModel(2)), cv.PrivateCounts(both, alpha=0.5)).alpha.n_geometric
        == 0
    )
