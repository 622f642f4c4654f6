"""Running means: what a fit keeps of fields whose draws it does not keep.

Topics (components, communities) have no order, and their order may change between two draws: before a draw is
counted in, its topics are matched with the mean root of those counted in before (``align.matching``; the first draw
of a chain gives the order). Then, with n draws so far,

    mean += (x - mean) / n,    squares += (x - mean before) (x - mean after)

(Welford 1962), draw after draw in one order, so that a run which was killed goes on with the same bits. Chains stay
apart until somebody asks (``align.joined_chains``). The matching looks at what came before and at no later draw:
where topics stay recognizable from draw to draw that is the order which all draws together would give. Where they
do not, means over them say little, and ``agreement`` is low.

Where rows are spread over shards, each counts in its own (``inference.engines.sharded``): what depends on all rows
are exact sums, and the same on every shard.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from countveil.inference.store import Running
from countveil.posterior.align.invariants import Invariants, Quantity, check_averaged, invariants_of
from countveil.posterior.align.matching import fixed_places, root_of
from countveil.runtime.workers import Workers

#: How many draws a chain has counted in; their mean root, and its squared length in each draw.
N_DRAWS, ROOT, LENGTH = "n_draws", "root", "length"
_SQUARES, _SD = "/squares", "_sd"

#: What a chain has counted in, by name.
Sums = Mapping[str, np.ndarray]


class ChainMeans:
    """See ``inference.store.RunningMeans``; of models that ``check_averaged`` lets pass."""

    def __init__(self, model: Any, keep: str) -> None:
        check_averaged(model, keep)
        self._model, self._keep = model, keep
        self._is_fixed = model._spec.per_axis is not None and fixed_places(model, 1) is not None
        self._sums: dict[int, Sums] = {}
        self._empty: Sums | None = None  # of a chain without draws
        self._dims: dict[str, tuple[int | str, ...]] = {}

    def for_rows(self, model: Any, n_rows: int) -> ChainMeans:
        """The same, once it has begun, for so many rows with a model of their own (``EinsumModel.for_part``)."""
        part = ChainMeans(model, self._keep)
        forms = _forms(self.sums(-1))
        for name, axis in self.row_axes.items():
            kind, shape = forms[name]
            forms[name] = kind, (*shape[:axis], n_rows, *shape[axis + 1 :])
        part._dims, part._empty = self._dims, _zeros(forms)
        return part

    def __getstate__(self) -> dict[str, Any]:
        """For another process: zeros that take no memory here would be sent, one by one, of all rows."""
        return {**self.__dict__, "_empty": None if self._empty is None else _forms(self._empty)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._empty = None if self._empty is None else _zeros(state["_empty"])

    def begin(self, state: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Get ready for states like this one; what of it would be kept as a draw."""
        model, n_rows = self._model, None
        if model._spec.per_axis is not None:  # a single row tells as much: those of a state may be elsewhere
            row, dims = model.output_dims[0], model.dims
            axes = {name: dims[name].index(row) for name in state if row in dims[name]}
            n_rows = next(state[name].shape[axis] for name, axis in axes.items())
            state = {
                name: np.take(value, [0], axis=axes[name]) if name in axes else value
                for name, value in state.items()
            }
            model = model.for_part(0, 1)
        found = invariants_of(model, model.state_type(**state), self._keep, Workers(1))
        self._empty = self._without_draws(found, n_rows)
        return found.kept

    def template(
        self, state: Mapping[str, np.ndarray], n_chains: int
    ) -> tuple[Mapping[str, np.ndarray], Running]:
        """What would be kept of a state as a draw, and summaries of the shapes that they will have."""
        kept = self.begin(state)
        # Zeros that take no memory.
        arrays = {
            summary_name(name): np.broadcast_to(np.zeros((), one.dtype), (n_chains, *one.shape))
            for name, one in self.sums(-1).items()
        }
        return kept, Running(arrays, self._dims)

    def take(self, chain: int, state: Any) -> Mapping[str, np.ndarray]:
        """Count a state in; what of it is kept as a draw."""
        if self._empty is None:
            self.begin(state._asdict())
        # All at once: Ctrl-C may come at any moment.
        self._sums[chain], kept = self.counted_in(self.sums(chain), state, Workers(1))
        return kept

    def counted_in(
        self, before: Sums, state: Any, everyone: Workers
    ) -> tuple[Sums, Mapping[str, np.ndarray]]:
        """What a chain has counted in with this state, and what of it is kept as a draw."""
        found = invariants_of(self._model, state, self._keep, everyone)
        return self._counted_in(before, found), found.kept

    def summaries(self, chains: Sequence[int]) -> Running:
        """Means and standard deviations of every chain."""
        return Running(summaries_of([self.sums(chain) for chain in chains]), self._dims)

    def sums(self, chain: int) -> Sums:
        """All that a chain needs to go on counting."""
        assert self._empty is not None
        return self._sums.get(chain, self._empty)

    @property
    def row_axes(self) -> dict[str, int]:
        """Of the arrays in ``sums`` those with a row for each of the data's, and the axis that has them."""
        axes = {name: dims.index(0) for name, dims in self._dims.items() if 0 in dims}
        return {name: axes[mean] for name in self.sums(-1) if (mean := name.removesuffix(_SQUARES)) in axes}

    def load(self, chain: int, sums: Sums) -> None:
        """Go on from there, or an error if these are not the sums of states like those it has begun with."""
        self.check(sums)
        self._sums[chain] = sums

    def check(self, sums: Sums) -> None:
        """An error, if these are not the sums of states like those it has begun with."""
        own = self._empty
        same = own is not None and own.keys() == sums.keys()
        if own is None or not same or not all(_is_like(sums[name], own[name]) for name in own):
            raise ValueError("path: expected a checkpoint of this problem, got one with other running means")

    def _without_draws(self, found: Invariants, n_rows: int | None) -> Sums:
        dims = {name: each.dims for name, each in found.averaged.items()}
        component = next(dim for each in dims.values() for dim in each if isinstance(dim, str))
        self._dims = {
            N_DRAWS: (), ROOT: (component, "matched"), LENGTH: (component,),
            **dims, **{f"{name}{_SD}": each for name, each in dims.items()}, **found.dims,
        }  # fmt: skip
        arrays: dict[str, np.ndarray] = {
            N_DRAWS: np.array(0, dtype=np.int64),
            ROOT: np.zeros(found.matched.shape),
            LENGTH: np.zeros(len(found.matched)),
        }
        for name, each in found.averaged.items():
            shape = [
                n if dim != 0 or n_rows is None else n_rows
                for dim, n in zip(each.dims, each.values.shape, strict=True)
            ]
            arrays[name] = arrays[f"{name}{_SQUARES}"] = np.broadcast_to(0.0, shape)  # takes no memory
        return arrays

    def _counted_in(self, before: Sums, found: Invariants) -> Sums:
        n, root = int(before[N_DRAWS]) + 1, root_of(found.matched)
        order = np.arange(len(root))
        if n > 1 and not self._is_fixed:
            affinity = np.einsum("kv,lv->kl", before[ROOT], root, optimize=False)  # no BLAS: every bit counts
            order = linear_sum_assignment(affinity, maximize=True)[1]
        root = root[order]
        after = {
            N_DRAWS: np.array(n, dtype=np.int64),
            ROOT: before[ROOT] + (root - before[ROOT]) / n,
            LENGTH: before[LENGTH] + ((root**2).sum(axis=1) - before[LENGTH]) / n,
        }
        for name, each in found.averaged.items():
            values, mean = in_places(each, order), before[name]
            apart = values - mean
            after[name] = mean + apart / n
            after[f"{name}{_SQUARES}"] = before[f"{name}{_SQUARES}"] + apart * (values - after[name])
        return after


def _forms(sums: Sums) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Types and shapes."""
    return {name: (array.dtype.str, array.shape) for name, array in sums.items()}


def _zeros(forms: Mapping[str, tuple[str, tuple[int, ...]]]) -> Sums:
    """Of these types and shapes; they take no memory."""
    return {name: np.broadcast_to(np.zeros((), kind), shape) for name, (kind, shape) in forms.items()}


def _is_like(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and bool(np.isfinite(one).all())


def in_places(quantity: Quantity, order: np.ndarray) -> np.ndarray:
    """Its values, the component ``order[k]`` at place k.

    >>> in_places(Quantity(np.array([[1, 2], [3, 4]]), (0, "topic")), np.array([1, 0]))
    array([[2, 1],
           [4, 3]])
    """
    values = quantity.values
    for place, dim in enumerate(quantity.dims):
        if isinstance(dim, str):
            values = np.take(values, order, axis=place)
    return values


def summary_name(name: str) -> str:
    """What a summary calls that which comes of sums of this name.

    >>> summary_name("memberships"), summary_name("memberships/squares")
    ('memberships', 'memberships_sd')
    """
    return name.removesuffix(_SQUARES) + _SD if name.endswith(_SQUARES) else name


def summary_of(sums: Sums) -> dict[str, np.ndarray]:
    """Means and standard deviations of what a chain has counted in; of less than two draws they are NaN."""
    found, n = {}, int(sums[N_DRAWS])
    for name, array in sums.items():
        if name.endswith(_SQUARES):
            array = np.sqrt(array / (n - 1)) if n > 1 else np.full(array.shape, math.nan)
        found[summary_name(name)] = array
    return found


def summaries_of(chains: Sequence[Sums]) -> dict[str, np.ndarray]:
    """The same of all chains, (chain, ...)."""
    each = [summary_of(sums) for sums in chains]
    return {name: np.stack([one[name] for one in each]) for name in each[0]}
