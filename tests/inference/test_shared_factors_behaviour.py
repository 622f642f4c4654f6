"""What people see of views that share factors: threads, missing cells, streams, starts, files, planted structure."""

import pickle

import numpy as np
import pytest

import countveil as cv
from countveil.inference.engines.cpu.sampler import CpuSampler
from countveil.inference.problem import make_problem
from countveil.kernels.philox import SweepKey
from countveil.transforming.known_columns import known_columns
from goodness_of_fit import SEED
from inference.one_chain import IN_PLACE, sweep

SHORT = {"sweeps": 30, "thin": 3, "seed": 5, "progress": False}
RNG = np.random.default_rng(3)
COUNTS = {
    "words": RNG.poisson(2.0, (70, 9)),
    "authors": RNG.poisson(1.0, (70, 4)),
    "events": RNG.poisson(1.0, (70, 3, 5)),
    "mails": RNG.poisson(1.0, (70, 70)),
    "cells": RNG.poisson(1.0, (70, 4)),
}


def factorization(spec, *names, **options):
    return cv.Factorization(spec, names=names, **options)


WORDS = factorization("dk,kv->dv", "theta", "phi", k=3)
AUTHORS = factorization("dk,ka->da", "theta", "psi", k=3)
MODELS = {
    "words, authors": cv.SharedFactors(words=WORDS, authors=AUTHORS),
    "topics, authors": cv.SharedFactors(words=cv.TopicModel(3, rate=1.0), authors=AUTHORS),
    "words, events": cv.SharedFactors(
        words=WORDS, events=factorization("dk,jk,tk->djt", "theta", "what", "when", k=3)
    ),
    "words, mails": cv.SharedFactors(words=WORDS, mails=cv.CommunityModel(3, rate=1.0)),
    "words, cells": cv.SharedFactors(
        words=WORDS, cells=factorization("dk,kv,dv->dv", "theta", "psi", "own", k=3)
    ),
}


def released(model, **changed):
    counts = {**COUNTS, **changed}
    return {name: cv.simulate_release(counts[name], epsilon=1, seed=0) for name in model.views}


def states(posterior):
    return {name: values.to_numpy() for name, values in posterior.tree["posterior"].data_vars.items()}


def started(model, data):
    return model.starting_state(data, SweepKey(np.uint64(0), 0, 0), IN_PLACE)


def same(one, two):
    return all(np.array_equal(states(one)[name], states(two)[name]) for name in states(one))


@pytest.mark.parametrize("name", MODELS)
def test_draws_do_not_depend_on_threads(name):
    model = MODELS[name]
    data = released(model)
    one, two = (cv.fit(model, data, threads=n, **SHORT) for n in (1, 2))
    assert same(one, two)
    assert not same(one, cv.fit(model, data, **{**SHORT, "seed": 6}))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("share", [0.2, pytest.param(0.8, marks=pytest.mark.long)])
def test_masked_values_cannot_influence_anything(name, share):
    model = MODELS[name]
    rng = np.random.default_rng(1)
    values = {view: np.asarray(one.to_dense()) for view, one in released(model).items()}
    masks = {view: rng.random(x.shape) < share for view, x in values.items()}

    def fitted(change):
        data = {v: cv.PrivateCounts(change(x, masks[v]), alpha=0.4, mask=masks[v]) for v, x in values.items()}
        return cv.fit(model, data, **SHORT)

    one, two = fitted(lambda x, mask: x), fitted(lambda x, mask: np.where(mask, x + 50, x))
    other = fitted(lambda x, mask: np.where(mask, x, x + 1))
    assert same(one, two)
    assert not same(one, other)


def test_views_draw_from_streams_of_their_own():
    twins = cv.SharedFactors(one=WORDS, two=WORDS)
    release = cv.simulate_release(COUNTS["words"], epsilon=1, seed=0)
    sampler = CpuSampler(make_problem(twins, {"one": release, "two": release}), 0, 1, workers=IN_PLACE)
    state = started(twins, {"one": release, "two": release})

    def tokens(number):
        sweep(sampler, state, SweepKey(np.uint64(1), 0, number))
        return [one.tokens[0] for one in sampler._chains[0].statistics.values()]

    one, two = tokens(1)
    assert not np.array_equal(one, two)
    # Given the state they are independent: what one has more than usual says nothing about the other.
    others = [tokens(number)[0] for number in range(2, 60)]
    a, b = ((x - np.mean(others, axis=0)).reshape(-1) for x in (one, two))
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(len(a))


@pytest.mark.parametrize("name", MODELS)
def test_the_start_has_the_scale_of_every_view(name):
    model = MODELS[name]
    changed = {view: 5**i * COUNTS[view] for i, view in enumerate(model.views, start=1)}
    state = started(model, released(model, **changed))
    for view, counts in changed.items():
        total = model.views[view].rates(model.view_state(view, state), slice(0, 70)).sum()
        assert 0.9 < total / counts.sum() < 1.1


def test_given_factors_are_kept():
    theta = np.full((70, 3), 0.3)
    views = [
        factorization(spec, "theta", other, k=3, start={"theta": theta})
        for spec, other in (("dk,kv->dv", "phi"), ("dk,ka->da", "psi"))
    ]
    model = cv.SharedFactors(words=views[0], authors=views[1])
    assert np.array_equal(started(model, released(model)).theta, theta)
    views = [
        factorization(spec, "theta", other, k=3, fixed={"theta": theta})
        for spec, other in (("dk,kv->dv", "phi"), ("dk,ka->da", "psi"))
    ]
    model = cv.SharedFactors(words=views[0], authors=views[1])
    posterior = cv.fit(model, released(model), **SHORT)
    assert (states(posterior)["theta"] == np.float32(0.3)).all()


def test_every_view_is_an_ordinary_posterior():
    model = MODELS["words, authors"]
    words = cv.simulate_release(
        COUNTS["words"],
        epsilon=1,
        seed=0,
        labels={"document": [f"d{i}" for i in range(70)], "word": list("abcdefghi")},
    )
    posterior = cv.fit(model, {"authors": COUNTS["authors"], "words": words}, **SHORT)
    one, two = posterior["words"], posterior["authors"]
    assert one.rates(rows=["d3"], columns=["b"]).dims == ("document", "word")
    assert one.true_counts(["d3"])["mean"].shape == (1, 9)
    # Plain counts are what they are.
    assert np.array_equal(two.true_counts()["mean"], COUNTS["authors"])
    assert (one.release, two.release) == (words, None)
    np.testing.assert_allclose(
        two.rates().to_numpy(), np.mean([s.theta @ s.psi for s in posterior.states()], axis=0), rtol=1e-9
    )
    by_row = cv.evaluation.log_likelihood(one)["log_likelihood"]["released"]
    assert by_row.shape == (2, 5, 70)
    group = posterior.tree["posterior"]
    assert group["theta"].dims == ("chain", "draw", "document", "k")
    assert (group["phi"].dims[-1], group["psi"].dims[-1]) == ("word", "column")
    assert list(group["document"].to_numpy()[:2]) == ["d0", "d1"]
    scalars = list(posterior.tree["sample_stats"].data_vars)
    assert scalars == [
        "sampled_log_likelihood_words", "total_rate_words", "sampled_log_likelihood_authors", "total_rate_authors", "log_joint",
    ]  # fmt: skip
    assert list(one.tree["sample_stats"].data_vars) == ["sampled_log_likelihood", "total_rate"]
    assert len(posterior.summary(n_rates=3)) == len(scalars) + 6


def test_axes_of_one_name_are_told_apart():
    model = MODELS["words, authors"]
    posterior = cv.fit(model, {view: COUNTS[view] for view in model.views}, **SHORT)
    group = posterior.tree["posterior"]
    assert group["theta"].dims == ("chain", "draw", "row", "k")
    assert (group["phi"].dims[-1], group["psi"].dims[-1]) == ("column", "authors_column")


@pytest.mark.parametrize("name", ["words, authors", "topics, authors", "words, mails"])
def test_a_run_comes_back_from_disk(name, tmp_path):
    model = MODELS[name]
    data = released(model)
    data["words"] = cv.simulate_release(
        COUNTS["words"], epsilon=1, seed=0, labels=([f"d{i}" for i in range(70)], list("abcdefghi"))
    )
    posterior = cv.fit(model, data, **SHORT)
    posterior.save(tmp_path / "run.zarr")
    again = cv.load_posterior(tmp_path / "run.zarr")
    assert isinstance(again, cv.SharedPosterior)
    assert again.model == model
    assert same(again, posterior)
    assert again.tree.identical(posterior.tree)
    for view in model.views:
        assert again[view].release == posterior[view].release
        assert again[view].tree.identical(posterior[view].tree)
        assert again[view].rates(rows=[0, 5]).identical(posterior[view].rates(rows=[0, 5]))
        assert again[view].true_counts([1]).identical(posterior[view].true_counts([1]))
    again.save(tmp_path / "second.zarr")
    assert cv.load_posterior(tmp_path / "second.zarr").tree.identical(posterior.tree)


def test_plain_counts_are_not_saved_and_damage_is_seen(tmp_path):
    model = MODELS["words, authors"]
    data = {**released(model), "authors": COUNTS["authors"]}
    cv.fit(model, data, **SHORT).save(tmp_path / "run.zarr")
    assert not list((tmp_path / "run.zarr").glob("release_authors*"))
    again = cv.load_posterior(tmp_path / "run.zarr")
    assert again["authors"].rates().shape == (70, 4)
    with pytest.raises(ValueError, match="plain counts are not saved"):
        again["authors"].true_counts()
    chunk = next((tmp_path / "run.zarr" / "release_words").rglob("c/*"))
    chunk.unlink()
    with pytest.raises(cv.PosteriorFileError):
        cv.load_posterior(tmp_path / "run.zarr")


def test_a_run_with_a_fixed_factor_needs_its_model(tmp_path):
    fixed = {"theta": np.ones((70, 2))}
    model = cv.SharedFactors(words=factorization("dk,kv->dv", "theta", "phi", k=2, fixed=fixed))
    posterior = cv.fit(model, {"words": COUNTS["words"]}, **SHORT)
    posterior.save(tmp_path / "run.zarr")
    with pytest.raises(
        ValueError, match=r"model: expected the SharedFactors of this run \(views words; .*\), got none"
    ):
        cv.load_posterior(tmp_path / "run.zarr")
    assert same(cv.load_posterior(tmp_path / "run.zarr", model=model), posterior)


def test_models_are_values():
    model = MODELS["words, authors"]
    again = cv.SharedFactors(words=WORDS, authors=AUTHORS)
    assert (again == model, hash(again) == hash(model)) == (True, True)
    assert pickle.loads(pickle.dumps(model)) == model
    assert model != cv.SharedFactors(words=WORDS)
    with pytest.raises(TypeError):
        model.views["words"] = AUTHORS


def held_out_scores(trial):
    """Log scores of words held out of private data: alone, with authors, with authors of other documents.

    Documents have one of three subjects each; words say little about it, authors more.
    """
    rng = np.random.default_rng(SEED + trial)
    subject = rng.integers(0, 3, 60)
    words = rng.poisson(0.15 + 0.6 * (np.arange(40) % 3 == subject[:, None]))
    authors = rng.poisson(0.05 + 4.0 * (np.arange(12) % 3 == subject[:, None]))
    held = rng.random(words.shape) < 0.5
    release = cv.simulate_release(words, alpha=np.exp(-1), seed=SEED + trial).hide(held)

    def with_authors(order):
        other = cv.simulate_release(authors[order], alpha=np.exp(-1), seed=SEED + 100 + trial)
        views = {"words": release, "authors": other}
        return cv.fit(MODELS["words, authors"], views, sweeps=300, seed=1, progress=False)["words"]

    def score(posterior):
        rates = posterior.rates().to_numpy()[held]
        return np.mean(words[held] * np.log(rates) - rates)

    yield score(cv.fit(WORDS, release, sweeps=300, seed=1, progress=False))
    yield score(with_authors(np.arange(60)))
    yield score(with_authors(rng.permutation(60)))


# Thirty draws of weak data: chains have not met yet.
@pytest.mark.filterwarnings("ignore:.*average over chains that do not agree")
def test_sharing_helps():
    scores = [held_out_scores(trial) for trial in range(2)]
    alone, shared = ([next(one) for one in scores] for _ in range(2))
    assert np.mean(shared) > np.mean(alone), (shared, alone)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*average over chains that do not agree")
def test_what_helps_is_that_they_belong_together():
    alone, shared, shuffled = np.transpose([list(held_out_scores(trial)) for trial in range(8)])
    assert np.mean(shared - alone) > 0.1, (shared, alone)
    assert np.mean(shared - shuffled) > 0, (shared, shuffled)


def test_a_view_knows_what_all_views_say_of_its_factors():
    """The level of phi is inferred where phi comes last, in the words; new words get the prior that was fitted."""
    model = cv.SharedFactors(
        words=cv.TopicModel(2, shape=1.0),
        kinds=factorization("kv,ka->va", "phi", "psi", shape=1.0, rate=None, k=2),
    )
    data = {"words": RNG.poisson(2.0, (30, 12)), "kinds": RNG.poisson(3.0, (12, 4))}
    view = cv.fit(model, data, **SHORT)["kinds"]
    assert view.model._inferred["phi"] == model._inferred["phi"] != model.views["kinds"]._inferred["phi"]
    assert "phi_level" in view.tree["posterior"]
    law = known_columns(view).prior.law
    for draw in range(3):
        level = float(view.tree["posterior"]["phi_level"][0, draw])
        assert law(0, draw).level == pytest.approx(level) != 1.0
