"""Do chains of the GPU engine and of the CPU engine have one law? On all documents, from one state.

    python benchmarks/engines_agree.py --documents documents.npz --processes 12

A chain of the GPU burns in. From the state it has reached, chains of both engines make so many sweeps, each with
random numbers of its own: so their ends are independent draws from a law that must be the same for both, and what is
compared are plain samples, whatever a chain's autocorrelation. Of every scalar that is monitored, and of the total
rates of some columns and rows, it tells Welch's t between the engines: over all of them their root mean square
should be about 1, their largest about 3.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from scipy import stats

if not hasattr(np, "row_stack"):  # newer than the numba-cuda that may be there
    setattr(np, "row_stack", np.vstack)  # noqa: B010 (as an attribute, ruff would mend it away)

TOPICS = 50


def problem_at(documents, level, tiny):
    """That of a release; the same wherever it is made."""
    import gpu
    from countveil.counts import simulate_release
    from countveil.inference.problem import make_problem
    from countveil.models import TopicModel

    counts = gpu.documents(documents)
    counts = counts[:12, :40] if tiny else counts
    release = simulate_release(counts, alpha=float(np.exp(-level)), seed=100)
    return make_problem(TopicModel(3 if tiny else TOPICS), release, "exact"), counts


def watched_places(counts):
    """Columns and rows from the largest to the smallest, some of each."""
    return [
        np.argsort(-np.asarray(counts.sum(axis=axis)).ravel())[:: counts.shape[1 - axis] // 20 or 1]
        for axis in (0, 1)
    ]


def end_of(sampler, carry, chain, sweeps, places):
    """What a chain is at the end of so many sweeps from a state."""
    sampler.load(carry._replace(chain=chain))
    for _ in range(sweeps):
        sampler.sweep(chain)
    scalars, state = sampler.monitor(chain), sampler.carry(chain).state
    columns, rows = places
    theta, phi = state["theta"], state["phi"]
    found = {name: float(value) for name, value in scalars.items()}
    found |= {
        f"column {v}": float(r) for v, r in zip(columns, theta.sum(axis=0) @ phi[:, columns], strict=True)
    }
    return found | {f"row {d}": float(r) for d, r in zip(rows, theta[rows] @ phi.sum(axis=1), strict=True)}


def chains_of_cpu(task):
    """Some of them, one after the other, in a process of its own."""
    from countveil.inference.engines.cpu.sampler import CpuSampler

    documents, level, tiny, carry, numbers, sweeps = task
    problem, counts = problem_at(documents, level, tiny)
    with CpuSampler(problem, 2, 1) as sampler:
        return [end_of(sampler, carry, chain, sweeps, watched_places(counts)) for chain in numbers]


def at_level(level, given):
    """Both engines at one level of noise."""
    from countveil.inference.engines.cuda.sampler import sampler_of

    problem, counts = problem_at(given.documents, level, given.tiny)
    began = time.perf_counter()
    with sampler_of(problem, 1, 1) as sampler:
        sampler.start(0)
        for _ in range(given.burn_in):
            sampler.sweep(0)
        carry = sampler.carry(0)
        processes = min(given.processes, given.cpu)
        parts = np.array_split(np.arange(1, given.cpu + 1), processes)
        tasks = [(given.documents, level, given.tiny, carry, part.tolist(), given.sweeps) for part in parts]
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
            theirs = pool.map(chains_of_cpu, tasks)  # while the device works, too
            places = watched_places(counts)
            ours = [end_of(sampler, carry, chain, given.sweeps, places) for chain in range(1, given.gpu + 1)]
            theirs = [line for lines in theirs for line in lines]
    found = {}
    for name in ours[0]:
        a, b = (np.array([line[name] for line in lines]) for lines in (ours, theirs))
        found[name] = {
            "gpu": a.mean(),
            "cpu": b.mean(),
            "t": float(stats.ttest_ind(a, b, equal_var=False).statistic),
        }
    t = np.array([line["t"] for line in found.values()])
    scalars = {name: round(line["t"], 2) for name, line in found.items() if " " not in name}
    print(
        f"eps/N = {level:g}: {len(ours)} chains of the GPU and {len(theirs)} of the CPU, {given.sweeps} sweeps after "
        f"{given.burn_in}: root mean square of t {np.sqrt(np.nanmean(t**2)):.2f}, largest {np.nanmax(np.abs(t)):.2f} "
        f"of {len(t)}; {scalars}; {time.perf_counter() - began:.0f} s",
        flush=True,
    )  # fmt: skip
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", help="documents x words, a scipy.sparse .npz; synthetic ones without")
    parser.add_argument("--levels", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--burn-in", type=int, default=3000)
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--gpu", type=int, default=40, help="chains of the GPU")
    parser.add_argument("--cpu", type=int, default=24, help="chains of the CPU")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--tiny", action="store_true", help="for numba's simulator")
    parser.add_argument("-o", "--output", help="a .json of all that was compared")
    given = parser.parse_args()
    if given.tiny:
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
        from cuda_simulator import take_turns

        take_turns()
    found = {f"{level:g}": at_level(level, given) for level in given.levels}
    if given.output:
        Path(given.output).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
