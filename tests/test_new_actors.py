"""New actors of a network: their law, and ``cv.transform``."""

import numpy as np
import pandas as pd
import pytest
from arviz_stats.base import array_stats
from scipy import stats

import countveil as cv
from countveil.distributions import release_given_rate
from countveil.inference.engines.cpu.tokens import Tokens
from countveil.inference.new_rows import NewRows, RowPrior, _Rows, choices_of, new_row_draws, sweep_new_rows
from countveil.inference.observed import observe
from countveil.inference.settings import derived_seed
from countveil.models.einsum.inferred import Prior
from countveil.models.einsum.prior import PriorRates
from countveil.runtime.workers import Workers
from countveil.transforming.known_columns import known_columns
from goodness_of_fit import FALSE_ALARM, SEED, fits, rejects
from joint_test import joint_pvalues

IN_PLACE = Workers(1)
PRIOR = Prior(1.0, 0.7)
# Three known actors in two communities.
THETA = np.array([[1.5, 0.1], [0.2, 1.0], [0.7, 0.6]])
PI = np.array([[1.0, 2.0], [0.1, 0.5]])
SENT, RECEIVED = (THETA @ PI.T).T, (THETA @ PI).T  # (community, known actor)
NOISE = (1.0, 0.5)
MISSING = np.array([[0, 1, 0], [0, 0, 0]], dtype=bool)


def noisy(rng, y, rho, missing=None):
    one, two = rng.geometric(-np.expm1(-rho), (2, *y.shape))
    return cv.PrivateCounts(y + one - two, rho=rho, mask=missing)


def algorithms_of(data):
    """Those that a transform takes: one integrates cells out, where noise is strong."""
    chosen = choices_of(data, 2).algorithms
    assert [name for name, _ in chosen] == ["tokens", "integrated"][: len(data)]
    return [
        Tokens(observe(one), 2, IN_PLACE, integrate=name == "integrated", chosen=choice)
        for one, (name, choice) in zip(data, chosen, strict=True)
    ]


def draw_actors(rng, n=2, missing=MISSING):
    """theta of new actors from the prior, and what they sent and received, each with its own noise."""
    theta = rng.gamma(PRIOR.shape, 1 / PRIOR.rate, (n, 2))
    data = [
        noisy(rng, rng.poisson(theta @ phi), rho, missing)
        for phi, rho in zip((SENT, RECEIVED), NOISE, strict=True)
    ]
    return theta, data


def sampler(theta, data, key, phis=(SENT, RECEIVED), swapped=False):
    algorithms = algorithms_of(data)
    if swapped:
        algorithms = algorithms[::-1]
    return swept(algorithms, theta, key, phis)


def swept(algorithms, theta, key, phis=(SENT, RECEIVED)):
    keys = [key, key._replace(seed=derived_seed(key.seed, "received"))]
    phis = [np.ascontiguousarray(phi.T) for phi in phis]
    prepared = [one.prepare(phi, IN_PLACE) for one, phi in zip(algorithms, phis, strict=True)]
    rates = PriorRates(PRIOR.shape, np.full(1, PRIOR.rate), np.ones(2))
    rows = _Rows(theta, len(phis))
    sweep_new_rows(rates, algorithms, rows, phis, prepared, [None] * len(phis), keys, IN_PLACE)
    return rows.theta


def for_new_rows(prior, n_components):
    """A fixed prior, as new rows are given it."""
    return RowPrior(prior.shape, lambda chain, draw: np.full(n_components, prior.shape / prior.rate))


def sent_taken_for_received(theta, data, key):
    return sampler(theta, data, key, swapped=True)


def received_forgotten_in_the_exposure(theta, data, key):
    algorithms = algorithms_of(data)
    drawn = algorithms[1].draw

    def draw(*given):
        return drawn(*given)._replace(exposure=_Nothing())

    algorithms[1].draw = draw
    return swept(algorithms, theta, key)


class _Nothing:
    def of_rows(self, factor):
        return np.zeros((1, factor.shape[1]))


FUNCTIONS = {
    "first actor": lambda theta, data: theta[0, 0],
    "second actor": lambda theta, data: theta[1, 1],
    "total": lambda theta, data: theta.sum(),
    "fit of what was sent": lambda theta, data: (theta @ SENT)[0, 0] - data[0].to_dense(missing=0)[0, 0],
    "fit of what was received": lambda theta, data: (
        (theta @ RECEIVED)[1, 1] - data[1].to_dense(missing=0)[1, 1]
    ),
}
WRONG = {
    "sent taken for received": sent_taken_for_received,
    "received forgotten in the exposure": received_forgotten_in_the_exposure,
}
# The size at which the wrong samplers are caught.
FULL = {"replicates": 2500, "sweeps": 4}


def test_joint_law():
    pvalues = joint_pvalues(draw_actors, sampler, FUNCTIONS, replicates=100, sweeps=3, seed=SEED + 1)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
def test_joint_law_with_many_replicates():
    pvalues = joint_pvalues(draw_actors, sampler, FUNCTIONS, **FULL, seed=SEED + 2)
    assert min(pvalues.values()) > FALSE_ALARM / len(FUNCTIONS), pvalues


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_the_joint_test_catches(name):
    pvalues = joint_pvalues(draw_actors, WRONG[name], FUNCTIONS, **FULL, seed=SEED + 3)
    assert min(pvalues.values()) < FALSE_ALARM / len(FUNCTIONS), pvalues


def rank_pvalue(phis, n=2500, n_draws=19):
    """Simulation-based calibration over actors: the rank of the true theta among its draws is uniform."""
    theta, data = draw_actors(np.random.default_rng(SEED + 4), n, None)
    views = [NewRows(one, lambda chain, draw, phi=phi: phi) for one, phi in zip(data, phis, strict=True)]
    prior, settings = for_new_rows(PRIOR, 2), {"sweeps": 20, "burn_in": 60, "seed": SEED, "threads": 1}
    draws, _ = new_row_draws(prior, views, (1, n_draws), **settings)
    ranks = (draws[0, :, :, 0] < theta[:, 0]).sum(axis=0)
    return stats.chisquare(np.bincount(ranks, minlength=n_draws + 1)).pvalue


@pytest.mark.long
def test_intervals_are_calibrated():
    assert fits(rank_pvalue((SENT, RECEIVED)))
    assert rejects(rank_pvalue((RECEIVED, SENT)))


def quadrature_mean(prior, seen):
    """E[theta] where theta is one number: seen = (released values, phi, rho), any number of times."""
    grid = np.linspace(1e-4, 40, 40_000)
    log_f = stats.gamma.logpdf(grid, prior.shape, scale=1 / prior.rate)
    for values, phi, rho in seen:
        for x, p in zip(values, phi, strict=True):
            log_f = log_f + release_given_rate.logpmf(x, p * grid, rho)
    weights = np.exp(log_f - log_f.max())
    return float((weights * grid).sum() / weights.sum())


def test_agreement_with_quadrature():
    # One community: a single unknown number, the true counts summed out in closed form.
    prior, sent, received = Prior(1.3, 0.5), np.array([[2.0, 0.5, 1.0]]), np.array([[0.3, 1.5, 0.2]])
    values = (np.array([[6, -2, 1]]), np.array([[0, 4, 1]]))
    data = [cv.PrivateCounts(x, rho=rho) for x, rho in zip(values, (0.8, 1.5), strict=True)]
    views = [NewRows(one, lambda c, d, phi=phi: phi) for one, phi in zip(data, (sent, received), strict=True)]
    settings = {"sweeps": 3, "burn_in": 50, "seed": SEED, "threads": 1}
    draws, _ = new_row_draws(for_new_rows(prior, 1), views, (2, 4000), **settings)
    draws = draws[..., 0, 0].astype(float)
    exact = quadrature_mean(prior, [(values[0][0], sent[0], 0.8), (values[1][0], received[0], 1.5)])
    assert abs(draws.mean() - exact) < 5 * array_stats.mcse(draws)
    assert abs(1.1 * draws.mean() - exact) > 5 * array_stats.mcse(draws)
    one_only = quadrature_mean(prior, [(values[0][0], sent[0], 0.8)])
    assert abs(draws.mean() - one_only) > 5 * array_stats.mcse(draws)


# A network of three groups; the last three actors are the new ones, one of each group.
N, NEW = 33, 3
ACTORS = [f"actor {i}" for i in range(N)]
GROUP = np.concatenate([np.repeat([0, 1, 2], 10), [0, 1, 2]])
BETWEEN = np.array([[6.0, 0.1, 0.1], [0.1, 5.0, 2.0], [0.1, 0.1, 6.0]])
MAILS = np.random.default_rng(1).poisson(BETWEEN[GROUP][:, GROUP])
OLD = slice(0, N - NEW)
KNOWN = {"sender": ACTORS[OLD], "receiver": ACTORS[OLD]}
SETTINGS = {"sweeps": 800, "chains": 2, "thin": 10, "seed": 1, "progress": False}


@pytest.fixture(
    scope="module", params=[None, pytest.param(1.0, marks=pytest.mark.long)], ids=["inferred", "fixed prior"]
)
def network(request):
    release = cv.simulate_release(MAILS[OLD, OLD], epsilon=2, seed=1, labels=KNOWN)
    return cv.fit(cv.CommunityModel(3, rate=request.param), release, **SETTINGS)


def new_actors(**options):
    labels = {"new": ACTORS[N - NEW :], "known": ACTORS[OLD]}
    sent = cv.simulate_release(MAILS[N - NEW :, OLD], epsilon=1, seed=2, labels=labels, **options)
    received = cv.simulate_release(MAILS[OLD, N - NEW :].T, epsilon=2, seed=3, labels=labels)
    return sent, received


def test_new_actors_are_found_where_they_belong(network):
    found = cv.transform(network, *new_actors(), seed=1, progress=False)
    assert found["mean"].dims == ("new", "community")
    assert found["new"].to_numpy().tolist() == ACTORS[N - NEW :]
    assert np.allclose(found["mean"].sum("community"), 1)
    alike = network.memberships([0, 10, 20])["mean"].to_numpy()  # one known actor of each group
    assert np.abs(found["mean"].to_numpy() - alike).max() < 0.15
    assert (found["low"] <= found["mean"]).all()


@pytest.mark.long
def test_actors_one_by_one_have_the_shares_of_all_together(network, tmp_path):
    sent, received = new_actors()
    sent.save(tmp_path / "sent")
    received.save(tmp_path / "received")
    settings = {"seed": 1, "sweeps": 2, "progress": False}
    whole = cv.transform(network, sent, received, **settings).to_dataframe().reset_index()
    table = tmp_path / "shares.parquet"
    files = (tmp_path / "sent", table, tmp_path / "received")
    cv.transform_to_file(network, *files, rows_at_once=1, **settings)
    assert pd.read_parquet(table).astype({"community": int}).equals(whole)


def test_one_release_is_not_both_what_was_sent_and_received(network, tmp_path):
    sent, _ = new_actors()
    sent.save(tmp_path / "sent")
    again = cv.load_release(tmp_path / "sent")
    with pytest.raises(ValueError, match="received: expected another table than data"):
        cv.transform(network, sent, again, seed=1, progress=False)
    files = (tmp_path / "sent", tmp_path / "shares.parquet", tmp_path / "sent")
    with pytest.raises(ValueError, match="received: expected another table than data"):
        cv.transform_to_file(network, *files, seed=1, progress=False)
    assert not (tmp_path / "shares.parquet").exists()


def test_what_was_received_narrows_the_intervals(network):
    sent, received = new_actors()
    one, both = (cv.transform(network, sent, other, seed=1, progress=False) for other in (None, received))
    width = [(found["high"] - found["low"]).to_numpy().mean() for found in (one, both)]
    assert width[1] < width[0]


def test_known_actors_come_out_as_in_the_fit(network):
    # Two ways to the same posterior, but for the communities, which the actors themselves have shaped.
    release = network.release
    back = cv.PrivateCounts(release.to_dense(missing=0).T, rho=release.rho, mask=np.eye(N - NEW, dtype=bool))
    again = cv.transform(network, release.hide(np.eye(N - NEW, dtype=bool)), back, seed=1, progress=False)
    assert np.abs(again["mean"].to_numpy() - network.memberships()["mean"].to_numpy()).max() < 0.05


@pytest.mark.long
def test_agreement_with_a_fit_of_everything(network):
    # Three new actors say little about the communities of thirty: leaving them out of the fit changes little.
    sent, received = new_actors()
    values = np.zeros((N, N), dtype=np.int64)
    values[OLD, OLD] = network.release.to_dense(missing=0)
    values[N - NEW :, OLD], values[OLD, N - NEW :] = sent.to_dense(), received.to_dense().T
    rho = np.full((N, N), 2.0)
    rho[N - NEW :] = 1.0
    unseen = np.zeros((N, N), dtype=bool)
    unseen[N - NEW :, N - NEW :] = True
    everything = cv.fit(network.model, cv.PrivateCounts(values, rho=rho, mask=unseen), **SETTINGS)
    theirs = everything.memberships(slice(N - NEW, N))["mean"].to_numpy()
    ours = cv.transform(network, sent, received, seed=1, progress=False)["mean"].to_numpy()
    # The fits may order the communities differently: by the group of the first known actors.
    mine = [network.memberships([i])["mean"].to_numpy()[0].argmax() for i in (0, 10, 20)]
    other = [everything.memberships([i])["mean"].to_numpy()[0].argmax() for i in (0, 10, 20)]
    assert sorted(mine) == sorted(other) == [0, 1, 2]
    assert np.abs(ours[:, mine] - theirs[:, other]).max() < 0.06


def test_draws_depend_on_the_seed_alone_and_not_on_masked_values(network):
    rng = np.random.default_rng(0)
    many, mask = rng.poisson(1.0, (2, 150, N - NEW)), rng.random((2, 150, N - NEW)) < 0.3

    def found(garbage, threads, seed):
        views = [
            cv.PrivateCounts(np.where(m, garbage, y), alpha=0.3, mask=m)
            for y, m in zip(many, mask, strict=True)
        ]
        return cv.transform(network, *views, seed=seed, threads=threads, sweeps=2, burn_in=2, progress=False)[
            "mean"
        ]

    assert found(0, 1, 1).equals(found(10**6, 2, 1))
    assert not found(0, 1, 1).equals(found(0, 1, 2))


def test_undirected_networks_have_one_matrix():
    pairs = np.triu(MAILS, 1) + np.triu(MAILS, 1).T
    known = cv.fit(cv.CommunityModel(3, directed=False), pairs[OLD, OLD], **{**SETTINGS, "seed": 4})
    found = cv.transform(known, pairs[N - NEW :, OLD], seed=1, progress=False)["mean"].to_numpy()
    alike = known.memberships([0, 10, 20])["mean"].to_numpy()
    assert np.abs(found - alike).max() < 0.2
    with pytest.raises(
        ValueError, match="received: expected it for a directed CommunityModel alone, got it for"
    ):
        cv.transform(known, pairs[N - NEW :, OLD], pairs[N - NEW :, OLD], progress=False)


def test_shares_are_those_of_memberships(network):
    # theta of the known actors in place of new draws: the very numbers of the fit.
    known = known_columns(network)
    theta, pi = (network.tree["posterior"][name].to_numpy() for name in ("theta", "pi"))
    inferred = network.model.rate is None
    receiving = network.tree["posterior"]["receiving"].to_numpy() if inferred else np.ones(theta.shape[:3])
    theta, pi, receiving = (values.reshape(-1, *values.shape[2:]) for values in (theta, pi, receiving))
    # A new actor deals with all known ones, a known one with all but itself.
    itself = theta @ (pi + np.swapaxes(pi, 1, 2))
    of_received = receiving[:, :, None] * (known.received_weights[:, None, :] - itself)
    share = theta * (known.weights[:, None, :] + of_received)
    share = np.take_along_axis(share / share.sum(axis=2, keepdims=True), known.order[:, None, :], axis=2)
    assert np.allclose(share.mean(axis=0), network.memberships()["mean"], atol=1e-6)
    state = next(network.states())
    assert np.allclose(known.phi(0, 0), network.model.unfold(state).phi, rtol=1e-6)
    rates = network.model.rates(state, slice(0, N - NEW))
    assert np.allclose(rates, (state.theta @ state.pi @ state.theta.T) * receiving[0], rtol=1e-6)
    assert np.allclose(receiving[0][:, None] * (state.theta @ known.received(0, 0)), rates.T, rtol=1e-6)


PLAIN = np.ones((2, N - NEW), dtype=int)
BAD = [
    ((PLAIN[:, :5],), {}, "data: expected the 30 columns that were fitted, got 5"),
    ((PLAIN, PLAIN), {}, "received: expected another table than data: .* got the same one twice"),
    ((PLAIN, PLAIN[:, :5]), {}, "received: expected the 30 columns that were fitted, got 5"),
    ((PLAIN, PLAIN[:1]), {}, "received: expected the 2 rows of data, new actors by known ones, got 1"),
    ((np.ones((2, 2, 2), int),), {}, "data: expected a matrix, got 3 axes"),
    (
        (PLAIN,),
        {"labels": (None, ACTORS[OLD][::-1])},
        "data: expected the labels of the columns that were fitted, got them in another order",
    ),
    (
        (
            cv.PrivateCounts(PLAIN, alpha=0.1, labels=(["a", "b"], None)),
            cv.PrivateCounts(PLAIN, alpha=0.1, labels=(["a", "c"], None)),
        ),
        {},
        r"received: expected the labels of the rows of data, got 'c' in place of 'b' \(place 1\)",
    ),
    (
        (PLAIN, cv.PrivateCounts(PLAIN, alpha=0.1, labels=(None, ACTORS[3:]))),
        {},
        r"received: expected the labels of the columns that were fitted, got 'actor 3' in place of 'actor 0'",
    ),
    ((PLAIN, -PLAIN), {}, r"^received: .*say so: cv.PrivateCounts"),
]


@pytest.mark.parametrize(("data", "options", "message"), BAD)
def test_bad_input(network, data, options, message):
    with pytest.raises(ValueError, match=message):
        cv.transform(network, *data, progress=False, **options)


def test_what_an_actor_receives_that_nobody_saw_has_its_law():
    """It is not 1: intervals of shares would be far too narrow."""
    data = [noisy(np.random.default_rng(SEED), np.full((200, 3), 2), 1.0)]
    views, n_draws = [NewRows(data[0], lambda c, d: SENT)], 200
    prior = RowPrior(PRIOR.shape, lambda c, d: np.full(2, PRIOR.shape / PRIOR.rate))
    _, found = new_row_draws(
        prior, views, (1, n_draws), sweeps=1, burn_in=1, seed=SEED, threads=1, unseen_shape=lambda c, d: 0.7
    )
    for draws in (found.ravel(), found[:, :, 0].ravel()):
        assert fits(stats.kstest(draws, stats.gamma(0.7, scale=1 / 0.7).cdf).pvalue)
    assert rejects(stats.kstest(found.ravel(), stats.gamma(0.77, scale=1 / 0.77).cdf).pvalue)
    assert len(np.unique(found)) > 0.99 * found.size


def test_what_was_received_left_out_is_as_if_all_of_it_were_missing(network):
    """Bit by bit: the streams are the same."""
    # With a fixed prior nobody receives by a scale of their own.
    assert ("receiving_shape" in network.tree["posterior"]) == (network.model.rate is None)
    sent, _ = new_actors()
    nothing = np.ma.masked_all(sent.shape, dtype=np.int64)
    one, other = (cv.transform(network, sent, of, seed=1, progress=False) for of in (None, nothing))
    assert one.equals(other)
