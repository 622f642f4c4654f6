"""Bad input gets a clear error that names the parameter, before any work."""

from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest

import countveil as cv
from countveil.inference.observed import observe

RELEASE = cv.PrivateCounts([[3, 0], [1, 2]], alpha=0.4)
MODEL = cv.TopicModel(2)

SETTINGS = [
    ({"sweeps": 0}, "sweeps: expected a whole number"),
    ({"sweeps": 2.5}, "sweeps: expected a whole number"),
    ({"sweeps": True}, "sweeps: expected a whole number"),
    ({"sweeps": 10, "burn_in": 10}, "burn_in: expected fewer than the 10 sweeps, got 10"),
    ({"sweeps": 10, "burn_in": -1}, "burn_in: expected a whole number >= 0, got -1"),
    ({"sweeps": 10, "burn_in": 5, "thin": 6}, "thin: expected at most sweeps - burn_in = 5, got 6"),
    ({"thin": 0}, "thin: expected a whole number >= 1, got 0"),
    ({"chains": 0}, "chains: expected a whole number from 1 to 4096, got 0"),
    ({"chains": 5000}, "chains: expected a whole number from 1 to 4096, got 5000"),
    ({"seed": -1}, "seed: expected a whole number"),
    ({"seed": 2**64}, "seed: expected a whole number"),
    ({"seed": "one"}, "seed: expected a whole number"),
    ({"threads": 0}, "threads: expected a whole number"),
    ({"method": "magic"}, "method: expected one of exact, bessel, naive, got 'magic'"),
    ({"engine": "magic"}, "engine: expected one of auto, cpu, cuda, mpi, ray, got 'magic'"),
    (
        {"algorithm": "magic"},
        "algorithm: expected one of auto, tokens, integrated, fibers, cells, cuda, got 'magic'",
    ),
    (
        {"algorithm": "fibers"},
        "algorithm: expected 'fibers' for a release of three axes or more in the CP form",
    ),
    (
        {"algorithm": "tokens", "method": "bessel"},
        "algorithm: expected 'auto' or 'cells' for method 'bessel', got 'tokens'",
    ),
]


@pytest.mark.parametrize(("settings", "message"), SETTINGS)
def test_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        cv.fit(MODEL, RELEASE, progress=False, **settings)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_topics": 0}, "n_topics: expected a whole number >= 1, got 0"),
        ({"n_topics": 2.0}, "n_topics: expected a whole number >= 1, got 2.0"),
        ({"n_topics": 2, "shape": 0.0}, "shape: expected a finite number >= 0.001, got 0.0"),
        ({"n_topics": 2, "shape": float("nan")}, "shape: expected a finite number"),
        ({"n_topics": 2, "rate": -1}, "rate: expected a finite number > 0, got -1"),
        ({"n_topics": 2, "shape": 1e300}, r"shape: expected a number from 0.001 to 1e\+30, got 1e\+300"),
        ({"n_topics": 2, "rate": 1e-300}, r"rate: expected a number from 1e-30 to 1e\+30, got 1e-300"),
        ({"n_topics": 2, "rate": "much"}, "rate: expected a finite number > 0, got 'much'"),
    ],
)
def test_topic_model(parameters, message):
    with pytest.raises(ValueError, match=message):
        cv.TopicModel(**parameters)


@pytest.mark.parametrize(
    "counts",
    [
        [[1, -1]],
        [[1.5, 2]],
        [[np.nan, 1]],
        [[np.inf, 1]],
        [["a", "b"]],
        np.zeros((0, 3), dtype=int),
        np.zeros((3, 0)),
        7,
    ],
)
def test_plain_counts(counts):
    with pytest.raises((ValueError, TypeError), match=r"^data: expected"):
        cv.fit(MODEL, counts, progress=False)


ACCEPTED = "^data: expected a release, a numpy array, a scipy.sparse matrix or a DataFrame, got "


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            nx.DiGraph([(0, 1)]),
            ACCEPTED + r"DiGraph; networkx.to_numpy_array\(graph, weight='weight', dtype=int\)",
        ),
        ("letters.parquet", ACCEPTED + r"a path; load_release\('letters.parquet'\) first"),
        (Path("letters.parquet"), ACCEPTED + "a path; load_release"),
        (pd.Series([1, 2]), ACCEPTED + "Series$"),
        (
            pd.DataFrame({"n": [1], "name": ["ann"]}),
            "^data: expected columns of whole numbers, got 'name' with",
        ),
        (
            pd.DataFrame({"n": [1, None]}, dtype="Int64"),
            "^data: expected (columns of )?whole numbers, got ('n'|NaN)",
        ),
        (
            pl.DataFrame({"n": [1], "name": ["ann"]}),
            "^data: expected columns of whole numbers, got 'name' with",
        ),
        (pd.DataFrame({"n": [1.0, np.nan]}), "^data: expected whole numbers, got NaN"),
        (pd.DataFrame({"n": [1.5, 2]}), "^data: expected whole numbers, got fractional values"),
        (pd.DataFrame({"n": [1, -2]}), "^data: expected counts >= 0, got negative values"),
    ],
)
def test_errors_about_plain_counts_name_what_was_typed(data, message):
    with pytest.raises((ValueError, TypeError), match=message):
        cv.fit(MODEL, data, progress=False)


def test_a_table_of_several_kinds_of_whole_numbers():
    table = pd.DataFrame({"a": pd.array([3, 0], dtype="Int64"), "b": np.array([1, 2], np.uint8)})
    found = cv.fit(MODEL, table, sweeps=4, thin=1, seed=1, progress=False)
    plain = cv.fit(MODEL, [[3, 1], [0, 2]], sweeps=4, thin=1, seed=1, progress=False)
    assert np.array_equal(found.tree["posterior"]["phi"], plain.tree["posterior"]["phi"])


def test_plain_counts_that_look_like_a_release_get_a_hint():
    with pytest.raises(ValueError, match=r"cv.PrivateCounts\(values, alpha="):
        cv.fit(MODEL, [[1, -1]], progress=False)


def test_a_tensor_is_not_a_matrix():
    with pytest.raises(ValueError, match="data: expected a matrix for a TopicModel, got 3 axes"):
        cv.fit(MODEL, np.ones((2, 2, 2), dtype=int), progress=False)


def test_something_that_is_no_model():
    with pytest.raises(
        TypeError, match=r"model: expected a model such as TopicModel\(n_topics=10\), got str"
    ):
        cv.fit("topics", RELEASE, progress=False)


@pytest.mark.parametrize("method", ["bessel", "naive"])
def test_methods_for_releases_refuse_plain_counts(method):
    with pytest.raises(ValueError, match=f"method: expected 'exact' for plain counts .*, got '{method}'"):
        cv.fit(MODEL, [[1, 2]], method=method, progress=False)


def test_counts_whose_sums_would_wrap_around():
    many = np.full((2, 256), 2**53)  # each as large as one may be
    message = r"data: expected counts whose sum is below 2\*\*62, got a larger sum"
    for data in (many, cv.PrivateCounts(many, alpha=0.4)):
        with pytest.raises(ValueError, match=message):
            cv.fit(MODEL, data, progress=False)
    observe(cv.PrivateCounts(many[:, 1:], alpha=0.4))  # and just below
