"""A posterior goes to another process and back."""

import pickle

import numpy as np
import pytest

import countveil as cv

COUNTS = np.random.default_rng(3).poisson(2, (5, 5))


@pytest.mark.parametrize("asked_before", [False, True])
@pytest.mark.parametrize(
    "model", [cv.TopicModel(2), cv.CommunityModel(2), cv.Factorization("dk,kv->dv", k=2)], ids=repr
)
def test_it_answers_as_before(model, asked_before):
    posterior = cv.fit(model, COUNTS, sweeps=20, thin=2, seed=1, progress=False)
    if asked_before:
        posterior.rates()
    again = pickle.loads(pickle.dumps(posterior))
    assert again.rates().equals(posterior.rates())
    assert repr(again) == repr(posterior)


def test_so_do_several_views():
    model = cv.SharedFactors(
        words=cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2),
        authors=cv.Factorization("dk,ka->da", names=["theta", "psi"], k=2),
    )
    data = {"words": COUNTS, "authors": COUNTS[:, :3]}
    posterior = cv.fit(model, data, sweeps=20, thin=2, seed=1, progress=False)
    again = pickle.loads(pickle.dumps(posterior))
    for view in data:
        assert again[view].rates().equals(posterior[view].rates())
