"""What all Poisson factorizations share: mu = einsum(spec, factors), gamma priors, exact Gibbs updates.

Given the tokens, the entry of a factor that stands at one term is Gamma(shape + its tokens, rate + exposure), its
exposure the sum over observed cells of the product of all other terms. Factors are drawn one after the other; one
that stands on two axes is drawn row after row (``tied_factor``).

**Unfolding.** Where the first axis d stands at one term F alone, mu[d, rest] = sum_l F[d, l] Phi[l, rest]: a topic
model with l for its topics. The engines for topic models draw the true counts and allocate them to l; the sums
n[l, rest] are then plain counts of the einsum of all other terms, to be shared out over the remaining indices.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from countveil.kernels.gamma import SMALLEST
from countveil.models.contraction import contract
from countveil.models.count_model import Data
from countveil.models.exposure import Exposure
from countveil.models.factor_exposure import to_letters
from countveil.models.factor_state import state_type
from countveil.models.factor_updates import draw_factors, log_joint
from countveil.models.layout import Layout
from countveil.models.listed_exposure import ListedExposure, cheaper_exposure
from countveil.models.pair_cells import PairCells, pair_cells
from countveil.models.prior import Prior
from countveil.models.row_work import RowWork
from countveil.models.scale_moves import trade_along
from countveil.models.share_tokens import cell_rates, share_tokens
from countveil.models.spec import Spec
from countveil.models.sweep_key import SweepKey
from countveil.models.topic_model import TopicState, TopicSums


class FactorSums(NamedTuple):
    """Tokens of every entry of every factor, and which cells were observed."""

    tokens: list[np.ndarray]  # int64, one array per factor
    exposure: Exposure | ListedExposure
    pairs: Mapping[str, PairCells]  # the same cells, for every factor on two axes


class FactorModel(ABC):
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
        """Letters of the spec; those of the output are axes of the data (``output_dims``)."""
        return {name: tuple(self._spec.term(name)) for name in self._spec.factors}

    @property
    def output_dims(self) -> tuple[str, ...]:
        """The names by which ``dims`` calls the axes of the data."""
        return tuple(self._spec.output)

    @property
    def state_type(self) -> Any:
        """The class of its states: a NamedTuple of the factors."""
        return state_type(self._spec.factors)

    @property
    def unfolds(self) -> bool:
        """Whether the first axis stands at one term alone."""
        return self._spec.first is not None

    @property
    def n_topics(self) -> int:
        """Number of topics of the unfolded model."""
        spec = self._spec
        assert spec.first is not None
        return math.prod(self._sizes[c] for c in spec.terms[spec.first] if c != spec.output[0])

    def left_out(self, shape: tuple[int, ...]) -> tuple[np.ndarray, ...] | None:
        """Cells that are no part of the model: one index array per axis; None if all are part of it."""
        return None

    def init(self, data: Data, rng: np.random.Generator) -> Any:
        """Exponential factors, scaled alike so that the total rate is the data's (unbiased) total."""
        layout = self._layout(self._checked_shape(data.shape))
        found = [
            self._first_factor(name, shape, rng)
            for name, shape in zip(self._spec.factors, layout.shapes, strict=True)
        ]
        given = {*self._fixed, *self._start}
        free = sum(name not in given for name in self._spec.names)
        now = self._total(layout, found) / math.prod(data.shape)
        if free and now > 0:
            scale = (mean_rate(data) / now) ** (1.0 / free)
            found = [a if n in given else a * scale for n, a in zip(self._spec.factors, found, strict=True)]
        return self.state_type(*found)

    def _first_factor(self, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """A factor at the start: as given, or drawn, up to scale."""
        given = self._fixed.get(name, self._start.get(name))
        if given is None:
            drawn = np.maximum(self._first_values(name, shape, rng), SMALLEST)
            return _mirrored(drawn) if self._prior(name).symmetric else drawn
        if given.shape != shape:
            kind = "fixed" if name in self._fixed else "start"
            raise ValueError(f"{kind}: expected shape {shape} for {name!r}, got {given.shape}")
        return np.array(given)

    def _first_values(self, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Starting values of a factor, up to scale."""
        return rng.exponential(size=shape)

    def rates(self, state: Any, rows: slice) -> np.ndarray:
        """The einsum for these rows."""
        spec, arrays = self._spec, self._at_terms(state)
        shape = self._shape(state)
        if spec.first is not None:
            theta, phi = self.unfold(state)
            return (theta[rows] @ phi).reshape(-1, *shape[1:])
        cut = [_rows_of(a, term, spec.output[0], rows) for a, term in zip(arrays, spec.terms, strict=True)]
        return contract(spec.terms, cut, spec.output, {})

    def rates_at(self, state: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The rates of single cells, columns counted over all axes but the first."""
        layout = self._layout(self._shape(state))
        if self._spec.first is not None:
            theta, phi = self.unfold(state)
            return np.einsum("ik,ik->i", theta[rows], phi.T[columns])
        cell, _, latent = layout.cells
        chosen = rows * np.int64(layout.size(layout.rest)) + columns
        out = np.empty(len(chosen))
        cell_rates(chosen, layout.flat(state), cell, latent, out)
        return out

    def total_rate(self, state: Any) -> float:
        """The sum of the rates of all cells that are part of the model."""
        shape = self._shape(state)
        total = self._total(self._layout(shape), list(state))
        outside = self.left_out(shape)
        if outside is not None:
            columns = np.ravel_multi_index(outside[1:], shape[1:])
            total -= float(self.rates_at(state, outside[0], columns).sum())
        return total

    def unfold(self, state: Any) -> TopicState:
        """The state as that of a topic model: theta (first axis, l), phi (l, all other axes)."""
        spec, layout = self._spec, self._layout(self._shape(state))
        assert spec.first is not None
        arrays = self._at_terms(state)
        theta = to_letters(arrays[spec.first], spec.terms[spec.first], spec.output[0] + layout.group)
        terms = [p for p in range(len(spec.terms)) if p != spec.first]
        phi = contract(
            [spec.terms[p] for p in terms],
            [arrays[p] for p in terms],
            layout.rest + layout.group,
            layout.sizes,
        )
        return TopicState(theta.reshape(len(theta), -1), phi.reshape(-1, layout.size(layout.group)).T)

    def observed(
        self, missing_starts: np.ndarray, missing_columns: np.ndarray, shape: tuple[int, ...]
    ) -> FactorSums:
        """Sums without tokens: which cells are observed, in the forms the factors need."""
        exposure = cheaper_exposure(missing_starts, missing_columns, math.prod(shape[1:]))
        pairs = {}
        for name in self._spec.factors:
            places = self._spec.places(name)
            if len(places) == 2 and name not in self._fixed:
                axes = [next(c for c in self._spec.terms[p] if c in self._spec.output) for p in places]
                first, second = (self._spec.output.index(c) for c in axes)
                pairs[name] = pair_cells(exposure, shape, first, second)
        return FactorSums([], exposure, pairs)

    def share(
        self, state: Any, sums: TopicSums, observed: FactorSums, key: SweepKey, row_work: RowWork
    ) -> FactorSums:
        """Sums of an unfolded sweep as tokens of every entry of every factor."""
        spec, layout = self._spec, self._layout(self._shape(state))
        assert spec.first is not None
        out = self._shared(layout, state, sums.column_topic, layout.shares, key, row_work)
        tokens = layout.unflat(out)
        term = spec.terms[spec.first]
        letters = spec.output[0] + layout.group
        of_rows = sums.row_topic.reshape([layout.sizes[c] for c in letters])
        tokens[spec.factors.index(spec.names[spec.first])] += to_letters(of_rows, letters, term)
        return observed._replace(tokens=tokens)

    def update(self, state: Any, counts: np.ndarray, rng: np.random.Generator) -> Any:
        """All factors given all counts, cell by cell: the plain path of the protocol."""
        key, work = SweepKey(np.uint64(rng.integers(2**64, dtype=np.uint64)), 0, 0), RowWork(1)
        return self.update_from_sums(state, self.share_counts(state, counts, key, work), key, work)

    def share_counts(self, state: Any, counts: np.ndarray, key: SweepKey, row_work: RowWork) -> FactorSums:
        """All counts, cell by cell, as tokens of every entry of every factor."""
        shape = self._shape(state)
        layout = self._layout(shape)
        outside = self.left_out(shape)
        hidden = np.zeros(shape, dtype=bool)
        if outside is not None:
            hidden[outside] = True
        hidden = hidden.reshape(shape[0], -1)
        starts = np.concatenate([[0], np.cumsum(hidden.sum(axis=1))]).astype(np.int64)
        observed = self.observed(starts, np.nonzero(hidden)[1].astype(np.int32), shape)
        kept = np.where(hidden.reshape(-1), 0, np.asarray(counts, dtype=np.int64).reshape(-1))
        out = self._shared(layout, state, kept[:, None], layout.cells, key, row_work)
        return observed._replace(tokens=layout.unflat(out))

    def update_from_sums(self, state: Any, sums: FactorSums, key: SweepKey, row_work: RowWork) -> Any:
        """All factors given their tokens, one after the other, the first axis' first."""
        factors = self._spec.factors
        held = dict(zip(factors, state, strict=True))
        draw_factors([(self, sums)], factors, sums.pairs, held, key, row_work)
        self._trade_scales(held, key)
        return self.state_type(**held)

    def log_joint(self, state: Any, sums: FactorSums) -> float:
        """log p(tokens, factors) up to a constant of the tokens: a scalar to watch a chain by."""
        held = dict(zip(self._spec.factors, state, strict=True))
        return log_joint([(self, sums)], self._spec.factors, held)

    def _trade_scales(self, held: dict[str, np.ndarray], key: SweepKey) -> None:
        """Scale moves between free factors that share a summed index, in place."""
        spec = self._spec
        free = [n for n in spec.factors if n not in self._fixed and len(spec.places(n)) == 1]
        row = 0
        for letter in spec.latent:
            having = [n for n in free if letter in spec.term(n)]
            for pair in pairwise(having):
                views = [_with_last(held[n], spec.term(n).index(letter)) for n in pair]
                trade_along(key, row, (self._prior(pair[0]), self._prior(pair[1])), (views[0], views[1]))
                row += self._sizes[letter]

    def _observed_rate(self, state: Any, exposure: Exposure | ListedExposure) -> float:
        if self._spec.first is None:
            # No cell is missing on this path: missing counts are drawn.
            return self._total(self._layout(self._shape(state)), list(state))
        theta, phi = self.unfold(state)
        return float(np.sum(theta * exposure.of_rows(phi.T, len(theta))))

    def _shared(
        self,
        layout: Layout,
        state: Any,
        counts: np.ndarray,
        offsets: tuple[np.ndarray, np.ndarray, np.ndarray],
        key: SweepKey,
        row_work: RowWork,
    ) -> np.ndarray:
        flat = layout.flat(state)
        out = np.zeros((row_work.threads, len(flat)), dtype=np.int64)
        if len(offsets[0]) == 0:  # a factor alone
            return out[0]

        def cells(worker: int, start: int, stop: int) -> None:
            share_tokens(*key, start, stop, counts, flat, *offsets, out[worker])

        row_work.run_with_worker(len(counts), cells)
        return out.sum(axis=0)

    def _at_terms(self, state: Any) -> list[np.ndarray]:
        held = dict(zip(self._spec.factors, state, strict=True))
        return [held[name] for name in self._spec.names]

    def _total(self, layout: Layout, arrays: list[np.ndarray]) -> float:
        return float(contract(self._spec.terms, self._at_terms(arrays), "", layout.sizes))

    def _shape(self, state: Any) -> tuple[int, ...]:
        """The shape of the data, as the factors tell it."""
        sizes: dict[str, int] = {}
        for term, array in zip(self._spec.terms, self._at_terms(state), strict=True):
            sizes.update(zip(term, array.shape, strict=True))
        return tuple(sizes[c] for c in self._spec.output)

    def _layout(self, shape: tuple[int, ...]) -> Layout:
        return _layout(self._spec, tuple(sorted(self._sizes.items())), shape)

    def _checked_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        spec = self._spec
        kind = type(self).__name__
        if len(shape) != len(spec.output):
            raise ValueError(f"data: expected {len(spec.output)} axes for this {kind}, got {len(shape)}")
        for name in spec.factors:
            axes = {c for p in spec.places(name) for c in spec.terms[p] if c in spec.output}
            lengths = {shape[spec.output.index(c)] for c in axes}
            if len(spec.places(name)) == 2 and len(lengths) > 1:
                raise ValueError(
                    f"data: expected axes of one length for the tied factor {name!r}, got {sorted(lengths)}"
                )
        return shape


def mean_rate(data: Data) -> float:
    """The mean count of the observed cells: what the rates of a start should have for their mean."""
    # Noise can push the estimated total below zero; one count per hundred cells is a start anywhere.
    return max(data.total() / max(data.n_observed, 1), 0.01)


@lru_cache(maxsize=64)
def _layout(spec: Spec, sizes: tuple[tuple[str, int], ...], shape: tuple[int, ...]) -> Layout:
    return Layout(spec, dict(sizes), shape)


def _rows_of(array: np.ndarray, term: str, letter: str, rows: slice) -> np.ndarray:
    if letter not in term:
        return array
    return array[(slice(None),) * term.index(letter) + (rows,)]


def _mirrored(matrix: np.ndarray) -> np.ndarray:
    upper = np.triu(matrix)
    return upper + np.triu(matrix, 1).T


def _with_last(array: np.ndarray, axis: int) -> np.ndarray:
    """The same array with this axis last."""
    return array if axis == array.ndim - 1 else np.moveaxis(array, axis, -1)
