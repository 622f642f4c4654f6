"""Views that do not fit together are refused before any work starts, with a word on what does not fit."""

import numpy as np
import pytest

import countveil as cv

WORDS = cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2)
AUTHORS = cv.Factorization("dk,ka->da", names=["theta", "psi"], k=2)
MODEL = cv.SharedFactors(words=WORDS, authors=AUTHORS)
COUNTS = {"words": np.ones((4, 3), int), "authors": np.ones((4, 2), int)}
THETA = np.ones((4, 2))


def view(spec="dk,ka->da", names=("theta", "psi"), **options):
    return cv.Factorization(spec, names=names, **{"k": 2, **options})


@pytest.mark.parametrize(
    ("views", "error", "message"),
    [
        ({}, ValueError, "views: expected at least one, such as .*, got none"),
        ({"a b": WORDS}, ValueError, "views: expected names such as 'words', got 'a b'"),
        (
            {"words": cv.UnknownNoise(cv.TopicModel(2))},
            TypeError,
            "words: expected a TopicModel, Factorization, TensorModel or CommunityModel, got UnknownNoise",
        ),
        (
            {"words": cv.TopicModel(2), "authors": view(shape={"theta": 0.3})},
            ValueError,
            "authors: expected the shared factor 'theta' with the prior's shape 0.1 as in words, got 0.3",
        ),
        (
            {"words": WORDS, "authors": view(names=("thetas", "psi"))},
            ValueError,
            "words: expected a factor with the name of one in another view, got theta, phi",
        ),
        (
            {"words": WORDS, "authors": view(k=3)},
            ValueError,
            "authors: expected the shared factor 'theta' with the sizes 2 as in words, got 3",
        ),
        (
            {"words": WORDS, "authors": view(shape={"theta": 0.3})},
            ValueError,
            "authors: expected the shared factor 'theta' with the prior's shape 0.1 as in words, got 0.3",
        ),
        (
            {"words": view("dk,kv->dv", ("theta", "phi"), rate=None), "authors": view(rate=2)},
            ValueError,
            "authors: expected the shared factor 'theta' with the prior's rate None as in words, got 2.0",
        ),
        (
            {"words": view("dk,kv->dv", ("theta", "phi"), rate=1), "authors": view(rate=2)},
            ValueError,
            "authors: expected the shared factor 'theta' with the prior's rate 1.0 as in words, got 2.0",
        ),
        (
            {"one": cv.CommunityModel(2), "two": cv.CommunityModel(2, directed=False)},
            ValueError,
            "two: expected the shared factor 'pi' with the prior's symmetry False as in one, got True",
        ),
        (
            {"words": WORDS, "authors": view("kd,ka->da")},
            ValueError,
            r"authors: expected the shared factor 'theta' with axes and summed indices as in words \('dk' of 'dv'\), got 'kd' of 'da'",
        ),
        (
            {
                "words": WORDS,
                "senses": cv.Factorization("dk,kv,vw->dw", names=["chi", "phi", "psi"], k=2, v=3),
            },
            ValueError,
            r"senses: expected the shared factor 'phi' with axes and summed indices as in words \('kv' of 'dv'\), got 'kv' of 'dw'",
        ),
        (
            {"words": WORDS, "authors": view(fixed={"theta": THETA})},
            ValueError,
            r"authors: expected the shared factor 'theta' with fixed= as in words \(none\), got values",
        ),
        (
            {"words": view("dk,kv->dv", ("theta", "phi"), start={"theta": THETA}), "authors": AUTHORS},
            ValueError,
            r"authors: expected the shared factor 'theta' with start= as in words \(values\), got none",
        ),
        (
            {
                "words": view("dk,kv->dv", ("theta", "phi"), fixed={"theta": THETA}),
                "authors": view(fixed={"theta": 2 * THETA}),
            },
            ValueError,
            "authors: expected the shared factor 'theta' with the fixed= values as in words, got others",
        ),
    ],
)
def test_views_that_cannot_share(views, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        cv.SharedFactors(**views)


def labelled(rows, columns):
    counts = np.ones((len(rows), len(columns)), int)
    return cv.PrivateCounts(counts, alpha=0.3, labels=(list(rows), list(columns)))


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (COUNTS["words"], TypeError, r"data: expected a mapping from views \(words, authors\) to arrays, got ndarray"),
        ({"words": COUNTS["words"]}, ValueError, "data: expected the views words, authors, got words"),
        ({**COUNTS, "more": [[1]]}, ValueError, "data: expected the views words, authors, got words, authors, more"),
        ({**COUNTS, "authors": np.ones((3, 2), int)}, ValueError,
         r"authors: expected length 4 along axis 0, as words has along axis 0 \(they share a factor\), got 3"),
        ({**COUNTS, "authors": np.ones((4, 2, 2), int)}, ValueError,
         "authors: data: expected 2 axes for this Factorization, got 3"),
        ({**COUNTS, "authors": -np.ones((4, 2), int)}, ValueError, "authors: data: expected counts >= 0, .*"),
        ({"words": labelled("abcd", "xyz"), "authors": labelled("abce", "uv")}, ValueError,
         r"authors: expected the labels of words \(axis 0\) along axis 0 \(they share a factor\), got 'e' in place of 'd' .*"),
        ({"words": labelled("abcd", "xyz"), "authors": labelled("abdc", "uv")}, ValueError,
         r"authors: expected the labels of words \(axis 0\) along axis 0 \(they share a factor\), got them in another order.*"),
    ],
)  # fmt: skip
def test_data_that_do_not_fit(data, error, message):
    with pytest.raises(error, match=f"^{message}$"):
        cv.fit(MODEL, data, sweeps=10, progress=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"robust": 0.1}, "robust: expected None for SharedFactors, got 0.1"),
        (
            {"method": "bessel"},
            r"method: expected 'exact' for plain counts \(nothing to invert\), got 'bessel'",
        ),
        ({"labels": {"more": None}}, "labels: expected the views words, authors, got more"),
    ],
)
def test_options_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        cv.fit(MODEL, COUNTS, sweeps=10, progress=False, **options)


def test_a_release_has_labels_of_its_own():
    data = {**COUNTS, "words": labelled("abcd", "xyz")}
    with pytest.raises(ValueError, match="words: labels: expected None for a release"):
        cv.fit(MODEL, data, sweeps=10, progress=False, labels={"words": (list("abcd"), None)})
    posterior = cv.fit(
        MODEL, data, sweeps=10, thin=1, progress=False, labels={"authors": (list("abcd"), ["u", "v"])}
    )
    assert posterior["authors"].rates("b", "v").shape == (1, 1)


def test_labels_of_one_view_are_enough():
    data = {**COUNTS, "words": labelled("abcd", "xyz")}
    posterior = cv.fit(MODEL, data, sweeps=10, thin=1, progress=False)
    assert list(posterior.tree["posterior"]["row"].to_numpy()) == list("abcd")


def test_wrong_views_and_other_questions():
    posterior = cv.fit(MODEL, COUNTS, sweeps=10, thin=1, progress=False)
    with pytest.raises(KeyError, match="view: expected one of words, authors, got 'word'"):
        posterior["word"]
    with pytest.raises(
        TypeError, match="blocks: expected the posterior of a CommunityModel, got Factorization"
    ):
        posterior["words"].blocks()
    with pytest.raises(TypeError, match="model: expected a model such as TopicModel"):
        cv.UnknownNoise(MODEL)


def test_the_method_is_for_released_views():
    data = {**COUNTS, "words": labelled("abcd", "xyz")}
    for method in ("bessel", "naive"):
        posterior = cv.fit(MODEL, data, sweeps=10, thin=1, method=method, progress=False)
        assert np.isfinite(posterior["authors"].rates()).all()
        assert np.array_equal(posterior["authors"].true_counts()["mean"], COUNTS["authors"])
