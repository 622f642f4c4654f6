"""The GPU engine on one device: time per sweep, kernel by kernel, and of whole fits.

    python benchmarks/gpu.py --documents documents.npz            # the table
    python benchmarks/gpu.py --documents documents.npz --kernels  # and where the time goes
    python benchmarks/gpu.py --network network.npz --chains 64    # chains of a network, swept together (--rate 1: the
                                                                  # paper's prior)

Needs numpy, scipy, numba-cuda and CuPy. Without documents it takes synthetic ones of the same shape.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict

import numpy as np
import scipy.sparse

from countveil.counts import simulate_release
from countveil.inference.engines.cuda import device
from countveil.inference.engines.cuda.sampler import sampler_of
from countveil.inference.engines.cuda.serves import needed_bytes
from countveil.inference.problem import make_problem
from countveil.models import CommunityModel, TopicModel


class Times:
    """Seconds of every kernel of a sampler's sweeps, by events on the device.

    Sweeps must be launched kernel by kernel, not as the graphs that they are recorded as.
    """

    def __init__(self, sampler):
        self.events = []
        self.before = device.launch_blocks  # ``launch`` comes by it, too
        self._counts = getattr(getattr(sampler, "_work", None), "counts", None)

    def __enter__(self):
        def timed(function, *arguments):
            name = getattr(getattr(function, "py_func", function), "__name__", "kernel")
            self._time(name, lambda: self.before(function, *arguments))

        self._put(timed)
        if hasattr(self._counts, "_multiply"):
            self._product = product = self._counts._multiply
            self._counts._multiply = lambda *rows: self._time("product", lambda: product(*rows))
        return self

    def __exit__(self, *error):
        self._put(self.before)
        if hasattr(self._counts, "_multiply"):
            self._counts._multiply = self._product

    def _time(self, name, work):
        start, stop = device.cuda.event(), device.cuda.event()
        start.record(device._stream()[1])
        work()
        stop.record(device._stream()[1])
        self.events.append((name, start, stop))

    def _put(self, call):
        for module in _modules():
            if hasattr(module, "launch_blocks"):
                module.launch_blocks = call

    def table(self, sweeps):
        """Milliseconds per sweep by kernel."""
        device.synchronize()
        found, number = defaultdict(float), defaultdict(int)
        for name, start, stop in self.events:
            found[name] += 0.0 if device.SIMULATED else device.cuda.event_elapsed_time(start, stop) / sweeps
            number[name] += 1
        return {name: (ms, number[name] / sweeps) for name, ms in sorted(found.items(), key=lambda p: -p[1])}


def _modules():
    from countveil.inference.engines.cuda import counts, matrix_chain, network_chains, sampler, sums, watch

    return device, counts, matrix_chain, network_chains, sampler, sums, watch


def documents(path):
    """Counts of documents: those of a file, or synthetic ones of Enron's shape."""
    if path:
        return scipy.sparse.load_npz(path).tocsr()
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 10_000, 1_500_000)
    columns = np.minimum(rng.zipf(1.2, 1_500_000) - 1, 9_999)
    return scipy.sparse.coo_matrix(
        (np.ones(len(rows), np.int64), (rows, columns)), shape=(10_000, 10_000)
    ).tocsr()


def timed_sweeps(sampler, n, chain=0):
    """Milliseconds per sweep, launches and the wait for the last one included."""
    device.synchronize()
    began = time.perf_counter()
    for _ in range(n):
        sampler.sweep(chain)
    queued = time.perf_counter() - began
    device.synchronize()
    return 1e3 * (time.perf_counter() - began) / n, 1e3 * queued / n


def measure(model, data, method, sweeps, kernels=False, warm=5):
    """One line of the table."""
    began = time.perf_counter()
    problem = make_problem(model, data, method)
    with sampler_of(problem, 1, 8) as sampler:
        sampler.start(0)
        for _ in range(warm):
            sampler.sweep(0)
        device.synchronize()
        opened = time.perf_counter() - began
        first, _ = timed_sweeps(sampler, 50)
        timed_sweeps(sampler, sweeps)
        later, queued = timed_sweeps(sampler, 50)
        began = time.perf_counter()
        scalars = sampler.monitor(0)
        watched = time.perf_counter() - began
        line = {
            "random state, ms": round(first, 3), f"after {sweeps} sweeps, ms": round(later, 3),
            "of it queueing, ms": round(queued, 3), "monitor, ms": round(1e3 * watched, 1),
            "opened, s": round(opened, 1), "needs, GB": round(needed_bytes(problem, 1) / 1e9, 2),
            "total rate": round(scalars["total_rate"], 1),
        }  # fmt: skip
        table = None
        if kernels:
            with Times(sampler) as times:
                for _ in range(20):  # not as graphs, whose kernels could not be told apart
                    sampler._chains[0]._sweep()
                table = times.table(20)
    return line, table


def timed_together(sampler, chains, n):
    """Milliseconds per sweep of all chains."""
    device.synchronize()
    began = time.perf_counter()
    for _ in range(n):
        for chain in range(chains):
            sampler.sweep(chain)
    device.synchronize()
    return 1e3 * (time.perf_counter() - began) / n


def measure_network(counts, level, options):
    """One line of the table of networks."""
    model = CommunityModel(options.communities, directed=not options.undirected, rate=options.rate)
    data = simulate_release(counts, alpha=float(np.exp(-level)), seed=100) if level else counts
    problem = make_problem(model, data, "exact")
    chains = options.chains
    began = time.perf_counter()
    with sampler_of(problem, 1, 8) as sampler:
        for chain in range(chains):
            sampler.start(chain)
        started = time.perf_counter() - began
        timed_together(sampler, chains, 3)
        opened = time.perf_counter() - began - started
        first = timed_together(sampler, chains, 50)
        timed_together(sampler, chains, options.sweeps)
        later = timed_together(sampler, chains, 200)
        began = time.perf_counter()
        scalars = sampler.monitor(0)
        watched = time.perf_counter() - began
        tokens = np.mean([held.statistics()[""].tokens[1].sum() for held in sampler._chains.values()])
        line = {
            "chains": chains, "random state, ms": round(first, 3),
            f"after {options.sweeps} sweeps, ms": round(later, 3), "monitor of one, ms": round(1e3 * watched, 1),
            "start, s": round(started, 2), "compile, s": round(opened, 1), "tokens of a chain": int(tokens),
            "total rate": round(scalars["total_rate"], 1),
        }  # fmt: skip
        table = None
        if options.kernels:
            with Times(sampler) as times:
                for _ in range(20):  # not as one graph, whose kernels could not be told apart
                    sampler._work._sweep(sampler._work._all)
                table = times.table(20)
    return line, table


def network(path, which):
    """Messages between people: those of a file, or synthetic ones of the same shape and total."""
    if path:
        with np.load(path) as file:
            return file[which].astype(np.int64)
    rng = np.random.default_rng(0)
    activity = rng.gamma(0.5, 1.0, 161)
    rates = np.outer(activity, activity) * rng.gamma(0.05, 1.0, (161, 161))
    np.fill_diagonal(rates, 0.0)
    return rng.poisson(rates * (107_566 / rates.sum()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--sweeps", type=int, default=1000)
    parser.add_argument("--levels", type=float, nargs="+", default=[1.0, 2.0, 3.0])
    parser.add_argument("--methods", nargs="+", default=["exact", "naive", "plain"])
    parser.add_argument("--rate", type=float, help="a fixed prior instead of inferred means")
    parser.add_argument("--network", nargs="?", const="", help="time chains of a network instead")
    parser.add_argument("--counts", default="counts", help="which array of the network's file")
    parser.add_argument("--chains", type=int, default=64)
    parser.add_argument("--communities", type=int, default=20)
    parser.add_argument("--undirected", action="store_true")
    options = parser.parse_args()
    found = device.find_device()
    print(found if isinstance(found, str) else f"{found.name}, {found.total / 2**30:.0f} GiB")
    if options.network is not None:
        counts = network(options.network, options.counts)
        for level in options.levels:
            line, table = measure_network(counts, level, options)
            print(f"network eps/N = {level:g}: {json.dumps(line)}", flush=True)
            show(table)
        return
    counts = documents(options.documents)
    model = TopicModel(options.topics, rate=options.rate)
    for method in options.methods:
        for level in options.levels if method != "plain" else [0.0]:
            data = (
                counts
                if method == "plain"
                else simulate_release(counts, alpha=float(np.exp(-level)), seed=100)
            )
            line, table = measure(
                model, data, "exact" if method == "plain" else method, options.sweeps, options.kernels
            )
            print(f"{method:6} eps/N = {level:g}: {json.dumps(line)}", flush=True)
            show(table)


def show(table):
    for name, (ms, number) in (table or {}).items():
        print(f"    {name:22} {ms:8.4f} ms  x{number:g}", flush=True)


if __name__ == "__main__":
    main()
