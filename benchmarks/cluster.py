"""What spreading rows over processes costs: time of a sweep against threads, bytes sent, memory, start-up.

    python benchmarks/cluster.py                          # synthetic documents, some minutes
    python benchmarks/cluster.py --documents counts.npz   # and real ones, a scipy.sparse matrix

All on one machine, the sides in turns, each in processes of its own: two threads, two MPI ranks, two actors of Ray
where that is installed, all with one thread per shard; then 1, 2, 4 and 8 ranks, to show the fixed costs. An MPI
launcher is looked for beside Python, beside mpi4py (``pip install --target DIR mpi4py mpich``), and on the PATH.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import countveil as cv
from countveil.counts.release_on_disk import ReleaseOnDisk
from countveil.inference.engines.engine import engine_named
from countveil.inference.problem import make_problem
from countveil.inference.settings import check_settings

#: What a sweep of two shards may take, to one of two threads.
BARS = {"real": {"mpi": 1.1, "ray": 1.25}, "synthetic": {"mpi": 1.05, "ray": 1.1}}


def measured(engine: str, path: str, topics: int, threads: int, shards: int, sweeps: int) -> dict[str, Any]:
    """Of one engine: seconds to open and start, seconds per sweep, and what each shard needs."""
    kind: Any = cv.Ray(shards=shards) if engine == "ray" else engine
    settings = check_settings(
        sweeps=1000, burn_in=0, thin=1, chains=1, seed=1, method="exact", engine=kind, threads=threads,
        start="plain",
    )  # fmt: skip
    began = time.perf_counter()
    release = ReleaseOnDisk(path)
    if engine == "cpu":
        release.read()
    problem = replace(make_problem(cv.TopicModel(topics), release), source=release)
    with engine_named(engine).open_problem(problem, settings) as sampler:
        sampler.start(0)
        for _ in range(3):  # compiled, and away from the start
            sampler.sweep(0)
        opened = time.perf_counter() - began
        crew = getattr(getattr(sampler, "_shards", sampler), "_crew", None)
        before = [] if crew is None else crew.call("costs")
        times = []
        for _ in range(sweeps):
            began = time.perf_counter()
            sampler.sweep(0)
            times.append(time.perf_counter() - began)
        after = [own_peak()] if crew is None else crew.call("costs")
    sent = [(now[0] - then[0]) / sweeps for now, then in zip(after, before, strict=False)]
    return {
        "open": opened,
        "sweep": statistics.median(times),
        "sent": max(sent, default=0.0),
        "memory": [peak for _, peak in after],
    }


def own_peak() -> tuple[int, int]:
    """As ``ShardSampler.costs`` has it: bytes sent, and the most memory so far."""
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return 0, peak


def sum_over_ranks(numbers: int) -> float:
    """Seconds that a sum of so many int64 over all ranks takes: that of a sweep, without the sweep."""
    from countveil.inference.engines.mpi.communicator import MpiCommunicator, world

    ranks, values, times = MpiCommunicator(world()), np.ones(numbers, np.int64), []
    for _ in range(20):
        ranks.barrier()
        began = time.perf_counter()
        ranks.total(values)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def synthetic(rows: int, columns: int, seed: int = 0) -> sparse.csr_array:
    """Documents of some fifty words each, frequent and rare ones."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, columns + 1)
    words = rng.choice(columns, size=rows * 50, p=weights / weights.sum())
    found = sparse.coo_array(
        (np.ones(len(words), np.int64), (np.repeat(np.arange(rows), 50), words)), shape=(rows, columns)
    )
    return found.tocsr()


def launcher() -> str | None:
    """The program that starts MPI ranks, if there is one."""
    spec = importlib.util.find_spec("mpi4py")
    if spec is None or spec.origin is None:
        return None
    beside = Path(spec.origin).parents[1]
    for folder in (Path(sys.executable).parent, beside / "bin", *(Path(one) / "bin" for one in sys.path)):
        for name in ("mpiexec", "mpirun"):
            if (folder / name).is_file():
                return str(folder / name)
    return shutil.which("mpiexec") or shutil.which("mpirun")


class Side:
    """One way to run the sweeps, each time in processes of its own."""

    def __init__(
        self, name: str, engine: str, shards: int, mpi: str | None, topics: int, sweeps: int
    ) -> None:
        self.name, self.engine, self._shards, self._mpi = name, engine, shards, mpi
        self._words = ["--topics", topics, "--sweeps", sweeps, "--side", engine, "--shards", shards]
        self.found: list[dict[str, Any]] = []

    def run(self, path: str) -> None:
        """Once more."""
        start = [self._mpi, "-n", self._shards] if self.engine == "mpi" else []
        words = [*start, sys.executable, __file__, *self._words, "--release", path]
        environment = dict(os.environ)
        if self._mpi is not None:  # of wheels that were installed to a folder
            places = [str(Path(self._mpi).parents[1] / "lib"), environment.get("LD_LIBRARY_PATH", "")]
            environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, places))
        done = subprocess.run(
            [*map(str, words)], capture_output=True, text=True, env=environment, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{self.name} has failed:\n{done.stderr[-3000:]}")
        self.found.append(json.loads(done.stdout.splitlines()[-1]))

    def __getitem__(self, name: str) -> float:
        return statistics.median(one[name] for one in self.found)

    def line(self) -> str:
        """Of the table."""
        peaks = [peak / 1e6 for peak in self.found[-1]["memory"]]
        others = f"{max(peaks[1:]):.0f}" if peaks[1:] else "-"
        summed = f"{1e3 * self['sum']:10.2f}" if "sum" in self.found[0] else f"{'-':>10}"
        return (
            f"{self.name:12}{self['open']:9.2f}{self['sweep']:10.3f}{self['sent'] / 1e6:10.2f}{summed}"
            f"{peaks[0]:12.0f}{others:>12}"
        )


HEAD = f"{'':12}{'open s':>9}{'sweep s':>10}{'MB sent':>10}{'ms sum':>10}{'MB rank 0':>12}{'MB others':>12}"


def compare(title: str, path: str, kind: str, sides: list[Side], turns: int) -> None:
    """Two threads against two shards of each kind, in turns."""
    print(f"\n{title}\n{HEAD}", flush=True)
    for _ in range(turns):
        for side in sides:
            side.run(path)
    threads = sides[0]["sweep"]
    for side in sides:
        bar = BARS[kind].get(side.engine)
        ratio = f"   {side['sweep'] / threads:.2f} of two threads (bar {bar})" if bar else ""
        print(side.line() + ratio, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", help="a scipy.sparse matrix of counts (npz)")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--sweeps", type=int, default=6)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--rho", type=float, default=3.0, help="of synthetic documents; of real ones 1")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 2, 4, 8])
    for hidden in ("--side", "--release"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--shards", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        one_side(options)
        return
    mpi = launcher()
    engines = [("cpu", "2 threads"), *([("mpi", "2 ranks")] if mpi else [])]
    engines += [("ray", "2 actors")] if importlib.util.find_spec("ray") else []

    def sides(sweeps: int) -> list[Side]:
        return [Side(name, engine, 2, mpi, options.topics, sweeps) for engine, name in engines]

    with tempfile.TemporaryDirectory() as folder:
        if options.documents:
            counts, path = sparse.load_npz(options.documents), str(Path(folder) / "real.parquet")
            cv.simulate_release(counts, alpha=float(np.exp(-1.0)), seed=1).save(path)
            title = (
                f"{options.documents}: {counts.shape[0]} x {counts.shape[1]}, {options.topics} topics, rho 1"
            )
            compare(title, path, "real", sides(options.sweeps), options.turns)
        counts, path = synthetic(options.rows, options.columns), str(Path(folder) / "synthetic.parquet")
        cv.simulate_release(counts, alpha=float(np.exp(-options.rho)), seed=1).save(path)
        size = Path(path).stat().st_size / 1e6
        what = f"{options.topics} topics, rho {options.rho:g}, {size:.0f} MB on disk"
        title = f"synthetic documents: {counts.shape[0]} x {counts.shape[1]}, {what}"
        compare(title, path, "synthetic", sides(options.sweeps), options.turns)
        print(f"\nranks of one thread each, on {os.cpu_count()} cores\n{HEAD}", flush=True)
        for ranks in options.ranks if mpi else []:
            side = Side(
                f"{ranks} rank{'s' * (ranks > 1)}", "mpi", ranks, mpi, options.topics, options.sweeps // 2
            )
            side.run(path)
            print(side.line(), flush=True)


def one_side(options: argparse.Namespace) -> None:
    """In a process of its own, or as a rank: what was measured, as JSON."""
    found: dict[str, Any] = {}
    if options.side == "mpi":
        from countveil.inference.engines.mpi import follow

        found["sum"] = sum_over_ranks(options.topics * ReleaseOnDisk(options.release).shape[1])
        follow()
    threads = 2 if options.side == "cpu" else 1
    found |= measured(options.side, options.release, options.topics, threads, options.shards, options.sweeps)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
