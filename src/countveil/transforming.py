"""New observations: where do new rows stand among topics that were found before?"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from countveil.counts import PrivateCounts
from countveil.fitting import _progress
from countveil.inference.new_rows import membership_draws
from countveil.inference.plain_counts import PlainCounts, read_plain_counts
from countveil.inference.settings import check_settings
from countveil.models.parameters import whole_number
from countveil.posterior.axis_names import free_names
from countveil.posterior.interval import check_interval, tails_of
from countveil.posterior.kept_states import blocks_of
from countveil.posterior.posterior import Posterior
from countveil.posterior.readable_labels import readable_labels

_TINY = np.finfo(np.float64).tiny


def transform(
    posterior: Posterior,
    data: Any,
    *,
    sweeps: int = 20,
    burn_in: int = 100,
    seed: int | None = None,
    threads: int | None = None,
    progress: bool = True,
    labels: Any = None,
    interval: float = 0.9,
) -> xr.Dataset:
    """Memberships of new rows in the topics of a fit, with uncertainty; the topics stay at their draws.

    For every kept draw of the topics phi a short chain runs over the new rows' theta alone (their true counts
    drawn as in a fit), ``theta_dk | tokens ~ Gamma(shape + tokens_dk, rate + sum_v observed_dv phi_kv)``, and
    its last state is kept. The new rows do not change the topics, and do not influence each other.

    Parameters
    ----------
    posterior
        Of a ``TopicModel``.
    data
        New rows over the same columns: a ``PrivateCounts`` release, with whatever noise it has, or plain
        counts. Cells may be missing; a row without any observed cell gets the prior.
    sweeps, burn_in
        Sweeps for every draw of the topics, and how many more before the first of each chain. The chain goes
        on from draw to draw. Much noise (alpha near 1) asks for more sweeps.
    seed, threads, progress
        As in ``fit``.
    labels
        For plain counts without labels of their own: (row labels, column labels), either may be None.
    interval
        The share of the draws that ``low`` and ``high`` enclose.

    Returns
    -------
    A Dataset like ``posterior.memberships()``: each new row's shares of the topics (``mean``, ``low``,
    ``high``), the topics in the order of ``posterior.topics()``.

    Examples
    --------
    >>> import countveil as cv
    >>> from countveil.transforming import transform
    >>> counts = [[90, 60, 0, 0], [80, 70, 0, 0], [0, 0, 90, 10]]
    >>> posterior = cv.fit(cv.TopicModel(2), counts, sweeps=400, seed=1, progress=False)
    >>> new = cv.PrivateCounts([[-1, 2, 60, 8], [50, 41, 1, 0]], alpha=0.4, labels=(["c", "d"], None))
    >>> shares = transform(posterior, new, seed=1, progress=False)
    >>> shares["mean"].round(1).to_numpy()
    array([[0., 1.],
           [1., 0.]])
    >>> shares["row"].to_numpy()
    array(['c', 'd'], dtype=object)
    """
    settings = check_settings(
        sweeps=sweeps, burn_in=0, thin=1, chains=1, seed=seed, method="exact", engine="auto", threads=threads
    )
    burn_in, interval = whole_number("burn_in", burn_in, 0), check_interval(interval)
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior: expected a Posterior, got {type(posterior).__name__}")
    order = posterior._aligned("transform").alignment.order
    if not isinstance(data, PrivateCounts):
        data = read_plain_counts(data, labels)
    elif labels is not None:
        raise ValueError("labels: expected None for a release, which has its own, got labels")
    _check_columns(posterior, data)
    group = posterior.tree["posterior"]
    phi = group["phi"].to_numpy()
    theta = membership_draws(
        posterior.model, data, phi,
        sweeps=settings.sweeps, burn_in=burn_in, seed=settings.seed, threads=settings.threads,
        progress=_progress(progress),
    )  # fmt: skip
    n_draws = len(order)
    shares = _shares(
        theta.reshape(n_draws, *theta.shape[2:]),
        phi.reshape(n_draws, *phi.shape[2:]).sum(axis=2, dtype=np.float64),
        order,
        tails_of(interval),
    )
    names = readable_labels(data.labels)[0]
    row = free_names(data.axes, {"topic", *shares})[0]
    coordinates = {
        row: np.arange(data.shape[0]) if names is None else names,
        "topic": np.arange(order.shape[1]),
    }
    arrays = {name: ((row, "topic"), values) for name, values in shares.items()}
    return xr.Dataset(arrays, coordinates, {"interval": interval})


def _shares(
    theta: np.ndarray, phi_sums: np.ndarray, order: np.ndarray, tails: tuple[float, float]
) -> dict[str, np.ndarray]:
    """Shares of the topics in every row's expected counts: theta_dk Phi_k, over their sum, in one order."""
    n_draws, n_rows, n_topics = theta.shape
    found = {name: np.empty((n_rows, n_topics)) for name in ("mean", "low", "high")}
    for block in blocks_of(n_rows, n_draws * n_topics):
        share = theta[:, block] * phi_sums[:, None, :]
        share /= np.maximum(share.sum(axis=2, keepdims=True), _TINY)
        share = np.take_along_axis(share, order[:, None, :], axis=2)
        found["mean"][block] = share.mean(axis=0)
        found["low"][block], found["high"][block] = np.quantile(share, tails, axis=0)
    return found


def _check_columns(posterior: Posterior, data: PrivateCounts | PlainCounts) -> None:
    """New rows must speak of the same columns, in the same order."""
    if len(data.shape) != 2:
        raise ValueError(f"data: expected a matrix, got {len(data.shape)} axes")
    if data.shape[1] != posterior._shape[1]:
        raise ValueError(
            f"data: expected the {posterior._shape[1]} columns that were fitted, got {data.shape[1]}"
        )
    before, now = posterior._labels[1], readable_labels(data.labels)[1]
    if before is None or now is None or np.array_equal(before, now):
        return
    if set(before) == set(now):
        raise ValueError(
            "data: expected the columns in the order in which they were fitted, got another order"
        )
    place = int(np.flatnonzero(before != now)[0])
    raise ValueError(
        f"data: expected the labels of the columns that were fitted, got {now[place]!r} in place of "
        f"{before[place]!r} (column {place})"
    )
