"""Seconds per sweep of exact, bessel, naive and non-private fits, side by side, after burn-in."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import countveil as cv
from countveil.counts.sources.plain_counts import read_plain_counts
from countveil.kernels.philox import SweepKey
from countveil.runtime.workers import Workers
from engines import Run, part_of_state, side_by_side

LEVELS = (1.0, 2.0, 3.0)


def sweep_times(counts: Any, n_topics: int, threads: int, burn_in: int, rounds: int) -> dict[str, Any]:
    """Per level: seconds per sweep of each method; the burned-in exact states and releases for later use."""
    model = cv.TopicModel(n_topics)
    plain = Run(model, read_plain_counts(counts), "exact")
    with Workers(threads) as workers:
        plain.advance(burn_in, workers)
    found: dict[str, Any] = {"seconds": {}, "states": {}, "releases": {}, "plain": plain}
    for rho in LEVELS:
        release = cv.simulate_release(counts, alpha=np.exp(-rho), seed=1)
        exact, naive = Run(model, release, "exact"), Run(model, release, "naive")
        fixed = Run(cv.TopicModel(n_topics, rate=1.0), release, "exact")
        with Workers(threads) as workers:
            exact.advance(burn_in, workers)
            fixed.advance(burn_in, workers)
            naive.advance(3, workers)
        # The reference starts where the exact chain has arrived: its cost depends on the rates.
        bessel = Run(model, release, "bessel", state=exact.state)
        with Workers(threads) as workers:
            bessel.advance(1, workers)
        runs = {
            "exact": (exact, 10), "exact, the paper's prior": (fixed, 10), "bessel": (bessel, 1),
            "naive": (naive, 2), "non-private": (plain, 10),
        }  # fmt: skip
        found["seconds"][rho] = side_by_side(runs, threads, rounds)
        found["states"][rho], found["releases"][rho] = exact.state, release
        del bessel, runs  # its noise rates are 1.6 GB
    return found


def bessel_nanoseconds(release: Any, state: Any, n_topics: int, rows: int = 500) -> float:
    """Nanoseconds per cell of the bessel method on one thread, on the first rows."""
    rows = min(rows, release.shape[0])
    part = cv.PrivateCounts(release.dense_block(0, rows)[0], rho=release.rho)
    model = cv.TopicModel(n_topics)
    small = part_of_state(model, state, np.arange(rows), np.arange(part.shape[1]))
    run = Run(model, part, "bessel", state=small)
    view, extra = run.sampler._views[""], run.sampler._chains[0].extra
    with Workers(1) as workers:
        times = []
        for sweep in range(6):
            began = time.perf_counter()
            view.statistics(small, SweepKey(np.uint64(1), 0, sweep), workers, extra)
            times.append(time.perf_counter() - began)
        times = times[1:]
    return float(np.median(times)) / (rows * part.shape[1]) * 1e9
