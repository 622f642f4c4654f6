"""Small posteriors that the tests of this folder share, and a way to give one other draws."""

import copy
from typing import NamedTuple

import numpy as np
import pytest
import xarray as xr

import countveil as cv

DOCUMENTS = ["", "日本 🙂", "a\0", "d, e", "f", "g"]
WORDS = ["oil", "gas", "power", "Öl", "x\n"]
TRUTH = np.array(
    [[9, 8, 0, 0, 1], [0, 1, 7, 9, 8], [8, 9, 1, 0, 0], [0, 0, 9, 8, 7], [7, 9, 0, 1, 0], [1, 0, 8, 8, 9]]
)


@pytest.fixture(scope="session")
def release():
    labels = {"document": DOCUMENTS, "word": WORDS}
    return cv.simulate_release(TRUTH, epsilon=2, seed=1, labels=labels).hide(([0, 3], [2, 4]))


@pytest.fixture(scope="session")
def posterior(release):
    return cv.fit(cv.TopicModel(2), release, sweeps=300, seed=1, progress=False)


@pytest.fixture(scope="session")
def plain():
    """Plain counts, no labels, one chain."""
    return cv.fit(cv.TopicModel(3), TRUTH, sweeps=60, chains=1, seed=2, progress=False)


class LevelState(NamedTuple):
    level: np.ndarray
    overall: np.ndarray

    def twice(self):
        return 2 * self.level


class Levels:
    """One rate per row, and a number that is 1: the smallest own model with two fields."""

    dims = {"level": ("row",), "overall": ()}  # noqa: RUF012

    def __init__(self, n_columns):
        self.n_columns = n_columns

    def init(self, data, rng):
        return LevelState(np.ones(data.shape[0]), np.array(1.0))

    def rates(self, state, rows):
        return np.repeat(state.level[rows, None], self.n_columns, axis=1)

    def update(self, state, counts, rng):
        return LevelState(rng.gamma(1 + counts.sum(axis=1)) / (1 + self.n_columns), np.array(1.0))


@pytest.fixture(scope="session")
def levels():
    return Levels(TRUTH.shape[1])


@pytest.fixture(scope="session")
def own(levels, release):
    return cv.fit(levels, release, sweeps=60, seed=3, progress=False)


@pytest.fixture(scope="session")
def with_draws():
    """with_draws(posterior, theta=..., phi=...): the same posterior with other draws, (chain, draw, ...).

    Fields that are not given stay, or are 1 where their old draws would not fit.
    """

    def change(posterior, **fields):
        other = copy.copy(posterior)
        for cached in ("_kept", "_aligners"):
            other.__dict__.pop(cached, None)
        old = posterior.tree["posterior"].to_dataset()
        sizes = next(iter(fields.values())).shape[:2]
        sampling = {"chain": np.arange(sizes[0]), "draw": np.arange(sizes[1])}
        if "phi" in fields:
            other._shape = (fields["theta"].shape[2], fields["phi"].shape[3])
        same = {"topic": -1, **dict(zip(other._axes, other._shape, strict=True))}
        kept = {name: c for name, c in old.coords.items() if same.get(name) == c.size}
        other.tree = posterior.tree.copy()
        lengths = {d: n for name, a in fields.items() for d, n in zip(old[name].dims, a.shape, strict=True)}
        for name, values in old.data_vars.items():
            shape = tuple(lengths[d] for d in values.dims)
            fields.setdefault(name, values.to_numpy() if values.shape == shape else np.ones(shape))
        arrays = {name: (old[name].dims, values.astype(np.float32)) for name, values in fields.items()}
        other.tree["posterior"] = xr.DataTree(xr.Dataset(arrays, {**sampling, **kept}, old.attrs))
        return other

    return change
