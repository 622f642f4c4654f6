"""What every factorization can do: mu = einsum(spec, factors), gamma priors, exact Gibbs updates.

Given the tokens, the entry of a factor that stands at one term is Gamma(shape + its tokens, rate + exposure), its
exposure the sum over observed cells of the product of all other terms. Factors are drawn one after the other; one
that stands on two axes is drawn row after row (``tied``).

**Unfolding.** Where the first axis d stands at one term F alone, mu[d, rest] = sum_l F[d, l] Phi[l, rest]: a topic
model with l for its topics. Engines draw the true counts and allocate them to l; the sums n[l, rest] are then plain
counts of the einsum of all other terms, to be shared out over the remaining indices.

**Memory.** A state has every factor as its term says (phi is ``kv``). Work is done by axis (``Spec.by_axis``:
``vk``), in a dictionary called ``held``; states are views of those arrays, so that nothing is copied on the way.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from countveil.counts.inputs.labels import expect_labels
from countveil.kernels.exact_sum import exact_sums
from countveil.kernels.philox import SweepKey
from countveil.models.count_model import Data
from countveil.models.einsum import start
from countveil.models.einsum.contraction import contract
from countveil.models.einsum.exposure import Exposure, exposure_without
from countveil.models.einsum.inferred import Inferred, Prior, added_fields, inferred_means
from countveil.models.einsum.margins import Margins
from countveil.models.einsum.prior import draw_means
from countveil.models.einsum.scales import moves_of, trade_scales
from countveil.models.einsum.share import Layout, cell_rates, layout_of, share
from countveil.models.einsum.spec import Spec, state_type
from countveil.models.einsum.tied import PairCells, pair_cells
from countveil.models.einsum.update import (
    Statistics,
    draw_factors,
    log_joint,
)
from countveil.runtime.workers import Workers


class Matrices(NamedTuple):
    """A state as that of a topic model: ``theta`` (first axis, l), ``phi`` (l, all other axes)."""

    theta: np.ndarray
    phi: np.ndarray


class MatrixTokens(NamedTuple):
    """Sums of the tokens that were allocated to l, and how much of every cell was observed."""

    rows: np.ndarray  # int32 or int64 (first axis, l)
    columns: np.ndarray  # int32 or int64 (all other axes, l)
    exposure: Exposure


class EinsumModel(ABC):
    """A model by its spec; a subclass says which one, and with which priors."""

    @property
    @abstractmethod
    def _spec(self) -> Spec:
        """The einsum."""

    @property
    @abstractmethod
    def _sizes(self) -> Mapping[str, int]:
        """Sizes of the summed letters."""

    @abstractmethod
    def _prior(self, name: str) -> Prior:
        """The prior of a factor."""

    @property
    def _fixed(self) -> Mapping[str, np.ndarray]:
        """Factors held fixed."""
        return {}

    @property
    def _start(self) -> Mapping[str, np.ndarray]:
        """Factors with a given start."""
        return {}

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the dimensions of the state; those of axes are in ``output_dims``."""
        factors = {name: tuple(dims) for name, dims in self._dim_names.items()}
        by_axis = {name: tuple(factors[name][place] for place in turn) for name, turn, _ in self._spec.turns}
        return factors | added_fields(self._inferred, by_axis)

    @property
    def _dim_names(self) -> Mapping[str, Sequence[str]]:
        """Of every factor: here the letters of its term."""
        return {name: self._spec.term(name) for name in self._spec.factors}

    @cached_property
    def _inferred(self) -> Mapping[str, Inferred]:
        """What is inferred about the means of the factors' entries, see ``prior``."""
        return inferred_means({"": self})

    @property
    def output_dims(self) -> tuple[str, ...]:
        """The names by which ``dims`` calls the axes of the data."""
        return tuple(self._spec.output)

    @property
    def state_type(self) -> Any:
        """The class of its states: a NamedTuple of the factors."""
        return _state_type(self._spec.factors, tuple(self._inferred.items()))

    @property
    def views(self) -> Mapping[str, EinsumModel]:
        """A model of one array is a model of several with a single view (see ``SharedFactors``)."""
        return {"": self}

    @property
    def unfolds(self) -> bool:
        """Whether the first axis stands at one term alone."""
        return self._spec.first is not None

    @property
    def has_tied_factors(self) -> bool:
        """Whether a factor stands on two axes."""
        return len(self._spec.factors) < len(self._spec.terms)

    @property
    def matrix_fields(self) -> tuple[str, str] | None:
        """The two fields of which the rates are the matrix product, if the model is of that form."""
        spec = self._spec
        if spec.per_axis is None or len(spec.output) != 2:
            return None
        row, column = spec.per_axis
        in_order = spec.term(row)[0] == spec.output[0] and spec.term(column)[1] == spec.output[1]
        return (row, column) if in_order else None

    @property
    def n_components(self) -> int:
        """Number of l of the unfolded model."""
        spec = self._spec
        assert spec.first is not None
        return math.prod(self._sizes[c] for c in spec.terms[spec.first] if c != spec.output[0])

    def for_rows(self, n_rows: int, labels: np.ndarray | None) -> Self:
        """The model of these rows: another one where it has something to say about each (``TopicModel.groups``)."""
        return self

    def for_part(self, start: int, stop: int) -> Self:
        """The model of these rows alone, where it knows something of each: what a shard has."""
        return self

    def left_out(self, shape: tuple[int, ...]) -> tuple[np.ndarray, ...] | None:
        """Cells that are no part of the model: one index array per axis; None if all are part of it."""
        return None

    def labels_of_axes(self, labels: tuple[np.ndarray | None, ...]) -> tuple[np.ndarray | None, ...]:
        """The labels of every axis: one without any has those of the axis with which it shares a factor."""
        found = list(labels)
        for one, two in self._spec.tied_axes:
            found[one], found[two] = (
                labels[two] if labels[one] is None else labels[one],
                labels[one] if labels[two] is None else labels[two],
            )
        return tuple(found)

    def check_labels(self, labels: tuple[np.ndarray | None, ...]) -> None:
        """Refuse axes that share a factor and have different labels, or the same in another order."""
        for one, two in self._spec.tied_axes:
            message = (
                f"data: expected the labels of axis {one} along axis {two}, in their order, because one factor "
                "stands on both (table.reindex(columns=table.index), privatize(rows=names, columns=names))"
            )
            expect_labels(labels[one], labels[two], message, numbers_are_names=False)

    def check_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of data for this model, or an error."""
        spec = self._spec
        if len(shape) != len(spec.output):
            kind = type(self).__name__
            raise ValueError(f"data: expected {len(spec.output)} axes for this {kind}, got {len(shape)}")
        for name in spec.factors:
            axes = {c for p in spec.places(name) for c in spec.terms[p] if c in spec.output}
            lengths = {shape[spec.output.index(c)] for c in axes}
            if len(spec.places(name)) == 2 and len(lengths) > 1:
                raise ValueError(
                    f"data: expected a square array, such as senders x receivers, for the tied factor {name!r}, "
                    f"got axes of {sorted(lengths)}"
                )
        return shape

    def init(self, data: Data, rng: np.random.Generator) -> Any:
        """``starting_state`` with a seed from ``rng``: the plain path of the protocol."""
        return self.starting_state(
            data, SweepKey(np.uint64(rng.integers(2**64, dtype=np.uint64)), 0, 0), Workers(1)
        )

    def starting_state(
        self, data: Data, key: SweepKey, workers: Workers, margins: Margins | None = None
    ) -> Any:
        """Exponential factors, scaled alike so that the total rate is the data's (unbiased) total.

        A draw from the prior can be wrong by orders of magnitude and is almost all zeros. Where scales are inferred
        they start at what the margins tell of them.
        """
        return start.starting_state(self, data, key, workers, margins)

    def _first_values(self, name: str, drawn: np.ndarray) -> np.ndarray:
        """Starting values of a factor, up to scale, made of exponential ones."""
        return drawn

    def rates(self, state: Any, rows: slice) -> np.ndarray:
        """The einsum for these rows."""
        held, spec = self._factors(state), self._spec.by_axis
        shape = self._shape_of(held)
        if spec.first is not None:
            return (self._row_matrix(held)[rows] @ self._column_matrix(held).T).reshape(-1, *shape[1:])
        cut = [
            held[name][rows] if term[0] == spec.output[0] else held[name]
            for name, term in zip(spec.names, spec.terms, strict=True)
        ]
        return contract(spec.terms, cut, spec.output)

    def rates_at(self, state: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The rates of single cells, columns counted over all axes but the first."""
        held = self._factors(state)
        layout = self._layout(self._shape_of(held))
        out = np.empty(len(rows))
        if self._spec.first is not None:
            theta, phi_at = self._row_matrix(held), self._columns_of(held)
            for start in range(0, len(rows), 512):  # what lies in the cache
                block = slice(start, start + 512)
                out[block] = np.einsum("ik,ik->i", theta[rows[block]], phi_at(columns[block]))
            return out
        cell, _, latent = layout.cells
        chosen = rows * np.int64(layout.size(layout.rest)) + columns
        cell_rates(chosen, layout.flat(held), cell, latent, out)
        return out

    def total_rate(self, state: Any) -> float:
        """The sum of the rates of all cells that are part of the model."""
        return self._total_rate(state, Workers(1))

    def _total_rate(self, state: Any, workers: Workers) -> float:
        held = self._factors(state)
        shape = self._shape_of(held)
        total = self._total(held, workers)
        outside = self.left_out(shape)
        if outside is not None:
            columns = np.ravel_multi_index(outside[1:], shape[1:])
            total -= float(self.rates_at(state, outside[0], columns).sum())
        return total

    def unfold(self, state: Any, columns: np.ndarray | None = None) -> Matrices:
        """The state as that of a topic model, with all columns or these."""
        held = self._factors(state)
        phi = self._column_matrix(held) if columns is None else self._columns_of(held)(columns)
        return Matrices(self._row_matrix(held), phi.T)

    def _columns_of(self, held: Mapping[str, np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
        """Some columns of the matrix form, (columns, l), at a time: of a tensor all of them may be many."""
        if self._spec.per_axis is None:
            return self._column_matrix(held).__getitem__
        factors, lengths = [held[name] for name in self._spec.per_axis[1:]], self._shape_of(held)[1:]

        def at(columns: np.ndarray) -> np.ndarray:
            places = np.unravel_index(columns, lengths)
            found = factors[0][places[0]]
            for factor, place in zip(factors[1:], places[1:], strict=True):
                found = found * factor[place]
            return found

        return at

    def axis_factors(self, state: Any) -> list[np.ndarray]:
        """Of the CP form: the factors in the order of the axes, each (axis, component)."""
        held = self._factors(state)
        assert self._spec.per_axis is not None
        return [held[name] for name in self._spec.per_axis]

    def tokens_of_matrix(
        self, state: Any, drawn: MatrixTokens, key: SweepKey, workers: Workers
    ) -> Statistics:
        """Tokens of the matrix form, shared out: those of every entry of every factor."""
        spec, held = self._spec.by_axis, self._factors(state)
        layout = self._layout(self._shape_of(held))
        assert spec.first is not None
        first = spec.factors.index(spec.names[spec.first])
        if spec.per_axis is not None:  # one summed index: nothing is left to be shared out
            rest = tuple(layout.sizes[c] for c in layout.rest)
            return self.tokens_of_axes([(drawn.rows, rest[:0]), (drawn.columns, rest)], drawn.exposure)
        tokens = share(layout, held, drawn.columns, layout.shares, key, workers)
        tokens[first] = tokens[first] + drawn.rows.reshape(tokens[first].shape)
        return Statistics(tokens, drawn.exposure)

    def tokens_of_axes(
        self, parts: Sequence[tuple[np.ndarray, tuple[int, ...]]], exposure: Exposure
    ) -> Statistics:
        """Tokens of the CP form, each part (axis, component) or (consecutive axes of these lengths, component)."""
        spec = self._spec
        assert spec.per_axis is not None
        found: list[np.ndarray] = []
        for tokens, lengths in parts:
            axes = range(len(lengths))
            if len(lengths) <= 1:
                found.append(tokens)
            else:
                table = tokens.reshape(*lengths, -1)
                found += [table.sum(axis=tuple(a for a in axes if a != axis)) for axis in axes]
        by_name = dict(zip(spec.per_axis, found, strict=True))
        return Statistics([by_name[name] for name in spec.factors], exposure)

    def tokens_of_counts(self, state: Any, counts: np.ndarray, key: SweepKey, workers: Workers) -> Statistics:
        """All counts, cell by cell, as tokens of every entry of every factor; missing ones have been drawn."""
        held = self._factors(state)
        shape = self._shape_of(held)
        layout = self._layout(shape)
        kept = np.array(counts, dtype=np.int64).reshape(shape)
        outside = self.left_out(shape)
        if outside is not None:
            kept[outside] = 0
        tokens = share(layout, held, kept.reshape(-1, 1), layout.cells, key, workers)
        return Statistics(tokens, self.exposure_of_counts(shape))

    def exposure_of_counts(self, shape: tuple[int, ...]) -> Exposure:
        """Exposure where missing counts are drawn: 1 on every cell that is part of the model."""
        return exposure_without(self.left_out(shape), shape)

    def pair_cells(
        self, exposures: Mapping[str, Exposure], shapes: Mapping[str, tuple[int, ...]]
    ) -> Mapping[str, PairCells]:
        """For every factor that stands at two terms the cells in which it does; they never change."""
        spec, found = self._spec, {}
        for name in spec.factors:
            places = spec.places(name)
            if len(places) == 2 and name not in self._fixed:
                axes = [next(c for c in spec.terms[p] if c in spec.output) for p in places]
                first, second = (spec.output.index(c) for c in axes)
                found[name] = pair_cells(exposures[""], shapes[""], first, second)
        return found

    def update(self, state: Any, counts: np.ndarray, rng: np.random.Generator) -> Any:
        """All factors given all counts, cell by cell: the plain path of the protocol."""
        key, workers = SweepKey(np.uint64(rng.integers(2**64, dtype=np.uint64)), 0, 0), Workers(1)
        found = self.tokens_of_counts(state, counts, key, workers)
        pairs = self.pair_cells({"": found.exposure}, {"": self._shape_of(self._factors(state))})
        return self.update_from_sums(state, {"": found}, pairs, key, workers)

    def update_from_sums(
        self,
        state: Any,
        statistics: Mapping[str, Statistics],
        pairs: Mapping[str, PairCells],
        key: SweepKey,
        workers: Workers,
    ) -> Any:
        """All factors given their tokens, one after the other, the first axis' first; then their scales."""
        held = self._hold(state)
        draw_factors(self.views, self._inferred, statistics, pairs, held, key, workers)
        self._trade_scales(held, key, workers)
        draw_means(self._inferred, self._is_symmetric, held, key, workers)
        return self._state(held)

    def log_joint(
        self, state: Any, statistics: Mapping[str, Statistics], workers: Workers | None = None
    ) -> float:
        """log p(tokens, factors) up to a constant of the tokens: a scalar to watch a chain by."""
        workers = Workers(1) if workers is None else workers
        return log_joint(self.views, self._inferred, statistics, self._hold(state), workers)

    def view_state(self, view: str, state: Any) -> Any:
        """The state of one view's model: here its own."""
        return state

    def _trade_scales(self, held: dict[str, np.ndarray], key: SweepKey, workers: Workers) -> None:
        """Scale moves between free factors that share a summed index, in place."""
        moves = moves_of(self._spec.by_axis, tuple(self._fixed))
        trade_scales(moves, held, self._prior, self._inferred, key, workers)

    def _is_symmetric(self, name: str) -> bool:
        return self._prior(name).symmetric

    def _observed_rate(self, held: Mapping[str, np.ndarray], exposure: Exposure, workers: Workers) -> float:
        if self._spec.first is None:  # no cell is missing on this path: missing counts are drawn
            return self._total(held, workers)
        of_rows = np.sum(self._row_matrix(held) * exposure.of_rows(self._column_matrix(held)), axis=1)
        return float(exact_sums(of_rows[:, None], workers.of_rows)[0])

    def _factors(self, state: Any) -> dict[str, np.ndarray]:
        """The factors by axis; no copy where they lie so already."""
        return {
            name: np.ascontiguousarray(array.transpose(turn), np.float64)
            for (name, turn, _), array in zip(self._spec.turns, state, strict=False)
        }

    def _hold(self, state: Any) -> dict[str, np.ndarray]:
        """The factors by axis, and copies of what is inferred of their means."""
        held = self._factors(state)
        further = state._fields[len(held) :]
        return held | {name: np.array(getattr(state, name), np.float64) for name in further}

    def _state(self, held: Mapping[str, np.ndarray]) -> Any:
        """The state, in the order of letters that the terms have: views."""
        factors = [held[name].transpose(back) for name, _, back in self._spec.turns]
        kind = self.state_type
        return kind(*factors, *(held[name] for name in kind._fields[len(factors) :]))

    def _state_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        by_axis = self._spec.by_axis.term(name)
        return tuple(shape[by_axis.index(c)] for c in self._spec.term(name))

    def _row_matrix(self, held: Mapping[str, np.ndarray]) -> np.ndarray:
        """The first axis' factor, (first axis, l)."""
        spec = self._spec.by_axis
        assert spec.first is not None
        factor = held[spec.names[spec.first]]
        return factor.reshape(len(factor), -1)

    def _column_matrix(self, held: Mapping[str, np.ndarray]) -> np.ndarray:
        """The product of all other factors, (all other axes, l)."""
        spec = self._spec.by_axis
        layout = self._layout(self._shape_of(held))
        terms = [p for p in range(len(spec.terms)) if p != spec.first]
        if [spec.terms[p] for p in terms] == [layout.rest + layout.group]:  # a single one, as it lies
            return held[spec.names[terms[0]]].reshape(-1, layout.size(layout.group))
        phi = contract(
            [spec.terms[p] for p in terms],
            [held[spec.names[p]] for p in terms],
            layout.rest + layout.group,
            layout.sizes,
        )
        return phi.reshape(-1, layout.size(layout.group))

    def _total(self, held: Mapping[str, np.ndarray], workers: Workers) -> float:
        """The sum of the rates of all cells."""
        spec = self._spec.by_axis
        arrays = [held[name] for name in spec.names]
        if spec.first is None:
            return float(contract(spec.terms, arrays, ""))
        # The sum over the first axis does not depend on the order of its rows.
        terms, first = list(spec.terms), spec.first
        terms[first] = terms[first][1:]
        sums = exact_sums(self._row_matrix(held), workers.of_rows)
        arrays[first] = sums.reshape(arrays[first].shape[1:])
        return float(contract(terms, arrays, ""))

    def _shape_of(self, held: Mapping[str, np.ndarray]) -> tuple[int, ...]:
        """The shape of the data, as the factors tell it."""
        return tuple(held[name].shape[place] for name, place in self._axis_places)

    @cached_property
    def _axis_places(self) -> list[tuple[str, int]]:
        """For every axis of the data a factor that has it, and where."""
        spec = self._spec.by_axis
        found = {
            c: (name, term.index(c)) for term, name in zip(spec.terms, spec.names, strict=True) for c in term
        }
        return [found[c] for c in spec.output]

    def _layout(self, shape: tuple[int, ...]) -> Layout:
        return layout_of(self._spec.by_axis, self._sorted_sizes, shape)

    @cached_property
    def _sorted_sizes(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(self._sizes.items()))


@lru_cache(maxsize=256)
def _state_type(factors: tuple[str, ...], inferred: tuple[tuple[str, Inferred], ...]) -> Any:
    """The class of the states: factors first."""
    return state_type((*factors, *added_fields(dict(inferred))))
