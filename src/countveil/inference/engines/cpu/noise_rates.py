"""The state of the bessel method: two noise rates for every cell of every chain."""

from __future__ import annotations

import math

import numpy as np

from countveil.inference.observations import Observations
from countveil.kernels import steps
from countveil.kernels.compiled import compiled
from countveil.kernels.exponential import exponential
from countveil.kernels.philox import open_stream
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey

_NONE = np.zeros((0, 0))


class NoiseRates:
    """Rates of a chain, drawn from their prior at its first sweep; none at all for the exact method."""

    def __init__(self, observations: Observations, bessel: bool) -> None:
        self._data = observations
        self.bessel = bessel
        self._by_chain: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def of(self, key: SweepKey, row_work: RowWork) -> tuple[np.ndarray, np.ndarray]:
        """(plus, minus), each (rows, width), to be changed in place by a sweep."""
        if not self.bessel:
            return _NONE, _NONE
        if key.chain not in self._by_chain:
            data = self._data
            shape = (data.n_rows, data.width)
            plus, minus = np.empty(shape), np.empty(shape)

            def rows(start: int, stop: int) -> None:
                _draw_from_prior(*key, start, stop, data.row_rho, data.cell_rho, plus, minus)

            row_work.run(data.n_rows, rows)
            self._by_chain[key.chain] = plus, minus
        return self._by_chain[key.chain]


@compiled
def _draw_from_prior(seed, chain, sweep, start, stop, row_rho, cell_rho, plus, minus):
    """Exponential with mean alpha/(1-alpha) = 1/expm1(rho)."""
    for d in range(start, stop):
        stream = open_stream(seed, chain, sweep, steps.NOISE_RATES, d)
        for v in range(plus.shape[1]):
            mean = 1.0 / math.expm1(cell_rho[d, v] if len(cell_rho) else row_rho[d])
            e, stream = exponential(stream)
            plus[d, v] = mean * e
            e, stream = exponential(stream)
            minus[d, v] = mean * e
