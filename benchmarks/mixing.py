"""Effective samples per second: autocorrelation of what is monitored, for exact and bessel.

The log-likelihood needs dozens of sweeps for an effective sample, so chains of thousands are run, on a part of the
matrix because bessel would take days on all: the first documents and their commonest words, both methods from the same
burned-in state. The effective samples per sweep found there are divided by the seconds per sweep of the whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from arviz_stats.base import array_stats

import countveil as cv
from countveil.inference.monitor import Monitor
from countveil.inference.problem import make_problem
from countveil.runtime.workers import Workers
from engines import Run, part_of_state

N_RATES = 50


def samples_per_sweep(
    release: Any, state: Any, n_topics: int, part_of: tuple[int, int], sweeps: int
) -> dict[str, dict[str, float]]:
    """Per method: effective samples per sweep of the log-likelihood and (median) of 50 random rates."""
    model = cv.TopicModel(n_topics)
    n_documents, n_words = part_of
    values = release.dense_block(0, n_documents)[0]
    commonest = np.sort(np.argsort(-values.sum(axis=0), kind="stable")[:n_words])
    part = cv.PrivateCounts(np.ascontiguousarray(values[:, commonest]), rho=release.rho)
    started = part_of_state(model, state, np.arange(n_documents), commonest)
    # The part has a posterior of its own: without a burn-in towards it, a drift would pass for slow mixing.
    arriving = Run(model, part, "exact", state=started, seed=2)
    with Workers(1) as workers:
        arriving.advance(sweeps, workers)
    started = arriving.state
    monitor = Monitor(make_problem(model, part), Workers(1))
    rng = np.random.default_rng(0)
    # Random cells among the positive ones: rates of empty cells hardly move.
    picked = rng.choice(len(part.positive.columns), N_RATES, replace=False)
    at_row = np.searchsorted(part.positive.row_starts, picked, side="right") - 1
    at_column = part.positive.columns[picked]
    found = {}
    for method in ("exact", "bessel"):
        run = Run(model, part, method, state=started)
        log_likelihood, rates = [], []
        with Workers(1) as workers:
            run.advance(sweeps // 10, workers)
            for _ in range(sweeps):
                run.advance(1, workers)
                log_likelihood.append(monitor.scalars(run.state, None, None)["sampled_log_likelihood"])
                rates.append(np.log(model.rates_at(run.state, at_row, at_column)))
        traces = np.array(rates).T
        each = [float(array_stats.ess(trace[None], method="mean")) / sweeps for trace in traces]
        found[method] = {
            "log-likelihood": float(array_stats.ess(np.array(log_likelihood)[None], method="mean")) / sweeps,
            "50 rates": float(np.median(each)),
        }
    return found
