"""How often chains of a network merge planted groups: the fixed prior beside the inferred one.

    python benchmarks/merged.py -o MERGED.md

As many communities as groups; every chain has a start of its own, and relocation (the default). A group's community is
the one that its actors have most of, by their counts. A chain has merged groups if two of them have one community.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import math
import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import countveil as cv
from machine import describe_machine

PRIORS: dict[str, dict[str, float | None]] = {
    "Gamma(0.1, 1)": {"shape": 0.1, "rate": 1.0},
    "inferred": {"shape": 0.1, "rate": None},
}
LEVELS = (1.0, 3.0, None)


class Planted(NamedTuple):
    """A network of groups: how many, of how many actors each, and how much these differ."""

    n_groups: int
    size: int
    activity: str  # even, uneven, or apart: what one receives tells nothing of what one sends
    directed: bool = True
    inside: float = 1.5

    def __str__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        return f"{self.n_groups} groups of {self.size}, {kind}, activity {self.activity}"

    def counts(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Counts, and the group of every actor."""
        rng = np.random.default_rng(seed)
        n = self.n_groups * self.size
        group = np.arange(n) % self.n_groups
        sends = np.ones(n) if self.activity == "even" else rng.gamma(1.0, 1.0, n)
        receives = rng.gamma(1.0, 1.0, n) if self.activity == "apart" else sends
        blocks = 0.05 + self.inside * np.eye(self.n_groups)
        counts = rng.poisson(sends[:, None] * blocks[group][:, group] * receives)
        np.fill_diagonal(counts, 0)
        return counts if self.directed else np.triu(counts) + np.triu(counts).T, group


NETWORKS = (
    Planted(3, 10, "even", inside=5.0),
    Planted(3, 20, "uneven"),
    Planted(5, 20, "uneven"),
    Planted(5, 20, "apart"),
    Planted(5, 20, "uneven", directed=False),
    Planted(10, 10, "uneven", inside=3.0),
)


def communities_found(posterior: Any, counts: np.ndarray, group: np.ndarray) -> int:
    """How many different communities the groups have."""
    shares = posterior.memberships()["mean"].to_numpy() * (counts.sum(axis=0) + counts.sum(axis=1))[:, None]
    of_groups = np.array([shares[group == g].sum(axis=0) for g in range(group.max() + 1)])
    return len(set(of_groups.argmax(axis=1)))


class Job(NamedTuple):
    """The chains of one fit."""

    network: Planted
    level: float | None
    release: int
    prior: str
    chains: int
    sweeps: int


def merged(job: Job) -> tuple[int, float]:
    """In how many chains groups are merged, and the seconds of all of them."""
    warnings.filterwarnings("ignore", "prior: shape and rate")
    counts, group = job.network.counts(job.release)
    data: Any = counts if job.network.directed else np.triu(counts)
    if job.level is not None:
        data = cv.simulate_release(data, alpha=math.exp(-job.level), seed=job.release)
    model = cv.CommunityModel(job.network.n_groups, directed=job.network.directed, **PRIORS[job.prior])
    began = time.perf_counter()
    found = cv.fit(
        model, data, sweeps=job.sweeps, burn_in=job.sweeps * 2 // 3, thin=5, chains=job.chains,
        seed=job.release + 1, engine="cpu", threads=1, progress=False,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    each = [communities_found(found.chains([chain]), counts, group) for chain in range(job.chains)]
    return sum(n < job.network.n_groups for n in each), seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chains", type=int, default=12)
    parser.add_argument("--sweeps", type=int, default=1000)
    parser.add_argument("--releases", type=int, default=2, help="networks and releases of each kind")
    parser.add_argument("--processes", type=int, default=1, help="fits at a time, of one thread each")
    parser.add_argument("-o", "--output", default=str(Path(__file__).with_name("MERGED.md")))
    given = parser.parse_args()
    lines: list[str] = []

    def say(*more: str) -> None:
        lines.extend(more)
        print(*more, sep="\n", flush=True)
        Path(given.output).write_text("\n".join(lines) + "\n")

    say(
        "# Merged communities",
        "",
        f"Made by `python benchmarks/merged.py` on {datetime.date.today():%Y-%m-%d}: "
        f"{describe_machine(('countveil', 'numpy', 'numba'))}.",
        "",
        f"{given.releases} planted networks of each kind, {given.chains} chains of {given.sweeps} sweeps for each, the last",
        "third of them kept. Merged: chains in which two planted groups share a community.",
        "",
        "| network | eps/N | " + " | ".join(f"{prior}: merged, seconds" for prior in PRIORS) + " |",
        "|---|---|" + "---|" * len(PRIORS),
    )
    rows = list(itertools.product(NETWORKS, LEVELS))
    jobs = [
        Job(network, level, release, prior, given.chains, given.sweeps)
        for network, level in rows
        for prior in PRIORS
        for release in range(given.releases)
    ]
    of_row, of_all = given.releases * given.chains, len(rows) * given.releases * given.chains
    sums = dict.fromkeys(PRIORS, 0)
    with ProcessPoolExecutor(given.processes, multiprocessing.get_context("spawn")) as pool:
        each = pool.map(merged, jobs)
        for network, level in rows:
            cells = []
            for prior in PRIORS:
                found = list(itertools.islice(each, given.releases))
                n, seconds = sum(n for n, _ in found), sum(s for _, s in found)
                sums[prior] += n
                cells.append(f"{n} of {of_row}, {seconds:.0f}")
            say(f"| {network} | {'plain' if level is None else f'{level:g}'} | {' | '.join(cells)} |")
    say(f"| all | | {' | '.join(f'{sums[prior]} of {of_all}' for prior in PRIORS)} |")


if __name__ == "__main__":
    main()
