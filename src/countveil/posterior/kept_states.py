"""The kept draws as states of the model, and their rates, one draw at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr

from countveil.inference.rates import checked_rates, row_blocks
from countveil.kernels.compiled import compiled
from countveil.models import TopicModel
from countveil.posterior.modelled_cells import ModelledCells

#: Numbers of a block of rates, 64 MB: large enough to be quick, small enough to lie beside the draws.
NUMBERS_PER_BLOCK = 2**23


class KeptStates:
    """The states of all kept draws, chain after chain, in double precision, never all of them at once."""

    def __init__(self, group: xr.Dataset, state_type: Any, model: Any, shape: tuple[int, ...]) -> None:
        self.sizes = (group.sizes["chain"], group.sizes["draw"])
        self.shape = shape
        self.cells = ModelledCells(model, shape)
        self._model, self._state_type = model, state_type
        self._fields = [group[name].to_numpy() for name in state_type._fields]

    def __len__(self) -> int:
        return math.prod(self.sizes)

    def __iter__(self) -> Iterator[Any]:
        for place in np.ndindex(*self.sizes):
            yield self._state_type(*(_double(field[place]) for field in self._fields))

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
        if getattr(self._model, "unfolds", False):
            for state in self:
                theta, phi = self._model.unfold(state)
                yield product(theta[rows], phi[:, chosen])
            return
        if not isinstance(self._model, TopicModel):
            for state in self:
                yield self._own_rates(state, rows)[:, chosen]
            return
        theta, phi = self._fields
        for place in np.ndindex(*self.sizes):
            yield product(_double(theta[place][rows]), _double(phi[place][:, chosen]))

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


def blocks_of(n_rows: int, numbers_per_row: int) -> Iterator[slice]:
    """Slices of rows of about NUMBERS_PER_BLOCK numbers."""
    size = max(1, NUMBERS_PER_BLOCK // max(numbers_per_row, 1))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


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
