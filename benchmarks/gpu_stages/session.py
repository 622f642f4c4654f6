"""Where things are, and how large; processes, samplers and clocks that stages share."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"
LEVELS = (1.0, 2.0, 3.0)


class Session:
    """Where things are, and how large."""

    def __init__(self, options):
        self.options, self.tiny = options, options.tiny
        self.out = Path(options.output).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        # Copies of the package and compiled code, which outlast a session.
        self.scratch = Path(tempfile.gettempdir()) / f"countveil-gpu-{os.getuid()}"
        self.scratch.mkdir(mode=0o700, exist_ok=True)
        self._releases = {}

    def documents(self):
        import gpu

        counts = gpu.documents(self.options.documents)
        return counts[:12, :40] if self.tiny else counts

    def network(self):
        import gpu

        counts = gpu.network(self.options.network, self.options.counts)
        if not self.tiny:
            return counts
        busy = np.argsort(-counts.sum(axis=0))[:5]
        return np.minimum(counts[np.ix_(busy, busy)], 3)

    def release(self, counts, level):
        """The same at every call, made once: noise on 10**8 cells takes seconds."""
        from countveil.counts import simulate_release

        key = counts.shape, level
        if key not in self._releases:
            self._releases[key] = simulate_release(counts, alpha=float(np.exp(-level)), seed=100)
        return self._releases[key]

    def small(self, usual, tiny):
        """A size."""
        return tiny if self.tiny else usual

    def write(self, stage, found):
        (self.out / f"{stage}.json").write_text(json.dumps(found, indent=1, default=float))


def say(*words):
    print(*words, flush=True)


def environment(sources=SOURCES, cache=None):
    """Of a process that imports the package from ``sources``."""
    paths = [str(sources), str(ROOT / "tests"), str(ROOT / "benchmarks")]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    if cache is not None:
        Path(cache).mkdir(parents=True, exist_ok=True, mode=0o700)
        found["COUNTVEIL_CACHE_DIR"] = str(cache)
    return found


def arguments(session, *words):
    """A command that runs the session again, for a part of it."""
    options = session.options
    found = [
        sys.executable,
        "-W",
        "ignore",
        str(ROOT / "benchmarks/gpu_session.py"),
        *words,
        "-o",
        str(session.out),
    ]
    for name in ("documents", "network", "counts"):
        if getattr(options, name):
            found += [f"--{name}", getattr(options, name)]
    return [*found, "--tiny"] if options.tiny else found


def script(path, *words):
    """A command that runs a script, with what newer versions of numpy lack put back."""
    code = (
        "import numpy, runpy, sys\n"
        "if not hasattr(numpy, 'row_stack'): numpy.row_stack = numpy.vstack\n"
        f"sys.argv = {[str(path), *words]!r}\n"
        f"runpy.run_path({str(path)!r}, run_name='__main__')"
    )
    return [sys.executable, "-W", "ignore", "-c", code]


@contextlib.contextmanager
def alone(session):
    """Only one process at a time is timed."""
    with (session.scratch / "timing.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def opened(problem, seed=1, chains=1, threads=8):
    """A sampler with its chains at their starts."""
    from countveil.inference.engines.cuda.sampler import sampler_of

    sampler = sampler_of(problem, seed, threads)
    sampler.__enter__()
    for chain in range(chains):
        sampler.start(chain)
    return sampler


def milliseconds(sampler, n, times=3, chains=1):
    """Per sweep of all chains: the smallest and the largest of a few measurements."""
    import gpu

    found = [gpu.timed_together(sampler, chains, n) for _ in range(times)]
    return round(min(found), 4), round(max(found), 4)


def kernel_table(sampler, sweep, n=20):
    """Milliseconds of every kernel, by events on the device, sweeps that are not recorded."""
    import gpu

    with gpu.Times(sampler) as times:
        for _ in range(n):
            sweep()
        return {name: [round(ms, 4), number] for name, (ms, number) in times.table(n).items()}
