"""One session on a machine with a GPU: laws, times of variants side by side, and what only a device can do in minutes.

    python benchmarks/gpu_session.py laws twins variants networks --documents documents.npz --network network.npz \\
        -o session
    python benchmarks/gpu_session.py markdown -o session       # the tables of GPU.md, from what is there

Every stage is a process of its own, prints as it goes and writes STAGE.json to the folder; one that fails is reported
with its traceback, and the next goes on. Stages and about what they take on one H200 with 16 cores:

============ ======= ===============================================================================================
``laws``     3 min   every check of tests/cuda_laws.py, in several processes; compilation included
``twins``    1 min   every kernel of the CPU inside a CUDA kernel, beside the CPU (tests/cuda_cases.py)
``variants`` 4 min   milliseconds per sweep of documents, of every variant of VARIANTS; and kernel by kernel
``networks`` 2 min   the same of 64 chains of a network
``whole``    1 min   7,500 sweeps with monitoring, start to end, at three levels
``million``  2 min   one million synthetic documents: memory, and time of a sweep
``ratio``    2 min   sweeps of the CPU engine on the same machine, with 2 and with 16 threads
``agree``    4 min   means of the GPU's and the CPU's chains on the documents, from one state
``sizes``    5 min   K = 25, 100 and 200: time of a sweep, and scores after 7,500 sweeps
``chains``   4 min   16 chains of the network at each C and level: do they agree?
``cpuchains`` 6 min  the same with inferred priors, by the CPU engine, a chain a process
============ ======= ===============================================================================================

Needs numpy, scipy, numba, numba-cuda and CuPy alone. ``--tiny`` makes everything small, for numba's simulator
(NUMBA_ENABLE_CUDASIM=1).
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np

if not hasattr(np, "row_stack"):  # newer than the numba that is there
    setattr(np, "row_stack", np.vstack)  # noqa: B010 (as an attribute, ruff would mend it away)

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
STAGES = (
    "laws", "twins", "variants", "networks", "whole", "million", "ratio", "agree", "sizes", "chains", "cpuchains",
)  # fmt: skip
LEVELS = (1.0, 2.0, 3.0)
#: What is told kernel by kernel.
PROFILED = (("exact", 1.0), ("exact", 3.0), ("naive", 1.0), ("plain", 0.0))
#: Processes of ``laws``: checks that go together.
LAWS = (
    ("true_counts", "words"), ("noise_of_rows_and_cells", "allocation", "bounds"), ("joint_laws",),
    ("reproducible", "other_factorizations"), ("network_factors", "network_chains", "network_relocation"),
    ("network_sweep",), ("network_joint",),
)  # fmt: skip
#: Constants of the engine's files that a variant has instead: {name: {file: {constant: value}}}. Those of exact and of
#: plain cells do not touch each other, and are tried two at a time.
VARIANTS = {
    "as it is": {},
    "all cells by one kernel": {"counts": {"SPLIT": "False"}, "cells": {"HARD_THREADS": "256"}},
    "easy 256 threads; plain 64 registers": {"cells": {"EASY_THREADS": "256", "PLAIN_REGISTERS": "64"}},
    "hard 64 threads; plain 64 threads": {"cells": {"HARD_THREADS": "64", "PLAIN_THREADS": "64"}},
}  # fmt: skip
NETWORK_VARIANTS = {
    "as it is": {},
    "128 threads": {"network_cells": {"THREADS": "128"}},
    "128 and 80 registers": {"network_cells": {"REGISTERS": "128", "TOKEN_REGISTERS": "80"}},
    "64 and 64 registers": {"network_cells": {"REGISTERS": "64"}},
    "rows by 64 threads": {"network_factors": {"THREADS": "64"}},
    "rows by 256 threads": {"network_factors": {"THREADS": "256"}},
}  # fmt: skip


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


# --- processes -------------------------------------------------------------------------------------------------------


def environment(sources=SOURCES, cache=None):
    """Of a process that imports the package from ``sources``."""
    paths = [str(sources), str(ROOT / "tests"), str(ROOT / "benchmarks")]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    if cache is not None:
        Path(cache).mkdir(parents=True, exist_ok=True, mode=0o700)
        found["COUNTVEIL_CACHE_DIR"] = str(cache)
    return found


def arguments(session, *words):
    options = session.options
    found = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), *words, "-o", str(session.out)]
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


def variant_sources(session, name, edits):
    """A copy of the package with other constants."""
    number = re.sub(r"\W+", "-", name)
    folder = session.scratch / "variants" / number
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SOURCES / "countveil", folder / "countveil", ignore=shutil.ignore_patterns("__pycache__"))
    for file, constants in edits.items():
        if session.tiny:  # the simulator has few threads, whatever happens
            constants = {name: value for name, value in constants.items() if "THREADS" not in name}
        path = folder / "countveil/inference/engines/cuda" / f"{file}.py"
        text = path.read_text()
        for constant, value in constants.items():
            # Set anew right after the line that sets it: what follows uses the new one.
            pattern = re.compile(rf"^((?:[A-Z_]+, )*{constant}(?:, [A-Z_]+)* = .*\n)", re.M)
            text, n = pattern.subn(rf"\g<1>{constant} = {value}\n", text)
            if n != 1:
                raise ValueError(f"{name}: expected one line that sets {constant} in {file}.py, got {n}")
        path.write_text(text)
    return folder


@contextlib.contextmanager
def alone(session):
    """Only one process at a time is timed."""
    with (session.scratch / "timing.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_variants(session, stage, variants, at_once):
    """Every variant in a process of its own: compiled side by side, timed one after the other."""
    from concurrent.futures import as_completed

    def one(name):
        sources = variant_sources(session, name, variants[name])
        done = subprocess.run(
            arguments(session, "--inner", stage, "--variant", name),
            env=environment(sources, sources / "cache"), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            return {"failed": (done.stdout + done.stderr)[-3000:]}
        return json.loads(done.stdout.splitlines()[-1])

    found = {}
    if session.tiny:  # all of them can be made; two are run
        for name in variants:
            variant_sources(session, name, variants[name])
        variants = dict(list(variants.items())[:2])
    with ThreadPoolExecutor(at_once) as pool:
        waiting = {pool.submit(one, name): name for name in variants}
        for done in as_completed(waiting):
            name = waiting[done]
            try:
                found[name] = done.result()
            except Exception:
                found[name] = {"failed": traceback.format_exc()[-3000:]}
            say(f"{name}: {json.dumps(found[name], default=float)[:3500]}")
            session.write(stage, {name: found[name] for name in variants if name in found})
    return found


# --- stages ----------------------------------------------------------------------------------------------------------


def laws(session):
    """tests/cuda_laws.py, in full."""

    def one(names):
        cache = session.scratch / "caches" / names[0]
        done = subprocess.run(
            script(ROOT / "tests/cuda_laws.py", *names),
            env=environment(cache=cache), capture_output=True, text=True, check=False,
        )  # fmt: skip
        say(done.stderr[-6000:])
        try:
            return json.loads(done.stdout)
        except ValueError:
            return [[names[0], "the process itself", False, done.stderr[-2000:], 0.0]]

    chosen = LAWS if not session.options.only else [tuple(session.options.only)]
    with ThreadPoolExecutor(len(chosen)) as pool:
        found = [line for lines in pool.map(one, chosen) for line in lines]
    right = sum(line[2] for line in found)
    say(f"laws: {right} of {len(found)} checks right")
    for line in found:
        if not line[2]:
            say("WRONG", line)
    session.write("laws", {"right": right, "checks": len(found), "lines": found})


def twins(session):
    """Every kernel once on the device, beside the CPU."""
    done = subprocess.run(
        script(ROOT / "tests/cuda_cases.py"),
        env=environment(cache=session.scratch / "caches/twins"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    on_device = json.loads(done.stdout)
    import cuda_cases

    on_cpu = cuda_cases.on_cpu()
    wrong = {}
    for name, values in on_cpu.items():
        ours, theirs = (
            np.ravel(np.array(values, dtype=float)),
            np.ravel(np.array(on_device[name], dtype=float)),
        )
        if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=1e-9, equal_nan=True):
            wrong[name] = [ours[:8].tolist(), theirs[:8].tolist()]
    say(f"twins: {len(on_cpu) - len(wrong)} of {len(on_cpu)} kernels agree; {wrong}")
    session.write("twins", {"kernels": len(on_cpu), "wrong": wrong})


def opened(problem, seed=1, chains=1, threads=8):
    """A sampler with its chains at their starts."""
    from countveil.inference.engines.cuda.sampler import CudaSampler

    sampler = CudaSampler(problem, seed, threads)
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


def time_documents(session, name):
    """One variant."""
    from countveil.inference.problem import make_problem
    from countveil.models import TopicModel

    counts, model = session.documents(), TopicModel(session.small(50, 3))
    found, profile = {}, {}
    cases = [("exact", level) for level in LEVELS] + [("naive", level) for level in LEVELS] + [("plain", 0.0)]
    for method, level in cases:
        data = counts if method == "plain" else session.release(counts, level)
        problem = make_problem(model, data, "exact" if method == "plain" else method)
        sampler = opened(problem)
        sampler.sweep(0)  # compiles
        with alone(session):
            burn_in = session.small(600 if method == "exact" else 60, 2)
            for _ in range(burn_in):
                sampler.sweep(0)
            ms = milliseconds(sampler, session.small(100 if method == "exact" else 20, 1))
            found[f"{method} {level:g}"] = ms
            if (method, level) in PROFILED:
                profile[f"{method} {level:g}"] = kernel_table(
                    sampler, sampler._chains[0]._sweep, session.small(20, 1)
                )
        if method == "exact":
            scalars = sampler.monitor(0)
            found[f"total rate {level:g}"] = round(scalars["total_rate"], 3)
        sampler.__exit__(None, None, None)
        del sampler, problem
    return {"ms": found, "kernels": profile}


def time_network(session, name):
    """One variant."""
    from countveil.inference.problem import make_problem
    from countveil.models import CommunityModel

    counts, chains = session.network(), session.small(64, 2)
    found, profile = {}, {}
    for level in LEVELS:
        model = CommunityModel(session.small(20, 2), rate=1.0)
        problem = make_problem(model, session.release(counts, level), "exact")
        sampler = opened(problem, chains=chains)
        for chain in range(chains):
            sampler.sweep(chain)
        with alone(session):
            for _ in range(session.small(1000, 1)):
                for chain in range(chains):
                    sampler.sweep(chain)
            found[f"{level:g}"] = milliseconds(sampler, session.small(200, 1), chains=chains)
            if level == LEVELS[0]:
                work = sampler._work
                profile[f"{level:g}"] = kernel_table(
                    sampler, lambda work=work: work._sweep(work._all), session.small(20, 1)
                )
        tokens = np.mean([held.statistics()[""].tokens[1].sum() for held in sampler._chains.values()])
        found[f"tokens {level:g}"] = int(tokens)
        sampler.__exit__(None, None, None)
    return {"ms": found, "kernels": profile}


def variants(session):
    """Documents."""
    run_variants(session, "variants", VARIANTS, at_once=session.small(len(VARIANTS), 2))


def networks(session):
    """A network."""
    run_variants(session, "networks", NETWORK_VARIANTS, at_once=session.small(len(NETWORK_VARIANTS), 2))


def whole(session):
    """7,500 sweeps with monitoring and 50 kept draws, compiled before."""
    from countveil.inference.problem import make_problem
    from countveil.models import TopicModel

    counts, found = session.documents(), {}
    sweeps, thin = session.small(7500, 6), session.small(100, 2)
    for turn, level in enumerate((LEVELS[0], *LEVELS)):  # the first one compiles
        release = session.release(counts, level)
        began = time.perf_counter()
        problem = make_problem(TopicModel(session.small(50, 3)), release, "exact")
        sampler = opened(problem, threads=16)
        started = time.perf_counter() - began
        kept = []
        for sweep in range(1, (sweeps if turn else 3) + 1):
            sampler.sweep(0)
            if sweep % thin == 0:
                state = sampler.carry(0).state
                if sweep > sweeps // 3:
                    kept.append({name: np.asarray(x, np.float32) for name, x in state.items()})
                sampler.monitor(0)
        sampler.monitor(0)
        took = time.perf_counter() - began
        sampler.__exit__(None, None, None)
        if turn:
            found[f"{level:g}"] = {"seconds": round(took, 2), "of it to start": round(started, 2)}
            say(f"7,500 sweeps at eps/N = {level:g}: {found[f'{level:g}']}")
    session.write("whole", found)


def arrays():
    """CuPy, or numpy in the simulator."""
    from countveil.inference.engines.cuda import device

    return np if device.SIMULATED else importlib.import_module("cupy")


def on_device(xp, array):
    """An array of the engine as one of CuPy's."""
    return array if xp is np else xp.asarray(array)


def million(session):
    """Synthetic documents, made on the device: tokens of 50 topics with Zipf's words, and noise of eps/N = 1."""
    from countveil.inference.engines.cuda import device
    from countveil.inference.engines.cuda.counts import DeviceCounts
    from countveil.inference.engines.cuda.matrix_chain import MatrixChain, Workspace
    from countveil.inference.observed import Observed
    from countveil.models import TopicModel

    xp = arrays()
    n, width, k, per_document = session.small((1_000_000, 10_000, 50, 150), (20, 30, 2, 10))
    none, nothing = np.zeros(0, np.int32), np.zeros((0, 0))
    starts = np.zeros(n + 1, np.int64)
    data = Observed(
        n, width, starts, none, none.astype(np.uint16), starts, none, np.ones(n), nothing,
        np.zeros((0, 0), np.int64), nothing, starts, none, np.zeros((0, 0), bool), np.zeros(0),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    words = rng.gamma(0.1, 1.0, (k, width)) / np.arange(1, width + 1)
    words /= words.sum(axis=1, keepdims=True)
    ends = xp.asarray((np.arange(k)[:, None] + np.cumsum(words, axis=1)).ravel())
    draw = xp.random.RandomState(0)
    positive = 0

    class Synthetic(DeviceCounts):
        def _write_codes(self):
            nonlocal positive
            codes, alpha = on_device(xp, self._codes), np.exp(-1.0)
            at_once = max(1, session.small(5_000, 7))
            for first in range(0, n, at_once):
                rows = min(at_once, n - first)
                of_row = xp.repeat(xp.arange(rows), per_document)
                # Two topics a document.
                topic = ((of_row + first) * 7 + (draw.uniform(size=len(of_row)) < 0.4) * 13) % k
                word = xp.searchsorted(ends, topic + draw.uniform(size=len(of_row))) - topic * width
                cell = of_row * width + xp.clip(word, 0, width - 1)
                y = xp.bincount(cell, minlength=rows * width).astype(xp.int32)
                u, sign = draw.uniform(size=rows * width), draw.uniform(size=rows * width)
                size = xp.floor(xp.log(u) / np.log(alpha)).astype(xp.int32)  # geometric from 0
                # Two-sided: size from 0 on one side, from 1 on the other.
                x = y + xp.where(sign < 1 / (1 + alpha), size, -1 - size)
                x = xp.clip(x, 0, 253).astype(xp.uint8).reshape(rows, width)
                positive += int((x > 0).sum())
                codes[first : first + rows, :width] = x
                codes[first : first + rows, width:] = 255
            if xp is not np:
                xp.cuda.Device().synchronize()
                xp.get_default_memory_pool().free_all_blocks()

    before = device.find_device()
    began = time.perf_counter()
    counts = Synthetic(data, k)
    made = time.perf_counter() - began
    model = TopicModel(k, rate=1.0)
    chain = MatrixChain(Workspace(model, counts), 1, 0)
    scale = np.sqrt(per_document / (k * 0.1 * width * 0.1))
    theta, phi = rng.gamma(0.1, scale, (n, k)), rng.gamma(0.1, scale, (k, width))
    chain.load(model.state_type(theta, phi), 0)
    found = {"made, s": round(made, 1), "positive cells": positive, "tokens": n * per_document, "ms": []}
    for _ in range(session.small(6, 2)):
        device.synchronize()
        began = time.perf_counter()
        for _ in range(session.small(20, 1)):
            chain.sweep()
        device.synchronize()
        found["ms"].append(round(1e3 * (time.perf_counter() - began) / session.small(20, 1), 2))
        say(f"million documents: {found['ms'][-1]} ms per sweep")
    after = device.find_device()
    found["GB"] = round((before.free - after.free) / 1e9, 2)
    say(found)
    session.write("million", found)


def ratio(session):
    """The CPU engine on the same machine, from the GPU's state after some sweeps."""
    from countveil.inference.engines.cpu.sampler import CpuSampler
    from countveil.inference.problem import make_problem
    from countveil.models import TopicModel

    counts, found = session.documents(), {}
    for level in (1.0, 3.0):
        problem = make_problem(TopicModel(session.small(50, 3)), session.release(counts, level), "exact")
        sampler = opened(problem)
        for _ in range(session.small(500, 2)):
            sampler.sweep(0)
        gpu_ms = milliseconds(sampler, session.small(100, 1))
        carry = sampler.carry(0)
        sampler.__exit__(None, None, None)
        line = {"gpu": gpu_ms}
        for threads in session.small((2, 16), (1, 2)):
            with CpuSampler(problem, 1, threads) as other:
                other.load(carry)
                other.sweep(0)
                began = time.perf_counter()
                n = session.small(20, 1)
                for _ in range(n):
                    other.sweep(0)
                line[f"cpu, {threads} threads"] = round(1e3 * (time.perf_counter() - began) / n, 2)
        found[f"{level:g}"] = line
        say(f"ratio at eps/N = {level:g}: {line}")
    session.write("ratio", found)


def batch_error(values):
    """The standard error of a mean of a chain, by means of batches."""
    n = max(len(values) // 10, 1)
    means = np.array([values[i : i + n].mean() for i in range(0, len(values) - n + 1, n)])
    return means.std(ddof=1) / np.sqrt(len(means))


def agree(session):
    """Scalars, and total rates of frequent columns, of both engines from one burned-in state."""
    from countveil.inference.engines.cpu.sampler import CpuSampler
    from countveil.inference.problem import make_problem
    from countveil.models import TopicModel

    counts, found = session.documents(), {}
    often = np.argsort(-np.asarray(counts.sum(axis=0)).ravel())[:: session.small(200, 8)][:40]
    for level in (1.0, 3.0):
        problem = make_problem(TopicModel(session.small(50, 3)), session.release(counts, level), "exact")
        sampler = opened(problem, threads=16)
        for _ in range(session.small(4000, 2)):
            sampler.sweep(0)
        carry = sampler.carry(0)

        def followed(sampler, sweeps, every, level=level, carry=carry):
            sampler.load(carry)
            sampler.sweep(0)  # compiles
            sampler.monitor(0)
            sampler.load(carry)
            lines = []
            began = time.perf_counter()
            for sweep in range(1, sweeps + 1):
                sampler.sweep(0)
                if sweep % every == 0:
                    scalars, state = sampler.monitor(0), sampler.carry(0).state
                    of_columns = state["theta"].sum(axis=0) @ state["phi"][:, often]
                    lines.append([scalars[name] for name in sorted(scalars)] + list(of_columns))
                if time.perf_counter() - began > session.options.seconds:
                    break
            say(f"agree at {level:g}: {sweep} sweeps of {type(sampler).__name__}")
            return sorted(scalars), np.array(lines)

        names, ours = followed(sampler, session.small(6000, 40), session.small(10, 1))
        sampler.__exit__(None, None, None)
        with CpuSampler(problem, 7, session.small(16, 1)) as other:
            _, theirs = followed(other, session.small(3000, 40), session.small(10, 1))
        columns = [*names, *[f"column {v}" for v in often]]
        z = {}
        for at, name in enumerate(columns):
            a, b = ours[:, at], theirs[:, at]
            z[name] = (a.mean() - b.mean()) / np.hypot(batch_error(a), batch_error(b))
        of_columns = np.array([z[f"column {v}"] for v in often])
        found[f"{level:g}"] = {
            "z": {name: round(float(z[name]), 2) for name in names},
            "root mean square of z of columns' rates": round(float(np.sqrt(np.mean(of_columns**2))), 2),
            "largest": round(float(np.abs(of_columns).max()), 2),
            "draws": [len(ours), len(theirs)],
            "means": {name: [ours[:, i].mean(), theirs[:, i].mean()] for i, name in enumerate(names)},
        }
        say(f"agree at eps/N = {level:g}: {found[f'{level:g}']}")
    session.write("agree", found)


def scores_of(session, counts, kept):
    """As the study of topics scores them: rates on the device, words on the processor."""
    from scipy.special import gammaln

    def part(name):
        """A module of ``evaluation`` without the package's others, which need xarray."""
        path = SOURCES / f"countveil/evaluation/{name}.py"
        spec = importlib.util.spec_from_file_location(f"_{name}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    xp, topics = arrays(), part("topics")
    n, width = counts.shape
    thetas = [xp.asarray(state["theta"]) for state in kept]
    phis = [xp.asarray(state["phi"]) for state in kept]
    error = score = 0.0
    at_once = max(1, session.small(200, 5))
    for first in range(0, n, at_once):
        truth = counts[first : first + at_once].toarray()
        y, log_factorial = xp.asarray(truth), xp.asarray(gammaln(truth + 1.0))
        rates = xp.stack(
            [theta[first : first + at_once] @ phi for theta, phi in zip(thetas, phis, strict=True)]
        )
        error += float(xp.abs(rates.mean(axis=0) - y).sum())
        terms = y * xp.log(xp.maximum(rates, 1e-300)) - rates - log_factorial
        top = terms.max(axis=0)
        score += float((xp.log(xp.exp(terms - top).mean(axis=0)) + top).sum())
    tops = []
    for phi in phis:
        order = xp.argsort(-phi, axis=1)[:, :10]
        tops.append(order if xp is np else xp.asnumpy(order))
    tops = np.concatenate(tops)
    return {
        "MAE": error / n / width, "log score": score / n / width,
        "NPMI": float(topics.npmi(tops, counts).mean()), "coherence": float(topics.coherence(tops, counts).mean()),
    }  # fmt: skip


def sizes(session):
    """Other numbers of topics: exact, at three levels."""
    from countveil.inference.problem import make_problem
    from countveil.models import TopicModel

    counts, found = session.documents(), {}
    sweeps, thin = session.small(7500, 4), session.small(100, 1)
    for k in session.small((25, 50, 100, 200), (2, 3)):
        for level in LEVELS:
            problem = make_problem(TopicModel(k), session.release(counts, level), "exact")
            sampler, kept = opened(problem, threads=16), []
            for sweep in range(1, sweeps + 1):
                sampler.sweep(0)
                if sweep > sweeps // 3 and sweep % thin == 0:
                    state = sampler.carry(0).state
                    kept.append({name: np.asarray(state[name]) for name in ("theta", "phi")})
            scalars = sampler.monitor(0)
            line = {"ms": milliseconds(sampler, session.small(100, 1))}
            sampler.__exit__(None, None, None)
            began = time.perf_counter()
            line |= scores_of(session, counts, kept)
            line |= {
                "total": scalars["total_rate"] / counts.sum(), "draws": len(kept),
                "scoring, s": round(time.perf_counter() - began, 1),
            }  # fmt: skip
            found[f"K = {k}, eps/N = {level:g}"] = line
            say(f"K = {k}, eps/N = {level:g}: {line}")
            session.write("sizes", found)


def rhat(draws):
    """Of (chains, draws): split R-hat."""
    n = draws.shape[1] // 2
    halves = np.concatenate([draws[:, :n], draws[:, n : 2 * n]])
    within, between = halves.var(axis=1, ddof=1).mean(), halves.mean(axis=1).var(ddof=1)
    return float(np.sqrt((n - 1) / n + between / within))


def summed_up(session, stage, found, draws, seconds):
    """What 16 chains look like beside each other."""
    means = draws.mean(axis=1)
    return {
        "log-likelihood of each chain": [round(x, 1) for x in sorted(means, reverse=True)],
        "R-hat": round(rhat(draws), 2), "spread": round(float(means.max() - means.min()), 1),
        "sd within": round(float(draws.std(axis=1).mean()), 1), "s": round(seconds, 1),
    }  # fmt: skip


def network_settings(session, engine):
    from countveil.inference.settings import check_settings

    return check_settings(
        sweeps=session.small(7500, 60), burn_in=session.small(2500, 40), thin=session.small(100, 5),
        chains=session.small(16, 2), seed=1, method="exact", engine=engine, threads=session.small(16, 1),
    )  # fmt: skip


def chains(session):
    """16 chains of the network at each C and level, with the fixed prior and better starts."""
    from countveil.inference.engines.cuda.sampler import open_problem
    from countveil.inference.monitor import LOG_LIKELIHOOD
    from countveil.inference.problem import make_problem
    from countveil.models import CommunityModel

    counts, found, settings = session.network(), {}, network_settings(session, "cuda")
    for size in session.small((5, 10, 20), (2,)):
        for level in LEVELS:
            problem = make_problem(CommunityModel(size, rate=1.0), session.release(counts, level), "exact")
            began = time.perf_counter()
            draws = [[] for _ in range(settings.chains)]
            with open_problem(problem, settings) as sampler:
                for chain in range(settings.chains):
                    sampler.start(chain)
                for sweep in range(1, settings.sweeps + 1):
                    for chain in range(settings.chains):
                        sampler.sweep(chain)
                    if sweep > settings.burn_in and sweep % settings.thin == 0:
                        for chain in range(settings.chains):
                            draws[chain].append(sampler.monitor(chain)[LOG_LIKELIHOOD])
            line = summed_up(session, "chains", found, np.array(draws), time.perf_counter() - began)
            found[f"C = {size}, eps/N = {level:g}"] = line
            say(f"C = {size}, eps/N = {level:g}: {line}")
            session.write("chains", found)


def one_cpu_chain(task):
    """A chain of the inferred prior: its log-likelihoods."""
    session, size, level, chain = task
    from countveil.inference.engines.cpu.sampler import CpuSampler
    from countveil.inference.monitor import LOG_LIKELIHOOD
    from countveil.inference.problem import make_problem
    from countveil.inference.relocation import relocation_of
    from countveil.models import CommunityModel

    settings = network_settings(session, "cpu")
    problem = make_problem(
        CommunityModel(size, rate=None), session.release(session.network(), level), "exact"
    )
    draws = []
    with CpuSampler(problem, 1, 1, relocation=relocation_of(problem, settings)) as sampler:
        sampler.start(chain)
        for sweep in range(1, settings.sweeps + 1):
            sampler.sweep(chain)
            if sweep > settings.burn_in and sweep % settings.thin == 0:
                draws.append(sampler.monitor(chain)[LOG_LIKELIHOOD])
    return draws


def cpuchains(session):
    """The same with the inferred prior, on the processor."""
    found, n = {}, session.small(16, 2)
    with ProcessPoolExecutor(session.small(16, 1)) as pool:
        for size in session.small((5, 10, 20), (2,)):
            for level in LEVELS:
                began = time.perf_counter()
                draws = list(pool.map(one_cpu_chain, [(session, size, level, chain) for chain in range(n)]))
                line = summed_up(session, "cpuchains", found, np.array(draws), time.perf_counter() - began)
                found[f"C = {size}, eps/N = {level:g}"] = line
                say(f"inferred, C = {size}, eps/N = {level:g}: {line}")
                session.write("cpuchains", found)


# --- as Markdown -----------------------------------------------------------------------------------------------------


def markdown(session):
    """What is in the folder, as tables."""
    for stage in (
        "laws",
        "variants",
        "networks",
        "whole",
        "million",
        "ratio",
        "agree",
        "sizes",
        "chains",
        "cpuchains",
    ):
        path = session.out / f"{stage}.json"
        if not path.exists():
            continue
        found = json.loads(path.read_text())
        print(f"\n## {stage}\n")
        if stage == "laws":
            print(f"{found['right']} of {found['checks']} checks right.")
        elif stage in ("variants", "networks"):
            done = {name: line["ms"] for name, line in found.items() if "ms" in line}
            columns = list(next(iter(done.values()), {}))
            table(["milliseconds per sweep", *columns], [
                [name, *(cell(line.get(column)) for column in columns)] for name, line in done.items()
            ])  # fmt: skip
            for name, line in found.items():
                if "failed" in line:
                    print(f"\n{name}: failed: {line['failed'][-300:]}")
            profiles = {name: line["kernels"] for name, line in found.items() if "kernels" in line}
            for case in next(iter(profiles.values()), {}):
                print(f"\nMicroseconds per sweep, {case}:\n")
                names = dict.fromkeys(
                    kernel for kernels in profiles.values() for kernel in kernels.get(case, {})
                )
                table(["", *names], [
                    [variant, *(f"{1e3 * kernels.get(case, {}).get(name, [0.0])[0]:.0f}" for name in names)]
                    for variant, kernels in profiles.items()
                ])  # fmt: skip
        elif all(isinstance(line, dict) for line in found.values()):
            columns = list(dict.fromkeys(name for line in found.values() for name in line))
            table(["", *columns], [
                [name, *(cell(line.get(column)) for column in columns)] for name, line in found.items()
            ])  # fmt: skip
        else:
            table(list(found), [[cell(value) for value in found.values()]])


def cell(value):
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list) and len(value) == 2 and all(isinstance(x, float) for x in value):
        return f"{value[0]:.3g} to {value[1]:.3g}"
    return str(value)


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"markdown, or any of {', '.join(STAGES)}")
    parser.add_argument(
        "--documents", help="counts of documents (.npz of scipy.sparse); synthetic ones without"
    )
    parser.add_argument("--network", help="counts of a network (.npz); synthetic ones without")
    parser.add_argument("--counts", default="counts", help="which array of the network's file")
    parser.add_argument("-o", "--output", default="gpu-session")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", nargs="+", help="these checks of laws alone")
    parser.add_argument("--seconds", type=float, default=60.0, help="at most so long for a chain of agree")
    parser.add_argument("--inner", choices=["stage", "variants", "networks"], help=argparse.SUPPRESS)
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    session = Session(options)
    unknown = set(options.stages) - {*STAGES, "markdown"}
    if unknown:
        parser.error(f"expected stages among {', '.join(STAGES)}, got {', '.join(unknown)}")
    if options.inner == "stage":
        globals()[options.stages[0]](session)
        return
    if options.inner:
        inner = {"variants": time_documents, "networks": time_network}[options.inner]
        print(json.dumps(inner(session, options.variant), default=float))
        return
    failed = []
    for stage in options.stages:
        if stage == "markdown":
            markdown(session)
            continue
        began = time.perf_counter()
        say(f"=== {stage}")
        words = [stage, "--inner", "stage", "--seconds", str(options.seconds)]
        done = subprocess.run(
            [*arguments(session, *words), *(["--only", *options.only] if options.only else [])],
            env=environment(), check=False,
        )  # fmt: skip
        say(
            f"=== {stage}: {'done' if done.returncode == 0 else 'FAILED'} in {time.perf_counter() - began:.0f} s"
        )
        failed += [stage] if done.returncode else []
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
