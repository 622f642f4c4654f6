"""Small dense text, 400 x 400: does another beginning help, at equal CPU? Prototypes outside the package.

    OPENBLAS_NUM_THREADS=1 python benchmarks/dense_starts.py --documents documents.npz

The 400 longest documents and commonest words, 20 topics, eps/N = 3, one cell in twenty hidden. Every chain has the same
seconds of CPU, with whatever comes before its exact sweeps:

* plain: nothing;
* factorized: 150 multiplicative updates (Lee and Seung, Kullback-Leibler) of clamped released values;
* bessel first: half the time by ``method="bessel"``, whose slow augmentation lets networks settle in better modes.

Scored are mean rates over the last quarter of the time: the mean log-probability of true counts, seen and hidden.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from scipy.special import gammaln

import countveil as cv
from countveil.inference.engines.cpu.sampler import open_problem
from countveil.inference.problem import make_problem
from countveil.inference.settings import check_settings
from documents import documents

TOPICS, SIZE, EVERY, UPDATES = 20, 400, 10, 150
BEGINNINGS = ("plain", "factorized", "bessel first")


def opened(release: Any, method: str, seed: int) -> Any:
    """A sampler of one chain that never leaves burn-in."""
    settings = check_settings(
        sweeps=10**6, burn_in=10**6 - 1, thin=1, chains=1, seed=seed, method=method, engine="cpu", threads=1,
        start="plain",
    )  # fmt: skip
    return open_problem(make_problem(cv.TopicModel(TOPICS), release, method), settings)


def factorized(
    values: np.ndarray, seen: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """theta and phi by multiplicative updates of what was seen."""
    x, weight = np.where(seen, np.maximum(values, 0), 0.0), seen.astype(float)
    theta, phi = rng.gamma(1.0, 1.0, (len(x), TOPICS)), rng.dirichlet(np.ones(x.shape[1]), TOPICS)
    theta *= x.sum() / theta.sum()
    for _ in range(UPDATES):
        theta *= (x / np.maximum(theta @ phi, 1e-9)) @ phi.T / np.maximum(weight @ phi.T, 1e-9)
        phi *= theta.T @ (x / np.maximum(theta @ phi, 1e-9)) / np.maximum(theta.T @ weight, 1e-9)
    return np.maximum(theta, 1e-3), np.maximum(phi, 1e-5)


def settle(
    beginning: str, release: Any, hidden: np.ndarray, seed: int, seconds: float
) -> tuple[int, np.ndarray]:
    """How many exact sweeps there was time for, and the mean rates."""
    began, model = time.process_time(), cv.TopicModel(TOPICS)

    def spent() -> float:
        return (time.process_time() - began) / seconds

    with opened(release, "bessel" if beginning == "bessel first" else "exact", seed) as sampler:
        sampler.start(0)
        while beginning == "bessel first" and spent() < 0.5:
            sampler.sweep(0)
        state = dict(sampler.carry(0).state)
    if beginning == "factorized":
        theta, phi = factorized(release.to_dense(), ~hidden, np.random.default_rng(seed))
        scale = theta.mean(axis=1)
        state |= {
            "theta": theta,
            "phi": phi,
            "theta_scale": scale / scale.mean(),
            "phi_scale": phi.mean(axis=0),
        }
        state |= {"theta_mean": theta.mean(axis=0), "phi_level": np.asarray(phi.mean())}
    kept, sweeps = [], 0
    with opened(release, "exact", seed) as sampler:
        sampler.start(0)
        sampler.load(sampler.carry(0)._replace(state=state))
        while spent() < 1:
            sampler.sweep(0)
            sweeps += 1
            if spent() > 0.75 and sweeps % EVERY == 0:
                kept.append(model.rates(model.state_type(**sampler.carry(0).state), slice(0, SIZE)))
    return sweeps, np.mean(kept, axis=0)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", required=True, help="a scipy.sparse .npz of documents x words")
    parser.add_argument("--seconds", type=float, default=6.0, help="of CPU, for every chain (default 6)")
    parser.add_argument("--starts", type=int, default=4)
    given = parser.parse_args()
    texts, _ = documents(given.documents)
    words = np.argsort(-np.asarray(texts.sum(axis=0)).ravel(), kind="stable")[:SIZE]
    longest = np.argsort(-np.asarray(texts[:, words].sum(axis=1)).ravel(), kind="stable")[:SIZE]
    counts = np.asarray(texts[longest][:, words].todense()).astype(np.int64)
    hidden = np.random.default_rng(0).random(counts.shape) < 0.05
    release = cv.simulate_release(counts, epsilon=3, seed=1).hide(hidden)
    for method in ("exact", "bessel"):
        with opened(release, method, 0) as sampler:  # compile
            sampler.start(0)
            sampler.sweep(0)
    print("| start | beginning | exact sweeps | seen | hidden |\n|---|---|---|---|---|")
    for seed in range(given.starts):
        for beginning in BEGINNINGS:
            sweeps, mu = settle(beginning, release, hidden, seed, given.seconds)
            score = counts * np.log(np.maximum(mu, 1e-12)) - mu - gammaln(counts + 1.0)
            parts = f"{score[~hidden].mean():.3f} | {score[hidden].mean():.3f}"
            print(f"| {seed} | {beginning} | {sweeps} | {parts} |", flush=True)


if __name__ == "__main__":
    main()
