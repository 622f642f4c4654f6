"""Several arrays of counts that share factors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from countveil.kernels.philox import ROW_BITS
from countveil.models.count_model import Data
from countveil.models.factor_draws import ROWS_PER_FACTOR
from countveil.models.factor_model import FactorModel, FactorSums, mean_rate
from countveil.models.factor_state import state_type
from countveil.models.factor_updates import draw_factors, log_joint, state_of
from countveil.models.joined_indices import JoinedIndex, joined_indices
from countveil.models.joined_scales import ScaleMove, scale_moves
from countveil.models.pair_cells import PairCells, stacked_pairs
from countveil.models.prior import Prior
from countveil.models.row_work import RowWork
from countveil.models.scale_moves import trade_jointly
from countveil.models.shared_checks import check_views
from countveil.models.sweep_key import SweepKey


class SharedSums(NamedTuple):
    """The sums of every view, and the cells of factors that stand at two terms, of all views together."""

    views: Mapping[str, FactorSums]
    pairs: Mapping[str, PairCells]


@dataclass(frozen=True, init=False, repr=False, eq=False)
class SharedFactors:
    """Several arrays of counts, each with a factorization; factors of the same name are one array.

    y_w ~ Poisson(einsum(spec_w, factors)), independently for all views w, every entry of every factor ~
    Gamma(shape, rate). Documents x words with documents x authors: both arrays tell of the documents' factor.

    Parameters
    ----------
    views
        For every array a name and its model: a ``Factorization``, ``TensorModel`` or ``CommunityModel``. Each view
        shares a factor with another one. A shared factor stands on an axis at the same places in all of them, and
        has the same prior, sizes, and ``fixed`` or ``start`` values.

    ``fit`` takes a mapping from the names to the data: releases with whatever noise, or plain counts. The axes on
    which a shared factor stands are the same things in the same order.

    Examples
    --------
    >>> from countveil.models import Factorization, SharedFactors
    >>> model = SharedFactors(
    ...     words=Factorization("dk,kv->dv", names=["theta", "phi"], k=50),
    ...     authors=Factorization("dk,ka->da", names=["theta", "psi"], k=50),
    ... )
    >>> model.factors, model.dims["psi"]
    (('theta', 'phi', 'psi'), ('k', 'a'))
    """

    views: Mapping[str, FactorModel]

    def __init__(self, /, **views: FactorModel) -> None:
        check_views(views)
        object.__setattr__(self, "views", MappingProxyType(views))
        most = 2**ROW_BITS // ROWS_PER_FACTOR
        if len(self.factors) > most:
            raise ValueError(f"views: expected at most {most} factors, got {len(self.factors)}")

    @property
    def factors(self) -> tuple[str, ...]:
        """The names of all factors, each once."""
        return tuple(dict.fromkeys(n for view in self.views.values() for n in view._spec.factors))

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        """For every factor the names of its dimensions; those of axes are in ``output_dims``."""
        found = {}
        for name in self.factors:
            view = next(view for view, model in self.views.items() if name in model._spec.factors)
            dims: list[str] = []
            for letter in self.views[view]._spec.term(name):
                dim = self._dim_names[self.index_of(view, letter)]
                while dim in dims:  # an index that the views turned into another of the same factor
                    dim = f"to_{dim}"
                dims.append(dim)
            found[name] = tuple(dims)
        return found

    @property
    def axes(self) -> tuple[JoinedIndex, ...]:
        """The different axes of all views."""
        return tuple(index for index in self._indices if index.is_axis)

    @property
    def output_dims(self) -> tuple[str, ...]:
        """The names by which ``dims`` calls ``axes``."""
        return tuple(self._dim_names[index] for index in self.axes)

    @property
    def state_type(self) -> Any:
        """The class of its states: a NamedTuple of the factors."""
        return state_type(self.factors)

    def index_of(self, view: str, letter: str) -> JoinedIndex:
        """The index that a letter of a view's spec is."""
        return next(index for index in self._indices if (view, letter) in index.letters)

    def view_state(self, view: str, state: Any) -> Any:
        """The state of one view's model."""
        return state_of(self.views[view], dict(zip(self.factors, state, strict=True)))

    def init(self, data: Mapping[str, Data], rng: np.random.Generator) -> Any:
        """Exponential factors, scaled so that the total rate of every view is its data's (unbiased) total.

        With exponents s_f of the free factors, sum_f places(f, w) s_f = log(wanted_w / drawn_w) for every view w:
        the smallest s that does it, or comes closest if fixed factors leave no way.
        """
        held: dict[str, np.ndarray] = {}
        shapes = {name: view._checked_shape(data[name].shape) for name, view in self.views.items()}
        for name, view in self.views.items():
            layout = view._layout(shapes[name])
            for factor, shape in zip(view._spec.factors, layout.shapes, strict=True):
                if factor not in held:
                    held[factor] = view._first_factor(factor, shape, rng)
        given = {f for view in self.views.values() for f in (*view._fixed, *view._start)}
        free = [factor for factor in self.factors if factor not in given]
        places, wanted = [], []
        for name, view in self.views.items():
            total = view._total(view._layout(shapes[name]), list(state_of(view, held)))
            if total > 0:
                wanted.append(math.log(mean_rate(data[name]) * math.prod(shapes[name]) / total))
                places.append([view._spec.names.count(factor) for factor in free])
        if free and wanted:
            for factor, exponent in zip(free, np.linalg.lstsq(places, wanted)[0], strict=True):
                held[factor] = held[factor] * math.exp(exponent)
        return self.state_type(**held)

    def pairs(
        self, sums: Mapping[str, FactorSums], shapes: Mapping[str, tuple[int, ...]]
    ) -> Mapping[str, PairCells]:
        """For every factor that stands at two terms the cells of all views in which it does."""
        found: dict[str, list[tuple[PairCells, int]]] = {}
        for view, one in sums.items():
            for factor, cells in one.pairs.items():
                spec, shape = self.views[view]._spec, shapes[view]
                terms = "".join(spec.terms[p] for p in spec.places(factor))
                depth = math.prod(n for c, n in zip(spec.output, shape, strict=True) if c not in terms)
                found.setdefault(factor, []).append((cells, depth))
        return {factor: stacked_pairs(*zip(*parts, strict=True)) for factor, parts in found.items()}

    def update_from_sums(self, state: Any, sums: SharedSums, key: SweepKey, row_work: RowWork) -> Any:
        """All factors given the tokens of all views, one after the other; then their scales."""
        held = dict(zip(self.factors, state, strict=True))
        views = [(self.views[name], one) for name, one in sums.views.items()]
        draw_factors(views, self.factors, sums.pairs, held, key, row_work)
        self._trade_scales(held, key)
        return self.state_type(**held)

    def log_joint(self, state: Any, sums: SharedSums) -> float:
        """log p(tokens of all views, factors) up to a constant of the tokens: a scalar to watch a chain by."""
        views = [(self.views[name], one) for name, one in sums.views.items()]
        return log_joint(views, self.factors, dict(zip(self.factors, state, strict=True)))

    def _trade_scales(self, held: dict[str, np.ndarray], key: SweepKey) -> None:
        """Scale moves that change no rate of any view, in place."""
        row = 0
        for move in self._scale_moves:
            up, down = (
                [(self._prior(name), np.moveaxis(held[name], place, 0)) for name, place in side]
                for side in move
            )
            trade_jointly(key, row, up, down)
            row += len(up[0][1])

    def _prior(self, factor: str) -> Prior:
        return next(v._prior(factor) for v in self.views.values() if factor in v._spec.factors)

    @cached_property
    def _indices(self) -> tuple[JoinedIndex, ...]:
        return joined_indices({name: view._spec for name, view in self.views.items()})

    @cached_property
    def _scale_moves(self) -> list[ScaleMove]:
        fixed = {factor for view in self.views.values() for factor in view._fixed}
        return scale_moves({name: view._spec for name, view in self.views.items()}, self._indices, fixed)

    @cached_property
    def _dim_names(self) -> Mapping[JoinedIndex, str]:
        """A name for every index: that of the first view which has it, with the view's name if it is taken."""
        found: dict[JoinedIndex, str] = {}
        taken = {"chain", "draw", *self.factors}
        for index in self._indices:
            view, letter = index.letters[0]
            model = self.views[view]
            name = next(
                (
                    model.dims[factor][model._spec.term(factor).index(letter)]
                    for factor in model._spec.factors
                    if letter in model._spec.term(factor)
                ),
                letter,  # it stands where a tied factor stands again
            )
            if name in taken:
                name = f"{view}_{name}"
            while name in taken:
                name += "_"
            taken.add(name)
            found[index] = name
        return found

    def __repr__(self) -> str:
        return f"SharedFactors({', '.join(f'{name}={view!r}' for name, view in self.views.items())})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SharedFactors):
            return NotImplemented
        return list(self.views.items()) == list(other.views.items())

    def __hash__(self) -> int:
        return hash(tuple(self.views.items()))

    def __reduce__(self) -> tuple:
        return _rebuilt, (dict(self.views),)


def _rebuilt(views: dict[str, FactorModel]) -> SharedFactors:
    return SharedFactors(**views)
