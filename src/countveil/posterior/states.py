"""The kept draws as states of the model, the cells it speaks of, and their rates, one draw at a time.

A cell that a model leaves out has rate 0 and count 0: a network without self-loops has none. A pair of an
undirected network is one pair: its cell below the diagonal is the one above it again.
"""

from __future__ import annotations

import itertools
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from countveil.models.count_model import checked_rates, row_blocks, slices_of
from countveil.runtime.compiled import compiled

if TYPE_CHECKING:
    from countveil.posterior.diagnostics.modes import Modes

#: Numbers of a block of rates, 64 MB: large enough to be quick, small enough to lie beside the draws.
NUMBERS_PER_BLOCK = 2**23


class ModelledCells:
    """The cells of an array of this shape, in the eyes of a model.

    Examples
    --------
    >>> from countveil.models import CommunityModel
    >>> cells = ModelledCells(CommunityModel(2, directed=False), (3, 3))
    >>> cells.outside(np.arange(3), np.array([0, 2]))
    array([[ True, False],
           [False, False],
           [False,  True]])
    >>> cells.counted_at(np.array([2, 0]), np.array([1, 1]))
    (array([1, 0]), array([2, 1]))
    >>> cells.places_of(np.arange(cells.n_with_counts))
    array([1, 2, 5])
    >>> cells.have_counts(np.array([1, 2]), np.array([1, 0]))
    array([False,  True])
    """

    def __init__(self, model: Any, shape: tuple[int, ...]) -> None:
        self._model = model
        self._shape = shape
        self.mirrored: bool = getattr(self._model, "mirrored", False)

    def counted_at(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The cells at which the counts of these cells stand."""
        return (np.minimum(rows, columns), np.maximum(rows, columns)) if self.mirrored else (rows, columns)

    def outside(self, rows: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray | None:
        """Which cells of these rows and columns (of all axes but the first) have no count; None if all have one."""
        width = math.prod(self._shape[1:])
        across = np.arange(width) if columns is None else columns
        if hasattr(self._model, "without_count"):
            return self._model.without_count(rows[:, None], across)
        listed = self._listed()
        return None if listed is None else np.isin(rows[:, None] * width + across, listed)

    def have_counts(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Which of single cells have a count, by their rows and columns (of all axes but the first)."""
        if hasattr(self._model, "without_count"):
            without = self._model.without_count(rows, columns)
        else:
            listed = self._listed()
            without = None if listed is None else np.isin(rows * math.prod(self._shape[1:]) + columns, listed)
        return np.ones(len(rows), dtype=bool) if without is None else ~without

    @property
    def n_with_counts(self) -> int:
        """How many cells have a count of their own."""
        return int(self._ends[-1])

    def places_of(self, numbers: np.ndarray) -> np.ndarray:
        """Of the cells that have a count of their own those with these numbers: their places in the flat array."""
        rows = np.searchsorted(self._ends, numbers, side="right")
        width = math.prod(self._shape[1:])
        columns = numbers - self._ends[rows] + self._per_row[rows]
        if self._is_network:
            columns += rows * self.mirrored
            columns += self._without_diagonal & (self.mirrored | (columns >= rows))
            return rows * width + columns
        listed = self._listed()
        if listed is None:
            return rows * width + columns
        return np.flatnonzero(~np.isin(np.arange(math.prod(self._shape)), listed))[numbers]

    @property
    def _is_network(self) -> bool:
        """Whether what has no count is known by its place, and needs no list, which would be long."""
        return hasattr(self._model, "without_count") and len(self._shape) == 2

    @cached_property
    def _without_diagonal(self) -> bool:
        return self._model.without_count(np.zeros(1, np.int64), np.zeros(1, np.int64)) is not None

    @cached_property
    def _per_row(self) -> np.ndarray:
        """How many cells of every row have a count of their own."""
        n, width = self._shape[0], math.prod(self._shape[1:])
        if self._is_network:
            return width - np.arange(n) * self.mirrored - self._without_diagonal
        listed = self._listed()
        return width - (0 if listed is None else np.bincount(listed // width, minlength=n)) * np.ones(
            n, np.int64
        )

    @cached_property
    def _ends(self) -> np.ndarray:
        return np.cumsum(self._per_row)

    def _listed(self) -> np.ndarray | None:
        found = self._model.left_out(self._shape) if hasattr(self._model, "left_out") else None
        return None if found is None else np.ravel_multi_index(found, self._shape)


class KeptStates:
    """The states of all kept draws, chain after chain, in double precision, never all of them at once."""

    def __init__(self, group: xr.Dataset, state_type: Any, model: Any, shape: tuple[int, ...]) -> None:
        self.sizes = (group.sizes["chain"], group.sizes["draw"])
        self.shape = shape
        self.cells = ModelledCells(model, shape)
        self._model, self._state_type = model, state_type
        self._group = group

    @property
    def are_whole(self) -> bool:
        """Whether the draws of all fields were kept."""
        return all(name in self._group for name in self._state_type._fields)

    @cached_property
    def _fields(self) -> list[np.ndarray]:
        missing = [name for name in self._state_type._fields if name not in self._group]
        if missing:
            raise ValueError(
                "keep: expected a fit with keep='all', whose draws rates, counts, states and likelihoods need, got "
                f"one that has kept no draws of {', '.join(missing)}"
            )
        return [self._group[name].to_numpy() for name in self._state_type._fields]

    def __len__(self) -> int:
        return math.prod(self.sizes)

    def __iter__(self) -> Iterator[Any]:
        return map(self.state, np.ndindex(*self.sizes))

    @property
    def numbers(self) -> Iterator[tuple[int, int]]:
        """Chain and draw of each, by their own numbers: where chains were selected these are no places."""
        of_chains, of_draws = (self._group[dim].to_numpy().tolist() for dim in ("chain", "draw"))
        return itertools.product(of_chains, of_draws)

    def state(self, place: tuple[int, ...]) -> Any:
        """That of one draw, by the places of its chain and of itself in it."""
        return self._state_type(*(_double(field[place]) for field in self._fields))

    def rates(
        self,
        rows: np.ndarray,
        columns: np.ndarray | None = None,
        product: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.matmul,
    ) -> Iterator[np.ndarray]:
        """Rates of these rows (and columns, counted over all axes but the first) in every draw.

        They are 0 where the model leaves cells out.

        ``product`` multiplies the factors of a factorization: ``ordered_product`` where every bit counts.
        """
        outside = self.cells.outside(rows, columns)
        for rates in self._all_rates(rows, slice(None) if columns is None else columns, product):
            if outside is not None:
                rates[outside] = 0.0
            yield rates

    def _all_rates(
        self,
        rows: np.ndarray,
        chosen: slice | np.ndarray,
        product: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> Iterator[np.ndarray]:
        """The same, and whatever the formula says of cells that are left out."""
        fields = getattr(self._model, "matrix_fields", None)
        if fields is not None:  # any part of them can be had without the rest
            theta, phi = (self._fields[self._state_type._fields.index(name)] for name in fields)
            for place in np.ndindex(*self.sizes):
                yield product(_double(theta[place][rows]), _double(phi[place][:, chosen]))
            return
        if getattr(self._model, "unfolds", False):
            for state in self:
                theta, phi = self._model.unfold(state, None if isinstance(chosen, slice) else chosen)
                yield product(theta[rows], phi)
            return
        for state in self:
            yield self._own_rates(state, rows)[:, chosen]

    def mean_rates(self, rows: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """Mean over the draws; like one draw in memory."""
        draws = self.rates(rows, columns)
        mean = next(draws)
        for rates in draws:
            mean += rates
        mean /= len(self)
        return mean

    def _own_rates(self, state: Any, rows: np.ndarray) -> np.ndarray:
        """A user's model gives rates of consecutive rows: ask for blocks, and pick."""
        out = np.empty((len(rows), math.prod(self.shape[1:])))
        for block in row_blocks(self.shape):
            here = (rows >= block.start) & (rows < block.stop)
            if here.any():
                out[here] = checked_rates(self._model, state, self.shape, block)[rows[here] - block.start]
        return out


class KeptDraws(ABC):
    """The base of ``Posterior`` and ``SharedPosterior``.

    It can be pickled, for multiprocessing and the like (files are ``save`` and ``load_posterior``). The class of a
    factorization's states is made for its factors: pickle cannot find it, its model can.
    """

    model: Any
    _state_type: Any
    #: The folder it was read from, or fitted into.
    path: Path | None = None
    #: How many draws of each chain it had there, and by what they are known again (``reader.mark_of_run``).
    mark: tuple[int, bytes] | None = None
    _modes: Modes | None = None  # see ``diagnostics.modes.posterior_modes``, which keeps them here
    _read_tree: Callable[[], xr.DataTree]

    @cached_property
    def tree(self) -> xr.DataTree:
        """All draws, in ArviZ's schema; those of a fit to disk are read when they are first asked for."""
        return self._read_tree()

    @property
    @abstractmethod
    def _kept(self) -> KeptStates:
        """The draws as states."""

    @property
    def settings(self) -> dict[str, Any]:
        """How it was fitted: sweeps, burn_in, thin, chains, seed, method, ..., seconds, interrupted.

        ``stopped`` says why the chains ended: by their "sweeps", "precision" (``until``), "time" (``max_seconds``)
        or an "interrupt".
        """
        return json.loads(self.tree.attrs["settings"])

    @property
    def n_draws(self) -> int:
        """Kept draws of all chains together."""
        return len(self._kept)

    def states(self) -> Iterator[Any]:
        """The kept states, chain after chain, as the model's own NamedTuple, topics or components in any order."""
        return iter(self._kept)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        for cached in ("_kept", "_aligners", "_modes"):
            state.pop(cached, None)  # made anew when asked for
        if state["_state_type"] is getattr(self.model, "state_type", None):
            del state["_state_type"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "_state_type" not in state:
            self._state_type = self.model.state_type


def row_slices(n_rows: int, numbers_per_row: int) -> Iterator[slice]:
    """Slices of rows of about NUMBERS_PER_BLOCK numbers."""
    return slices_of(n_rows, numbers_per_row, NUMBERS_PER_BLOCK)


def ordered_product(theta: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """theta @ phi, summed in one fixed order: an entry does not depend on its neighbours or on threads.

    >>> ordered_product(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    out = np.empty((len(theta), phi.shape[1]))
    _fill_rows(np.ascontiguousarray(theta), np.ascontiguousarray(phi), out)
    return out


@compiled
def _fill_rows(theta, phi, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        for v in range(out.shape[1]):
            out[i, v] = 0.0
        for k in range(theta.shape[1]):
            weight = theta[i, k]
            for v in range(out.shape[1]):  # over v: vectorised, and no sum changes its order
                out[i, v] += weight * phi[k, v]


def _double(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64) if values.dtype.kind == "f" else values
