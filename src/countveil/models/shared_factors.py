"""Several arrays of counts that share factors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from countveil.kernels.philox import ROW_BITS, SweepKey
from countveil.models.count_model import Data, mean_rate
from countveil.models.einsum.exposure import Exposure
from countveil.models.einsum.inferred import Inferred, Prior, added_fields, inferred_means
from countveil.models.einsum.margins import Margins
from countveil.models.einsum.model import EinsumModel
from countveil.models.einsum.prior import ROWS_PER_FACTOR, draw_means, start_means
from countveil.models.einsum.scales import ScaleMove, scale_moves, trade_scales
from countveil.models.einsum.spec import JoinedIndex, joined_indices, state_type
from countveil.models.einsum.start import first_factor, scale_rows
from countveil.models.einsum.tied import PairCells, stacked_pairs
from countveil.models.einsum.update import Statistics, draw_factors, log_joint
from countveil.runtime.workers import Workers


@dataclass(frozen=True, init=False, repr=False, eq=False)
class SharedFactors:
    """Several arrays of counts, each with a factorization; factors of the same name are one array.

    y_w ~ Poisson(einsum(spec_w, factors)), independently for all views w, every entry of every factor ~
    Gamma(shape, rate). Documents x words with documents x authors: both arrays tell of the documents' factor.

    Parameters
    ----------
    views
        For every array a name and its model: a ``TopicModel``, ``Factorization``, ``TensorModel`` or
        ``CommunityModel``. Each view shares a factor with another one. A shared factor stands on an axis at the
        same places in all of them, and has the same prior, sizes, and ``fixed`` or ``start`` values.

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

    views: Mapping[str, EinsumModel]

    def __init__(self, /, **views: EinsumModel) -> None:
        _check_views(views)
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
        turns = {n: turn for view in self.views.values() for n, turn, _ in view._spec.turns}
        by_axis = {name: tuple(dims[place] for place in turns[name]) for name, dims in found.items()}
        return found | added_fields(self._inferred, by_axis)

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
        return state_type((*self.factors, *added_fields(self._inferred)))

    def index_of(self, view: str, letter: str) -> JoinedIndex:
        """The index that a letter of a view's spec is."""
        return next(index for index in self._indices if (view, letter) in index.letters)

    def view_model(self, view: str) -> EinsumModel:
        """One view's model, with all that is inferred about its factors: other views may say more of a prior."""
        own = copy(self.views[view])
        factors = own._spec.factors
        own.__dict__["_inferred"] = {name: one for name, one in self._inferred.items() if name in factors}
        return own

    def view_state(self, view: str, state: Any) -> Any:
        """The state of one view's model."""
        kind = self.views[view].state_type
        return kind(*(getattr(state, name) for name in kind._fields))

    def starting_state(
        self,
        data: Mapping[str, Data],
        key: SweepKey,
        workers: Workers,
        margins: Mapping[str, Margins | None] | None = None,
    ) -> Any:
        """Exponential factors, scaled so that the total rate of every view is its data's (unbiased) total.

        With exponents s_f of the free factors, sum_f places(f, w) s_f = log(wanted_w / drawn_w) for every view w:
        the smallest s that does it, or comes closest if fixed factors leave no way.
        """
        held: dict[str, np.ndarray] = {}
        for name, view in self.views.items():
            shapes = view._layout(view.check_shape(data[name].shape)).shapes
            fresh = [factor for factor in view._spec.factors if factor not in held]
            for factor, shape in zip(view._spec.factors, shapes, strict=True):
                if factor in fresh:
                    held[factor] = first_factor(view, factor, shape, key, self.factors.index(factor))
            told = None if margins is None else margins[name]
            if told is not None:  # a shared factor goes by the first view that has it
                scale_rows(view, held, told, fresh)
        given = {f for view in self.views.values() for f in (*view._fixed, *view._start)}
        free = [factor for factor in self.factors if factor not in given]
        places, wanted = [], []
        for name, view in self.views.items():
            total = view._total(held, workers)
            if total > 0:
                wanted.append(math.log(mean_rate(data[name]) * math.prod(data[name].shape) / total))
                places.append([view._spec.names.count(factor) for factor in free])
        if free and wanted:
            for factor, exponent in zip(free, np.linalg.lstsq(places, wanted)[0], strict=True):
                held[factor] = held[factor] * math.exp(exponent)
        return self._state(held | start_means(self._inferred, held, workers))

    def pair_cells(
        self, exposures: Mapping[str, Exposure], shapes: Mapping[str, tuple[int, ...]]
    ) -> Mapping[str, PairCells]:
        """For every factor that stands at two terms the cells of all views in which it does."""
        found: dict[str, list[tuple[PairCells, int]]] = {}
        for name, view in self.views.items():
            spec, shape = view._spec, shapes[name]
            for factor, cells in view.pair_cells({"": exposures[name]}, {"": shape}).items():
                terms = "".join(spec.terms[p] for p in spec.places(factor))
                depth = math.prod(n for c, n in zip(spec.output, shape, strict=True) if c not in terms)
                found.setdefault(factor, []).append((cells, depth))
        return {factor: stacked_pairs(*zip(*parts, strict=True)) for factor, parts in found.items()}

    def update_from_sums(
        self,
        state: Any,
        statistics: Mapping[str, Statistics],
        pairs: Mapping[str, PairCells],
        key: SweepKey,
        workers: Workers,
    ) -> Any:
        """All factors given the tokens of all views, one after the other; then their scales."""
        held = self._hold(state)
        draw_factors(self.views, self._inferred, statistics, pairs, held, key, workers)
        trade_scales(self._scale_moves, held, self._prior, self._inferred, key, workers)
        draw_means(self._inferred, lambda name: self._prior(name).symmetric, held, key, workers)
        return self._state(held)

    def log_joint(
        self, state: Any, statistics: Mapping[str, Statistics], workers: Workers | None = None
    ) -> float:
        """log p(tokens of all views, factors) up to a constant of the tokens: a scalar to watch a chain by."""
        workers = Workers(1) if workers is None else workers
        return log_joint(self.views, self._inferred, statistics, self._hold(state), workers)

    def _hold(self, state: Any) -> dict[str, np.ndarray]:
        """All factors by axis; a shared one stands on the same places in all views."""
        held: dict[str, np.ndarray] = {}
        for name, view in self.views.items():
            held.update(view._hold(self.view_state(name, state)))
        # Factors first; and what is inferred of one may be more than a single view knows of.
        further = state._fields[len(self.factors) :]
        return {name: held[name] for name in self.factors} | {
            name: np.array(getattr(state, name), np.float64) for name in further
        }

    def _state(self, held: Mapping[str, np.ndarray]) -> Any:
        found: dict[str, np.ndarray] = {}
        for view in self.views.values():
            found.update(view._state(held)._asdict())
        return self.state_type(**{name: found.get(name, held[name]) for name in self.state_type._fields})

    def _prior(self, factor: str) -> Prior:
        return next(v._prior(factor) for v in self.views.values() if factor in v._spec.factors)

    @cached_property
    def _inferred(self) -> Mapping[str, Inferred]:
        return inferred_means(self.views)

    @cached_property
    def _indices(self) -> tuple[JoinedIndex, ...]:
        return joined_indices({name: view._spec for name, view in self.views.items()})

    @cached_property
    def _scale_moves(self) -> list[ScaleMove]:
        fixed = {factor for view in self.views.values() for factor in view._fixed}
        return scale_moves(
            {name: view._spec.by_axis for name, view in self.views.items()}, self._indices, fixed
        )

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

    def describe(self) -> dict[str, EinsumModel]:
        """Arguments that make the model again: its views, each to be described itself."""
        return dict(self.views)


def _rebuilt(views: dict[str, EinsumModel]) -> SharedFactors:
    return SharedFactors(**views)


def _check_views(views: Mapping[str, Any]) -> None:
    """Models that can be views, or an error that says which factor of which view cannot be shared."""
    if not views:
        raise ValueError(
            "views: expected at least one, such as words=Factorization('dk,kv->dv', k=5), got none"
        )
    for name, view in views.items():
        if not name.isidentifier() or name.startswith("_"):
            raise ValueError(f"views: expected names such as 'words', got {name!r}")
        if not isinstance(view, EinsumModel):
            raise TypeError(
                f"{name}: expected a TopicModel, Factorization, TensorModel or CommunityModel, got "
                f"{type(view).__name__}"
            )
        if getattr(view, "groups", None) is not None:
            raise ValueError(f"{name}: expected a model without groups as a view, got {view!r}")
    first: dict[str, str] = {}  # factor -> the view that has it first
    shared = set()
    for name, view in views.items():
        for factor in view._spec.factors:
            other = first.setdefault(factor, name)
            if other != name:
                _check_alike(factor, other, views[other], name, view)
                shared.add(factor)
    for name, view in views.items():
        if len(views) > 1 and not shared & set(view._spec.factors):
            raise ValueError(
                f"{name}: expected a factor with the name of one in another view, got "
                f"{', '.join(view._spec.factors)}"
            )


def _check_alike(factor: str, name: str, view: EinsumModel, other_name: str, other: EinsumModel) -> None:
    where = f"{other_name}: expected the shared factor {factor!r} with"
    terms = view._spec.term(factor), other._spec.term(factor)
    kinds = [
        "".join("a" if letter in model._spec.output else "s" for letter in term)
        for model, term in zip((view, other), terms, strict=True)
    ]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"{where} axes and summed indices as in {name} ({terms[0]!r} of {view._spec.output!r}), "
            f"got {terms[1]!r} of {other._spec.output!r}"
        )
    sizes = [
        [model._sizes[letter] for letter in term if letter in model._sizes]
        for model, term in zip((view, other), terms, strict=True)
    ]
    if sizes[0] != sizes[1]:
        raise ValueError(f"{where} the sizes {_listed(sizes[0])} as in {name}, got {_listed(sizes[1])}")
    for what, one, two in zip(
        ("shape", "rate", "symmetry", "groups"), view._prior(factor), other._prior(factor), strict=True
    ):
        if one != two:
            raise ValueError(f"{where} the prior's {what} {one} as in {name}, got {two}")
    for what, given, given_other in (
        ("fixed", view._fixed, other._fixed),
        ("start", view._start, other._start),
    ):
        if (factor in given) != (factor in given_other):
            has = {True: "values", False: "none"}
            raise ValueError(
                f"{where} {what}= as in {name} ({has[factor in given]}), got {has[factor in given_other]}"
            )
        if factor in given and not np.array_equal(given[factor], given_other[factor]):
            raise ValueError(f"{where} the {what}= values as in {name}, got others")


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes))
