"""How often does the verdict speak of different modes, where chains agree and where they do not?

Planted networks, topics and tensors under noise, four chains each. Whether chains agree is taken from the R-hat of
the watched log-likelihood: below 1.1 they do (a verdict is a false alarm, or has seen what R-hat has not), above 1.2
they do not. Beside it what log-likelihoods alone say. Prints a table.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import countveil as cv
from countveil.posterior.diagnostics.modes import modes_of, posterior_modes

Planted = tuple[Any, np.ndarray]


def network(rng: np.random.Generator) -> Planted:
    """Three to six communities of actors that may differ in how active they are."""
    n_communities, n = int(rng.integers(3, 7)), int(rng.choice([40, 60, 100]))
    group, activity = rng.integers(n_communities, size=n), np.exp(rng.choice([0.0, 0.7]) * rng.normal(size=n))
    inside = float(rng.choice([0.8, 1.5, 3.0]))
    counts = rng.poisson(np.where(group[:, None] == group, inside, 0.15) * np.outer(activity, activity))
    np.fill_diagonal(counts, 0)
    return cv.CommunityModel(n_communities), counts


def topics(rng: np.random.Generator) -> Planted:
    """Documents of a few topics each."""
    n_topics = int(rng.integers(3, 9))
    theta = rng.gamma(0.3, 1.0, (150, n_topics))
    phi = rng.dirichlet(np.full(80, 0.1), n_topics)
    return cv.TopicModel(n_topics), rng.poisson(float(rng.choice([15.0, 40.0])) * theta @ phi)


def tensor(rng: np.random.Generator) -> Planted:
    """Components of three axes."""
    factors = [rng.gamma(0.3, 1.0, (length, 3)) for length in (20, 20, 8)]
    return cv.TensorModel(rank=3), rng.poisson(3.0 * np.einsum("ik,jk,tk->ijt", *factors))


def measure(plant: Callable[[np.random.Generator], Planted], n: int, sweeps: int) -> dict[str, np.ndarray]:
    """By whether chains agree: runs, those that the verdict calls, those that log-likelihoods alone would."""
    found = {"agree": np.zeros(3, int), "disagree": np.zeros(3, int)}
    for seed in range(n):
        rng = np.random.default_rng([1, seed])
        model, counts = plant(rng)
        release = cv.simulate_release(counts, epsilon=int(rng.choice([1, 2, 3])), seed=seed)
        posterior = cv.fit(model, release, sweeps=sweeps, chains=4, seed=seed, progress=False)
        r_hat = posterior.summary(0)["r_hat"]["sampled_log_likelihood"]
        level = posterior.tree["sample_stats"]["sampled_log_likelihood"].to_numpy()
        kind = "agree" if r_hat < 1.1 else "disagree" if r_hat > 1.2 else None
        if kind is not None:
            found[kind] += [1, posterior_modes(posterior).differ, modes_of(level).differ]
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40, help="of every kind (default 40)")
    parser.add_argument("--sweeps", type=int, default=1000)
    known = {plant.__name__: plant for plant in (network, topics, tensor)}
    parser.add_argument("--planted", choices=known, nargs="+", default=list(known), metavar="KIND")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    print("| planted | chains agree: runs | verdict | by level | they do not: runs | verdict | by level |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.planted:
        found = measure(known[name], arguments.runs, arguments.sweeps)
        numbers = [*found["agree"], *found["disagree"]]
        print(f"| {name} | {' | '.join(map(str, numbers))} |", flush=True)


if __name__ == "__main__":
    main()
