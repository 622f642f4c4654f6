"""Draws do not depend on how rows are split, nor sums over rows on their order: to the last bit, for everything."""

from typing import ClassVar, NamedTuple

import numpy as np
import pytest

import countveil as cv
from countveil.counts import CombinedReleases
from countveil.inference.engines.cpu import choose
from countveil.inference.engines.cpu.choose import choose_algorithm, make_plan
from countveil.inference.engines.cpu.sampler import CpuSampler, named_algorithm
from countveil.inference.problem import make_problem
from countveil.kernels.exact_sum import exact_sums
from countveil.models import (
    CommunityModel,
    Factorization,
    SharedFactors,
    TensorModel,
    TopicModel,
    UnknownNoise,
)
from countveil.models.count_model import mean_rate
from countveil.models.einsum import exposure, model, prior, scales
from countveil.models.einsum.exposure import Exposure, exposure_of, ordered_sum
from countveil.runtime.workers import Workers
from goodness_of_fit import SEED
from inference.one_chain import ALL_SPLITS, IN_PLACE, Splits

#: Enough rows that real threads share them.
MATRIX, TENSOR, NETWORK = (100, 12), (90, 3, 4), (70, 70)
SWEEPS = 3


class LevelState(NamedTuple):
    level: np.ndarray


class Levels:
    """A model of one's own: one rate for every row."""

    dims: ClassVar = {"level": ("row",)}

    def init(self, data, rng):
        return LevelState(rng.exponential(size=data.shape[0]))

    def rates(self, state, rows):
        return np.repeat(state.level[rows, None], MATRIX[1], axis=1)

    def update(self, state, counts, rng):
        return LevelState(rng.gamma(1 + counts.sum(axis=1)) / (1 + counts.shape[1]))


_RNG = np.random.default_rng(SEED)
PHI = _RNG.gamma(1.0, size=(2, MATRIX[1]))
THETA = _RNG.gamma(1.0, size=(MATRIX[0], 2))
TUCKER, ACTORS = "ia,jb,tc,abc->ijt", {"names": ["actor", "actor", "time"]}
#: Every kind of model, and the shape of its data.
MODELS = {
    "topics": (TopicModel(3), MATRIX),
    "topics, fixed prior": (TopicModel(3, rate=1.0), MATRIX),
    "a directed network": (CommunityModel(2, rate=None), NETWORK),
    "a directed network, fixed prior": (CommunityModel(2, rate=1.0), NETWORK),
    "an undirected network": (CommunityModel(2, directed=False), NETWORK),
    "CP": (TensorModel(2, rate=None), TENSOR),
    "CP in another order": (Factorization("tk,ki,kj->ijt", k=2), TENSOR),
    "Tucker": (Factorization(TUCKER, a=2, b=2, c=2, rate=None), TENSOR),
    "tied CP": (Factorization("ik,jk,tk->ijt", **ACTORS, k=2), (70, 70, 2)),
    "tied on later axes": (Factorization("tk,ik,jk->tij", names=["time", "actor", "actor"], k=2), (70, 3, 3)),
    "fixed columns": (Factorization("dk,kv->dv", names=["theta", "phi"], fixed={"phi": PHI}, k=2), MATRIX),
    "fixed rows": (Factorization("dk,kv->dv", names=["theta", "phi"], fixed={"theta": THETA}, k=2), MATRIX),
    "tied, not unfolding": (
        Factorization("tk,ik,jk,t->tij", names=["time", "actor", "actor", "level"], k=2),
        (70, 3, 3),
    ),
    "not unfolding": (Factorization("dvk,k->dv", k=2), MATRIX),
    "one's own": (Levels(), MATRIX),
    "unknown noise": (UnknownNoise(TopicModel(3)), MATRIX),
    "unknown noise of a network": (UnknownNoise(CommunityModel(2)), NETWORK),
}


def counts_of(shape, seed=SEED):
    """Counts with a few rows and columns that are large."""
    rng = np.random.default_rng(seed)
    rates = rng.gamma(0.4, size=shape)
    rates[:2] *= 20
    rates[..., :2] *= 8
    return rng.poisson(rates)


def masked(values, share):
    return np.random.default_rng(SEED + 1).random(values.shape) < share


def by_row(shape, low, high):
    return np.linspace(low, high, shape[0])[(np.arange(shape[0]) * 7) % shape[0]]


def released(counts, noise=1.0, seed=SEED, mask=None):
    rng = np.random.default_rng(seed)
    rho = np.asarray(noise, dtype=float)
    wide = rho.reshape(-1, *[1] * (counts.ndim - 1)) if rho.ndim == 1 else rho
    with np.errstate(divide="ignore"):
        one, two = rng.geometric(-np.expm1(-wide), (2, *counts.shape))
    return cv.PrivateCounts(counts + one - two, rho=rho, mask=mask)


def combined(counts):
    masks = [np.random.default_rng(SEED + r).random(counts.shape) < 0.2 for r in (2, 3)]
    noise = (0.8, by_row(counts.shape, 0.3, 1.5))
    return CombinedReleases(tuple(released(counts, noise[r], SEED + r, masks[r]) for r in (0, 1)))


def mixed(counts):
    return released(counts, np.where(np.arange(len(counts)) % 3 == 0, np.inf, 0.9), mask=masked(counts, 0.1))


#: Every kind of data.
DATA = {
    "plain": lambda counts: counts,
    "plain, missing": lambda counts: np.ma.array(counts, mask=masked(counts, 0.1)),
    "released": released,
    "much noise": lambda counts: released(counts, 0.4),
    "little noise": lambda counts: released(counts, 3.0),
    "per row": lambda counts: released(counts, by_row(counts.shape, 0.3, 2.0)),
    "per cell": lambda counts: released(counts, np.linspace(0.3, 2.5, counts.size).reshape(counts.shape)),
    "missing": lambda counts: released(counts, by_row(counts.shape, 0.3, 2.0), mask=masked(counts, 0.15)),
    "mostly missing": lambda counts: released(counts, 0.6, mask=masked(counts, 0.8)),
    "mixed": mixed,
    "combined": combined,
}
WAYS = ("auto", "tokens", "integrated", "fibers", "cells", "bessel")


def problem_of(name, data, way):
    """The problem, or None where this way does not serve it."""
    one, shape = MODELS[name]
    try:
        problem = make_problem(one, DATA[data](counts_of(shape)), "bessel" if way == "bessel" else "exact")
        named_algorithm(problem.views[""], algorithm_of(way))
    except ValueError as error:
        if str(error).startswith(("method: expected", "algorithm: expected", "data: expected")):
            return None
        raise
    return problem


def algorithm_of(way):
    return "auto" if way == "bessel" else way


def drawn(problem, algorithm, workers, sweeps=SWEEPS):
    """Everything that a chain has after a few sweeps from its start, and what it is watched by."""
    with CpuSampler(problem, SEED + 3, workers.threads, algorithm, workers) as sampler:
        sampler.start(1)
        before = sampler.carry(1)
        for _ in range(sweeps):
            sampler.sweep(1)
        after = sampler.carry(1)
        watched = sampler.monitor(1) if sweeps else {}
    return [before.state, before.extra, after.state, after.extra, watched]


def same(one, two):
    return all(
        here.keys() == there.keys() and all(np.array_equal(here[name], there[name]) for name in here)
        for here, there in zip(one, two, strict=True)
    )


def check_splits(problem, algorithm, splits):
    whole = drawn(problem, algorithm, IN_PLACE)
    moved = [not np.array_equal(whole[0][name], whole[2][name]) for name in whole[0]]
    assert any(moved)
    for workers in splits:
        assert same(whole, drawn(problem, algorithm, workers)), vars(workers)


#: Of every `make test`; the others follow in `make test-long`.
FEW_SPLITS = [Splits(1, -1), Splits(34), Splits(50, -1)]
CASES = [(name, data) for name in MODELS for data in DATA]


def real_threads():
    return [Workers(2), Workers(3)]


@pytest.mark.parametrize(("name", "data"), CASES)
def test_draws_do_not_depend_on_how_rows_are_split(name, data):
    # A first look at each: all the ways of this kind of model and data.
    served = [way for way in WAYS if problem_of(name, data, way) is not None]
    for way in served:
        check_splits(problem_of(name, data, way), algorithm_of(way), [*FEW_SPLITS, Workers(2)])
    assert served or name.startswith("unknown noise")


@pytest.mark.long
@pytest.mark.parametrize(("name", "data"), CASES)
def test_draws_do_not_depend_on_any_split(name, data):
    for way in WAYS:
        problem = problem_of(name, data, way)
        if problem is not None:
            check_splits(problem, algorithm_of(way), [*ALL_SPLITS, *real_threads()])


def test_every_way_is_served_where_it_should_be():
    served = {(name, data): [w for w in WAYS if problem_of(name, data, w)] for name, data in CASES}
    assert served["topics", "plain"] == ["auto", "tokens", "cells"]
    assert served["topics", "missing"] == ["auto", "tokens", "integrated", "cells", "bessel"]
    assert served["topics", "per cell"] == ["auto", "tokens", "cells", "bessel"]
    assert served["topics", "mixed"] == ["auto", "tokens", "integrated", "cells"]
    assert served["topics", "combined"] == ["auto", "tokens", "cells"]
    assert served["CP", "per cell"] == ["auto", "tokens", "fibers", "cells", "bessel"]
    assert served["CP", "missing"] == list(WAYS)
    assert served["Tucker", "missing"] == ["auto", "tokens", "integrated", "cells", "bessel"]
    assert served["tied CP", "missing"] == ["auto", "tokens", "cells", "bessel"]
    assert served["tied on later axes", "missing"] == ["auto", "tokens", "cells", "bessel"]
    assert served["a directed network", "missing"] == ["auto", "tokens", "cells", "bessel"]
    assert served["not unfolding", "combined"] == ["auto", "cells"]
    assert served["one's own", "mostly missing"] == ["auto", "cells", "bessel"]
    assert served["unknown noise", "released"] == ["auto", "tokens", "integrated", "cells"]
    assert served["unknown noise", "per row"] == []


SHARED = {
    "words and authors": (
        SharedFactors(
            words=Factorization("dk,kv->dv", names=["theta", "phi"], k=2),
            authors=Factorization("dk,ka->da", names=["theta", "psi"], k=2),
        ),
        {"words": MATRIX, "authors": (MATRIX[0], 7)},
    ),
    "a network and its words": (
        SharedFactors(
            letters=Factorization("ic,cd,jd->ij", names=["theta", "pi", "theta"], c=2, d=2),
            words=Factorization("ic,cv->iv", names=["theta", "phi"], c=2),
        ),
        {"letters": NETWORK, "words": (NETWORK[0], 7)},
    ),
    "a tensor and its columns": (
        SharedFactors(
            events=Factorization("ik,jk,tk->ijt", names=["actor", "place", "time"], k=2),
            places=Factorization("jk,kv->jv", names=["place", "phi"], k=2),
        ),
        {"events": (90, 80, 2), "places": (80, 7)},
    ),
}
KINDS = {
    "released": ("released", "missing"),
    "one plain": ("plain", "mostly missing"),
    "much noise": ("much noise", "per row"),
    "combined": ("combined", "per cell"),
    "mixed": ("mixed", "plain, missing"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SHARED)
def test_draws_of_several_arrays_do_not_depend_on_how_rows_are_split(name, kind):
    one, shapes = SHARED[name]
    data = {
        view: DATA[how](counts_of(shapes[view], SEED + i))
        for i, (view, how) in enumerate(zip(shapes, KINDS[kind], strict=True))
    }
    for algorithm in ("auto", "tokens", "cells"):
        check_splits(make_problem(one, data), algorithm, [*ALL_SPLITS, *real_threads()])
    if kind in ("released", "much noise"):
        check_splits(make_problem(one, data, "bessel"), "auto", [*FEW_SPLITS, *real_threads()])


# The power checks: sums in floating point, each worker adding up what it has.


def plain_sums(terms, workers):
    parts = np.zeros((workers.threads, terms.shape[1]))

    def add(worker, start, stop):
        parts[worker] += ordered_sum(np.ascontiguousarray(terms[start:stop]))

    workers.run_with_worker(len(terms), add)
    return parts.sum(axis=0)


def plain_sums_of_columns(self, row_factor, n_columns, workers):
    parts = np.zeros((workers.threads, n_columns, row_factor.shape[1]))
    alpha = np.zeros(len(row_factor)) if self.alpha is None else self.alpha

    def add(worker, start, stop):
        for d in range(start, stop):
            cells = np.full(n_columns, 0.0 if self.lists_observed else 1.0)
            cells[self.columns[self.starts[d] : self.starts[d + 1]]] = 1.0 if self.lists_observed else 0.0
            cells *= 1.0 - alpha[d]
            cells[self.kept_columns[self.kept_rows == d]] += alpha[d]
            parts[worker] += cells[:, None] * row_factor[d]

    workers.run_with_worker(len(row_factor), add)
    return parts.sum(axis=0)


POWER = {
    "exposure of all columns": ("topics", "released", exposure, "exact_sums", plain_sums),
    "scales": ("topics", "missing", scales, "exact_sums", plain_sums),
    "scales, fixed prior": ("topics, fixed prior", "missing", scales, "exact_sums", plain_sums),
    "means": ("topics", "missing", prior, "exact_sums", plain_sums),
    "start": ("fixed columns", "missing", model, "exact_sums", plain_sums),
    "exposure of each column": ("topics", "missing", Exposure, "of_columns", plain_sums_of_columns),
    "exposure of observed cells": ("topics", "mostly missing", Exposure, "of_columns", plain_sums_of_columns),
}


@pytest.mark.parametrize("where", POWER)
def test_sums_in_floating_point_would_be_caught(where, monkeypatch):
    name, data, place, attribute, wrong = POWER[where]
    for algorithm in ("tokens", "integrated") if attribute == "of_columns" else ("tokens",):
        problem = problem_of(name, data, algorithm)
        check_splits(problem, algorithm, FEW_SPLITS)
        with monkeypatch.context() as patched:
            patched.setattr(place, attribute, wrong)
            with pytest.raises(AssertionError):
                check_splits(problem, algorithm, ALL_SPLITS)


# The order of rows.

ORDER = np.random.default_rng(SEED + 9).permutation(300)
FACTOR = np.random.default_rng(SEED + 8).gamma(0.2, size=(300, 5)) * 10.0 ** np.linspace(-3, 3, 300)[:, None]


def test_exact_sums_do_not_depend_on_the_order_of_rows():
    wanted = exact_sums(FACTOR, IN_PLACE)
    assert np.allclose(wanted, FACTOR.sum(axis=0), rtol=1e-15)
    assert np.array_equal(wanted, exact_sums(FACTOR[ORDER], Splits(7, -1)))
    assert not np.array_equal(ordered_sum(FACTOR), ordered_sum(FACTOR[ORDER])), "plain sums do"


def places(cells):
    """Row by row: where rows start, and columns."""
    return np.concatenate([[0], np.cumsum(cells.sum(axis=1))]), np.nonzero(cells)[1].astype(np.int32)


@pytest.mark.parametrize("integrated", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.9])
def test_exposure_of_columns_does_not_depend_on_the_order_of_rows(share, integrated):
    rng = np.random.default_rng(SEED)
    missing = rng.random((300, 20)) < share
    alpha = rng.uniform(0.1, 0.9, 300)
    alpha[::5] = 0.0  # plain rows
    kept = ~missing & (rng.random(missing.shape) < 0.3)

    def found(order, workers=IN_PLACE, shuffle=False):
        one = exposure_of(*places(missing[order]), 20)
        assert one.lists_observed == (share > 0.5)
        if integrated:
            rows, columns = np.nonzero(kept[order])
            listed = rng.permutation(len(rows)) if shuffle else slice(None)
            one = one._replace(
                alpha=alpha[order],
                kept_rows=rows[listed].astype(np.int32),
                kept_columns=columns[listed].astype(np.int32),
            )
        return one, one.of_columns(FACTOR[order], 20, workers)

    order = np.arange(300)
    one, wanted = found(order)
    cells = np.where(missing, 0.0, (1 - alpha)[:, None] + alpha[:, None] * kept if integrated else 1.0)
    assert np.allclose(np.broadcast_to(wanted, (20, 5)), cells.T @ FACTOR, rtol=1e-13)
    for workers in (IN_PLACE, *ALL_SPLITS):
        assert np.array_equal(wanted, found(ORDER, workers, shuffle=True)[1])
    plain = plain_sums_of_columns(one, FACTOR, 20, IN_PLACE)
    turned = plain_sums_of_columns(found(ORDER)[0], FACTOR[ORDER], 20, IN_PLACE)
    assert not np.array_equal(plain, turned), "plain sums do"


def in_order(data, counts, order):
    """A release of these rows in another order: the same values, noise and mask."""
    given = DATA[data](counts)
    if not isinstance(given, cv.PrivateCounts):
        return given[order]
    alpha = given.alpha[order] if given.rho.ndim else given.alpha
    hidden = np.zeros(given.shape, dtype=bool)
    if given.missing is not None:
        hidden[
            np.repeat(np.arange(given.shape[0]), np.diff(given.missing.row_starts)), given.missing.columns
        ] = True
    values = given.to_dense(missing=0)
    return cv.PrivateCounts(values[order], alpha=alpha, mask=hidden[order])


@pytest.mark.parametrize("data", [name for name in DATA if name != "combined"])
def test_choices_do_not_depend_on_the_order_of_rows(data, monkeypatch):
    counts = counts_of((200, 12))
    orders = [np.arange(200), ORDER[ORDER < 200], np.arange(200)[::-1]]
    releases = [in_order(data, counts, order) for order in orders]
    found = [make_problem(TopicModel(3), release).views[""] for release in releases]
    chosen = {choose_algorithm(view.observed, view.data.shape, 3, True, False) for view in found}
    assert len(chosen) == 1
    for integrated in (False, True):
        plans = [make_plan(view.observed, 3, integrated, IN_PLACE) for view in found]
        for plan, cells in plans[1:]:
            assert all(np.array_equal(one, two) for one, two in zip(plans[0][0], plan, strict=True))
            assert np.array_equal(np.sort(plans[0][1].columns), np.sort(cells.columns))
    # What the plan is made of, to the last bit.
    noisy = [~np.isinf(view.observed.row_rho) for view in found]
    if not noisy[0].any():
        return

    def sums():
        below = [
            choose._noise_below(view.observed, n, IN_PLACE) for view, n in zip(found, noisy, strict=True)
        ]
        means = [
            choose._mean(np.exp(view.observed.highest_rho[n]), IN_PLACE)
            for view, n in zip(found, noisy, strict=True)
        ]
        return [np.append(one, two) for one, two in zip(below, means, strict=True)]

    wanted, *others = sums()
    assert all(np.array_equal(wanted, other) for other in others)
    monkeypatch.setattr(choose, "exact_sums", plain_sums)
    monkeypatch.setattr(Exposure, "of_columns", plain_sums_of_columns)
    wanted, *others = sums()
    if data in ("per row", "per cell", "missing"):
        assert not all(np.array_equal(wanted, other) for other in others), "plain sums do"


@pytest.mark.parametrize("data", [name for name in DATA if name != "combined"])
def test_the_scale_of_the_start_does_not_depend_on_the_order_of_rows(data, monkeypatch):
    counts = counts_of((200, 12))
    orders = [np.arange(200), ORDER[ORDER < 200], np.arange(200)[::-1]]
    wanted = {
        mean_rate(make_problem(TopicModel(3), in_order(data, counts, o)).views[""].data) for o in orders
    }
    assert len(wanted) == 1
    one = TopicModel(5)
    held = [{"theta": FACTOR[:200][order], "phi": np.ones((1, 5))} for order in orders]  # by axis

    def totals():
        return {one._total(factors, IN_PLACE) for factors in held}

    def starts():
        return [prior.start_means(one._inferred, factors, IN_PLACE) for factors in held]

    assert len(totals()) == 1
    wanted, *others = starts()
    for order, other in zip(orders[1:], others, strict=True):
        assert wanted.keys() == other.keys() > {"theta_scale", "theta_mean", "phi_level"}
        scales_of_rows = wanted["theta_scale"][order]
        assert same([{**wanted, "theta_scale": scales_of_rows}], [other])
    monkeypatch.setattr(model, "exact_sums", plain_sums)
    assert len(totals()) > 1, "plain sums do"
    monkeypatch.setattr(prior, "exact_sums", plain_sums)
    assert len({float(found["theta_mean"][0]) for found in starts()}) > 1, "plain sums do"
