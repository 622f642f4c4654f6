"""Released, estimated and true counts side by side: red is positive, blue negative."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import SymLogNorm
from scipy import sparse

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.cells.layout import Cells
from countveil.counts.foreign import refuse_labels
from countveil.counts.sources.plain_counts import PlainCounts
from countveil.models.count_model import whole_number
from countveil.posterior import Posterior
from countveil.posterior.align import aligned_as
from countveil.posterior.axes import as_chosen, positions
from countveil.report.canvas import LARGE, SMALL, USUAL, axes_for, named, titled


def plot_matrices(
    posterior: Posterior,
    ax: Axes | None = None,
    *,
    truth: Any = None,
    rows: Any = None,
    columns: Any = None,
    n_cells: int = 200,
) -> Axes:
    """The release, the mean rates, and the ``truth`` if it is known, side by side on one scale of colours.

    Red is positive and blue negative (a release has negative cells if it was made with ``keep_negative=True``);
    white is 0, grey what is missing. Steps of colour are logarithmic beyond 1. Of more than ``n_cells`` rows or
    columns those with the largest released totals are shown. Rows and columns are sorted by their largest topic or
    community, in the order of the data within it; ``rows`` and ``columns`` that are given stay in that order.

    ``truth`` is an array of all true counts or rates, as where the release was simulated. The panels are
    ``ax.child_axes``, named "released", "estimated", "true".

    Examples
    --------
    >>> import countveil as cv
    >>> counts = [[9, 7, 0, 0], [8, 9, 1, 0], [0, 0, 7, 9]]
    >>> release = cv.simulate_release(counts, epsilon=2, seed=1)
    >>> posterior = cv.fit(cv.TopicModel(2), release, sweeps=100, seed=1, progress=False)
    >>> ax = cv.report.plot_matrices(posterior, truth=counts)
    >>> [panel.get_title() for panel in ax.child_axes[:3]]
    ['released', 'estimated', 'true']
    """
    shape, kinds = posterior._shape, aligned_as(posterior.model)
    if len(shape) != 2:
        raise TypeError(f"plot_matrices: expected the posterior of a matrix, got one of {len(shape)} axes")
    n_cells = whole_number("n_cells", n_cells, 1)
    if truth is not None:
        refuse_labels(truth, "truth")
        truth = np.asarray(truth, dtype=np.float64)
        if truth.shape != shape:
            raise ValueError(f"truth: expected an array of shape {shape}, got {truth.shape}")
    places = _chosen(posterior, rows, columns, n_cells)
    name, data = _data_of(posterior)
    shown = {} if data is None else {name: _cells(data, places)}
    shown["estimated"] = posterior.rates(*map(as_chosen, places, posterior._labels)).to_numpy()
    if truth is not None:
        shown["true"] = truth[np.ix_(*places)]
    height, width = (len(one) for one in places)
    each = 3.4
    tall = float(np.clip(0.87 * each * height / width, 1.2, 7.0))
    ax = axes_for(ax, 0.3 + each * len(shown), 0.9 + tall)
    ax.set_axis_off()
    finite = np.concatenate([one[np.isfinite(one)].reshape(-1) for one in shown.values()])
    # A single huge count would leave all others pale.
    most = max(float(np.quantile(np.abs(finite), 0.999)) if len(finite) else 0.0, 1.0)
    norm = SymLogNorm(linthresh=1.0, vmin=-most, vmax=most)
    step, gap = 0.91 / len(shown), 0.02
    for place, (name, values) in enumerate(shown.items()):
        panel = ax.inset_axes((place * step, 0.0, step - gap, 1.0))
        panel.set_facecolor("#bbbbbb")
        image = panel.imshow(values, cmap="RdBu_r", norm=norm, aspect="auto", interpolation="nearest")
        panel.set_title(name, fontsize=USUAL + 0.5)
        panel.set_xticks([])
        panel.set_yticks([])
        named(panel, posterior._axes[1], posterior._axes[0] if place == 0 else "")
    bar = ax.inset_axes((0.93, 0.1, 0.02, 0.8))
    steps = np.outer(10.0 ** np.arange(0, 12), [1, 2, 5] if most < 100 else [1]).reshape(-1)
    steps = steps[steps <= most]
    has_negative = bool((finite < 0).any())
    ax.figure.colorbar(
        image,
        cax=bar,
        extend="both" if has_negative else "max",
        ticks=[*-steps[::-1], 0.0, *steps],
        format="%g",
    )
    if not has_negative:
        bar.set_ylim(0.0, most)
    bar.tick_params(labelsize=SMALL)
    bar.set_title("counts", fontsize=SMALL)
    told = ["Red is positive, blue negative" if has_negative else "Counts and expected counts"]
    if (height, width) != shape:
        told.append(f"{height:,} of {shape[0]:,} rows, {width:,} of {shape[1]:,} columns")
    if rows is None and columns is None and {"communities", "topics"} & set(kinds):
        told.append("sorted by their largest " + ("community" if "communities" in kinds else "topic"))
    titled(ax, "; ".join(told), posterior, pad=LARGE + 9)
    return ax


def _chosen(posterior: Posterior, rows: Any, columns: Any, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Places along both axes: as asked for, or the heaviest, sorted by their groups."""
    found = []
    for axis, (name, wanted) in enumerate((("rows", rows), ("columns", columns))):
        length = posterior._shape[axis]
        if wanted is not None:
            found.append(positions(name, wanted, posterior._labels[axis], length))
            continue
        places = np.arange(length)
        if length > most:
            totals = _totals(posterior, axis)
            if "communities" in aligned_as(posterior.model):
                totals = totals + _totals(posterior, 1 - axis)  # the same actors on both sides
            places = np.sort(np.argsort(-totals, kind="stable")[:most])
        groups = _groups(posterior, axis, places)
        found.append(places if groups is None else places[np.argsort(groups, kind="stable")])
    return found[0], found[1]


def _groups(posterior: Posterior, axis: int, places: np.ndarray) -> np.ndarray | None:
    """The largest topic or community of these rows or columns; None where there are none."""
    kinds = aligned_as(posterior.model)
    if "communities" in kinds or ("topics" in kinds and axis == 0):
        return (
            posterior.memberships(as_chosen(places, posterior._labels[0]))["mean"].to_numpy().argmax(axis=1)
        )
    if "topics" not in kinds:
        return None
    topics = posterior.topics(1)
    return (topics.weights["mean"].to_numpy()[:, places] * topics.prevalence[:, None]).argmax(axis=0)


def _totals(posterior: Posterior, axis: int) -> np.ndarray:
    """Totals of the released rows or columns; zeros where the data are not at hand: the first ones are shown."""
    data, length = _data_of(posterior)[1], posterior._shape[axis]
    if data is None:
        return np.zeros(length)
    return np.asarray(_sparse(data, data.positive).sum(axis=1 - axis)).reshape(length)


def _data_of(posterior: Posterior) -> tuple[str, PrivateCounts | PlainCounts | None]:
    """What was fitted, and its name; a run of plain counts does not hold them."""
    data = posterior._data
    if isinstance(data, CombinedReleases):
        return f"released (first of {len(data.releases)})", data.releases[0]
    return "counts" if isinstance(data, PlainCounts) else "released", data


def _cells(data: PrivateCounts | PlainCounts, places: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The chosen cells, NaN where they are missing; never all of them."""

    def chosen(listed: Cells) -> np.ndarray:
        return _sparse(data, listed)[places[0]][:, places[1]].toarray()

    found = chosen(data.positive)
    negative = getattr(data, "negative", None)
    if negative is not None:
        found -= chosen(negative)
    if data.missing is not None:
        absent = Cells(*data.missing, np.ones(len(data.missing.columns)))
        found[chosen(absent) > 0] = np.nan
    return found


def _sparse(data: PrivateCounts | PlainCounts, listed: Cells) -> sparse.csr_array:
    values = listed.values.astype(np.float64)
    return sparse.csr_array((values, listed.columns, listed.row_starts), shape=data.shape)
