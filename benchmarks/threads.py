"""Two threads against two independent processes, in one run: sweeps per second."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import countveil as cv
from countveil.runtime.workers import Workers
from engines import Run


def _sweeps(release_path: str, state: Any, n_topics: int, sweeps: int, barrier: Any, results: Any) -> None:
    run = Run(cv.TopicModel(n_topics), cv.load_release(release_path), "exact", state=state)
    with Workers(1) as workers:
        run.advance(3, workers)
        barrier.wait()
        began = time.perf_counter()
        run.advance(sweeps, workers)
        results.put(sweeps / (time.perf_counter() - began))


def threads_against_processes(
    release_path: str, state: Any, n_topics: int, sweeps: int, rounds: int
) -> float:
    """Sweeps per second of two threads over those of two processes together."""
    run = Run(cv.TopicModel(n_topics), cv.load_release(release_path), "exact", state=state)
    context = multiprocessing.get_context("spawn")
    ratios = []
    for _ in range(rounds):
        with Workers(2) as workers:
            run.advance(3, workers)
            together = 1 / run.advance(sweeps, workers)
        barrier, results = context.Barrier(2), context.Queue()
        arguments = (release_path, state, n_topics, sweeps, barrier, results)
        processes = [context.Process(target=_sweeps, args=arguments) for _ in range(2)]
        for process in processes:
            process.start()
        apart = sum(results.get() for _ in processes)
        for process in processes:
            process.join()
        ratios.append(together / apart)
    return sorted(ratios)[len(ratios) // 2]
