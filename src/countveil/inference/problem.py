"""The problem: what is asked, built once, and the only place that asks which kinds of model and data came.

A problem is a model, one view of observed data or several, a method, and what is unknown beside the model: the
noise parameter may be. Whoever comes after sees models of the protocol and ``Observed`` cells alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.cells.clamp import RhoLevels
from countveil.counts.cells.layout import Cells, Contents, NonPositive, Places, row_indices
from countveil.counts.files.scratch import is_mapped
from countveil.counts.inputs.labels import expect_labels
from countveil.counts.release_on_disk import ReleaseOnDisk
from countveil.counts.sources.plain_counts import PlainCounts, read_counts
from countveil.inference.carry import BEFORE, Carry
from countveil.inference.observed import Observed, margins_of, noise_alone, observe
from countveil.kernels.philox import SweepKey
from countveil.models.count_model import CountModel, generator, left_out
from countveil.models.einsum.model import EinsumModel
from countveil.models.shared_factors import SharedFactors
from countveil.models.unknown_noise import UnknownNoise
from countveil.runtime.workers import Workers

#: Of a chain's numbers: products of several of them are still finite. Rates of noise; and how many times as much as
#: there are cells and counts the total rate can be, however wrong a chain is.
_LARGEST, _LARGEST_RATE, _BEYOND = 1e60, 2.0**53, 1e4
#: What a model may be fitted to.
Counts = PrivateCounts | CombinedReleases | PlainCounts


class View(NamedTuple):
    """One array of counts, and the model of its rates."""

    model: CountModel
    given: Counts  # as it came
    data: (
        Counts  # what the model sees of it: without cells that it leaves out, and as if released where robust
    )
    observed: Observed  # of a release that is unread: ``noise_alone``
    method: str


class UnknownAlpha(NamedTuple):
    """An alpha that is inferred: its prior, and what the cells x <= 0 say about it."""

    prior: tuple[float, float]
    below: float  # the sum of abs(x) over all cells x <= 0
    n_geometric: (
        int  # cells x <= 0 among them that the model leaves out: abs(x) is geometric whatever they count
    )
    start: float


@dataclass(frozen=True, eq=False)
class Problem:
    """Ask ``problem`` for one."""

    model: Any  # a CountModel, or SharedFactors
    views: Mapping[str, View]  # of a single array the only one is called ""
    method: str
    alpha: UnknownAlpha | None = None
    robust: float | None = None
    source: ReleaseOnDisk | None = None  # the release, if its rows can be read once more, by anyone

    @property
    def is_factorization(self) -> bool:
        """Whether the model is updated from sums of tokens; if not, from counts."""
        return isinstance(self.model, EinsumModel | SharedFactors)

    @property
    def is_on_disk(self) -> bool:
        """Whether data lie in scratch files, because they are larger than memory."""
        return any(is_mapped(view.observed.columns) for view in self.views.values())

    @property
    def is_unread(self) -> bool:
        """Whether nobody here has the counts: they are read by shards, each its own rows."""
        return any(_is_unread(view.given) for view in self.views.values())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every view."""
        return {name: view.data.shape for name, view in self.views.items()}

    def start(self, key: SweepKey, workers: Workers) -> Any:
        """A starting state."""
        if isinstance(self.model, SharedFactors):
            views = self.views.items()
            margins = {name: margins_of(view.observed) for name, view in views}
            return self.model.starting_state({name: view.data for name, view in views}, key, workers, margins)
        data = self.views[""].data
        if isinstance(self.model, EinsumModel):
            margins_ = margins_of(self.views[""].observed, workers) if self.model._inferred else None
            return self.model.starting_state(data, key, workers, margins_)
        state = self.model.init(data, generator(key))
        for name, value in zip(state._fields, state, strict=True):
            # Said before the first sweep, not after the last.
            named = self.model.dims.get(name)
            if named is None or len(named) != np.ndim(value):
                raise ValueError(
                    f"model.dims: expected {np.ndim(value)} dimension names for {name!r}, got {named}"
                )
        return state

    def view_state(self, name: str, state: Any) -> Any:
        """The part of a state that one view's model has."""
        return self.model.view_state(name, state) if self.is_factorization else state

    def check_carry(self, carry: Carry) -> None:
        """Numbers that a chain can come to: a checkpoint may be a stranger's, and compiled code does not look."""
        if self.is_unread:  # shards look, each at its rows
            return
        # Of several views they are called "view:noise_plus" and so on.
        noise = [value for name, value in carry.extra.items() if name.rpartition(":")[2].startswith("noise_")]
        right = all(are_within(np.asarray(value), _LARGEST_RATE) for value in noise)
        if self.alpha is not None:
            right = right and 0.0 < float(carry.extra["alpha"]) < 1.0
        if self.is_factorization:
            states = [dict(carry.state)]
            if any(name.startswith(BEFORE) for name in carry.extra):
                states.append({name: carry.extra[BEFORE + name] for name in carry.state})
                right = right and math.isfinite(float(carry.extra[f"{BEFORE}log_likelihood"]))
            right = right and all(self._can_be(state) for state in states)
        if not right:
            raise ValueError(
                "path: expected a checkpoint of this problem, got one whose numbers no chain can come to"
            )

    def _can_be(self, fields: Mapping[str, Any]) -> bool:
        """Of a factorization: nothing below 0, and rates that are not beyond all that was counted."""
        if not all(are_within(np.asarray(value), _LARGEST) for value in fields.values()):
            return False
        state = self.state_type(**fields)
        for name, view in self.views.items():
            cells, counted = math.prod(view.data.shape), abs(view.data.total())
            rates = view.model.total_rate(self.view_state(name, state))  # type: ignore[attr-defined]
            if not rates <= _BEYOND * (cells + counted):  # nor is NaN
                return False
        return True

    @cached_property
    def state_type(self) -> Any:
        """The class of the states."""
        if self.is_factorization:
            return self.model.state_type
        return type(self.start(SweepKey(np.uint64(0), 0, 0), Workers(1)))


def are_within(values: np.ndarray, largest: float = _LARGEST) -> bool:
    """Whether none is below 0, beyond what a factor comes to, or NaN."""
    return values.size == 0 or (float(values.min()) >= 0 and float(values.max()) <= largest)


def make_problem(
    model: Any, data: Any, method: str = "exact", labels: Any = None, robust: float | None = None
) -> Problem:
    """The problem of this model and these data, or an error that names the parameter."""
    if isinstance(model, SharedFactors):
        if robust is not None:
            raise ValueError(f"robust: expected None for SharedFactors, got {robust!r}")
        given = _read_views(model, data, labels)
        released = {name for name, each in given.items() if not isinstance(each, PlainCounts)}
        # Plain views have nothing to invert; the method is for the others, if there are any.
        views = {
            name: _view(one, given[name], method if name in released or not released else "exact")
            for name, one in model.views.items()
        }
        return Problem(model, views, method)
    if isinstance(model, type) or not isinstance(model, CountModel | UnknownNoise):
        got = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"model: expected a model such as TopicModel(n_topics=10), got {got}")
    counts = read_counts(data, labels)
    model = for_rows_of(model, counts)
    if isinstance(model, UnknownNoise):
        release, alpha = _unknown_alpha(model, _seen(counts, robust), method)
        return Problem(model.model, {"": _view(model.model, release, method)}, method, alpha, robust)
    view = _view(model, _seen(counts, robust), method)._replace(given=counts)
    return Problem(model, {"": view}, method, None, robust)


def for_rows_of(model: Any, counts: Counts) -> Any:
    """The model of the rows of these counts, whose groups may have come by the labels of rows."""
    if isinstance(model, UnknownNoise):
        return replace(model, model=for_rows_of(model.model, counts))
    if not isinstance(model, EinsumModel) or len(counts.shape) < 2:
        return model
    return model.for_rows(counts.shape[0], counts.labels[0])


def _view(model: Any, given: Counts, method: str) -> View:
    if isinstance(model, EinsumModel):
        model.check_shape(given.shape)
        model.check_labels(given.labels)
    if isinstance(given, PlainCounts) and method != "exact":
        raise ValueError(f"method: expected 'exact' for plain counts (nothing to invert), got {method!r}")
    if isinstance(given, CombinedReleases) and method != "exact":
        raise ValueError(f"method: expected 'exact' for combined releases, got {method!r}")
    data = modelled_part(model, given)
    observe_it = noise_alone if _is_unread(data) else observe
    observed = observe_it(data, as_plain=method == "naive")
    if method == "bessel" and np.isinf(observed.row_rho).any():
        raise ValueError("method: expected 'exact' or 'naive' where some rows are plain, got 'bessel'")
    return View(model, given, data, observed, method)


def _is_unread(given: Counts) -> bool:
    return isinstance(given, ReleaseOnDisk) and given.is_unread


def modelled_part(model: Any, data: Any) -> Any:
    """``data`` without the cells that the model leaves out, if there are any."""
    cells = left_out(model, data.shape)
    if cells is None:
        return data
    part = _without(data, cells) if isinstance(data, PlainCounts) else data.hide(cells)
    if part.n_observed == 0:
        raise ValueError(
            f"data: expected observed counts in the part that {type(model).__name__} models, got none"
        )
    return part


def _without(data: PlainCounts, cells: tuple[np.ndarray, ...]) -> PlainCounts:
    width = math.prod(data.shape[1:])
    hidden = np.ravel_multi_index(cells, data.shape)
    if data.missing is not None:
        before = row_indices(data.missing.row_starts) * width + data.missing.columns
        hidden = np.union1d(hidden, before)
    hidden = np.unique(hidden)
    flat = row_indices(data.positive.row_starts) * width + data.positive.columns
    keep = ~np.isin(flat, hidden)
    rows = flat[keep] // width
    positive = Cells(_starts(rows, data.shape[0]), data.positive.columns[keep], data.positive.values[keep])
    columns = (hidden % width).astype(data.positive.columns.dtype)
    return data._replace(positive=positive, missing=Places(_starts(hidden // width, data.shape[0]), columns))


def _starts(rows: np.ndarray, n_rows: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))]).astype(np.int64)


def _seen(data: Counts, robust: Any) -> Counts:
    return data if robust is None else as_if_released(data, robust)


def as_if_released(data: Any, alpha: Any) -> PrivateCounts:
    """Plain counts as a clamped release with noise ``alpha``: robust fitting.

    What was counted, x, is taken for ``max(y + tau, 0)`` with a Poisson count y of the model and
    ``P(tau) = (1-alpha)/(1+alpha) * alpha**abs(tau)``. The tails of tau are heavier than Poisson ones where
    rates are small, so a single odd count pulls the rates less. Clamped, because counts are never negative:
    with two-sided noise every exact zero would speak against the noise.
    """
    if not isinstance(data, PlainCounts):
        raise ValueError("robust: expected None for a release, which has noise of its own, got a number")
    if not isinstance(alpha, Real) or isinstance(alpha, bool) or not 0 < float(alpha) < 1:
        raise ValueError(f"robust: expected a number strictly between 0 and 1, got {alpha!r}")
    rho = np.asarray(-np.log(float(alpha)))
    levels = RhoLevels(rho, data.shape)
    nonpositive = NonPositive(levels.values, levels.count((data.positive, data.missing)), None)
    return PrivateCounts._from_contents(
        Contents(
            data.shape, data.axes, data.labels, rho, data.positive, data.missing, nonpositive, None,
            guarantee=None, simulated=False,
        )
    )  # fmt: skip


def at_alpha(data: PrivateCounts, alpha: float) -> PrivateCounts:
    """The same release with another alpha for all cells; what was promised of its noise is left out."""
    contents = data._contents
    rho = np.asarray(-math.log(alpha))
    levels = contents.nonpositive._replace(rho=rho.reshape(1).copy())
    return PrivateCounts._from_contents(
        contents._replace(rho=rho, nonpositive=levels, guarantee=None, row_guarantees=None)
    )


def _unknown_alpha(model: UnknownNoise, data: Counts, method: str) -> tuple[PrivateCounts, UnknownAlpha]:
    """The release, and what is known of its noise.

    What the model leaves out (a network's diagonal) decides nothing where the values below 0 are known one by one.
    Where only their sum is, it is of all cells; but given x <= 0, abs(x) is geometric, P(j) = (1-alpha) alpha**j,
    whatever the true count, so that they need not be told apart if they have noise of their own. Where no cell of
    the diagonal, or of the others that are left out, is positive, they are taken for zeros without noise.
    """
    if isinstance(data, CombinedReleases):
        raise ValueError("data: expected one release, whose noise is to be inferred, got several combined")
    if not isinstance(data, PrivateCounts):
        raise ValueError("data: expected a release, whose noise is to be inferred, got plain counts")
    if method != "exact":
        raise ValueError(f"method: expected 'exact' for noise that is not known, got {method!r}")
    if data.rho.ndim:
        raise ValueError("data: expected one noise parameter for all cells, got several")
    total = data.nonpositive.total
    if total is None:
        raise ValueError(
            "data: expected a release that knows the sum of its values below 0, got one whose zeros are "
            "clamped: read as exact zeros they would make the noise seem much smaller than it is. Build it "
            "from signed values, cv.PrivateCounts(values, alpha=...), or say clamped=False if there are none; "
            "hide() keeps what is needed only where it was released with keep_negative=True"
        )
    part, n_geometric = modelled_part(model.model, data), 0
    if part.nonpositive.total is not None:
        total = part.nonpositive.total
    elif getattr(model.model, "mirrored", False) and _is_mirrored(data):
        raise ValueError(
            "data: expected each pair of a network without directions once, where its noise is to be inferred, "
            "got the values above the diagonal below it once more: leave these out "
            "(mask=np.tri(len(values), k=-1, dtype=bool)), or keep_negative=True tells them apart"
        )
    else:
        n_geometric = _left_out_with_noise(model.model, data)
    return data, UnknownAlpha(model.prior, float(total.sum()), n_geometric, float(np.asarray(data.alpha)))


def _left_out_with_noise(model: Any, data: PrivateCounts) -> int:
    """How many cells x <= 0 are left out: of the diagonal, and of others, if one of them is positive.

    With noise some are, and people put zeros there: ``np.triu(counts, 1)``.
    """
    cells = left_out(model, data.shape)
    assert cells is not None
    width, found = math.prod(data.shape[1:]), 0
    positive = row_indices(data.positive.row_starts) * width + data.positive.columns
    hidden = data.missing
    missing = () if hidden is None else row_indices(hidden.row_starts) * width + hidden.columns
    on_diagonal = (cells[0] == cells[1]) if len(cells) == 2 else np.zeros(len(cells[0]), dtype=bool)
    for some in (on_diagonal, ~on_diagonal):
        flat = np.ravel_multi_index(tuple(axis[some] for axis in cells), data.shape)
        above = np.isin(flat, positive)
        if above.any():
            found += int((~above & ~np.isin(flat, missing)).sum())
    return found


#: So many positive pairs agree by chance hardly ever: noise alone makes each of another sign with chance 1/3.
_FEWEST_PAIRS = 10


def _is_mirrored(data: PrivateCounts) -> bool:
    """Whether the same values stand above and below the diagonal, wherever both are observed."""
    n = data.shape[0]
    upper, lower = (_by_pairs(data.positive, n, below) for below in (False, True))
    if data.missing is not None:
        hidden = [_by_pairs(data.missing, n, below)[0] for below in (False, True)]
        hidden_pairs = np.union1d(*hidden)
        if len(hidden_pairs) == n * (n - 1) // 2:
            return False  # no pair is there twice
        upper, lower = (each[:, ~np.isin(each[0], hidden_pairs)] for each in (upper, lower))
    # Of few pairs that may be chance.
    return upper.shape[1] >= _FEWEST_PAIRS and np.array_equal(upper, lower)


def _by_pairs(cells: Any, n: int, below: bool) -> np.ndarray:
    """The cells of one triangle: the pairs, in order, and the values, if there are any."""
    rows, columns = row_indices(cells.row_starts), cells.columns.astype(np.int64)
    some = (rows > columns) if below else (rows < columns)
    first, second = (columns, rows) if below else (rows, columns)
    values = getattr(cells, "values", columns)[some]
    pairs = first[some] * n + second[some]
    order = np.argsort(pairs)
    return np.stack([pairs[order], values[order].astype(np.int64)])


def _read_views(model: SharedFactors, data: Any, labels: Any) -> dict[str, Counts]:
    """One release or array of plain counts for every view, in order, checked against each other."""
    _check_names("data", model, data, everything=True)
    if labels is not None:
        _check_names("labels", model, labels, everything=False)
    found: dict[str, Counts] = {}
    for name, view in model.views.items():
        try:
            found[name] = read_counts(data[name], None if labels is None else labels.get(name))
            view.check_shape(found[name].shape)
            view.check_labels(found[name].labels)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from error
    _check_common_axes(model, found)
    return found


def _check_names(what: str, model: SharedFactors, given: Any, everything: bool) -> None:
    expected = ", ".join(model.views)
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{what}: expected a mapping from views ({expected}) to arrays, got {type(given).__name__}"
        )
    if set(given) - set(model.views) or (everything and set(given) != set(model.views)):
        names = ", ".join(map(str, given)) or "none"
        raise ValueError(f"{what}: expected the views {expected}, got {names}")


def _check_common_axes(model: SharedFactors, data: Mapping[str, Counts]) -> None:
    """Axes on which a shared factor stands have one length, and no two different sets of labels."""
    for index in model.axes:
        places = [(view, model.views[view]._spec.output.index(letter)) for view, letter in index.letters]
        (first, first_axis), *others = places
        for view, axis in others:
            expected, got = data[first].shape[first_axis], data[view].shape[axis]
            if expected != got:
                raise ValueError(
                    f"{view}: expected length {expected} along axis {axis}, as {first} has along axis "
                    f"{first_axis} (they share a factor), got {got}"
                )
        known_as = {v: model.views[v].labels_of_axes(data[v].labels) for v, _ in places}
        labelled = [(v, a, known_as[v][a]) for v, a in places if known_as[v][a] is not None]
        for view, axis, labels in labelled[1:]:
            first, first_axis, known = labelled[0]
            message = f"{view}: expected the labels of {first} (axis {first_axis}) along axis {axis}"
            expect_labels(known, labels, f"{message} (they share a factor)")
