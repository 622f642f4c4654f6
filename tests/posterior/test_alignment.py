"""Draws whose topics come in different orders tell one story all the same."""

import numpy as np
import pytest

from countveil.posterior.align import matching
from goodness_of_fit import SEED

RNG = np.random.default_rng(SEED)
K = 2


def factors(posterior):
    group = posterior.tree["posterior"]
    return group["theta"].to_numpy(), group["phi"].to_numpy()


def shuffled(posterior, with_draws, chains=slice(None)):
    """The same posterior; in these chains each draw has its topics in an order of its own."""
    theta, phi = (array.copy() for array in factors(posterior))
    for c in range(len(theta))[chains]:
        for s in range(theta.shape[1]):
            order = RNG.permutation(theta.shape[3])
            theta[c, s], phi[c, s] = theta[c, s][:, order], phi[c, s][order]
    return with_draws(posterior, theta=theta, phi=phi)


def many_topics(plain, with_draws, n_draws=20, n_topics=6, noise=50.0, shape=0.1):
    """Draws around known topics, which are (theta, phi) beside them."""
    theta, phi = RNG.gamma(1.0, size=(6, n_topics)), RNG.gamma(shape, size=(n_topics, 40)) + 1e-6

    def around(array):
        return array * RNG.gamma(noise, 1 / noise, size=(2, n_draws, *array.shape))

    return with_draws(plain, theta=around(theta), phi=around(phi)), theta, phi


@pytest.mark.parametrize("chains", [slice(None), slice(1, 2)], ids=["every draw", "one chain"])
def test_the_order_in_the_draws_does_not_matter(posterior, with_draws, chains):
    other = shuffled(posterior, with_draws, chains)
    assert not np.array_equal(factors(other)[1], factors(posterior)[1])
    ours, theirs = posterior.topics(), other.topics()
    np.testing.assert_allclose(theirs.weights.to_dataarray(), ours.weights.to_dataarray(), rtol=1e-9)
    np.testing.assert_allclose(theirs.prevalence, ours.prevalence, rtol=1e-9)
    np.testing.assert_allclose(theirs.agreement, ours.agreement, rtol=1e-9)
    np.testing.assert_allclose(
        other.memberships().to_dataarray(), posterior.memberships().to_dataarray(), rtol=1e-9
    )
    np.testing.assert_allclose(other.rates(), posterior.rates(), rtol=1e-6)


def test_two_chains_with_switched_labels(posterior, with_draws):
    theta, phi = (array.copy() for array in factors(posterior))
    theta[1], phi[1] = theta[0][..., ::-1], phi[0][:, ::-1]
    switched = with_draws(posterior, theta=theta, phi=phi)
    one = with_draws(posterior, theta=theta[:1], phi=phi[:1])
    np.testing.assert_allclose(switched.topics().weights["mean"], one.topics().weights["mean"], rtol=1e-9)
    np.testing.assert_allclose(switched.memberships()["mean"], one.memberships()["mean"], rtol=1e-9)
    # Averaged as they stand, the two topics would be one and the same.
    naive = phi.mean(axis=(0, 1))
    np.testing.assert_allclose(naive[0], naive[1], rtol=1e-5)
    assert abs(one.topics().weights["mean"][0] - one.topics().weights["mean"][1]).max() > 0.2


def test_many_shuffled_topics_find_their_truth(plain, with_draws):
    tidy, theta, phi = many_topics(plain, with_draws)
    found = shuffled(tidy, with_draws)
    mass = theta.sum(axis=0) * phi.sum(axis=1)
    order = np.argsort(-mass)
    truth = phi[order] / phi[order].sum(axis=1, keepdims=True)
    topics = found.topics()
    assert np.abs(topics.weights["mean"] - truth).max() < 0.05
    np.testing.assert_allclose(topics.prevalence, mass[order] / mass.sum(), atol=0.03)
    share = theta * phi.sum(axis=1)
    share = (share / share.sum(axis=1, keepdims=True))[:, order]
    assert np.abs(found.memberships()["mean"] - share).max() < 0.05


def test_agreement_is_one_for_equal_topics_and_low_for_unrelated_ones(plain, with_draws):
    theta, phi = np.ones((2, 10, 6, 4)), RNG.gamma(0.1, size=(4, 40)) + 1e-6
    equal = with_draws(plain, theta=theta, phi=np.tile(phi, (2, 10, 1, 1))).topics()
    np.testing.assert_allclose(equal.agreement, 1.0, atol=1e-6)
    unrelated = with_draws(plain, theta=theta, phi=RNG.gamma(0.1, size=(2, 10, 4, 40)) + 1e-6).topics()
    assert unrelated.agreement.max() < 0.6
    half = np.concatenate([np.tile(phi, (1, 10, 1, 1)), RNG.gamma(0.1, size=(1, 10, 4, 40)) + 1e-6])
    assert unrelated.agreement.mean() < with_draws(plain, theta=theta, phi=half).topics().agreement.mean() < 1


def test_agreement_is_the_mean_affinity_of_two_draws(posterior):
    """Of chains whose topics happen to stand in one order: by brute force over all pairs."""
    topics = posterior.topics()
    _, phi = factors(posterior)
    roots = np.sqrt(phi / phi.sum(axis=-1, keepdims=True)).reshape(-1, K, 5).astype(float)
    reference = np.sqrt(topics.weights["mean"].to_numpy())
    aligned = np.stack([r if np.sum(reference * r) > np.sum(reference * r[::-1]) else r[::-1] for r in roots])
    pairs = np.einsum("skv,tkv->kst", aligned, aligned)
    mean = [(each.sum() - np.trace(each)) / (each.size - len(each)) for each in pairs]
    np.testing.assert_allclose(topics.agreement, mean, rtol=1e-5)


def test_disjoint_topics_of_two_draws_do_not_agree_at_all(plain, with_draws):
    phi = np.zeros((2, 1, 1, 4))
    phi[0, 0, 0, :2] = phi[1, 0, 0, 2:] = 1.0
    topics = with_draws(plain, theta=np.ones((2, 1, 6, 1)), phi=phi).topics()
    assert topics.agreement.tolist() == [0.0]


def test_a_single_draw_has_nothing_to_agree_with(plain, with_draws):
    theta, phi = (array[:1, :1] for array in factors(plain))
    topics = with_draws(plain, theta=theta, phi=phi).topics()
    assert np.isnan(topics.agreement).all()
    np.testing.assert_allclose(topics.weights["low"], topics.weights["high"])


def test_a_topic_that_underflowed_spoils_nothing(plain, with_draws):
    theta, phi = (array.copy() for array in factors(plain))
    phi[:, 0, 1] = 0.0
    phi[:, 1], theta[:, 2] = 0.0, 0.0
    found = with_draws(plain, theta=theta, phi=phi)
    assert np.isfinite(found.topics().weights.to_dataarray()).all()
    assert np.isfinite(found.memberships().to_dataarray()).all()


def test_more_components_than_can_be_compared_are_refused(monkeypatch):
    """Each is compared with each: a stranger's run of a megabyte has 12,000, and took 2.5 GB and hours."""
    weights = np.eye(4)[None] + 0.1
    assert matching.align(weights).order.tolist() == [[0, 1, 2, 3]]
    monkeypatch.setattr(matching, "MOST_MATCHED", 3)
    with pytest.raises(ValueError, match=r"components: expected at most 3 .* got 4"):
        matching.align(weights)


def test_more_draws_than_can_be_compared_are_refused(monkeypatch):
    """Topics on an arc make a matching take all its steps: a run of 37 kB kept ``topics`` busy for half an hour."""
    weights = np.eye(4)[None].repeat(3, axis=0) + 0.1
    monkeypatch.setattr(matching, "MOST_STEPS", 3 * (4**3 + matching._A_DRAW))
    assert matching.align(weights).order.tolist() == [[0, 1, 2, 3]] * 3
    with pytest.raises(
        ValueError, match=r"draws: expected at most 3 to be brought .* of 4 components, got 4"
    ):
        matching.align(weights[[0, 1, 2, 0]])


def test_rounds_end_where_all_of_them_would_take_too_long(monkeypatch):
    called, match = [], matching.match
    monkeypatch.setattr(matching, "match", lambda *given: called.append(1) or match(*given))
    weights = np.random.default_rng(0).dirichlet(np.full(5, 0.1), (6, 8))
    matching.align(weights)
    assert 2 * 6 < len(called) < matching.MOST_ROUNDS * 6  # it converges, in more rounds than two
    called.clear()
    monkeypatch.setattr(matching, "_IN_ALL", 1)
    matching.align(weights)
    assert len(called) == 2 * 6


def test_the_usual_draws_of_a_thousand_topics_are_within_what_is_compared():
    assert matching.checked_steps(200, 1024) <= matching.MOST_STEPS


def test_draws_of_few_topics_take_their_time_too():
    """In 1.4 MB there were two million of two topics, which turned slowly, through all 20 rounds: a quarter hour."""
    with pytest.raises(ValueError, match=r"draws: expected at most [\d,]+ to be brought .* of 2 components"):
        matching.checked_steps(20_000_000, 2)
    rounds = matching._IN_ALL // matching.checked_steps(5_000_000, 2)
    assert 2 <= rounds < matching.MOST_ROUNDS
