"""Draws do not depend on how rows are split: to the last bit, for everything."""

import numpy as np
import pytest

from countveil.inference.engines.cpu.sampler import CpuSampler, named_algorithm
from countveil.inference.problem import make_problem
from countveil.models import Factorization, SharedFactors
from countveil.models.einsum import exposure, model, prior, scales
from countveil.models.einsum.exposure import Exposure
from countveil.runtime.workers import Workers
from goodness_of_fit import SEED
from inference.kinds import DATA, MATRIX, MODELS, NETWORK, counts_of
from inference.one_chain import ALL_SPLITS, IN_PLACE, Splits
from inference.plain_sums import plain_sums, plain_sums_of_columns

SWEEPS = 3

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


#: Every kind of data with a matrix and with a tensor; every other model with two of them in turn.
QUICK = [
    (name, data)
    for i, name in enumerate(MODELS)
    for j, data in enumerate(DATA)
    if name in ("topics", "CP") or (j - 2 * i) % len(DATA) in (0, 1)
]


@pytest.mark.parametrize(("name", "data"), QUICK)
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


def check_shared(name, kind, splits, threads):
    one, shapes = SHARED[name]
    data = {
        view: DATA[how](counts_of(shapes[view], SEED + i))
        for i, (view, how) in enumerate(zip(shapes, KINDS[kind], strict=True))
    }
    for algorithm in ("auto", "tokens", "cells"):
        check_splits(make_problem(one, data), algorithm, [*splits, *threads()])
    if kind in ("released", "much noise"):
        check_splits(make_problem(one, data, "bessel"), "auto", [*splits, *threads()])


@pytest.mark.parametrize(("name", "kind"), [*zip(2 * [*SHARED], KINDS, strict=False)])
def test_draws_of_several_arrays_do_not_depend_on_how_rows_are_split(name, kind):
    check_shared(name, kind, FEW_SPLITS, lambda: [Workers(2)])


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SHARED)
def test_draws_of_several_arrays_do_not_depend_on_any_split(name, kind):
    check_shared(name, kind, ALL_SPLITS, real_threads)


# The power checks: sums in floating point, each worker adding up what it has.

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
