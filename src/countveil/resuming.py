"""Runs on disk go on: ``resume`` after a stop or a kill, ``extend`` beyond their end; ``merge_runs`` of chains."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countveil.chains_to_posterior import Watching, join_shards, run_on_disk, running_means
from countveil.inference.engines.engine import spreads
from countveil.inference.problem import Problem
from countveil.inference.progress import Progress
from countveil.inference.settings import OUTCOMES, Ray, Settings, check_seconds, check_settings
from countveil.models.count_model import whole_number

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior
    from countveil.posterior.runs.reopened import ReopenedRun
    from countveil.posterior.shared import SharedPosterior


def resume(
    path: str | os.PathLike[str],
    data: Any = None,
    *,
    model: Any = None,
    threads: int | None = None,
    engine: str | Ray = "auto",
    progress: bool | Callable[[Progress], Any] = True,
    checkpoint_seconds: float = 60.0,
    max_seconds: float | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> Posterior | SharedPosterior:
    """Go on with a run that ``fit(..., store=path)`` has begun and something has stopped.

    The draws are, bit by bit, those of a run that nothing has stopped. A run that is complete is loaded.

    Parameters
    ----------
    path
        The folder of the run.
    data
        The plain counts that were fitted, which a run does not hold, with the same labels or none. A release need
        not be given: it is in the run, or, if it is large and was given by its path, where it was; if it lies
        elsewhere by now, its path.
    model
        A model of your own, and one with fixed factors, which a run does not hold either.
    threads, engine, progress, checkpoint_seconds
        As in ``fit``. The draws do not depend on them: a run may go on elsewhere than where it was begun.
    max_seconds
        As in ``fit``: stop after this time, and resume again later. A precision at which the run shall end
        (``until``) is in the run.
    scratch
        As in ``fit``, for a release that is larger than memory and not in the run.

    Examples
    --------
    >>> import countveil as cv, tempfile
    >>> release = cv.simulate_release([[9, 0], [0, 8]], epsilon=1, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = f"{folder}/run.zarr"
    ...     _ = cv.fit(cv.TopicModel(2), release, sweeps=40, thin=2, seed=1, store=run, progress=False)
    ...     cv.resume(run)
    Posterior(TopicModel(n_topics=2, shape=0.1, rate=None), 2 x 2, 2 chains x 10 draws)
    """
    watching = Watching.checked(progress, max_seconds)
    return _go_on(path, None, None, data, model, threads, engine, watching, checkpoint_seconds, scratch)


def extend(
    path: str | os.PathLike[str] | Posterior | SharedPosterior,
    sweeps: int,
    data: Any = None,
    *,
    model: Any = None,
    threads: int | None = None,
    engine: str | Ray = "auto",
    progress: bool | Callable[[Progress], Any] = True,
    checkpoint_seconds: float = 60.0,
    until: Mapping[str, float] | None = None,
    max_seconds: float | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> Posterior | SharedPosterior:
    """Make the chains of a run on disk longer: ``sweeps`` is the new total, burn-in stays as it was.

    A total that was too large can be made smaller, down to the sweeps that the run has done: it ends there.
    The draws are, bit by bit, those of one run of that length with the same burn-in. With ``until`` they end
    before, once they are precise enough, as in ``fit``; without it they go to ``sweeps``, also where the run had
    ended at a precision. Everything else is as in ``resume``. A posterior stands for the folder it was fitted into.
    Where burn-in was too short, ``with_burn_in`` of the longer posterior leaves its first draws out.

    Examples
    --------
    >>> import countveil as cv, tempfile
    >>> release = cv.simulate_release([[9, 0], [0, 8]], epsilon=1, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = f"{folder}/run.zarr"
    ...     _ = cv.fit(cv.TopicModel(2), release, sweeps=40, thin=2, seed=1, store=run, progress=False)
    ...     cv.extend(run, sweeps=100, progress=False)
    Posterior(TopicModel(n_topics=2, shape=0.1, rate=None), 2 x 2, 2 chains x 40 draws)
    """
    from countveil.posterior.load import check_mark

    if not isinstance(path, str | os.PathLike):
        found = getattr(path, "path", None)
        if found is None:
            raise ValueError(
                "path: expected the folder of a run, or a posterior that was fitted with store=, got one in memory"
            )
        check_mark(found, *path.mark)  # type: ignore[misc]  # whatever has a path has a mark
        path = str(found)
    watching = Watching.checked(progress, max_seconds)
    return _go_on(path, sweeps, until, data, model, threads, engine, watching, checkpoint_seconds, scratch)


def merge_runs(
    runs: Iterable[str | os.PathLike[str]], path: str | os.PathLike[str], *, model: Any = None
) -> Posterior | SharedPosterior:
    """Chains that ran apart, by ``fit(..., chain=i, store=...)``, as one run in the new folder ``path``.

    It is, bit by bit, the run of all of them together, and can be extended like one. All must be complete and of
    one problem, one seed and one length; a chain that comes twice is refused.

    Examples
    --------
    >>> import countveil as cv, tempfile
    >>> release = cv.simulate_release([[9, 0], [0, 8]], epsilon=1, seed=0)
    >>> settings = {"sweeps": 40, "thin": 2, "chains": 3, "seed": 1, "progress": False}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = [f"{folder}/chain{i}.zarr" for i in range(3)]
    ...     for i, part in enumerate(parts):  # each on a machine of its own, say
    ...         _ = cv.fit(cv.TopicModel(2), release, chain=i, store=part, **settings)
    ...     cv.merge_runs(parts, f"{folder}/run.zarr")
    Posterior(TopicModel(n_topics=2, shape=0.1, rate=None), 2 x 2, 3 chains x 10 draws)
    """
    from countveil.posterior.load import load_posterior
    from countveil.posterior.runs.merge import merge_folders

    if isinstance(runs, str | os.PathLike):
        raise TypeError("runs: expected the folders of several runs, got one path")
    merge_folders([Path(run) for run in runs], Path(path))
    return load_posterior(path, model)


def _go_on(
    path: str | os.PathLike[str],
    sweeps: int | None,
    until: Mapping[str, float] | None,
    data: Any,
    model: Any,
    threads: int | None,
    engine: str | Ray,
    watching: Watching,
    checkpoint_seconds: float,
    scratch: str | os.PathLike[str] | None,
) -> Posterior | SharedPosterior:
    from countveil.posterior.load import load_posterior
    from countveil.posterior.runs.packed_release import size_on_disk
    from countveil.posterior.runs.reader import checked_folder, damage_is_told, root_attributes
    from countveil.posterior.runs.reopened import ReopenedRun
    from countveil.posterior.runs.stored_problem import problem_again

    threads = join_shards(engine, threads)
    seconds = check_seconds("checkpoint_seconds", checkpoint_seconds)
    found = root_attributes(checked_folder(path))
    if found.get("complete") == 1 and sweeps is None:
        return load_posterior(path, model)
    with ReopenedRun(path) as run:
        with damage_is_told(run.path):
            if until is not None and len(run.chains) < run.settings["chains"]:
                raise ValueError(
                    f"until: expected a run of all its {run.settings['chains']} chains, got {len(run.chains)} of "
                    "them: merge them first"
                )
            name = engine if isinstance(engine, str) else "ray"
            releases, size = run.releases(data, scratch), size_on_disk(run.path)
            problem = problem_again(
                run.attributes, releases, run.labels, model, data, size, len(run.chains), name
            )
            settings = _settings(run, problem, sweeps, until, threads, engine)
            before = run.scalars() if settings.asks_precision else None
            store = run.store(settings, seconds, running_means(problem, settings))
        return run_on_disk(store, problem, watching, before)


def _settings(
    run: ReopenedRun,
    problem: Problem,
    sweeps: int | None,
    until: Mapping[str, float] | None,
    threads: int | None,
    engine: str | Ray,
) -> Settings:
    """Those of the run, with a new length and this machine's threads."""
    # Where it ran before is no matter, unless it was a GPU.
    without = (*OUTCOMES, "address", "shards")
    given = {key: value for key, value in run.settings.items() if key not in without}
    precision = {name: given.pop(f"until_{name}", None) for name in ("ess", "r_hat")}
    if sweeps is None:
        until = {name: value for name, value in precision.items() if value is not None} or None
    else:
        done = 0 if run.checkpoint is None else run.last.sweep
        if whole_number("sweeps", sweeps, 1) < done:
            raise ValueError(
                f"sweeps: expected a new total of at least {done}, the sweeps that this run has done and keeps, "
                f"got {sweeps}"
            )
        if sweeps <= given["burn_in"]:
            raise ValueError(
                f"sweeps: expected a new total above the burn-in of {given['burn_in']}, which stays as it was, got "
                f"{sweeps}"
            )
        given["sweeps"] = sweeps
    # Runs of versions without the choice had a plain start.
    given = {"start": "plain", **given}
    swept = 0 if run.checkpoint is None else run.last.sweep
    engine = _engine_again(problem, given, swept, engine)
    return check_settings(**{**given, "threads": threads, "engine": engine, "until": until})


def _engine_again(problem: Problem, given: Mapping[str, Any], sweep: int, engine: str | Ray) -> str | Ray:
    """Where a run goes on: on a GPU if it began there, because its draws are others; else anywhere."""
    name = engine if isinstance(engine, str) else "ray"
    if given["engine"] == "cuda" and name in ("auto", "cuda"):
        return "cuda"
    if "cuda" in (given["engine"], name):
        raise ValueError(
            f"engine: expected the hardware on which this run began ({given['engine']!r}), because draws of a GPU "
            f"differ from those of a CPU, got {name!r}"
        )
    if spreads(problem, name) and given["start"] != "plain" and sweep < given["burn_in"]:
        raise ValueError(
            f"engine: expected one machine until burn-in has ended (start={given['start']!r}, sweep {sweep} of "
            f"{given['burn_in']}), got {name!r}"
        )
    return "cpu" if name == "auto" else engine
