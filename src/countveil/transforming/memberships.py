"""New observations: where do new rows stand among the topics or communities that were found before?"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.cells.layout import Cells, Places
from countveil.counts.inputs.labels import expect_labels
from countveil.counts.inputs.spellings import as_now
from countveil.counts.sources.combine import is_same_release
from countveil.counts.sources.plain_counts import read_counts
from countveil.counts.sources.row_part import part_in_memory
from countveil.inference.new_rows import Choices, NewGroups, NewRows, choices_of, new_row_draws
from countveil.inference.problem import Counts
from countveil.inference.settings import Settings, check_settings
from countveil.models.count_model import whole_number
from countveil.models.groups import NO_GROUP, Groups, read_groups
from countveil.posterior.axes import free_names, readable_labels
from countveil.posterior.diagnostics.modes import warn_of_modes
from countveil.posterior.diagnostics.select import say_selection
from countveil.posterior.diagnostics.summary import check_interval, tails_of
from countveil.posterior.posterior import Posterior
from countveil.posterior.shared import SharedPosterior
from countveil.posterior.states import row_slices
from countveil.transforming.known_columns import KnownColumns, known_columns

_TINY = np.finfo(np.float64).tiny
QUANTITIES = ("mean", "low", "high")
#: What the rows that are taken at once take, roughly, with so much for every listed cell.
BYTES_AT_ONCE, _BYTES_PER_CELL = 1 << 28, 40


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
        For plain counts without labels of their own: labels for each axis of ``data``, any may be None. A table
        keeps those that it has, and others beside them are refused.
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
    task = task_of(
        posterior, data, received, sweeps=sweeps, burn_in=burn_in, seed=seed, threads=threads, labels=labels,
        interval=interval, groups=groups,
    )  # fmt: skip
    shares = {name: np.empty((task.n_rows, task.n_topics)) for name in QUANTITIES}
    for rows, found in task.blocks(progress):
        for name, values in found.items():
            shares[name][rows] = values
    coordinates = {
        task.row: np.arange(task.n_rows) if task.names is None else task.names,
        task.known.dimension: np.arange(task.n_topics),
    }
    arrays = {name: ((task.row, task.known.dimension), values) for name, values in shares.items()}
    return say_selection(posterior.tree, xr.Dataset(arrays, coordinates, {"interval": task.interval}))


class Task(NamedTuple):
    """New rows, all that is known of their columns, and how their chains run."""

    known: KnownColumns
    views: list[NewRows]
    choices: Choices
    groups: NewGroups | None
    settings: Settings
    burn_in: int
    interval: float
    row: str  # the name of the rows' axis
    names: np.ndarray | None  # their labels
    rows_at_once: int

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return self.views[0].data.shape[0]

    @property
    def n_topics(self) -> int:
        """Of how many things they have shares."""
        return self.known.order.shape[1]

    def blocks(
        self, progress: bool, part: tuple[int, int] = (1, 1)
    ) -> Iterator[tuple[slice, dict[str, np.ndarray]]]:
        """The shares of some rows after the others: every row has its own streams, whatever comes with it.

        ``part`` (i, n) takes the i-th of n parts of the rows.
        """
        i, n = part
        begin, end = self.n_rows * (i - 1) // n, self.n_rows * i // n
        starts = range(begin, end, self.rows_at_once)
        with _progress_bar(progress, len(starts) * self.known.sizes[1]) as bar:
            for start in starts:
                rows = slice(start, min(start + self.rows_at_once, end))
                yield rows, self._shares(rows, bar)

    def _shares(self, rows: slice, bar: Callable[[range], Iterable[int]]) -> dict[str, np.ndarray]:
        known, n_draws = self.known, len(self.known.order)
        views = [view._replace(data=part_in_memory(view.data, rows.start, rows.stop)) for view in self.views]
        groups = self.groups and self.groups._replace(of_rows=self.groups.of_rows[rows])
        theta, receiving = new_row_draws(
            known.prior, views, known.sizes, groups=groups, sweeps=self.settings.sweeps, burn_in=self.burn_in,
            seed=self.settings.seed, threads=self.settings.threads, progress=bar,
            choices=self.choices, first_row=rows.start,
            unseen_shape=known.receiving_shape if len(views) == 1 else None,
        )  # fmt: skip
        theta, receiving = theta.reshape(n_draws, *theta.shape[2:]), receiving.reshape(n_draws, -1)
        return _shares(theta, receiving, known, tails_of(self.interval))


def task_of(
    posterior: Posterior,
    data: Any,
    received: Any,
    *,
    sweeps: int,
    burn_in: int,
    seed: int | None,
    threads: int | None,
    labels: Any,
    interval: float,
    groups: Any,
    rows_at_once: int | None = None,
) -> Task:
    """All of it, checked."""
    settings = check_settings(
        sweeps=sweeps, burn_in=0, thin=1, chains=1, seed=seed, method="exact", engine="auto", threads=threads
    )
    burn_in, interval = whole_number("burn_in", burn_in, 0), check_interval(interval)
    if rows_at_once is not None:
        rows_at_once = whole_number("rows_at_once", rows_at_once, 1)
    if isinstance(posterior, SharedPosterior):
        listed = ", ".join(map(repr, posterior))
        raise TypeError(
            "posterior: expected the posterior of one array, got that of several; choose one of its views, such as "
            f"posterior[{next(iter(posterior))!r}] (it has {listed})"
        )
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior: expected a Posterior, got {type(posterior).__name__}")
    warn_of_modes(posterior, "transform", stacklevel=4)
    known = known_columns(posterior)
    views = [NewRows(_read("data", data, posterior, labels), known.phi)]
    if received is not None:
        if known.received is None:
            raise ValueError("received: expected it for a directed CommunityModel alone, got it for another")
        counts = _read("received", received, posterior, None)
        _check_other_table(data, received, views[0].data, counts)
        views.append(NewRows(counts, known.received, known.receiving_shape))
        _check_rows(views)
    first = views[0].data
    names = next(
        (found for found in (readable_labels(v.data.labels)[0] for v in views) if found is not None), None
    )
    choices = choices_of([view.data for view in views], known.order.shape[1])
    return Task(
        known, views, choices, _groups(posterior.model, groups, first), settings, burn_in, interval,
        free_names(first.axes, {known.dimension, *QUANTITIES})[0], names,
        _rows_in_a_block(views, known) if rows_at_once is None else rows_at_once,
    )  # fmt: skip


def _rows_in_a_block(views: Sequence[NewRows], known: KnownColumns) -> int:
    """As many as take about BYTES_AT_ONCE: their draws, and some lists of their cells."""
    n_rows = views[0].data.shape[0]
    n_cells = sum(int(one.row_starts[-1]) for view in views for one in _lists(view.data))
    each = 4 * known.order.size + 200 * known.order.shape[1] + _BYTES_PER_CELL * n_cells / n_rows
    return max(1, int(BYTES_AT_ONCE / each))


def _lists(data: Counts) -> list[Cells | Places]:
    parts = data.releases if isinstance(data, CombinedReleases) else (data,)
    return [one for part in parts for one in (part.positive, part.missing) if one is not None]


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
        places = {as_now(name): place for place, name in enumerate(fitted.names)}
        for code, name in enumerate(new.names):
            place = fitted.names.index(name) if name in fitted.names else places.get(as_now(name))
            if place is None:
                known = ", ".join(map(repr, fitted.names[:10]))
                raise ValueError(f"groups: expected groups that were fitted ({known}), got {name!r}")
            codes[new.codes == code] = place
    return NewGroups(codes, sizes)


def _read(name: str, data: Any, posterior: Posterior, labels: Any) -> Counts:
    counts = read_counts(data, labels, name)
    _check_columns(posterior, counts, name)
    _warn_of_noise(posterior, counts, name)
    return posterior._as_fitted(counts)


def _warn_of_noise(posterior: Posterior, data: Counts, name: str) -> None:
    """Where a fit found out how much noise there is, what new rows declare may have been as good a guess."""
    rho = posterior._rho_of_draws
    if rho is None or not isinstance(data, PrivateCounts):
        return
    alpha, found = np.exp(-data.rho), np.exp(-rho)
    low, high = float(found.min()), float(found.max())
    if np.any((alpha > 0) & ((alpha < low) | (alpha > high))):
        warnings.warn(
            f"{name}: its noise is taken to be as declared, alpha={float(np.max(alpha)):.3g}. The fit inferred its "
            f"own, and found {low:.3g} to {high:.3g}: new rows from the same source are to declare that, "
            f"cv.PrivateCounts(values, alpha={float(found.mean()):.3g})",
            stacklevel=5,
        )


def _shares(
    theta: np.ndarray, receiving: np.ndarray, known: KnownColumns, tails: tuple[float, float]
) -> dict[str, np.ndarray]:
    """Shares in every row's expected counts: theta_dl w_l, over their sum, in one order."""
    n_draws, n_rows, n_topics = theta.shape
    found = {name: np.empty((n_rows, n_topics)) for name in QUANTITIES}
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
        message = f"{name}: expected the labels of the {what} that were fitted"
        expect_labels(before, readable_labels(data.labels)[axis], message)


def _check_other_table(data: Any, received: Any, sent: Counts, back: Counts) -> None:
    """One table given twice would count as twice the evidence, and as mail that nobody sent."""
    twice = data is received
    if isinstance(sent, PrivateCounts) and isinstance(back, PrivateCounts):
        twice = twice or is_same_release(sent, back)
    if twice:
        raise ValueError(
            "received: expected another table than data: what the new actors received from known ones, not what "
            "they sent, got the same one twice; leave it out if it is not known"
        )


def _check_rows(views: Sequence[NewRows]) -> None:
    """What is sent and what is received must be of the same new actors."""
    sent, received = (view.data for view in views)
    if sent.shape[0] != received.shape[0]:
        raise ValueError(
            f"received: expected the {sent.shape[0]} rows of data, new actors by known ones, "
            f"got {received.shape[0]}"
        )
    before, now = (readable_labels(view.data.labels)[0] for view in views)
    expect_labels(before, now, "received: expected the labels of the rows of data")


@contextmanager
def _progress_bar(show: bool, n_steps: int) -> Iterator[Callable[[range], Iterable[int]]]:
    """What wraps the range of draws, of all blocks of rows one after the other, to show how far it is."""
    if not show:
        yield iter
        return
    from tqdm.auto import tqdm

    # To standard error. A terminal gets a moving line; a log file a line every half minute at most.
    often = 0.2 if sys.stderr.isatty() else 30.0
    with tqdm(total=n_steps, unit=" draws", desc="transform", dynamic_ncols=True, mininterval=often) as bar:

        def told(steps: range) -> Iterator[int]:
            for step in steps:
                yield step
                bar.update()

        yield told
