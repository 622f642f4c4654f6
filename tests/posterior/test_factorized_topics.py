"""Components of factorizations: aligned as topics are, in one order in all views that share them."""

import pickle

import numpy as np
import pytest

import countveil as cv
from countveil.models import CommunityModel, Factorization, SharedFactors, TensorModel

QUIET = {"seed": 1, "progress": False}
RNG = np.random.default_rng(7)
ABOUT = np.repeat([0, 1, 2], [6, 12, 18])  # each document has one of three subjects
WORD, AUTHOR = np.arange(12) % 3, np.arange(6) % 3
WORDS = RNG.poisson(0.05 + 4.0 * (ABOUT[:, None] == WORD))
AUTHORS = RNG.poisson(0.05 + 3.0 * (ABOUT[:, None] == AUTHOR))
LABELS = {"document": [f"d{i}" for i in range(36)], "word": [f"w{i}" for i in range(12)]}


def by_words(**options):
    return Factorization("dk,kv->dv", names=["theta", "phi"], k=3, rate=None, **options)


def by_authors(**options):
    return Factorization("dk,ka->da", names=["theta", "psi"], k=3, rate=None, **options)


def with_draws(posterior, states):
    """The same posterior with other draws, (chain, draw, ...)."""
    group = posterior.tree["posterior"]
    found = {name: (group[name].dims, values.astype(np.float32)) for name, values in states.items()}
    group.dataset = group.to_dataset().assign(found)
    return posterior


@pytest.fixture(scope="module")
def shared():
    words = cv.simulate_release(WORDS, epsilon=2, seed=0, labels=LABELS)
    model = SharedFactors(words=by_words(), authors=by_authors())
    return cv.fit(model, {"words": words, "authors": AUTHORS}, sweeps=600, **QUIET)


def subjects(weights, of):
    """The subject that every component is of, by its heaviest label."""
    return [int(of[np.argmax(row)]) for row in weights]


def test_all_views_have_one_order(shared):
    words, authors = shared["words"].topics(4), shared["authors"].topics(2)
    order = subjects(words.weights["mean"].to_numpy(), WORD)
    assert order == subjects(authors.weights["mean"].to_numpy(), AUTHOR) == [2, 1, 0]  # the largest first
    for view in ("words", "authors"):
        shares = shared[view].memberships()["mean"].to_numpy()
        assert np.array_equal(np.argmax(shares, axis=1), 2 - ABOUT)
        found = shared[view].components(3)
        assert list(found.factors)[1] == shared[view]._axes[1]
        topics = shared[view].topics(3)
        column = found.factors[shared[view]._axes[1]]["mean"].to_numpy()
        np.testing.assert_allclose(column, topics.weights["mean"].to_numpy(), rtol=1e-5)
        np.testing.assert_allclose(next(iter(found.share.values())), topics.prevalence, rtol=1e-5)
    assert (words.agreement > 0.8).all()
    assert shared["words"].memberships("d0").sizes == {"document": 1, "topic": 3}
    assert shared["words"].to_dataframe("topics", n_words=2).columns.tolist()[2] == "word"
    assert words.table["word"][0] in {"w2", "w5", "w8", "w11"}


def test_draws_in_any_order_are_matched_once(shared):
    """Chains that call the components otherwise, and views whose own counts would order them differently."""
    expected = {view: shared[view].topics(3).weights["mean"].to_numpy() for view in shared}
    model = SharedFactors(words=by_words(), authors=by_authors())
    data = {"words": WORDS, "authors": AUTHORS}
    other = cv.fit(model, data, sweeps=600, **QUIET)
    states = {name: draws.to_numpy().copy() for name, draws in shared.tree["posterior"].data_vars.items()}
    rng = np.random.default_rng(0)
    for place in np.ndindex(*states["theta"].shape[:2]):
        order = rng.permutation(3)
        states["theta"][place] = states["theta"][place][:, order]
        for name in ("phi", "psi", "theta_mean"):
            states[name][place] = states[name][place][order]
    for view in other:
        posterior = other[view]
        fields = {name: states[name] for name in posterior._state_type._fields}
        with_draws(posterior, fields)
    other["words"]._shared_order.func.__self__._fields = states
    for view in other:
        np.testing.assert_allclose(other[view].topics(3).weights["mean"], expected[view], rtol=1e-4)
    # Averages of draws that are not aligned are another thing.
    mixed = states["phi"].reshape(-1, 3, 12).mean(axis=0)
    assert not np.allclose(
        np.sort(mixed / mixed.sum(axis=1, keepdims=True)), np.sort(expected["words"]), rtol=0.3
    )


def test_a_view_may_not_have_its_own_order():
    """Subjects with few words and many authors: in both views the order is that of their shares together."""
    authors = RNG.poisson(0.05 + np.array([9.0, 3.0, 1.0])[ABOUT][:, None] * 3 * (ABOUT[:, None] == AUTHOR))
    model = SharedFactors(words=by_words(), authors=by_authors())
    posterior = cv.fit(model, {"words": WORDS, "authors": authors}, sweeps=600, **QUIET)
    words, others = (posterior[view].topics(3) for view in ("words", "authors"))
    order = subjects(words.weights["mean"].to_numpy(), WORD)
    assert order == subjects(others.weights["mean"].to_numpy(), AUTHOR)
    together = words.prevalence + others.prevalence
    assert (np.diff(together) <= 1e-3).all()
    assert (np.diff(words.prevalence) > 0).any() or (np.diff(others.prevalence) > 0).any()


def test_communities_and_tensors_follow_the_same_order():
    mails = RNG.poisson(np.where(ABOUT[:, None] == ABOUT, 3.0, 0.05))
    model = SharedFactors(words=by_words(), mails=CommunityModel(3, rate=None))
    posterior = cv.fit(model, {"words": WORDS, "mails": mails}, sweeps=600, chains=1, **QUIET)
    words, communities = (posterior[view].memberships()["mean"].to_numpy() for view in ("words", "mails"))
    assert np.mean(np.argmax(words, axis=1) == np.argmax(communities, axis=1)) > 0.9
    when = np.arange(4) % 3
    events = RNG.poisson(0.02 + 2.0 * (ABOUT[:, None, None] == AUTHOR[:, None]) * (AUTHOR[:, None] == when))
    many = Factorization("dk,jk,tk->djt", names=["theta", "what", "moment"], k=3, rate=None)
    posterior = cv.fit(
        SharedFactors(words=by_words(), events=many), {"words": WORDS, "events": events}, sweeps=600, **QUIET
    )
    topics = subjects(posterior["words"].topics().weights["mean"].to_numpy(), WORD)
    found = posterior["events"].components().factors
    assert topics == subjects(found["axis1"]["mean"].to_numpy(), AUTHOR)
    assert topics == subjects(found["axis2"]["mean"].to_numpy(), when)


def test_a_run_from_disk_has_the_same_components(shared, tmp_path):
    shared.save(tmp_path / "run.zarr")
    again = cv.load_posterior(tmp_path / "run.zarr")
    for view in shared:
        assert again[view].topics(3).weights.identical(shared[view].topics(3).weights)
        assert again[view].memberships([1, 0]).identical(shared[view].memberships([1, 0]))
    copied = pickle.loads(pickle.dumps(shared["authors"]._shared_order))
    assert np.array_equal(copied(), shared["words"]._aligned("topics", "topics").alignment.order)


def test_new_rows_have_the_topics_of_their_view(shared):
    new = cv.transform(shared["authors"], 5 * (np.arange(3)[:, None] == AUTHOR), **QUIET)
    assert new["mean"].dims == ("row", "topic")
    assert np.argmax(new["mean"].to_numpy(), axis=1).tolist() == [2, 1, 0]
    with pytest.raises(
        TypeError,
        match=r"posterior: expected the posterior of one array, .* such as posterior\['words'\] \(it has 'words', 'auth",
    ):
        cv.transform(shared, AUTHORS, progress=False)


@pytest.mark.parametrize("spec", ["dk,kv->dv", "kd,vk->dv", "vk,kd->dv"])
def test_a_factorization_alone_is_a_topic_model(spec):
    """The same draws, in whatever layout, give what a TopicModel gives."""
    topics = cv.fit(cv.TopicModel(3), WORDS, sweeps=300, labels=LABELS, **QUIET)
    theta, phi = (topics.tree["posterior"][name].to_numpy() for name in ("theta", "phi"))
    model = Factorization(spec, k=3)
    factors = cv.fit(model, WORDS, sweeps=300, labels=LABELS, **QUIET)
    draws = {}
    for name in model._spec.factors:
        term = model._spec.term(name)
        values = theta if "d" in term else phi
        draws[name] = values if term in ("dk", "kv") else np.swapaxes(values, 2, 3)
    with_draws(factors, draws)
    one, two = topics.topics(3), factors.topics(3)
    assert two.weights.identical(one.weights)
    assert np.array_equal(two.prevalence, one.prevalence)
    assert factors.memberships(["d3"]).identical(topics.memberships(["d3"]))
    assert factors.to_dataframe("memberships").equals(topics.to_dataframe("memberships"))


def test_components_of_a_cp_form_are_those_of_the_tensor_model():
    counts = RNG.poisson(2.0, (6, 5, 4)) * (np.arange(6)[:, None, None] % 2 == np.arange(5)[:, None] % 2)
    tensor = cv.fit(TensorModel(rank=2), counts, sweeps=100, **QUIET)
    general = cv.fit(Factorization("ik,kj,tk->ijt", k=2), counts, sweeps=100, **QUIET)
    first, second, third = (tensor.tree["posterior"][f"factor{axis}"].to_numpy() for axis in range(3))
    names = general.model._spec.factors
    with_draws(general, dict(zip(names, (first, np.swapaxes(second, 2, 3), third), strict=True)))
    one, two = tensor.components(2), general.components(2)
    for axis in one.factors:
        assert two.factors[axis].identical(one.factors[axis])
    assert cv.transform(general, counts[:1], **QUIET)["mean"].dims == ("axis0", "component")


def test_fixed_factors_keep_their_places():
    phi = np.zeros((3, 12)) + 0.01
    phi[(WORD, np.arange(12))] = 1.0  # the smallest subject first, and so it stays
    posterior = cv.fit(by_words(fixed={"phi": phi}), WORDS, sweeps=100, **QUIET)
    assert subjects(posterior.topics().weights["mean"].to_numpy(), WORD) == [0, 1, 2]
    assert np.array_equal(np.argmax(posterior.memberships()["mean"].to_numpy(), axis=1), ABOUT)
    assert (np.diff(posterior.topics().prevalence) > 0).all()
    model = SharedFactors(words=by_words(fixed={"phi": phi}), authors=by_authors())
    posterior = cv.fit(model, {"words": WORDS, "authors": AUTHORS}, sweeps=100, **QUIET)
    assert subjects(posterior["authors"].topics().weights["mean"].to_numpy(), AUTHOR) == [0, 1, 2]


@pytest.mark.parametrize("spec", ["dk,k,kv->dv", "dkv,k->dv", "dk,kl,lv->dv", "ik,jk,tk->ijt"])
def test_other_forms_say_what_they_lack(spec):
    sizes = {letter: 2 for letter in "kl" if letter in spec}
    counts = np.ones((3, 3, 3) if spec.endswith("ijt") else (3, 3), int)
    posterior = cv.fit(Factorization(spec, **sizes), counts, sweeps=20, **QUIET)
    for what in ("topics", "memberships"):
        with pytest.raises(
            TypeError,
            match=f"{what}: expected .* TopicModel, or of a Factorization such as 'dk,kv->dv', got Fact.* '{spec}'",
        ):
            getattr(posterior, what)()
    if spec.endswith("ijt"):
        assert posterior.components(1).table.shape == (6, 7)
        return
    with pytest.raises(
        TypeError, match=f"components: expected .* one summed index, got Factorization '{spec}'"
    ):
        posterior.components()
