"""A carry is all that a chain needs: written to bytes and read into a new sampler, it goes on bit by bit."""

from __future__ import annotations

from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest

import countveil as cv
from countveil.inference.carry import Carry, RowFile, SpreadRows
from countveil.inference.engines.cpu.sampler import CpuSampler
from countveil.inference.problem import make_problem
from goodness_of_fit import SEED

# More rows than threads leave to one of them.
N = 70
CHAIN = 3


class OwnState(NamedTuple):
    """Arrays and scalars, real and whole."""

    rate: np.ndarray
    level: float
    group: np.ndarray
    used: int


class OwnModel:
    """Rows belong to groups that are drawn, too: a state with whole numbers, which must come back as such."""

    dims = {"rate": ("kind",), "level": (), "group": ("row",), "used": ()}  # noqa: RUF012

    def init(self, data, rng):
        return OwnState(np.array([0.5, 2.0]), 1.0, rng.integers(0, 2, data.shape[0]), 2)

    def rates(self, state, rows):
        return np.repeat((state.level * state.rate[state.group[rows]])[:, None], 6, axis=1)

    def update(self, state, counts, rng):
        sums = counts.sum(axis=1)
        rate = rng.gamma(1 + np.bincount(state.group, sums, 2)) / (
            1 + 6 * np.bincount(state.group, minlength=2)
        )
        odds = sums * np.log(rate[1] / rate[0]) - 6 * state.level * (rate[1] - rate[0])
        group = (rng.random(len(sums)) < 1 / (1 + np.exp(-odds))).astype(np.int64)
        return OwnState(rate, float(rng.gamma(20.0) / 20.0), group, len(np.unique(group)))


RNG = np.random.default_rng(3)
MATRIX, OTHER = RNG.poisson(2.0, (N, 6)), RNG.poisson(1.0, (N, 4))
NETWORK = RNG.poisson(1.0, (N, N))
TENSOR = RNG.poisson(1.0, (N, 4, 3))
WEEKS = RNG.poisson(1.0, (2, 20, 20))
COUNTS = {"matrix": MATRIX, "network": NETWORK, "tensor": TENSOR, "weeks": WEEKS}


def noisy(counts, alpha=0.4, share=0.0, seed=0):
    """A release, with this share of its cells missing."""
    rng = np.random.default_rng(seed)
    one, two = rng.geometric(1 - np.broadcast_to(alpha, counts.shape), (2, *counts.shape))
    return cv.PrivateCounts(counts + one - two, alpha=alpha, mask=rng.random(counts.shape) < share)


def by_row(counts):
    return np.linspace(0.1, 0.7, len(counts)).reshape(-1, *[1] * (counts.ndim - 1))


DATA = {
    "release": noisy,
    "more noise": lambda y: noisy(y, 0.7),
    "missing": lambda y: noisy(y, share=0.2),
    "mostly missing": lambda y: noisy(y, share=0.8),
    "noise by row": lambda y: noisy(y, by_row(y)),
    "noise by cell, missing": lambda y: noisy(y, np.linspace(0.1, 0.7, y.size).reshape(y.shape), 0.2),
    "plain": lambda y: y,
    "plain, missing": lambda y: np.ma.array(y, mask=np.random.default_rng(1).random(y.shape) < 0.3),
    "mixed rows": lambda y: cv.stack_rows(noisy(y[:40], 0.5), y[40:]),
    "combined": lambda y: cv.combine_releases(noisy(y, 0.4, 0.2, 1), noisy(y, 0.6, 0.3, 2)),
}

TOPICS = cv.TopicModel(3)
MATRIX_FORM = cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=3)
AUTHORS = cv.Factorization("dk,ka->da", names=["theta", "psi"], k=3)
TIED = cv.Factorization("tk,ik,jk->tij", names=["time", "actor", "actor"], k=2)
NOT_UNFOLDING = cv.Factorization("dk,kv,dv->dv", names=["theta", "phi", "own"], k=2)
NOT_UNFOLDING_TIED = cv.Factorization(
    "ta,tb,ic,jc,abc->tij", names=["one", "two", "actor", "actor", "core"], a=2, b=1, c=2
)
FIXED = cv.Factorization(
    "dk,kv->dv", names=["theta", "phi"], k=2, fixed={"phi": np.random.default_rng(5).random((2, 6))}
)
STARTED = cv.Factorization("dk,kv->dv", names=["theta", "phi"], k=2, start={"theta": np.full((N, 2), 0.3)})

#: Models by the counts that they are fitted to.
MODELS: dict[str, tuple[Any, str]] = {
    "topics": (TOPICS, "matrix"),
    "topics, fixed prior": (cv.TopicModel(3, rate=1.0), "matrix"),
    "matrix": (MATRIX_FORM, "matrix"),
    "matrix, other order of indices": (cv.Factorization("vk,kd->dv", k=3), "matrix"),
    "matrix with a core": (cv.Factorization("ia,jb,ab->ij", a=2, b=3), "matrix"),
    "a fixed factor": (FIXED, "matrix"),
    "a given start": (STARTED, "matrix"),
    "not unfolding": (NOT_UNFOLDING, "matrix"),
    "directed": (cv.CommunityModel(2, rate=None), "network"),
    "directed, fixed prior": (cv.CommunityModel(2, rate=1.0), "network"),
    "undirected": (cv.CommunityModel(2, directed=False, rate=1.0), "network"),
    "self-loops": (cv.CommunityModel(2, self_loops=True, rate=None), "network"),
    "undirected with self-loops": (cv.CommunityModel(2, directed=False, self_loops=True), "network"),
    "CP": (cv.TensorModel(rank=3), "tensor"),
    "Tucker": (cv.TensorModel(core=(2, 2, 2)), "tensor"),
    "tied": (TIED, "weeks"),
    "not unfolding, tied": (NOT_UNFOLDING_TIED, "weeks"),
    "own": (OwnModel(), "matrix"),
}


class Case(NamedTuple):
    """What a problem is made of, and the algorithm of its sampler."""

    model: Any
    data: Any
    method: str = "exact"
    algorithm: str = "auto"
    robust: float | None = None

    def problem(self):
        return make_problem(self.model, self.data, self.method, robust=self.robust)


def cases():
    """Every model and method; every kind of data and algorithm; every option."""
    for name, (model, counts) in MODELS.items():
        release = noisy(COUNTS[counts], share=0.1)
        for method in ("exact", "bessel", "naive"):
            yield f"{name}, {method}", Case(model, release, method)
        yield f"{name}, plain", Case(model, COUNTS[counts])
    algorithms = {
        "topics": ("tokens", "integrated", "cells"),
        "directed": ("tokens", "cells"),
        "CP": ("tokens", "integrated", "fibers", "cells"),
        "not unfolding": ("cells",),
        "own": ("cells",),
    }
    unfit = {
        "integrated": {"noise by cell, missing", "combined", "plain", "plain, missing"},
        "fibers": {"combined", "plain", "plain, missing", "mixed rows"},
    }
    for name, chosen in algorithms.items():
        model, counts = MODELS[name]
        for algorithm in chosen:
            for kind, make in DATA.items():
                if kind not in unfit.get(algorithm, ()):
                    yield (
                        f"{name}, {kind}, {algorithm}",
                        Case(model, make(COUNTS[counts]), algorithm=algorithm),
                    )
    for name in ("topics", "directed", "undirected", "CP", "not unfolding", "own"):
        model, counts = MODELS[name]
        yield f"{name}, unknown noise", Case(cv.UnknownNoise(model), noisy(COUNTS[counts]))
        yield f"{name}, robust", Case(model, COUNTS[counts], robust=0.2)
    words = {"words": noisy(MATRIX, share=0.2), "authors": OTHER}
    two = cv.SharedFactors(words=MATRIX_FORM, authors=AUTHORS)
    for method in ("exact", "bessel", "naive"):
        yield f"shared, {method}", Case(two, words, method)
    yield "shared, cells", Case(two, {**words, "authors": noisy(OTHER)}, algorithm="cells")
    yield "shared, both bessel", Case(two, {**words, "authors": noisy(OTHER)}, "bessel")
    yield "shared, combined", Case(two, {**words, "words": DATA["combined"](MATRIX)})
    yield "shared, plain", Case(two, {"words": MATRIX, "authors": OTHER})
    yield "shared, one view", Case(cv.SharedFactors(words=MATRIX_FORM), {"words": noisy(MATRIX)})
    yield (
        "shared, a network and words",
        Case(
            cv.SharedFactors(mails=cv.CommunityModel(3, rate=1.0), words=MATRIX_FORM),
            {"mails": noisy(NETWORK), "words": noisy(MATRIX)},
        ),
    )
    yield (
        "shared, one not unfolding",
        Case(
            cv.SharedFactors(cells=NOT_UNFOLDING_TIED, mails=TIED_OF_WEEKS),
            {"cells": noisy(WEEKS, share=0.3), "mails": noisy(WEEKS)},
        ),
    )


TIED_OF_WEEKS = cv.Factorization("tk,ik,jk->tij", names=["week", "actor", "actor"], k=2)
CASES = dict(cases())
#: One of each kind of memory and of extra arrays; all others are slow to begin, being many.
QUICK = (
    "topics, exact", "topics, bessel", "directed, exact", "CP, release, fibers", "CP, missing, integrated",
    "own, bessel", "not unfolding, tied, exact", "directed, unknown noise", "topics, combined, tokens",
    "topics, mixed rows, tokens", "CP, noise by row, integrated", "shared, bessel", "topics, fixed prior, exact", "directed, fixed prior, exact",
)  # fmt: skip


def sampler(case, threads=1):
    return CpuSampler(case.problem(), SEED, threads, case.algorithm)


def after(chain, sweeps=4):
    """The carry and the monitored scalars after some more sweeps."""
    for _ in range(sweeps):
        chain.sweep(CHAIN)
    return chain.carry(CHAIN), chain.monitor(CHAIN)


def same(one, two):
    """Whether carries agree in every bit."""
    return one[:2] == two[:2] and all(
        list(a) == list(b)
        and all(a[name].dtype == b[name].dtype and np.array_equal(a[name], b[name]) for name in a)
        for a, b in zip(one[2:4], two[2:4], strict=True)
    )


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in CASES]
)
def test_a_chain_goes_on_from_its_bytes(name):
    case = CASES[name]
    with sampler(case) as first:
        first.start(CHAIN)
        after(first)
        held = first.carry(CHAIN)
        written = held.to_bytes()
        expected, watched = after(first)
    assert not same(held, expected)
    for threads in (1, 3):
        with sampler(case, threads) as second:
            read = Carry.from_bytes(written)
            assert same(read, held)
            second.load(read)
            found, monitored = after(second)
        assert same(found, expected), threads
        assert monitored == watched, threads
        # What is handed over is the sampler's own from then on.
        assert same(read, held)


def test_quick_cases_exist():
    assert set(QUICK) <= set(CASES)


FORGOTTEN = {
    "the sweep": lambda carry: carry._replace(sweep=carry.sweep - 1),
    "precision": lambda carry: carry._replace(
        state={name: value.astype(np.float32).astype(float) for name, value in carry.state.items()}
    ),
}


@pytest.mark.parametrize("what", FORGOTTEN)
@pytest.mark.parametrize("name", ["topics, bessel", "directed, unknown noise", "shared, both bessel"])
def test_what_is_forgotten_is_noticed(name, what):
    case = CASES[name]
    with sampler(case) as first:
        first.start(CHAIN)
        after(first)
        held = first.carry(CHAIN)
        expected, _ = after(first)
    with sampler(case) as second:
        second.load(FORGOTTEN[what](held))
        found, _ = after(second)
        with pytest.raises(ValueError, match="carry: expected the arrays"):
            second.load(held._replace(extra={}))
    assert not all(np.array_equal(found.state[name], expected.state[name]) for name in expected.state)


def test_whole_numbers_come_back_as_such():
    case = CASES["own, exact"]
    with sampler(case) as chain:
        chain.start(CHAIN)
        carry, _ = after(chain)
    read = Carry.from_bytes(carry.to_bytes())
    kinds = {name: value.dtype.kind for name, value in read.state.items()}
    assert kinds == {"rate": "f", "level": "f", "group": "i", "used": "i"}
    assert {name: value.ndim for name, value in read.state.items()} == {
        "rate": 1,
        "level": 0,
        "group": 1,
        "used": 0,
    }


def test_a_carry_of_a_later_version_is_refused():
    with patch("countveil.inference.carry._WITH_ALL_ROWS", 3):
        written = Carry(0, 1, {"theta": np.ones(2)}, {}).to_bytes()
    with pytest.raises(ValueError, match="carry: expected version 2 or older, got 3"):
        Carry.from_bytes(written)


def test_rows_in_files_survive():
    rows = SpreadRows(
        {"theta": 0}, (RowFile("/some/run/rows-7-0-0", 0, 4, "ab"), RowFile("rows-7-0-4", 4, 9, "cd"))
    )
    found = Carry.from_bytes(Carry(0, 7, {"phi": np.ones(2)}, {}, rows).to_bytes())
    assert found.rows.axes == rows.axes
    assert found.rows.files == (rows.files[0]._replace(path="rows-7-0-0"), rows.files[1])


def test_names_with_any_letters_survive():
    extra = {"words:noise_plus": np.ones((2, 3)), "a/b": np.zeros(1)}
    carry = Carry(1, 2, {"theta": np.asfortranarray(np.arange(6.0).reshape(2, 3))}, extra)
    assert same(Carry.from_bytes(carry.to_bytes()), carry)


def test_a_sampler_does_not_share_memory_with_its_carries():
    case = CASES["topics, bessel"]
    with sampler(case) as chain:
        chain.start(CHAIN)
        carry = chain.carry(CHAIN)
        copies = Carry.from_bytes(carry.to_bytes())
        expected, _ = after(chain)
        assert same(carry, copies)
        # Nor does it with what it has loaded.
        chain.load(carry)
        found, _ = after(chain)
        assert same(carry, copies)
        assert same(found, expected)
