"""Figure 3 of the paper on a GPU: topics of the Enron documents by three methods, at three levels of noise.

    python benchmarks/figure3.py documents.npz scores.csv --levels 1 2 3 --releases 5

Every fit: 7,500 sweeps, the first 2,500 not kept, then every 100th. Of the kept draws: the mean absolute error of the
mean rates, the log score of the true counts (per cell), NPMI and coherence of the ten first words of every topic
(mean over topics and every fifth kept draw). Each fit is a line of the file, which is appended to: what is there already is not made
again. Needs numpy, scipy, numba-cuda and CuPy.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import cupy
import numpy as np
import scipy.sparse
from scipy.special import gammaln

from countveil.counts import simulate_release
from countveil.evaluation.topics import coherence, npmi, top_words
from countveil.inference.chains import run_chains
from countveil.inference.problem import make_problem
from countveil.inference.settings import check_settings
from countveil.models import TopicModel

FIELDS = (
    "method",
    "prior",
    "level",
    "release",
    "mae",
    "log_score",
    "npmi",
    "coherence",
    "total_rate",
    "seconds",
)
BLOCK = 2000


def rate_scores(theta, phi, counts):
    """(mean absolute error of the mean rates, mean log of the mean probability of the counts), over all cells."""
    error, score, n_draws = 0.0, 0.0, len(theta)
    phi = cupy.asarray(phi, dtype=cupy.float32)
    for start in range(0, counts.shape[0], BLOCK):
        rows = counts[start : start + BLOCK].tocoo()
        at = cupy.asarray(rows.row), cupy.asarray(rows.col)
        y = cupy.asarray(rows.data, dtype=cupy.float64)
        mean = cupy.zeros(rows.shape, dtype=cupy.float32)
        empty = cupy.zeros(rows.shape, dtype=cupy.float32)
        logs = cupy.empty((n_draws, len(y)))
        part = cupy.asarray(theta[:, start : start + BLOCK], dtype=cupy.float32)
        for draw in range(n_draws):
            mu = part[draw] @ phi[draw]
            mean += mu
            empty += cupy.exp(-mu)
            rate = mu[at].astype(cupy.float64)
            logs[draw] = y * cupy.log(cupy.maximum(rate, 1e-300)) - rate
        mean, empty = mean / n_draws, cupy.log(empty / n_draws)
        there = mean[at].astype(cupy.float64)
        error += float(mean.sum(dtype=cupy.float64) - there.sum() + cupy.abs(there - y).sum())
        top = logs.max(axis=0)
        of_counts = top + cupy.log(cupy.exp(logs - top).mean(axis=0)) - cupy.asarray(gammaln(rows.data + 1.0))
        score += float(empty.sum(dtype=cupy.float64) - empty[at].sum(dtype=cupy.float64) + of_counts.sum())
    cells = counts.shape[0] * counts.shape[1]
    return error / cells, score / cells


def fit(model, data, method, seed, sweeps):
    """Kept draws (theta, phi) and the mean total rate."""
    settings = check_settings(
        sweeps=sweeps, burn_in=sweeps // 3, thin=max(sweeps // 75, 1), chains=1, seed=seed,
        method=method, engine="cuda", threads=None,
    )  # fmt: skip
    draws = run_chains(make_problem(model, data, method), settings)
    return draws.states["theta"][0], draws.states["phi"][0], float(draws.monitored["total_rate"].mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("documents")
    parser.add_argument("scores")
    parser.add_argument("--levels", type=float, nargs="+", default=[1.0, 2.0, 3.0])
    parser.add_argument("--releases", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=["exact", "naive", "plain"])
    parser.add_argument("--priors", nargs="+", default=["inferred", "fixed"])
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--sweeps", type=int, default=7500)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no fit after so long")
    options = parser.parse_args()
    began, path = time.perf_counter(), Path(options.scores)
    counts = scipy.sparse.load_npz(options.documents).tocsr()
    done = set()
    if path.exists():
        with path.open(newline="") as file:
            done = {tuple(line[f] for f in FIELDS[:4]) for line in csv.DictReader(file)}
    with path.open("a", newline="") as file:
        out = csv.DictWriter(file, FIELDS)
        if not done:
            out.writeheader()
        for release in range(options.releases):
            for method in options.methods:
                for level in [0.0] if method == "plain" else options.levels:
                    noisy = None
                    for prior in options.priors:
                        name = (method, prior, f"{level:g}", str(release))
                        if name in done or time.perf_counter() - began > options.seconds:
                            continue
                        if noisy is None:
                            alpha = float(np.exp(-level))
                            noisy = (
                                counts
                                if method == "plain"
                                else simulate_release(counts, alpha=alpha, seed=release)
                            )
                        start = time.perf_counter()
                        model = TopicModel(options.topics, rate=None if prior == "inferred" else 1.0)
                        how = "exact" if method == "plain" else method
                        theta, phi, total = fit(model, noisy, how, release, options.sweeps)
                        seconds = time.perf_counter() - start
                        words = top_words(phi[::5], 10).reshape(-1, 10)
                        mae, score = rate_scores(theta, phi, counts)
                        scores = (
                            mae,
                            score,
                            npmi(words, counts).mean(),
                            coherence(words, counts).mean(),
                            total,
                            seconds,
                        )
                        out.writerow(dict(zip(FIELDS, (*name, *(f"{s:.6g}" for s in scores)), strict=True)))
                        file.flush()
                        print(*name, *(f"{s:.5g}" for s in scores), flush=True)


if __name__ == "__main__":
    main()
