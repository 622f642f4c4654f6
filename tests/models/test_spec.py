"""Specs that can be, and clear errors for those that cannot."""

import pickle

import numpy as np
import pytest

import countveil as cv
from countveil.models import CommunityModel, Factorization, TensorModel
from countveil.models.einsum.contraction import contract


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("dk,kv", {}, "spec: expected factors with at least one index each"),
        ("dk,,kv->dv", {}, "spec: expected factors with at least one index each"),
        ("->", {}, "spec: expected factors"),
        ("dk,kv->", {}, "spec: expected factors"),
        (7, {}, "spec: expected factors .* got 7"),
        ("dk,kv->dd", {"k": 2}, "spec: expected different indices within 'dd', got one twice"),
        ("dkk,kv->dv", {"k": 2}, "spec: expected different indices within 'dkk', got one twice"),
        ("dk,k->dv", {"k": 2}, "spec: expected every index of the output in some factor, got 'v' in none"),
        ("dk,kv->dv", {}, "k: expected the size of this summed index, such as k=10, got none"),
        ("dk,kv->dv", {"k": 0}, "k: expected a whole number >= 1, got 0"),
        ("dk,kv->dv", {"k": 2, "d": 3}, "d: expected no size, because it is an axis of the data"),
        ("dk,kv->dv", {"k": 2, "names": ["theta"]}, "names: expected 2 names, one for each factor, got 1"),
        ("dk,kv->dv", {"k": 2, "names": ["theta", "_phi"]}, "names: expected words of letters"),
        ("dk,kv->dv", {"k": 2, "names": ["draw", "phi"]}, "names: expected words of letters"),
        ("dk,kv->dv", {"k": 2, "names": ["same", "same"]}, "spec: expected a tied factor at two terms"),
        ("ik,ik->i", {"k": 2, "names": ["same", "same"]}, "spec: expected a tied factor at two terms"),
        ("ic,cd,de,je->ij", {"c": 2, "d": 2, "e": 2, "names": ["one", "pi", "pi", "two"]}, "spec: expected a tied"),
        ("ic,jc,ij->ij", {"c": 2, "names": ["one", "one", "two"]}, "in no other, or by themselves, got 'ij'"),
        ("ic,cd,jd->ij", {"c": 2, "d": 3, "names": ["one", "pi", "one"]}, "names: expected one shape for the tied"),
        ("dk,kv->dv", {"k": 2, "shape": {"phi": 1.0}}, "shape: expected names of factors .*, got 'phi'"),
        ("dk,kv->dv", {"k": 2, "shape": -1}, "shape: expected a finite number"),
        ("dk,kv->dv", {"k": 2, "rate": {"factor_dk": 0}}, r"rate\['factor_dk'\]: expected a finite number > 0"),
        ("dk,kv->dv", {"k": 2, "fixed": {"factor_kv": np.ones((3, 4))}}, r"fixed: expected shape \(2, 'v'\)"),
        ("dk,kv->dv", {"k": 2, "fixed": {"factor_kv": -np.ones((2, 4))}}, "fixed: expected finite values"),
        ("dk,kv->dv", {"k": 2, "start": {"factor_kv": np.zeros((2, 4))}}, "start: expected finite positive values"),
        (
            "dk,kv->dv",
            {"k": 2, "fixed": {"factor_kv": np.ones((2, 4))}, "start": {"factor_kv": np.ones((2, 4))}},
            "start: expected factors that are not fixed",
        ),
    ],
)  # fmt: skip
def test_specs_that_cannot_be(spec, options, message):
    with pytest.raises(ValueError, match=message):
        Factorization(spec, **options)


def test_an_option_that_is_none():
    with pytest.raises(TypeError, match="topics: expected an option or a summed index"):
        Factorization("dk,kv->dv", k=2, topics=3)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (CommunityModel, {"n_communities": 0}, "n_communities: expected a whole number >= 1, got 0"),
        (
            CommunityModel,
            {"n_communities": 2, "directed": "no"},
            "directed: expected True or False, got 'no'",
        ),
        (CommunityModel, {"n_communities": 2, "shape": 0}, "shape: expected a finite number"),
        (TensorModel, {}, "rank, core: expected exactly one of them, got neither"),
        (TensorModel, {"rank": 2, "core": (2, 2)}, "rank, core: expected exactly one of them, got both"),
        (TensorModel, {"rank": 0}, "rank: expected a whole number >= 1"),
        (TensorModel, {"core": 3}, "core: expected a size for each axis"),
        (TensorModel, {"core": (3,)}, "core: expected a whole number from 2 to 9, got 1"),
        (TensorModel, {"rank": 2, "n_axes": 1}, "n_axes: expected a whole number from 2 to 9, got 1"),
    ],
)
def test_parameters(model, options, message):
    with pytest.raises(ValueError, match=message):
        model(**options)


@pytest.mark.parametrize(
    ("model", "shape", "message"),
    [
        (
            CommunityModel(2),
            (3, 4),
            "data: expected a square array, such as senders x receivers, .* 'theta', got axes of \\[3, 4\\]",
        ),
        (CommunityModel(2), (3, 3, 3), "data: expected 2 axes for this CommunityModel, got 3"),
        (TensorModel(rank=2), (3, 4), "data: expected 3 axes for this TensorModel, got 2"),
        (
            Factorization("dk,kv->dv", k=2, fixed={"factor_kv": np.ones((2, 5))}),
            (3, 4),
            r"fixed: expected shape \(2, 4\) for 'factor_kv', got \(2, 5\)",
        ),
    ],
)
def test_data_that_do_not_fit(model, shape, message):
    with pytest.raises(ValueError, match=message):
        cv.fit(model, np.ones(shape, dtype=int), progress=False)


def test_a_model_cannot_be_changed():
    given = np.ones((2, 4))
    model = Factorization("dk,kv->dv", k=2, fixed={"factor_kv": given})
    given[:] = 7
    assert (model.fixed["factor_kv"] == 1).all()
    with pytest.raises(ValueError, match="read-only"):
        model.fixed["factor_kv"][0, 0] = 2
    with pytest.raises(TypeError):
        model.shape["factor_dk"] = 3.0
    with pytest.raises(AttributeError):
        model.spec = "d->d"
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    assert again != Factorization("dk,kv->dv", k=2)


@pytest.mark.parametrize(
    "spec", ["dk,kv->dv", "ia,jb,tc,abc->ijt", "ik,jk,tk->k", "ij,jk,kl->il", "ij->", "ab,c->cab"]
)
def test_contractions(spec):
    rng = np.random.default_rng(0)
    sizes = dict(zip("abcdijklrstv", range(2, 14), strict=True))
    left, output = spec.split("->")
    arrays = [rng.random([sizes[c] for c in term]) for term in left.split(",")]
    np.testing.assert_allclose(
        contract(left.split(","), arrays, output, {}), np.einsum(spec, *arrays), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("spec", "sizes"), [("d->d", {}), ("dk->d", {"k": 3}), ("dv->dv", {}), ("d,v->dv", {})]
)
def test_the_smallest_specs(spec, sizes):
    counts = np.array([3, 0, 2]) if spec.endswith(">d") else np.array([[3, 0], [1, 2]])
    for data in (counts, cv.PrivateCounts(counts, alpha=0.4)):
        posterior = cv.fit(Factorization(spec, **sizes), data, sweeps=20, seed=1, progress=False)
        assert posterior.rates().shape == counts.shape


def test_data_without_a_single_count():
    posterior = cv.fit(CommunityModel(2), np.zeros((4, 4), int), sweeps=20, seed=1, progress=False)
    assert np.isfinite(posterior.rates()).all()
