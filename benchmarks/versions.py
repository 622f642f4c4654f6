"""Another version of countveil beside this one: what each kind of sweep costs, and the ratio.

    git worktree add ../before COMMIT
    .venv/bin/python benchmarks/versions.py ../before --documents documents.npz --edges edges.csv.gz

Each version runs in a process of its own with the benchmarks of its own checkout, in turns. This one's chains are
burned in; before every turn both load the state they came to. The cost is CPU time, summed over threads: what else
runs on the machine lengthens it less than the time by the clock (``--clock``). Where a process gets its memory makes
it faster or slower by a tenth for as long as it lives, so that several pairs of processes are asked. Median over
pairs of the median over turns of this version / the other.
"""

from __future__ import annotations

import argparse
import inspect
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import countveil as cv

try:
    from countveil.runtime.workers import Workers
except ImportError:  # before the one house (commit c5c59bf)
    from countveil.models.row_work import RowWork as Workers

HERE = Path(__file__).resolve().parent
TOPICS, BESSEL_ROWS = 50, 200


def cases(documents: str | None, edges: str | None) -> dict[str, tuple[Any, int, int]]:
    """By name: how to make the chain, its threads, and sweeps in a turn."""
    import documents as of_texts
    import factorizations as of_messages

    topics, network, tensor = (
        cv.TopicModel(TOPICS, rate=1.0),
        cv.CommunityModel(20, rate=1.0),
        cv.TensorModel(20),
    )

    def texts(rows: int | None = None) -> Any:
        return of_texts.documents(documents)[0][:rows]

    def sent() -> np.ndarray:
        return of_messages.messages(edges)[0]

    def pairs() -> np.ndarray:
        return sent().sum(axis=2)

    def chain(model: Any, data: Any, rho: float, method: str = "exact", algorithm: str = "auto") -> Any:
        """``data`` is called in the process that needs them."""

        def make() -> Any:
            counts = data()
            noisy = cv.simulate_release(counts, alpha=np.exp(-rho), seed=1) if rho else counts
            return _chain(model, noisy, method, algorithm)

        return make

    found: dict[str, tuple[Any, int, int]] = {}
    for threads in (2, 1):
        for rho in (1.0, 2.0, 3.0):
            found[f"exact, {rho:g}, threads: {threads}"] = (chain(topics, texts, rho), threads, 6)
    for rho in (1.0, 3.0):
        few = chain(topics, lambda: texts(BESSEL_ROWS), rho, "bessel")
        found[f"bessel, {BESSEL_ROWS} documents, {rho:g}"] = (few, 1, 3)
    found["naive, 3"] = (chain(topics, texts, 3.0, "naive"), 2, 4)
    found["non-private"] = (chain(topics, texts, 0), 2, 10)
    found["integrated, 1,000 documents, 0.5"] = (chain(topics, lambda: texts(1000), 0.5), 2, 20)
    for rho in (1.0, 3.0):
        found[f"communities, C = 20, {rho:g}"] = (chain(network, pairs, rho), 1, 60)
    found["tensor, rank 20, by tokens, 1"] = (chain(tensor, sent, 1.0), 1, 40)
    found["tensor, cell by cell, 1"] = (chain(tensor, sent, 1.0, algorithm="cells"), 1, 4)
    return found


def _chain(model: Any, data: Any, method: str, algorithm: str) -> Any:
    """Of the checkout whose benchmarks are imported: all of them call it ``Run``, or ``Chain`` of other factorizations."""
    import engines
    import factorizations

    if "algorithm" in inspect.signature(engines.Run).parameters:
        if not hasattr(data, "rho"):
            from countveil.counts.sources.plain_counts import read_plain_counts

            data = read_plain_counts(data)
        return engines.Run(model, data, method, algorithm=algorithm)
    if algorithm == "auto" and isinstance(model, cv.TopicModel):
        return engines.Run(model, data if hasattr(data, "rho") else _plain_before(data), method)
    return factorizations.Chain(model, data, algorithm)


def _plain_before(counts: Any) -> Any:
    from countveil.inference.plain_counts import read_plain_counts

    return read_plain_counts(counts)


def _load(chain: Any, arrays: dict[str, np.ndarray]) -> None:
    if hasattr(chain, "sampler"):
        from countveil.inference.carry import Carry

        chain.sampler.load(Carry(0, 0, arrays, chain.sampler.carry(0).extra))
    else:
        chain.state = chain.state._replace(**arrays)


def serve(name: str, documents: str | None, edges: str | None, by_clock: bool) -> None:
    """Answer lines on standard input, one each: ``burn SWEEPS FILE``, ``turn FILE``."""
    clock = time.perf_counter if by_clock else time.process_time
    make, threads, sweeps = cases(documents, edges)[name]
    chain = make()
    print("ready", flush=True)
    with Workers(threads) as workers:
        for line in sys.stdin:
            what, *rest = line.split(maxsplit=1)
            if what == "burn":
                number, path = rest[0].split(maxsplit=1)
                chain.advance(int(number), workers)
                with Path(path.strip()).open("wb") as file:
                    np.savez(file, **chain.state._asdict())
                print("burned", flush=True)
                continue
            with np.load(rest[0].strip()) as arrays:
                _load(chain, {key: arrays[key] for key in arrays})
            chain.advance(1, workers)  # what is laid out at the first sweep
            began = clock()
            chain.advance(sweeps, workers)
            print((clock() - began) / sweeps, flush=True)


class Server:
    """One version in a process of its own."""

    def __init__(self, checkout: Path, words: list[str]) -> None:
        path = os.pathsep.join([str(checkout / "src"), str(checkout / "benchmarks")])
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(HERE / "versions.py"), "--serve", *words],
            env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.read()

    def read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the other process ended: {self.process.wait()}")
        return line

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", help="a checkout of the other version")
    parser.add_argument("--documents", help="a scipy.sparse .npz of documents x words; synthetic by default")
    parser.add_argument("--edges", help="a .csv.gz of time, sender, recipient; synthetic by default")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=5, help="pairs of processes, each with turns of its own")
    parser.add_argument("--burn-in", type=int, default=80)
    parser.add_argument("--only", help="cases with this in their name")
    parser.add_argument(
        "--clock", action="store_true", help="time by the clock: on a machine with nothing else to do"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.other, given.documents, given.edges, given.clock)
        return
    more = [
        f"--{key}={Path(path).resolve()}" for key in ("documents", "edges") if (path := getattr(given, key))
    ]
    if given.clock:
        more.append("--clock")
    kind = "" if given.clock else "CPU "
    print(f"| {kind}milliseconds per sweep | other | this | this / other | of pairs |")
    print("|---|---|---|---|---|", flush=True)
    for name in cases(given.documents, given.edges):
        if given.only and given.only not in name:
            continue
        pairs = []
        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder) / "state.npz"
            for pair in range(given.pairs):
                this, other = (
                    Server(where, [name, *more]) for where in (HERE.parent, Path(given.other).resolve())
                )
                if pair == 0:
                    this.ask(f"burn {given.burn_in} {state}")
                pairs.append(
                    [[float(one.ask(f"turn {state}")) for one in (other, this)] for _ in range(given.turns)]
                )
                this.end(), other.end()
        took = np.array(pairs)
        before, after = 1e3 * np.median(took, axis=(0, 1))
        ratios = np.median(took[..., 1] / took[..., 0], axis=1)
        spread = f"{ratios.min():.2f} to {ratios.max():.2f}"
        print(f"| {name} | {before:.3g} | {after:.3g} | {np.median(ratios):.2f} | {spread} |", flush=True)


if __name__ == "__main__":
    main()
