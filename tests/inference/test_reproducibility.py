"""The same seed gives the same draws, whatever else changes; and what must not matter does not."""

import numpy as np
import pytest
from scipy import sparse

import countveil as cv
from goodness_of_fit import SEED

RNG = np.random.default_rng(SEED)
TRUE = RNG.poisson(RNG.gamma(0.3, 1, (150, 3)) @ RNG.gamma(0.3, 1, (3, 40)))
RELEASE = cv.simulate_release(TRUE, epsilon=1, seed=SEED, keep_negative=True)
MODEL = cv.TopicModel(3)


def fitted(data=RELEASE, model=MODEL, **settings):
    settings = {"sweeps": 12, "burn_in": 4, "thin": 2, "chains": 2, "seed": 7, "progress": False, **settings}
    return cv.fit(model, data, **settings)


def same(first, second):
    a, b = first.tree["posterior"], second.tree["posterior"]
    return all(np.array_equal(a[name], b[name]) for name in ("theta", "phi")) and all(
        np.array_equal(first.tree["sample_stats"][name], second.tree["sample_stats"][name])
        for name in first.tree["sample_stats"].data_vars
    )


@pytest.mark.parametrize("method", ["exact", "bessel", "naive"])
def test_threads_do_not_change_a_bit(method):
    one = fitted(method=method, threads=1)
    assert same(one, fitted(method=method, threads=2))
    assert same(one, fitted(method=method, threads=5))
    assert not same(one, fitted(method=method, seed=8))


@pytest.mark.parametrize("algorithm", ["tokens", "integrated", "cells"])
def test_threads_do_not_change_a_bit_of_any_algorithm(algorithm):
    assert same(fitted(algorithm=algorithm, threads=1), fitted(algorithm=algorithm, threads=3))


def test_threads_do_not_change_plain_fits():
    assert same(fitted(TRUE, threads=1), fitted(TRUE, threads=3))


@pytest.mark.parametrize("algorithm", ["cells", "auto"])
def test_clamped_and_unclamped_releases_give_the_same_draws(algorithm):
    signed = RELEASE.to_dense()
    assert (signed < 0).any()
    unclamped = cv.PrivateCounts(signed, rho=1.0)
    clamped = cv.PrivateCounts(np.maximum(signed, 0), rho=1.0)
    assert same(fitted(unclamped, algorithm=algorithm), fitted(clamped, algorithm=algorithm))


@pytest.mark.parametrize("method", ["exact", "bessel", "naive"])
@pytest.mark.parametrize("algorithm", ["cells", "auto"])
def test_a_masked_value_cannot_change_anything(method, algorithm):
    mask = RNG.random(TRUE.shape) < 0.2
    values = RELEASE.to_dense()
    spoiled = np.where(mask, 999, values)
    first, second = (cv.PrivateCounts(v, rho=1.0, mask=mask) for v in (values, spoiled))
    assert same(
        fitted(first, method=method, algorithm=algorithm), fitted(second, method=method, algorithm=algorithm)
    )
    assert not same(
        fitted(first, method=method, algorithm=algorithm),
        fitted(cv.PrivateCounts(values, rho=1.0), method=method),
    )


def test_a_masked_plain_value_cannot_change_anything():
    mask = RNG.random(TRUE.shape) < 0.2
    first, second = (np.ma.array(np.where(mask, v, TRUE), mask=mask) for v in (0, 999))
    assert same(fitted(first), fitted(second))


@pytest.mark.parametrize("name", ["tokens", "cells"])
def test_algorithms_by_their_old_option(name):
    with pytest.warns(
        DeprecationWarning, match=f"engine='{name}' names an algorithm: write algorithm='{name}'"
    ):
        before = fitted(engine=name)
    assert same(before, fitted(algorithm=name))


def test_two_fits_with_one_model_agree_with_two_fits_with_two():
    model = cv.TopicModel(3)
    first, again = fitted(model=model), fitted(model=model)
    assert same(first, again)
    assert same(first, fitted(model=cv.TopicModel(3)))
    # A fit of other data in between leaves no trace.
    fitted(TRUE, model=model)
    assert same(first, fitted(model=model))


def test_chains_differ_from_each_other_but_not_with_their_number():
    two, three = fitted(chains=2), fitted(chains=3)
    theta = two.tree["posterior"]["theta"].to_numpy()
    assert not np.array_equal(theta[0], theta[1])
    assert np.array_equal(theta, three.tree["posterior"]["theta"].to_numpy()[:2])


def test_a_longer_run_begins_with_the_shorter_one():
    short, long = fitted(sweeps=8), fitted(sweeps=12)
    n = short.tree["posterior"].sizes["draw"]
    assert np.array_equal(short.tree["posterior"]["phi"], long.tree["posterior"]["phi"].isel(draw=slice(n)))


def test_plain_counts_in_any_form_are_the_same_counts():
    first = fitted(TRUE)
    for form in (
        sparse.csr_array(TRUE),
        sparse.coo_matrix(TRUE),
        TRUE.tolist(),
        TRUE.astype(float),
        TRUE.astype(np.uint16),
    ):
        assert same(first, fitted(form))


def test_without_a_seed_fits_differ_and_say_their_seed():
    import json

    first, second = fitted(seed=None), fitted(seed=None)
    assert not same(first, second)
    recorded = json.loads(first.tree.attrs["settings"])["seed"]
    assert same(first, fitted(seed=recorded))
