"""A user's own model: its rates in blocks of rows, an array of drawn counts back to its ``update``."""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.engines.cpu.noise_rates import NoiseRates
from countveil.inference.engines.cpu.rows import MISSING, open_row
from countveil.inference.observations import Observations
from countveil.inference.rates import checked_rates, row_blocks
from countveil.kernels import steps
from countveil.kernels.bessel_inversion import draw_count_by_bessel
from countveil.kernels.compiled import compiled
from countveil.kernels.count_conditional import draw_count
from countveil.kernels.philox import open_stream
from countveil.kernels.poisson import poisson
from countveil.models.count_model import CountModel, State
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey


class OwnModel:
    """Engine for any CountModel, by the three functions of the protocol."""

    def __init__(
        self, model: CountModel, observations: Observations, shape: tuple[int, ...], bessel: bool = False
    ) -> None:
        self._model = model
        self._data = observations
        self._shape = shape
        self._noise_rates = NoiseRates(observations, bessel)

    def sweep(self, state: State, key: SweepKey, row_work: RowWork) -> tuple[State, None]:
        """Draw all counts given the rates, then the state given the counts."""
        counts = self.counts(state, key, row_work)
        return self._model.update(state, counts.reshape(self._shape), key.generator()), None

    def counts(self, state: State, key: SweepKey, row_work: RowWork) -> np.ndarray:
        """True counts (rows, width): drawn, or as observed; missing cells from their Poisson rates."""
        data = self._data
        counts = np.empty((data.n_rows, data.width), dtype=np.int64)
        plus, minus = self._noise_rates.of(key, row_work)
        for block in row_blocks(self._shape):
            first = block.start
            rates = checked_rates(self._model, state, self._shape, block)

            def rows(start: int, stop: int, first: int = first, rates: np.ndarray = rates) -> None:
                _draw_rows(
                    *key, start + first, stop + first, first, rates, *data[2:],
                    self._noise_rates.bessel, plus, minus, counts,
                )  # fmt: skip

            row_work.run(len(rates), rows)
        return counts


@compiled
def _draw_rows(
    seed, chain, sweep, start, stop, first, rates,
    row_starts, columns, values, missing_starts, missing_columns, row_rho, cell_rho,
    bessel, plus, minus, counts,
):  # fmt: skip
    width = rates.shape[1]
    released = np.empty(width, dtype=np.int64)
    noisy = len(row_rho) > 0
    for d in range(start, stop):
        stream = open_stream(seed, chain, sweep, steps.COUNTS, d)
        open_row(d, row_starts, columns, values, missing_starts, missing_columns, released)
        for v in range(width):
            x = released[v]
            mu = rates[d - first, v]
            if x == MISSING:
                counts[d, v], stream = poisson(stream, mu)
            elif not noisy:
                counts[d, v] = x
            elif bessel:
                rho = cell_rho[d, v] if len(cell_rho) else row_rho[d]
                counts[d, v], plus[d, v], minus[d, v], stream = draw_count_by_bessel(
                    stream, x, mu, math.exp(-rho), plus[d, v], minus[d, v]
                )
            else:
                rho = cell_rho[d, v] if len(cell_rho) else row_rho[d]
                counts[d, v], stream = draw_count(stream, x, mu, rho)
