"""New observations: where do new rows stand among the topics or communities that were found before?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from countveil.counts.plain_counts import read_counts
from countveil.inference.new_rows import NewGroups, NewRows, new_row_draws
from countveil.inference.problem import Counts
from countveil.inference.settings import check_settings
from countveil.models.count_model import whole_number
from countveil.models.groups import NO_GROUP, Groups, read_groups
from countveil.posterior.axes import free_names, readable_labels
from countveil.posterior.known_columns import KnownColumns, known_columns
from countveil.posterior.modes import warn_of_modes
from countveil.posterior.posterior import Posterior
from countveil.posterior.shared import SharedPosterior
from countveil.posterior.states import row_slices
from countveil.posterior.summary import check_interval, tails_of

_TINY = np.finfo(np.float64).tiny


def transform(
    posterior: Posterior,
    data: Any,
    received: Any = None,
    *,
    sweeps: int = 20,
    burn_in: int = 100,
    seed: int | None = None,
    threads: int | None = None,
    progress: bool = True,
    labels: Any = None,
    interval: float = 0.9,
    groups: Any = None,
) -> xr.Dataset:
    """Memberships of new rows in the topics (communities, components) of a fit, with uncertainty.

    Any model whose first axis has a factor theta of its own has rates ``sum_l theta_dl phi_lv``. For every kept
    draw of the other factors, and so of phi, a short chain runs over the new rows' theta alone (their true counts
    drawn as in a fit), ``theta_dl | tokens ~ Gamma(shape + tokens_dl, rate + sum_v observed_dv phi_lv)``, and its
    last state is kept. The new rows do not change phi, and do not influence each other.

    Parameters
    ----------
    posterior
        Of a ``TopicModel``, a ``CommunityModel``, a ``TensorModel``, or a ``Factorization`` whose first axis has
        a factor of its own; of a ``SharedFactors`` one of its views.
    data
        New rows over the same columns (of a tensor: the same further axes): a release, with whatever noise it
        has, or plain counts. Cells may be missing; a row without any observed cell gets the prior. Of a
        network: new actors by known ones, what each new actor sent to each known one.
    received
        Of a directed network: also new actors by known ones, what each new actor received from each known
        one. The rows are those of ``data``; the noise is its own.
    sweeps, burn_in
        Sweeps for every draw, and how many more before the first of each chain. The chain goes on from draw to
        draw. Much noise (alpha near 1) asks for more sweeps.
    seed, threads, progress
        As in ``fit``.
    labels
        For plain counts without labels of their own: labels for each axis of ``data``, any may be None.
    interval
        The share of the draws that ``low`` and ``high`` enclose.
    groups
        Of a ``TopicModel`` with groups: those of the new rows, in any form that the model takes. A row without one
        (None) may be of any group, as often as the rows that were fitted; if some of these had none, it is like
        them. A group without fitted rows is an error.

    Returns
    -------
    A Dataset like ``posterior.memberships()``: each new row's shares of the topics (``mean``, ``low``,
    ``high``), in the order of ``posterior.topics()``; of communities, as ``posterior.blocks()`` has them; of a
    tensor, of the components of its first axis as in ``posterior.components()``. For a factorization without them
    they are shares of the expected counts by the summed index of the first factor, the largest first.

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

    New actors in a network of two groups, by what they sent and what they received:

    >>> group = [0, 0, 0, 1, 1, 1]
    >>> mails = [[0 if i == j else 20 * (group[i] == group[j]) for j in range(6)] for i in range(6)]
    >>> network = cv.fit(cv.CommunityModel(2), mails, sweeps=400, seed=1, progress=False)
    >>> new = transform(network, [[9, 8, 9, 0, 1, 0]], [[7, 9, 8, 0, 0, 0]], seed=1, progress=False)
    >>> bool(abs(new["mean"][0] - network.memberships([0])["mean"][0]).max() < 0.1)
    True
    """
    settings = check_settings(
        sweeps=sweeps, burn_in=0, thin=1, chains=1, seed=seed, method="exact", engine="auto", threads=threads
    )
    burn_in, interval = whole_number("burn_in", burn_in, 0), check_interval(interval)
    if isinstance(posterior, SharedPosterior):
        listed = ", ".join(map(repr, posterior))
        raise TypeError(
            "posterior: expected the posterior of one array, got that of several; choose one of its views, such as "
            f"posterior[{next(iter(posterior))!r}] (it has {listed})"
        )
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior: expected a Posterior, got {type(posterior).__name__}")
    warn_of_modes(posterior, "transform")
    known = known_columns(posterior)
    views = [NewRows(_read("data", data, posterior, labels), known.phi)]
    if received is not None:
        if known.received is None:
            raise ValueError("received: expected it for a directed CommunityModel alone, got it for another")
        counts = _read("received", received, posterior, None)
        views.append(NewRows(counts, known.received, known.receiving_shape))
        _check_rows(views)
    theta, receiving = new_row_draws(
        known.prior, views, known.sizes, groups=_groups(posterior.model, groups, views[0].data),
        sweeps=settings.sweeps, burn_in=burn_in, seed=settings.seed, threads=settings.threads,
        progress=_progress_bar(progress),
    )  # fmt: skip
    n_draws = len(known.order)
    shares = _shares(
        theta.reshape(n_draws, *theta.shape[2:]), receiving.reshape(n_draws, -1), known, tails_of(interval)
    )
    first = views[0].data
    names = next(
        (found for found in (readable_labels(v.data.labels)[0] for v in views) if found is not None), None
    )
    row = free_names(first.axes, {known.dimension, *shares})[0]
    coordinates = {
        row: np.arange(first.shape[0]) if names is None else names,
        known.dimension: np.arange(known.order.shape[1]),
    }
    arrays = {name: ((row, known.dimension), values) for name, values in shares.items()}
    return xr.Dataset(arrays, coordinates, {"interval": interval})


def _groups(model: Any, given: Any, data: Counts) -> NewGroups | None:
    """The groups of new rows, in the numbers of those that were fitted."""
    fitted: Groups | None = getattr(model, "groups", None)
    if fitted is None:
        if given is not None:
            raise ValueError("groups: expected None for a fit without groups, got some")
        return None
    sizes = np.array([len(rows) for rows in fitted.members], dtype=np.float64)
    none = len(fitted.names) if NO_GROUP in fitted.labels[len(fitted.names) :] else -1
    codes = np.full(data.shape[0], none, dtype=np.int64)
    if given is not None:
        new = read_groups(given, some=False)
        assert new is not None
        new = new.for_rows(data.shape[0], readable_labels(data.labels)[0], some=False)
        for code, name in enumerate(new.names):
            if name not in fitted.names:
                known = ", ".join(map(repr, fitted.names[:10]))
                raise ValueError(f"groups: expected groups that were fitted ({known}), got {name!r}")
            codes[new.codes == code] = fitted.names.index(name)
    return NewGroups(codes, sizes)


def _read(name: str, data: Any, posterior: Posterior, labels: Any) -> Counts:
    counts = read_counts(data, labels, name)
    _check_columns(posterior, counts, name)
    return posterior._as_fitted(counts)


def _shares(
    theta: np.ndarray, receiving: np.ndarray, known: KnownColumns, tails: tuple[float, float]
) -> dict[str, np.ndarray]:
    """Shares in every row's expected counts: theta_dl w_l, over their sum, in one order."""
    n_draws, n_rows, n_topics = theta.shape
    found = {name: np.empty((n_rows, n_topics)) for name in ("mean", "low", "high")}
    for block in row_slices(n_rows, n_draws * n_topics):
        weights = known.weights[:, None, :] + receiving[:, block, None] * known.received_weights[:, None, :]
        share = theta[:, block] * weights
        share /= np.maximum(share.sum(axis=2, keepdims=True), _TINY)
        share = np.take_along_axis(share, known.order[:, None, :], axis=2)
        found["mean"][block] = share.mean(axis=0)
        found["low"][block], found["high"][block] = np.quantile(share, tails, axis=0)
    return found


def _check_columns(posterior: Posterior, data: Counts, name: str) -> None:
    """New rows must speak of the same columns, in the same order."""
    shape = posterior._shape
    if len(data.shape) != len(shape):
        expected = "a matrix" if len(shape) == 2 else f"{len(shape)} axes"
        raise ValueError(f"{name}: expected {expected}, got {len(data.shape)} axes")
    for axis in range(1, len(shape)):
        what = "columns" if len(shape) == 2 else f"places along axis {axis}"
        if data.shape[axis] != shape[axis]:
            raise ValueError(
                f"{name}: expected the {shape[axis]} {what} that were fitted, got {data.shape[axis]}"
            )
        # The columns of ``received`` are known senders.
        before = posterior._labels[0 if name == "received" else axis]
        _check_labels(before, readable_labels(data.labels)[axis], name, what)


def _check_rows(views: Sequence[NewRows]) -> None:
    """What is sent and what is received must be of the same new actors."""
    sent, received = (view.data for view in views)
    if sent.shape[0] != received.shape[0]:
        raise ValueError(
            f"received: expected the {sent.shape[0]} rows of data, new actors by known ones, "
            f"got {received.shape[0]}"
        )
    before, now = (readable_labels(view.data.labels)[0] for view in views)
    _check_labels(before, now, "received", "rows")


def _check_labels(before: np.ndarray | None, now: np.ndarray | None, name: str, what: str) -> None:
    if before is None or now is None or np.array_equal(before, now):
        return
    fitted = "" if what == "rows" else " that were fitted"
    if set(before) == set(now):
        order = "of data" if what == "rows" else "in which they were fitted"
        raise ValueError(f"{name}: expected the {what} in the order {order}, got another order")
    place = int(np.flatnonzero(before != now)[0])
    single = what.split()[0].rstrip("s")
    raise ValueError(
        f"{name}: expected the labels of the {what}{fitted}, got {now[place]!r} in place of {before[place]!r} "
        f"({single} {place})"
    )


def _progress_bar(show: bool) -> Callable[[range], Iterable[int]]:
    """What wraps the range of draws to show how far it is."""
    if not show:
        return iter
    from tqdm.auto import tqdm

    # To standard error. A terminal gets a moving line; a log file a line every half minute at most.
    often = 0.2 if sys.stderr.isatty() else 30.0
    return lambda steps: tqdm(steps, unit=" draws", desc="transform", dynamic_ncols=True, mininterval=often)
