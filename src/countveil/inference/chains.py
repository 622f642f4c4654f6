"""The loop: sweep, monitor, keep; all chains in step, draws kept as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from countveil.inference.engines.engine import engine_named
from countveil.inference.problem import Problem
from countveil.inference.settings import Settings
from countveil.inference.store import Draws, MemoryStore


def run_chains(
    problem: Problem, settings: Settings, progress: Callable[[range], Iterable[int]] = iter
) -> Draws:
    """Run all chains. ``progress`` wraps the range of sweeps, to show how far they are.

    The chains go in step, so that after Ctrl-C all of them have the same number of draws: what was kept until
    then is returned, marked as interrupted, as long as there is any.
    """
    chains, store = range(settings.chains), MemoryStore(settings)
    began, interrupted = time.perf_counter(), False
    with engine_named(settings.engine).open_problem(problem, settings) as sampler:
        for chain in chains:
            sampler.start(chain)
        try:
            for sweep in progress(range(1, settings.sweeps + 1)):
                for chain in chains:
                    sampler.sweep(chain)
                    if settings.keeps(sweep):
                        sampler.keep(chain, store)
        except KeyboardInterrupt:
            if not store.common():
                raise
            interrupted = True
    return store.draws(time.perf_counter() - began, interrupted)
