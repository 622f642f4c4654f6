"""The front door: ``fit`` joins inference and posterior."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from countveil.chains_to_posterior import (
    Watching,
    join_shards,
    run_in_memory,
    run_on_disk,
    running_means,
    with_room,
    without_draws,
)
from countveil.counts.release_on_disk import ReleaseOnDisk
from countveil.inference.engines.engine import may_stay_unread, resolved
from countveil.inference.first_look import warn_of_a_prior_that_fights, warn_of_pairs_on_the_other_side
from countveil.inference.problem import make_problem
from countveil.inference.progress import Progress
from countveil.inference.settings import Ray, Settings, check_seconds, check_settings
from countveil.models import CountModel
from countveil.models.count_model import whole_number
from countveil.models.shared_factors import SharedFactors
from countveil.models.unknown_noise import UnknownNoise

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior
    from countveil.posterior.shared import SharedPosterior


@overload
def fit(
    model: SharedFactors,
    data: Mapping[str, Any],
    *,
    sweeps: int = ...,
    burn_in: int | None = ...,
    thin: int = ...,
    chains: int = ...,
    seed: int | None = ...,
    method: str = ...,
    engine: str | Ray = ...,
    algorithm: str = ...,
    start: str = ...,
    threads: int | None = ...,
    progress: bool | Callable[[Progress], Any] = ...,
    labels: Any = ...,
    store: str | os.PathLike[str] | None = ...,
    checkpoint_seconds: float = ...,
    chain: int | None = ...,
    until: Mapping[str, float] | None = ...,
    max_seconds: float | None = ...,
) -> SharedPosterior: ...


@overload
def fit(
    model: CountModel | UnknownNoise,
    data: Any,
    *,
    sweeps: int = ...,
    burn_in: int | None = ...,
    thin: int = ...,
    chains: int = ...,
    seed: int | None = ...,
    method: str = ...,
    engine: str | Ray = ...,
    algorithm: str = ...,
    start: str = ...,
    threads: int | None = ...,
    progress: bool | Callable[[Progress], Any] = ...,
    labels: Any = ...,
    robust: float | None = ...,
    store: str | os.PathLike[str] | None = ...,
    checkpoint_seconds: float = ...,
    chain: int | None = ...,
    until: Mapping[str, float] | None = ...,
    max_seconds: float | None = ...,
    keep: str = ...,
    scratch: str | os.PathLike[str] | None = ...,
) -> Posterior: ...


def fit(
    model: CountModel | UnknownNoise | SharedFactors,
    data: Any,
    *,
    sweeps: int = 1000,
    burn_in: int | None = None,
    thin: int = 5,
    chains: int = 2,
    seed: int | None = None,
    method: str = "exact",
    engine: str | Ray = "auto",
    algorithm: str = "auto",
    start: str = "auto",
    threads: int | None = None,
    progress: bool | Callable[[Progress], Any] = True,
    labels: Any = None,
    robust: float | None = None,
    store: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 60.0,
    chain: int | None = None,
    until: Mapping[str, float] | None = None,
    max_seconds: float | None = None,
    keep: str = "auto",
    scratch: str | os.PathLike[str] | None = None,
) -> Posterior | SharedPosterior:
    """Draw from the posterior of ``model`` given released counts, or given plain ones.

    Parameters
    ----------
    model
        A ``TopicModel``, or a model of your own (see ``CountModel``); or ``SharedFactors`` of several arrays.
    data
        A ``PrivateCounts`` release; or plain counts (numpy, nested lists, scipy.sparse, DataFrame; a numpy
        masked array has missing cells), which gives ordinary, non-private factorization. See ``stack_rows`` for
        a release with public counts beside it, ``combine_releases`` for counts released several times. For
        ``SharedFactors`` a mapping from its views to such data; the result is a ``SharedPosterior``. With
        ``engine="mpi"`` or ``"ray"`` also the path or the address of a release (docs/release_format.md), of which
        every rank or actor reads its own rows; so with ``scratch``.
    sweeps, burn_in, thin, chains
        Sweeps include burn-in (half of them by default); every chain keeps ``(sweeps - burn_in) // thin`` draws.
    seed
        The same seed gives the same draws, whatever the number of threads. None takes a fresh one, which
        ``posterior.tree.attrs["settings"]`` records.
    method
        ``"exact"`` draws the true counts from their exact conditional. ``"bessel"`` is the paper's sampler, for
        comparison. ``"naive"`` takes clamped noisy counts for true ones, and is biased.
    engine
        The hardware: ``"cpu"``; ``"cuda"``, a GPU (docs/engines.md); or ``"auto"``, which takes the GPU where
        there is one that serves the problem and the work is large enough. ``"mpi"`` spreads the rows over the
        ranks of an MPI job, ``cv.Ray(...)`` over actors of a Ray cluster (docs/cluster.md). Draws depend on the
        seed alone; those of a GPU and of CPUs differ, and have the same law.
    algorithm
        ``"auto"`` takes the fastest. For the curious: ``"tokens"``, ``"integrated"``, ``"fibers"``, or ``"cells"``,
        the reference that visits every cell; ``"cuda"``, true counts from a GPU and factors from the processor, by
        which every rank or actor of ``"mpi"`` and ``"ray"`` has a GPU of its own. All are exact.
    start
        ``"auto"`` helps chains in burn-in to find their place where that is known to help (docs/starts.md);
        ``"plain"`` has ordinary sweeps alone, as in the paper; ``"collapsed"`` lets topics climb faster, but to no
        better place. After burn-in there is no difference.
    threads
        All cores by default.
    progress
        Show sweeps per second, time left and the log-likelihood of every chain, on standard error. Or a function of
        your own, which is called about once a second with a ``Progress`` (docs/diagnostics.md).
    labels
        For plain counts without labels of their own: (row labels, column labels), either may be None. A table
        keeps those that it has, and others beside them are refused. For ``SharedFactors`` a mapping from views to
        such.
    robust
        For plain counts: fit them as if they had been released with noise of this alpha, in (0, 1), so that
        single odd counts weigh less. See docs/unknown_noise.md for what that assumes.
    store
        A new folder, to which draws go as they come, with checkpoints: a run that was killed goes on by
        ``cv.resume(store)``, bit by bit as if nothing had happened (docs/long_runs.md). By default draws stay in
        memory; ``posterior.save`` writes them.
    checkpoint_seconds
        With ``store``: time between two checkpoints. They come less often where they would take more than one
        fiftieth of the time.
    chain
        With ``store``: run this one of the chains only, 0 to ``chains - 1``, as jobs on several machines do;
        ``cv.merge_runs`` puts them together.
    until
        End before ``sweeps``, once the monitored scalars are precise enough: ``{"ess": 400, "r_hat": 1.01}``, or
        one of the two. ESS (bulk) is of all chains together; R-hat is split and rank-normalised. Both are looked at
        after sweeps that follow from the settings, the first after 20 draws, so that a seed gives the same draws.
        They are how the run of all ``sweeps`` begins: give ``burn_in``, which by default is half of ``sweeps``.
    max_seconds
        End after this time, compilation included, with the draws kept until then.
    keep
        What is kept of the draws. ``"all"``: everything. ``"columns"``: draws of all that does not stand on rows,
        and running means and standard deviations of the rows' shares. ``"summaries"``: running means and standard
        deviations alone, beside the monitored scalars. Where there are many rows this bounds memory and disk;
        docs/long_runs.md says what can then be asked, and what it assumes. ``"auto"`` is ``"all"``, unless the
        draws of all rows would take more than 16 GiB: then it is ``"summaries"``, and a warning says so.
    scratch
        For a release that is larger than memory, given by its path: a folder on a disk with room, where it is
        unpacked, and read in every sweep. The draws are those of ``start="plain"`` (docs/long_runs.md).

    Ctrl-C ends a fit early and returns the draws kept until then.

    Examples
    --------
    >>> import countveil as cv
    >>> release = cv.simulate_release([[9, 0], [0, 8]], epsilon=1, seed=0)
    >>> cv.fit(cv.TopicModel(n_topics=2), release, sweeps=40, thin=2, seed=1, progress=False)
    Posterior(TopicModel(n_topics=2, shape=0.1, rate=None), 2 x 2, 2 chains x 10 draws)
    """
    threads = join_shards(engine, threads)
    settings = check_settings(
        sweeps=sweeps, burn_in=burn_in, thin=thin, chains=chains, seed=seed,
        method=method, engine=engine, threads=threads, algorithm=algorithm, start=start, until=until,
        keep="all" if keep == "auto" else keep,
    )  # fmt: skip
    seconds = check_seconds("checkpoint_seconds", checkpoint_seconds)
    watching = Watching.checked(progress, max_seconds)
    if chain is not None:
        chain = _check_chain(chain, settings, seed, store, until)
    if store is not None:
        from countveil.posterior.runs.zarr_store import check_new

        store = check_new(store)
    source = _release_at(data, model, settings, scratch)
    made = make_problem(model, data if source is None else source, settings.method, labels, robust)
    problem = replace(made, source=source)
    settings = resolved(settings, problem)
    if keep == "auto":
        settings = with_room(settings, problem)
    if not problem.is_unread:  # else shards add up what is told
        warn_of_a_prior_that_fights(problem)
        warn_of_pairs_on_the_other_side(problem)
    if store is not None:
        from countveil.posterior.runs.zarr_store import ZarrStore

        numbers = range(settings.chains) if chain is None else [chain]
        new, running = partial(without_draws, problem, settings, numbers), running_means(problem, settings)
        grown = ZarrStore(Path(store), settings, numbers, seconds, new, running=running)
        return run_on_disk(grown, problem, watching)
    return run_in_memory(problem, settings, watching)


def _release_at(data: Any, model: Any, settings: Settings, scratch: Any) -> ReleaseOnDisk | None:
    """The release that is given by its path; unread, if every process reads its own rows."""
    is_path, spread = isinstance(data, str | os.PathLike), settings.engine in ("mpi", "ray")
    if scratch is not None and not is_path:
        raise ValueError(
            f"scratch: expected it beside the path of a release, got it beside {type(data).__name__}; "
            "load_release(path, scratch=...) gives a release that lies there"
        )
    if not is_path or not (spread or scratch is not None):
        return None
    release = ReleaseOnDisk(data, scratch=scratch)
    return release if may_stay_unread(release, model, settings.engine) else release.read()


def _check_chain(chain: Any, settings: Settings, seed: Any, store: Any, until: Any) -> int:
    if until is not None:
        raise ValueError(
            "until: expected none beside chain, got one: how precise a run is shows when all its chains are seen "
            "together; merge them, and extend the run if need be"
        )
    chain = whole_number("chain", chain, 0, settings.chains - 1)
    if store is None:
        raise ValueError("chain: expected store= beside it, the folder of a run that can be merged, got none")
    if seed is None:
        raise ValueError("seed: expected a number beside chain, the same for all chains of a run, got None")
    return chain
