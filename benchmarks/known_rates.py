"""Which total does a Poisson likelihood find in a release, when it is told all rates but for one factor?

    python benchmarks/known_rates.py --documents documents.npz

Rates mu with the right total are known for every cell, and the likelihood of s * mu given a release has one unknown, s,
and no prior. Where counts are Poisson(mu) its maximum is at 1: the rows "redrawn". On real counts it depends on how much
the rates know. Rates of a fit of the plain counts know most bursts, words that a document has five times and others never.
Rates of the margins, row total times column total, know none: there a likelihood under noise takes five counts for noise
before it takes them for five counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

import countveil as cv
from countveil.kernels.given_release.geometric import log_marginal
from countveil.runtime.compiled import compiled
from documents import documents

STEP = 1e-3  # of log s, in differences of the likelihood
BLOCK = 250  # rows at a time

Rates = Callable[[slice], np.ndarray]


@compiled
def _log_likelihood(released, rates, log_s, rho):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(released)):
        total += log_marginal(np.int64(released[i]), rates[i] * np.exp(log_s), rho)
    return total


def blocks(n: int) -> list[slice]:
    return [slice(first, min(first + BLOCK, n)) for first in range(0, n, BLOCK)]


def rates_of_a_fit(counts: sparse.csr_array, topics: int, sweeps: int) -> Rates:
    """Mean rates of a fit of the plain counts."""
    posterior = cv.fit(
        cv.TopicModel(topics), counts, sweeps=sweeps, burn_in=sweeps // 2, thin=sweeps // 20, chains=1, seed=1
    )
    draws = [posterior.tree["posterior"][name].to_numpy()[0].astype(np.float64) for name in ("theta", "phi")]
    return lambda rows: np.mean([theta[rows] @ phi for theta, phi in zip(*draws, strict=True)], axis=0)


def rates_of_margins(counts: sparse.csr_array) -> Rates:
    """Row total times column total, over the total."""
    sent, words = (np.asarray(counts.sum(axis=axis), dtype=np.float64).reshape(-1) for axis in (1, 0))
    return lambda rows: np.outer(sent[rows], words / words.sum())


def redrawn(n: int, rates: Rates) -> sparse.csr_array:
    """Poisson counts with these rates."""
    rng = np.random.default_rng(0)
    return sparse.csr_array(sparse.vstack([sparse.csr_array(rng.poisson(rates(rows))) for rows in blocks(n)]))


def best_scale(counts: sparse.csr_array, rates: Rates, rho: float, seed: int) -> tuple[float, float]:
    """The s of greatest likelihood, and its standard error by the curvature there."""
    release = cv.simulate_release(counts, alpha=float(np.exp(-rho)), seed=seed)
    cells: list[tuple[Any, Any]] = []
    others = 0.0  # the sum of rates where x <= 0, whose likelihood is exp(-(1 - alpha) * s * mu)
    for rows in blocks(counts.shape[0]):
        values, _ = release.dense_block(rows.start, rows.stop)
        mu, positive = rates(rows), values > 0
        cells.append((values[positive], mu[positive]))
        others += float(mu[~positive].sum())

    def slope(log_s: float) -> float:
        above, below = (
            sum(_log_likelihood(x, mu, log_s + sign * STEP, rho) for x, mu in cells) for sign in (1, -1)
        )
        return (above - below) / (2 * STEP) + np.expm1(-rho) * others * np.exp(log_s)

    log_s = brentq(slope, np.log(0.2), np.log(2.0), xtol=1e-4)
    curvature = (slope(log_s - 0.02) - slope(log_s + 0.02)) / 0.04
    s = float(np.exp(log_s))
    return s, s / float(np.sqrt(curvature))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", help="documents x words, as scipy.sparse.save_npz writes it")
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--sweeps", type=int, default=600)
    parser.add_argument("--every", type=int, default=4, help="take every so manieth document (default 4)")
    given = parser.parse_args()
    counts, name = documents(given.documents)
    counts = counts[:: given.every]
    print(
        f"{name}; one document in {given.every}: {counts.sum():,} tokens in {counts.nnz:,} cells", flush=True
    )
    fit, margins = rates_of_a_fit(counts, given.topics, given.sweeps), rates_of_margins(counts)
    n = counts.shape[0]
    print("\n| rates | counts | eps/N | s of greatest likelihood | standard error |\n|---|---|---|---|---|")
    for kind, rates in (("a plain fit", fit), ("margins", margins)):
        for what, data in (("real", counts), ("redrawn", redrawn(n, rates))):
            for rho in (1.0, 2.0, 3.0):
                s, error = best_scale(data, rates, rho, seed=0)
                print(f"| {kind} | {what} | {rho:g} | {s:.3f} | {error:.3f} |", flush=True)


if __name__ == "__main__":
    main()
