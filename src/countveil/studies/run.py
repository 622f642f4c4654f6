"""A study from its plan to its folder: the fits that are not done yet, one by one or in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

from countveil.studies.plan import Found, Job, Settings, Study
from countveil.studies.results import ResultFolder


def run_study(
    study: Study,
    output: str | os.PathLike[str],
    settings: Settings,
    options: Mapping[str, Any],
    say: Callable[[str], None] = lambda line: None,
    *,
    methods: Collection[str] = (),
    priors: Collection[str] = (),
    processes: int = 1,
) -> ResultFolder:
    """Run what is not there yet, then write table and picture. Stopped at any moment, it can go on.

    With ``methods`` or ``priors`` only fits by these. With several ``processes`` as many fits run at a time; which,
    does not change what they find.
    """
    jobs = list(dict.fromkeys(study.plan(settings)))
    only = {"methods": list(methods), "priors": list(priors)}
    for name, wanted in only.items():
        known = {getattr(job, name[:-1]) for job in jobs}
        if not known >= set(wanted):
            raise ValueError(f"{name}: expected some of {sorted(known)}, got {wanted}")
        jobs = [job for job in jobs if not wanted or getattr(job, name[:-1]) in wanted]
    data = study.load(options)
    folder = ResultFolder(output, study, study.describe(data))
    noted = {name: value for name, value in vars(settings).items() if name not in ("engine", "threads")}
    folder.note({**noted, **{name: wanted for name, wanted in only.items() if wanted}})
    done = folder.done()
    left = [job for job in jobs if job not in done]
    say(f"{study.title}: {len(jobs)} lines, {len(jobs) - len(left)} of them done before.")
    if processes > 1:
        performed = _performed_apart(study, settings, options, left, processes)
    else:
        performed = (_performed(study, job, settings, data) for job in left)
    for number, (job, found, seconds) in enumerate(performed, 1):
        folder.add(job, found, seconds)
        say(f"{number}/{len(left)} {job.said()}: {_told(found.scores)}")
    folder.write_results()
    return folder


def _performed(study: Study, job: Job, settings: Settings, data: Any) -> tuple[Job, Found, float]:
    began = time.process_time()
    found = study.perform(job, settings, data)
    return job, found, time.process_time() - began


def _performed_apart(
    study: Study, settings: Settings, options: Mapping[str, Any], jobs: list[Job], processes: int
) -> Iterator[tuple[Job, Found, float]]:
    """Jobs in processes of their own, as they are done. Each process loads the data once."""
    if settings.threads is None:
        settings = settings.changed(threads=max(1, (os.cpu_count() or 1) // processes))
    given = study, settings, dict(options)
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _load_apart, given)
    try:
        with _safe_path():  # all begin with the first job
            futures = [pool.submit(_perform_apart, job) for job in jobs]
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Processes that begin in this time import nothing from the working folder, where anybody's files may lie."""
    name = "PYTHONSAFEPATH"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


#: What the jobs of this process share, where it was started for some of a study's.
_apart: list[Any] = []


def _load_apart(study: Study, settings: Settings, options: Mapping[str, Any]) -> None:
    _apart[:] = study, settings, study.load(options)


def _perform_apart(job: Job) -> tuple[Job, Found, float]:
    study, settings, data = _apart
    return _performed(study, job, settings, data)


def _told(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in list(scores.items())[:4])
