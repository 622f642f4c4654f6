"""The front door: ``fit`` joins inference and posterior."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from countveil.counts import PrivateCounts
from countveil.inference.chains import run_chains
from countveil.inference.engines import cpu
from countveil.inference.plain_counts import read_plain_counts
from countveil.inference.robust import as_if_released
from countveil.inference.settings import check_settings
from countveil.inference.unknown_noise import at_alpha, without_alpha
from countveil.kernels.compiled import is_cold
from countveil.models import CountModel
from countveil.models.unknown_noise import UnknownNoise
from countveil.posterior.posterior import Posterior
from countveil.posterior.tree import make_tree


def fit(
    model: CountModel,
    data: Any,
    *,
    sweeps: int = 1000,
    burn_in: int | None = None,
    thin: int = 5,
    chains: int = 2,
    seed: int | None = None,
    method: str = "exact",
    engine: str = "auto",
    threads: int | None = None,
    progress: bool = True,
    labels: Any = None,
    robust: float | None = None,
) -> Posterior:
    """Draw from the posterior of ``model`` given released counts, or given plain ones.

    Parameters
    ----------
    model
        A ``TopicModel``, or a model of your own (see ``CountModel``).
    data
        A ``PrivateCounts`` release; or plain counts (numpy, nested lists, scipy.sparse, DataFrame; a numpy
        masked array has missing cells), which gives ordinary, non-private factorization.
    sweeps, burn_in, thin, chains
        Sweeps include burn-in (half of them by default); every chain keeps ``(sweeps - burn_in) // thin`` draws.
    seed
        The same seed gives the same draws, whatever the number of threads. None takes a fresh one, which
        ``posterior.tree.attrs["settings"]`` records.
    method
        ``"exact"`` draws the true counts from their exact conditional. ``"bessel"`` is the paper's sampler, for
        comparison. ``"naive"`` takes clamped noisy counts for true ones, and is biased.
    engine
        ``"auto"``, or ``"cells"`` for the reference that visits every cell.
    threads
        All cores by default.
    progress
        Show sweeps per second and time left.
    labels
        For plain counts without labels of their own: (row labels, column labels), either may be None.
    robust
        For plain counts: fit them as if they had been released with noise of this alpha, in (0, 1), so that
        single odd counts weigh less. See docs/unknown_noise.md for what that assumes.

    Ctrl-C ends a fit early and returns the draws kept until then.

    Examples
    --------
    >>> import countveil as cv
    >>> release = cv.simulate_release([[9, 0], [0, 8]], epsilon=1, seed=0)
    >>> cv.fit(cv.TopicModel(n_topics=2), release, sweeps=40, thin=2, seed=1, progress=False)
    Posterior(TopicModel(n_topics=2, shape=0.1, rate=1.0), 2 x 2, 2 chains x 10 draws)
    """
    settings = check_settings(
        sweeps=sweeps, burn_in=burn_in, thin=thin, chains=chains, seed=seed,
        method=method, engine=engine, threads=threads,
    )  # fmt: skip
    if not isinstance(model, CountModel):
        raise TypeError(
            f"model: expected a model such as TopicModel(n_topics=10), got {type(model).__name__}"
        )
    if not isinstance(data, PrivateCounts):
        data = read_plain_counts(data, labels)
    elif labels is not None:
        raise ValueError("labels: expected None for a release, which has its own, got labels")
    seen = data if robust is None else as_if_released(data, robust)
    if progress and is_cold(Path(cpu.__file__).parent):
        print("countveil: compiling for this machine, once; about a minute", file=sys.stderr, flush=True)
    draws = run_chains(model, seen, settings, _progress(progress))
    if draws.interrupted:
        kept = len(next(iter(draws.monitored.values()))[0])
        warnings.warn(f"interrupted: {kept} of {settings.kept} draws per chain were kept", stacklevel=2)
    guarantee = str(data.guarantee) if isinstance(data, PrivateCounts) and data.guarantee else None
    if isinstance(model, UnknownNoise):
        alpha = draws.monitored["alpha"]
        model, draws, data = model.model, without_alpha(draws), at_alpha(data, float(alpha.mean()))
    tree = make_tree(draws, model, data.axes, data.shape, data.labels, guarantee)
    if "alpha" in draws.monitored:
        tree["posterior"]["alpha"] = tree["sample_stats"]["alpha"]
    if robust is not None:
        tree["posterior"].attrs["robust"] = float(robust)
    return Posterior(tree, model, draws.state_type, data, data.axes, data.shape, data.labels, settings.seed)


def _progress(show: bool) -> Callable[[range], Iterable[int]]:
    if not show:
        return iter
    from tqdm.auto import tqdm

    # To standard error. A terminal gets a moving line; a log file a line every half minute at most.
    often = 0.2 if sys.stderr.isatty() else 30.0
    return lambda sweeps: tqdm(sweeps, unit=" sweeps", desc="fit", dynamic_ncols=True, mininterval=often)
