"""The CPU's engine on the same machine."""

from __future__ import annotations

import time

from gpu_stages.session import milliseconds, opened, say


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


def shards(session):
    """True counts from the device and factors from the processor, as shards have them; then two shards at once."""
    from dataclasses import replace

    from countveil.inference.engines.cpu.sampler import CpuSampler
    from countveil.inference.engines.sharded.in_process import open_problem_in_shards
    from countveil.inference.problem import make_problem
    from countveil.inference.settings import check_settings
    from countveil.models import TopicModel

    counts, found = session.documents(), {}
    settings = check_settings(
        sweeps=10, burn_in=0, thin=1, chains=1, seed=1, method="exact", engine="cpu", threads=1, algorithm="cuda",
    )  # fmt: skip
    for level in (1.0, 3.0):
        problem = make_problem(TopicModel(session.small(50, 3)), session.release(counts, level), "exact")
        line, n = {}, session.small(200, 1)
        for threads in session.small((2, 8), (1,)):
            with CpuSampler(problem, 1, threads, "cuda") as sampler:
                sampler.start(0)
                line[f"{threads} threads"] = _swept(sampler, n)
        with open_problem_in_shards(problem, replace(settings, threads=1), 2) as sampler:
            sampler.start(0)
            line["two shards of one thread"] = _swept(sampler, n)
        sampler = opened(problem)
        line["all on the device"] = _swept(sampler, n)
        sampler.__exit__(None, None, None)
        found[f"{level:g}"] = line
        say(f"shards at eps/N = {level:g}: {line}")
    session.write("shards", found)


def _swept(sampler, n):
    """Milliseconds per sweep of the second half, and what the chain is watched by at its end."""
    for _ in range(n):
        sampler.sweep(0)
    sampler.monitor(0)
    began = time.perf_counter()
    for _ in range(n):
        sampler.sweep(0)
    scalars = sampler.monitor(0)
    return {
        "ms": round(1e3 * (time.perf_counter() - began) / n, 2),
        **{k: float(v) for k, v in scalars.items()},
    }
