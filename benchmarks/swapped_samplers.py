"""Do exact and bessel differ, or their starts? Each goes on where a chain of the other has ended.

    python benchmarks/swapped_samplers.py --network network.npz

Both draw from one posterior. On real networks their chains, from one plain start each, end with different scores of
the true counts. If that is a matter of modes, a chain that begins where one of the other has ended stays there; if
one of the samplers were wrong it would leave.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from scipy.special import gammaln

import countveil as cv
from countveil.inference.engines.cpu.sampler import open_problem
from countveil.inference.problem import make_problem
from countveil.inference.settings import check_settings

LAST, EVERY = 200, 10  # sweeps at the end of a chain that are scored


def ended(
    model: Any, release: Any, counts: np.ndarray, method: str, seed: int, sweeps: int, state: Any = None
) -> tuple[Any, float]:
    """Where a chain ends, and its log score of the true counts; from its own start, or from a state."""
    settings = check_settings(
        sweeps=sweeps, burn_in=sweeps // 2, thin=1, chains=1, seed=seed, method=method, engine="cpu", threads=1,
        start="plain",
    )  # fmt: skip
    kept = []
    with open_problem(make_problem(model, release, method), settings) as sampler:
        sampler.start(0)
        if state is not None:
            sampler.load(sampler.carry(0)._replace(state=state))
        for sweep in range(sweeps):
            sampler.sweep(0)
            if sweep >= sweeps - LAST and sweep % EVERY == 0:
                kept.append(model.state_type(**sampler.carry(0).state))
        last = sampler.carry(0).state
    others = ~np.eye(len(counts), dtype=bool)
    mu = np.mean([model.rates(one, slice(0, len(counts))) for one in kept], axis=0)[others]
    y = counts[others]
    return last, float(np.mean(y * np.log(mu) - mu - gammaln(y + 1.0)))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--network", required=True, help="an .npz with counts_unique, actors x actors")
    parser.add_argument("--communities", type=int, default=5)
    parser.add_argument("--rho", type=float, default=3.0)
    parser.add_argument("--sweeps", type=int, default=1500)
    parser.add_argument("--chains", type=int, default=4)
    given = parser.parse_args()
    counts = np.load(given.network, allow_pickle=False)["counts_unique"].astype(np.int64)
    model = cv.CommunityModel(given.communities, rate=1.0)
    print(
        "| release | start | exact | bessel from there | bessel | exact from there |\n|---|---|---|---|---|---|"
    )
    for number in range(2):
        release = cv.simulate_release(counts, alpha=float(np.exp(-given.rho)), seed=number)
        for seed in range(given.chains):
            cells = []
            for one, other in (("exact", "bessel"), ("bessel", "exact")):
                state, score = ended(model, release, counts, one, seed, given.sweeps)
                _, stays = ended(model, release, counts, other, seed + 10, given.sweeps // 3, state)
                cells += [f"{score:.3f}", f"{stays:.3f}"]
            print(f"| {number} | {seed} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
