"""The protocol of a model: how a user brings their own, and what may be asked of any model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any, Protocol, runtime_checkable

import numpy as np

from countveil.kernels.philox import SWEEP_BITS, SweepKey
from countveil.privacy.guarantee import shown

#: A NamedTuple of numpy arrays. With the sweep number and the seed it is all a chain needs to go on.
State = Any

#: Cells of a block of rates.
CELLS_PER_BLOCK = 2**20


class Data(Protocol):
    """What a model may know of the data when it chooses a starting state."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of counts."""

    @property
    def n_observed(self) -> int:
        """Number of cells that are not missing."""

    def total(self) -> float:
        """The sum of the true counts over observed cells, or an unbiased estimate of it."""


@runtime_checkable
class CountModel(Protocol):
    """A model of independent Poisson counts whose rates depend on a state.

    Three functions and the names of the state's dimensions are all it takes. ``fit`` draws the true counts
    from their exact conditional given the rates and the release, hands them to ``update``, and so on; a model
    written for plain counts becomes private without a change. Missing cells reach ``update`` as draws from
    their Poisson rates, so a model need not know about them.
    """

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        """For every field of the state the names of its dimensions; () for a scalar. A class attribute will do."""

    def init(self, data: Data, rng: np.random.Generator) -> State:
        """A starting state."""

    def rates(self, state: State, rows: slice) -> np.ndarray:
        """The Poisson rates of these rows, >= 0: an array of shape (rows, *data.shape[1:])."""

    def update(self, state: State, counts: np.ndarray, rng: np.random.Generator) -> State:
        """A new state drawn given the (true) counts, by any kernel that leaves its posterior invariant."""


def generator(key: SweepKey) -> np.random.Generator:
    """A numpy generator for a user's own model, keyed by seed, chain and sweep.

    numpy's Philox is another one (4x64), and its key is twice as wide: it never meets the streams of the kernels.
    """
    low = (key.chain << SWEEP_BITS) | key.sweep
    return np.random.Generator(np.random.Philox(key=np.array([key.seed, low], dtype=np.uint64)))


def mean_rate(data: Data) -> float:
    """The mean count of the observed cells: what the rates of a start should have for their mean."""
    # Noise can push the estimated total below zero; one count per hundred cells is a start anywhere.
    return max(data.total() / max(data.n_observed, 1), 0.01)


def row_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Slices of rows of about CELLS_PER_BLOCK cells."""
    return slices_of(shape[0], math.prod(shape[1:]), CELLS_PER_BLOCK)


def slices_of(n_rows: int, numbers_per_row: int, together: int) -> Iterator[slice]:
    """Slices of rows of about so many numbers together, a row at least."""
    size = max(1, together // max(numbers_per_row, 1))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def checked_rates(model: CountModel, state: State, shape: tuple[int, ...], rows: slice) -> np.ndarray:
    """``model.rates`` of these rows as a C-ordered (rows, width) array, or an error about the model."""
    expected = (rows.stop - rows.start, *shape[1:])
    rates = np.asarray(model.rates(state, rows), dtype=np.float64)
    if rates.shape != expected:
        raise ValueError(f"model.rates: expected an array of shape {expected}, got {rates.shape}")
    if not (np.isfinite(rates).all() and (rates >= 0).all()):
        raise ValueError("model.rates: expected finite rates >= 0, got others")
    return np.ascontiguousarray(rates).reshape(expected[0], -1)


def rates_at(
    model: CountModel, state: State, shape: tuple[int, ...], rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Rates of single cells, columns counted over all axes but the first."""
    if hasattr(model, "rates_at"):
        return model.rates_at(state, rows, columns)
    out = np.empty(len(rows))
    for block in row_blocks(shape):
        here = (rows >= block.start) & (rows < block.stop)
        if here.any():
            out[here] = checked_rates(model, state, shape, block)[rows[here] - block.start, columns[here]]
    return out


def total_rate(model: CountModel, state: State, shape: tuple[int, ...]) -> float:
    """The sum of all rates."""
    if hasattr(model, "total_rate"):
        return model.total_rate(state)
    return math.fsum(float(checked_rates(model, state, shape, block).sum()) for block in row_blocks(shape))


def left_out(model: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, ...] | None:
    """Cells that are no part of the model (a network's diagonal), one index array per axis; or None."""
    return model.left_out(shape) if hasattr(model, "left_out") else None


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """``value`` as an int, or an error naming the parameter."""
    good = isinstance(value, Integral) and not isinstance(value, bool)
    if not good or value < least or (most is not None and value > most):
        expected = f"a whole number >= {least}" if most is None else f"a whole number from {least} to {most}"
        raise ValueError(f"{name}: expected {expected}, got {shown(value)}")
    return int(value)


def rate_or_none(name: str, value: Any) -> float | None:
    """A prior's rate as a float; None, where it is inferred; or an error naming the parameter."""
    return None if value is None else positive_number(name, value)


#: Of shapes and rates: beyond it factors overflow, and their draws would not end.
LARGEST_NUMBER = 1e30


def positive_number(name: str, value: Any, least: float = 0.0) -> float:
    """``value`` as a float, or an error naming the parameter."""
    good = isinstance(value, Real) and not isinstance(value, bool)
    if not good or not max(least, 1 / LARGEST_NUMBER) <= value <= LARGEST_NUMBER:  # nor is NaN
        expected = f"a finite number >= {least:g}" if least else "a finite number > 0"
        if good and (value > LARGEST_NUMBER or 0 < value < 1 / LARGEST_NUMBER):
            expected = f"a number from {max(least, 1 / LARGEST_NUMBER):g} to {LARGEST_NUMBER:g}"
        raise ValueError(f"{name}: expected {expected}, got {shown(value)}")
    return float(value)
