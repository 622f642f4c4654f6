"""From a problem to its posterior: chains that run, in memory or into a folder, and who looks on meanwhile.

``fit`` begins runs, ``resume`` and ``extend`` go on with them; both come through here.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from countveil.counts import PrivateCounts
from countveil.counts.sources.plain_counts import PlainCounts
from countveil.inference.chains import run_chains, run_into
from countveil.inference.monitor import names_of_scalars
from countveil.inference.problem import Problem, at_alpha
from countveil.inference.progress import Progress, Watched, shown, unwatched, watched
from countveil.inference.settings import COMPLETE, Settings, check_seconds
from countveil.inference.stopping import StoppingRule
from countveil.inference.store import Draws
from countveil.models.einsum.model import EinsumModel
from countveil.models.shared_factors import SharedFactors
from countveil.runtime.compilation_news import CompilationNews

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior
    from countveil.posterior.running_means import ChainMeans
    from countveil.posterior.runs.zarr_store import ZarrStore
    from countveil.posterior.shared import SharedPosterior


#: More draws of rows than so are kept only where they are asked for.
MOST_BYTES_OF_ROWS = 2**34


class Watching(NamedTuple):
    """Who looks on while chains run, and for how long they may."""

    progress: bool | Callable[[Progress], Any]
    max_seconds: float | None

    @classmethod
    def checked(cls, progress: Any, max_seconds: Any) -> Watching:
        """Or an error that names the parameter."""
        if not isinstance(progress, bool | np.bool_) and not callable(progress):
            raise TypeError(f"progress: expected True, False or a function, got {progress!r}")
        progress = progress if callable(progress) else bool(progress)
        return cls(progress, None if max_seconds is None else check_seconds("max_seconds", max_seconds))

    def rule(self, settings: Settings, chains: Sequence[int], before: Any = None) -> StoppingRule:
        """When the chains end before their last sweep; ``before`` has scalars of draws that they have already."""
        if not settings.asks_precision:
            return StoppingRule(settings, chains, None, self.max_seconds)
        from countveil.posterior.diagnostics.summary import precise

        return StoppingRule(settings, chains, precise, self.max_seconds, before)


def progress_bar(watching: Watching, settings: Settings, news: CompilationNews) -> Watched:
    """What wraps the range of sweeps to show how far it is."""
    if watching.progress is True:
        return shown(settings.burn_in, watching.max_seconds, news.finished)
    if callable(watching.progress):
        return watched(watching.progress, settings.burn_in, watching.max_seconds)
    return unwatched


def join_shards(engine: Any, threads: int | None) -> int | None:
    """Of an MPI job one process goes on alone (``engines.mpi``); the number of threads, if it follows from that."""
    if engine != "mpi":
        return threads
    from countveil.inference.engines.mpi import follow

    each = follow()
    return each if threads is None else threads


def with_room(settings: Settings, problem: Problem) -> Settings:
    """The settings, without draws of rows if those would fill a disk."""
    model, size = problem.model, 0
    if isinstance(model, EinsumModel) and model._spec.per_axis is not None:
        size = 4 * model.n_components * problem.shapes[""][0] * settings.chains * settings.kept
    if size <= MOST_BYTES_OF_ROWS:
        return settings
    warnings.warn(
        f"keep: {settings.chains} x {settings.kept} draws of all rows would take {size / 1e9:.0f} GB, so that "
        "their means and standard deviations are kept instead, keep='summaries' (docs/long_runs.md); keep='all' "
        "keeps the draws, keep='columns' those of the columns, and thin= makes them fewer",
        stacklevel=3,
    )
    return replace(settings, keep="summaries")


def running_means(problem: Problem, settings: Settings) -> ChainMeans | None:
    """What takes the draws of a fit that does not keep all of them; None for one that does."""
    if settings.keep == "all":
        return None
    from countveil.posterior.running_means import ChainMeans

    return ChainMeans(problem.model, settings.keep)


def run_in_memory(problem: Problem, settings: Settings, watching: Watching) -> Posterior | SharedPosterior:
    """The chains, with a word to the user where they take longer or end earlier than expected."""
    running = running_means(problem, settings)
    rule = watching.rule(settings, range(settings.chains))
    with CompilationNews().told(watching.progress is True) as news:
        draws = run_chains(problem, settings, progress_bar(watching, settings, news), rule, running)
    if not (draws.states or draws.monitored):
        raise _no_draw_in_time(watching)
    if draws.stopped == "interrupt":
        _warn_of_interruption(len(next(iter(draws.monitored.values()))[0]), settings)
    # What reads the draws (xarray, pandas: 50 MB) is imported when there are draws, after the memory of the sweeps
    # has been given back.
    return _posterior_of(draws, problem)


def run_on_disk(
    store: ZarrStore, problem: Problem, watching: Watching, before: Mapping[str, np.ndarray] | None = None
) -> Posterior | SharedPosterior:
    """The chains of a store, to their end, or to a signal that stops them."""
    rule = watching.rule(store.settings, store.chains, before)
    try:
        with store.signals, CompilationNews().told(watching.progress is True) as news:
            if store.signals.stop is not None:  # while the run was opened
                store.note_settings()
                stopped = "interrupt"
            else:
                progress = progress_bar(watching, store.settings, news)
                stopped = run_into(store, problem, store.settings, progress, rule)
            if stopped != "interrupt":
                store.ended(stopped)
    finally:
        store.close()
    came = store.signals.stop
    if came is not None and came.name != "SIGINT":
        state = (
            "the run is complete"
            if stopped in COMPLETE
            else f"stopped at a checkpoint; countveil resume {store.path} goes on"
        )
        print(f"countveil: {came.name}: {state}", file=sys.stderr, flush=True)
        raise SystemExit(128 + came)
    if stopped == "time" and not store.saved:
        raise _no_draw_in_time(watching, f"; cv.resume({str(store.path)!r}) goes on")
    if stopped == "interrupt" and not store.saved:
        raise KeyboardInterrupt
    if stopped == "interrupt":
        _warn_of_interruption(store.saved, store.settings)
    return _posterior_on_disk(store, problem)


def without_draws(
    problem: Problem, settings: Settings, chains: Sequence[int], state: Mapping[str, np.ndarray]
) -> tuple[Any, Any]:
    """The tree of a run with room for states like this one, and the releases that go into it."""
    from countveil.posterior.runs.stored_problem import describe_problem, releases_of

    states, running = {}, running_means(problem, settings)
    kept, summaries = (state, None) if running is None else running.template(state, len(chains))
    for name, value in kept.items():
        value = np.asarray(value)
        kind = np.float32 if value.dtype.kind == "f" else value.dtype
        states[name] = np.zeros((len(chains), 0, *value.shape), dtype=kind)
    monitored = {name: np.zeros((len(chains), 0)) for name in names_of_scalars(problem)}
    draws = Draws(states, monitored, problem.state_type, settings, 0.0, "interrupt", summaries)
    tree = _posterior_of(draws, problem).tree
    for group in tree.children:
        tree[group].dataset = tree[group].to_dataset().assign_coords(chain=list(chains))
    tree.attrs |= {"complete": 0, "draws": 0, "problem": json.dumps(describe_problem(problem))}
    return tree, releases_of(problem)


def _posterior_of(draws: Draws, problem: Problem) -> Posterior | SharedPosterior:
    """Draws that are in memory, with all that is known of them."""
    if isinstance(problem.model, SharedFactors):
        from countveil.posterior.shared import facts_of, shared_posterior

        facts = {name: facts_of(view.given) for name, view in problem.views.items()}
        return shared_posterior(draws, problem.model, facts)
    from countveil.posterior.posterior import Posterior
    from countveil.posterior.runs.schema import make_tree

    given = problem.views[""].given
    promised = None if isinstance(given, PlainCounts) else given.guarantee
    guarantee = None if promised is None else str(promised)
    if problem.alpha is not None and draws.monitored["alpha"].size:
        assert isinstance(given, PrivateCounts)
        given = at_alpha(given, float(draws.monitored["alpha"].mean()))
    tree = make_tree(draws, problem.model, given.axes, given.shape, given.labels, guarantee)
    if problem.alpha is not None:
        tree["posterior"]["alpha"] = tree["sample_stats"]["alpha"]
    if problem.robust is not None:
        tree["posterior"].attrs["robust"] = float(problem.robust)
    return Posterior(
        tree,
        problem.model,
        draws.state_type,
        given,
        given.axes,
        given.shape,
        given.labels,
        draws.settings.seed,
    )


def _posterior_on_disk(store: ZarrStore, problem: Problem) -> Posterior | SharedPosterior:
    """The posterior of a run that was just written; its draws stay where they are until somebody asks for them."""
    from countveil.posterior.load import views_of
    from countveil.posterior.posterior import Posterior
    from countveil.posterior.runs.reader import mark_of_run, read_running, root_attributes, stored_scalar
    from countveil.posterior.shared import SharedPosterior

    path, settings = (
        store.path.absolute(),
        store.settings,
    )  # whatever folder is worked in when they are asked for
    running = None
    if settings.keep != "all" and not store.counts_apart:
        running = read_running(path)  # now: they are those of all draws, and the run may become longer
    mark = mark_of_run(path, store.saved)
    draws = partial(
        _draws_now, path, problem.model, store.saved, root_attributes(path)["settings"], running, mark
    )
    posterior: Posterior | SharedPosterior
    if isinstance(problem.model, SharedFactors):
        data = {name: view.given for name, view in problem.views.items()}
        posterior = SharedPosterior(
            draws, problem.model, problem.model.state_type, partial(views_of, problem.model, data)
        )
    else:
        given = problem.views[""].given
        if problem.alpha is not None:
            assert isinstance(given, PrivateCounts)
            given = at_alpha(given, float(stored_scalar(path, "alpha", store.saved).mean()))
        posterior = Posterior(
            draws,
            problem.model,
            problem.state_type,
            given,
            given.axes,
            given.shape,
            given.labels,
            settings.seed,
        )
    posterior.path, posterior.mark = path, (store.saved, mark)
    return posterior


def _draws_now(path: Path, model: Any, n: int, settings: str, running: Any, mark: bytes) -> Any:
    """The first n draws of each chain of a run, which may have become longer since, but not another one."""
    from countveil.posterior.load import check_mark, load_posterior

    check_mark(path, n, mark)
    with _unfinished_is_known():
        tree = load_posterior(path, model).tree
    if tree["posterior"].sizes["draw"] > n:
        for group in ("posterior", "sample_stats"):
            tree[group].dataset = tree[group].to_dataset().isel(draw=slice(n))
    if running is not None:
        tree["running"].dataset = running
    elif "running" in tree.children and int(tree["running"]["n_draws"].max()) != n:
        # Of rows that are spread: nobody had room for them when the run ended.
        raise ValueError(
            f"path: expected the run that was fitted, got a longer one in {str(path)!r}: load it anew"
        )
    tree.attrs["settings"] = settings
    return tree


@contextmanager
def _unfinished_is_known() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="unfinished", category=UserWarning)
        yield


class BurnInNotEndedError(TimeoutError):
    """The time was up before the first draw.

    >>> issubclass(BurnInNotEndedError, TimeoutError)
    True
    """


def _no_draw_in_time(watching: Watching, hint: str = "") -> BurnInNotEndedError:
    return BurnInNotEndedError(
        f"max_seconds: expected time for a first draw, got {watching.max_seconds:g} s, in which burn-in did not "
        f"end{hint}"
    )


def _warn_of_interruption(kept: int, settings: Settings) -> None:
    warnings.warn(f"interrupted: {kept} of {settings.kept} draws per chain were kept", stacklevel=4)
