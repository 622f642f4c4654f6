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
