"""The front door: ``fit`` joins inference and posterior."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from countveil.counts import PrivateCounts
from countveil.counts.plain_counts import PlainCounts
from countveil.inference.chains import run_chains
from countveil.inference.engines import cpu
from countveil.inference.problem import Problem, at_alpha, make_problem
from countveil.inference.settings import Settings, check_settings
from countveil.inference.store import Draws
from countveil.models import CountModel
from countveil.models.einsum.model import EinsumModel
from countveil.models.shared_factors import SharedFactors
from countveil.models.unknown_noise import UnknownNoise
from countveil.runtime.compiled import is_cold

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
    engine: str = ...,
    algorithm: str = ...,
    threads: int | None = ...,
    progress: bool = ...,
    labels: Any = ...,
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
    engine: str = ...,
    algorithm: str = ...,
    threads: int | None = ...,
    progress: bool = ...,
    labels: Any = ...,
    robust: float | None = ...,
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
    engine: str = "auto",
    algorithm: str = "auto",
    threads: int | None = None,
    progress: bool = True,
    labels: Any = None,
    robust: float | None = None,
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
        ``SharedFactors`` a mapping from its views to such data; the result is a ``SharedPosterior``.
    sweeps, burn_in, thin, chains
        Sweeps include burn-in (half of them by default); every chain keeps ``(sweeps - burn_in) // thin`` draws.
    seed
        The same seed gives the same draws, whatever the number of threads. None takes a fresh one, which
        ``posterior.tree.attrs["settings"]`` records.
    method
        ``"exact"`` draws the true counts from their exact conditional. ``"bessel"`` is the paper's sampler, for
        comparison. ``"naive"`` takes clamped noisy counts for true ones, and is biased.
    engine
        The hardware: ``"auto"`` or ``"cpu"``.
    algorithm
        ``"auto"`` takes the fastest. For the curious: ``"tokens"``, ``"integrated"``, ``"fibers"``, or ``"cells"``,
        the reference that visits every cell. All are exact.
    threads
        All cores by default.
    progress
        Show sweeps per second and time left.
    labels
        For plain counts without labels of their own: (row labels, column labels), either may be None. For
        ``SharedFactors`` a mapping from views to such.
    robust
        For plain counts: fit them as if they had been released with noise of this alpha, in (0, 1), so that
        single odd counts weigh less. See docs/unknown_noise.md for what that assumes.

    Ctrl-C ends a fit early and returns the draws kept until then.

    Examples
    --------
    >>> import countveil as cv
    >>> release = cv.simulate_release([[9, 0], [0, 8]], epsilon=1, seed=0)
    >>> cv.fit(cv.TopicModel(n_topics=2), release, sweeps=40, thin=2, seed=1, progress=False)
    Posterior(TopicModel(n_topics=2, shape=0.1, rate=None), 2 x 2, 2 chains x 10 draws)
    """
    settings = check_settings(
        sweeps=sweeps, burn_in=burn_in, thin=thin, chains=chains, seed=seed,
        method=method, engine=engine, threads=threads, algorithm=algorithm,
    )  # fmt: skip
    problem = make_problem(model, data, settings.method, labels, robust)
    _warn_of_a_prior_that_fights(problem)
    draws = _run(problem, settings, progress)
    # What reads the draws (xarray, pandas: 50 MB) is imported when there are draws, after the memory of the sweeps
    # has been given back.
    if isinstance(problem.model, SharedFactors):
        from countveil.posterior.shared import facts_of, shared_posterior

        facts = {name: facts_of(view.given) for name, view in problem.views.items()}
        return shared_posterior(draws, problem.model, facts)
    from countveil.posterior.posterior import Posterior
    from countveil.posterior.runs.schema import make_tree

    given = problem.views[""].given
    promised = None if isinstance(given, PlainCounts) else given.guarantee
    guarantee = None if promised is None else str(promised)
    if problem.alpha is not None:
        assert isinstance(given, PrivateCounts)
        given = at_alpha(given, float(draws.monitored["alpha"].mean()))
    tree = make_tree(draws, problem.model, given.axes, given.shape, given.labels, guarantee)
    if problem.alpha is not None:
        tree["posterior"]["alpha"] = tree["sample_stats"]["alpha"]
    if robust is not None:
        tree["posterior"].attrs["robust"] = float(robust)
    return Posterior(
        tree, problem.model, draws.state_type, given, given.axes, given.shape, given.labels, settings.seed
    )


def _warn_of_a_prior_that_fights(problem: Problem) -> None:
    """Say so where a fixed prior is sure of a total that is far from the one that the release tells."""
    for view in problem.views.values():
        expected = view.model.prior_total(view.data.shape) if isinstance(view.model, EinsumModel) else None
        if expected is None or not isinstance(view.data, PrivateCounts):
            continue
        prior, spread = expected
        told = view.data.total()
        sd = math.sqrt(view.data.n_observed * float(np.mean(0.5 / np.sinh(0.5 * view.data.rho) ** 2)))
        apart = abs(math.log(prior / max(told, sd, 1.0)))
        if apart > max(math.log(4.0), 5.0 * spread) and abs(prior - told) > 10.0 * sd:
            warnings.warn(
                f"prior: shape and rate expect about {prior:.3g} counts in all, the release tells of {told:.3g} "
                f"+- {sd:.2g}. Where noise is strong such a prior wins over the data. Leave rate out, and the "
                "scales of rows, columns and components are inferred (docs/priors.md)",
                stacklevel=3,
            )


def _run(problem: Problem, settings: Settings, progress: bool) -> Draws:
    """The chains, with a word to the user where they take longer or end earlier than expected."""
    if progress and is_cold(Path(cpu.__file__).parent):
        print("countveil: compiling for this machine, once; about a minute", file=sys.stderr, flush=True)
    draws = run_chains(problem, settings, progress_bar("fit", " sweeps", progress))
    if draws.interrupted:
        kept = len(next(iter(draws.monitored.values()))[0])
        warnings.warn(f"interrupted: {kept} of {settings.kept} draws per chain were kept", stacklevel=3)
    return draws


def progress_bar(name: str, unit: str, show: bool) -> Callable[[range], Iterable[int]]:
    """What wraps a range to show how far it is."""
    if not show:
        return iter
    from tqdm.auto import tqdm

    # To standard error. A terminal gets a moving line; a log file a line every half minute at most.
    often = 0.2 if sys.stderr.isatty() else 30.0
    return lambda steps: tqdm(steps, unit=unit, desc=name, dynamic_ncols=True, mininterval=often)
