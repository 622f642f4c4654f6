"""What spreading rows over MPI ranks costs: time of a sweep against threads, bytes sent, memory, start-up.

    python benchmarks/cluster.py                          # synthetic documents
    python benchmarks/cluster.py --documents counts.npz   # real ones, a scipy.sparse matrix

All in one run on one machine, side by side. With more ranks than cores the fixed costs show.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import countveil as cv
from countveil.inference.engines.engine import engine_named
from countveil.inference.problem import make_problem
from countveil.inference.settings import check_settings


def measured(engine: str, path: str, topics: int, threads: int, sweeps: int) -> dict[str, Any]:
    """Of one engine: seconds to open and start, seconds per sweep, and what each shard needs."""
    settings = check_settings(
        sweeps=1000, burn_in=0, thin=1, chains=1, seed=1, method="exact", engine=engine, threads=threads
    )
    problem = make_problem(cv.TopicModel(topics), cv.load_release(path))
    began = time.perf_counter()
    with engine_named(engine).open_problem(problem, settings) as sampler:
        sampler.start(0)
        opened = time.perf_counter() - began
        for _ in range(3):  # compiled, and away from the start
            sampler.sweep(0)
        crew = getattr(sampler, "_crew", None)
        before = [] if crew is None else crew.call("costs")
        times = []
        for _ in range(sweeps):
            began = time.perf_counter()
            sampler.sweep(0)
            times.append(time.perf_counter() - began)
        after = [] if crew is None else crew.call("costs")
    sent = [(now[0] - then[0]) / sweeps for now, then in zip(after, before, strict=True)]
    return {
        "open": opened,
        "sweep": float(np.median(times)),
        "sent": max(sent, default=0.0),
        "memory": [peak for _, peak in after],
    }


def synthetic(rows: int, columns: int, seed: int = 0) -> sparse.csr_array:
    """Documents of some fifty words each, frequent and rare ones."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, columns + 1)
    words = rng.choice(columns, size=rows * 50, p=weights / weights.sum())
    found = sparse.coo_array(
        (np.ones(len(words), np.int64), (np.repeat(np.arange(rows), 50), words)), shape=(rows, columns)
    )
    return found.tocsr()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", help="a scipy.sparse matrix of counts (npz)")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=5_000)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--sweeps", type=int, default=10)
    parser.add_argument("--rho", type=float, default=1.0)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rank-of", metavar="RELEASE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        from countveil.inference.engines.mpi import follow

        follow()
        print(json.dumps(measured("mpi", options.rank_of, options.topics, 1, options.sweeps)))
        return
    counts = (
        sparse.load_npz(options.documents) if options.documents else synthetic(options.rows, options.columns)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "release.parquet")
        cv.simulate_release(counts, alpha=float(np.exp(-options.rho)), seed=1).save(path)
        print(f"{counts.shape[0]} x {counts.shape[1]}, {options.topics} topics, rho {options.rho:g}")
        found = {
            f"{threads} thread{'s' * (threads > 1)}": measured(
                "cpu", path, options.topics, threads, options.sweeps
            )
            for threads in (1, 2)
        }
        for ranks in options.ranks:
            same = ["--topics", options.topics, "--sweeps", options.sweeps]
            command = ["mpiexec", "-n", ranks, sys.executable, __file__, "--rank-of", path, *same]
            command[0] = str(Path(sys.executable).with_name("mpiexec"))
            out = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout
            found[f"{ranks} rank{'s' * (ranks > 1)}"] = json.loads(out.splitlines()[-1])
    print(f"{'':12}{'open s':>9}{'sweep s':>10}{'MB sent':>10}{'MB memory, rank 0 / others':>28}")
    for name, one in found.items():
        peaks = [peak / 1e6 for peak in one["memory"]]
        memory = f"{peaks[0]:.0f} / {max(peaks[1:], default=0):.0f}" if peaks else ""
        print(f"{name:12}{one['open']:9.2f}{one['sweep']:10.3f}{one['sent'] / 1e6:10.2f}{memory:>28}")


if __name__ == "__main__":
    main()
