"""Cell by cell: the readable reference, the paper's sampler, and what serves a user's own model.

Every observed cell's true count is drawn given its rate and its release, by the exact conditional or by one step of
the paper's sampler. In the matrix form its tokens are then shared out over the components; for any other model the
counts go to its ``update``, missing ones drawn from their rates. Cost: O(cells * components).

The paper's sampler has two noise rates for every cell: they belong to the chain (``Carry.extra``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from countveil.inference.engines.cpu.rows import (
    Counters,
    Factors,
    allocate,
    fill_rates,
    released_total,
    scratch_size,
)
from countveil.inference.observed import MISSING, Observed, gather, noise_of, open_row
from countveil.kernels import steps
from countveil.kernels.given_release.bessel import draw_count_by_bessel
from countveil.kernels.given_release.geometric import draw_count
from countveil.kernels.given_release.repeated import draw_count_repeated
from countveil.kernels.philox import SweepKey, open_stream
from countveil.kernels.poisson import poisson
from countveil.kernels.uniform import exponential
from countveil.models.count_model import CountModel, checked_rates, row_blocks
from countveil.models.einsum.exposure import exposure_of
from countveil.models.einsum.model import MatrixTokens
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers

_NONE = np.zeros((0, 0))


class NoiseRates(NamedTuple):
    """The two noise rates of every cell, (rows, width), for the paper's sampler; empty for the exact one."""

    plus: np.ndarray
    minus: np.ndarray


def start_noise_rates(data: Observed, key: SweepKey, workers: Workers) -> dict[str, np.ndarray]:
    """Rates drawn from their prior, by their names in a carry."""
    shape = (data.n_rows, data.width)
    rates = NoiseRates(np.empty(shape), np.empty(shape))
    workers.run(data.n_rows, lambda start, stop: _draw_from_prior(key, start, stop, data, rates))
    return {"noise_plus": rates.plus, "noise_minus": rates.minus}


def _noise_rates(extra: Mapping[str, np.ndarray]) -> NoiseRates:
    if "noise_plus" not in extra:
        return NoiseRates(_NONE, _NONE)
    return NoiseRates(extra["noise_plus"], extra["noise_minus"])


class Cells:
    """The matrix form, for any data; with noise rates in ``extra`` by the paper's sampler."""

    def __init__(self, data: Observed, workers: Workers | None = None) -> None:
        self._data = data
        self._released = released_total(data)
        self._exposure = exposure_of(data.missing_starts, data.missing_columns, data.width, workers)

    def prepare(self, phi: np.ndarray, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        """phi (columns, components), and the same by components."""
        return phi, np.ascontiguousarray(phi.T)

    def draw(
        self,
        theta: np.ndarray,
        prepared: tuple[np.ndarray, np.ndarray],
        key: SweepKey,
        workers: Workers,
        extra: Mapping[str, np.ndarray] | None = None,
    ) -> MatrixTokens:
        """The sums of allocated tokens of one sweep; theta is (rows, components)."""
        phi, by_component = prepared
        factors, noise = Factors(theta, phi), _noise_rates(extra or {})
        counters = Counters(factors, self._released, workers)

        def rows(worker: int, start: int, stop: int) -> None:
            _sweep_rows(key, start, stop, factors, by_component, self._data, noise, counters.of(worker))

        workers.run_with_worker(self._data.n_rows, rows)
        return MatrixTokens(counters.rows, counters.columns(workers), self._exposure)


def draw_counts(
    model: CountModel,
    state: Any,
    data: Observed,
    shape: tuple[int, ...],
    key: SweepKey,
    workers: Workers,
    extra: Mapping[str, np.ndarray],
) -> np.ndarray:
    """True counts (rows, width) of any model: drawn, or as observed; missing cells from their Poisson rates."""
    counts = np.empty((data.n_rows, data.width), dtype=np.int64)
    noise = _noise_rates(extra)
    for block in row_blocks(shape):
        first, rates = block.start, checked_rates(model, state, shape, block)

        def rows(start: int, stop: int, first: int = first, rates: np.ndarray = rates) -> None:
            _draw_rows(key, start + first, stop + first, first, rates, data, noise, counts)

        workers.run(len(rates), rows)
    return counts


@compiled
def _draw_row(stream, d, rates, data, noise, released, counts):
    """counts[v] of row d given its rates; MISSING stays MISSING. Returns the stream."""
    plus, minus = noise
    row_rho, cell_rho = data.row_rho, data.cell_rho
    open_row(d, data, released)
    by_cell = len(cell_rho) > 0
    if data.looks.shape[1] > 0:
        return _draw_row_of_looks(stream, d, rates, data, released, counts)
    if len(plus) > 0:
        for v in range(len(rates)):
            counts[v] = MISSING
            if released[v] != MISSING:
                rho = cell_rho[d, v] if by_cell else row_rho[d]
                counts[v], plus[d, v], minus[d, v], stream = draw_count_by_bessel(
                    stream, released[v], rates[v], math.exp(-rho), plus[d, v], minus[d, v]
                )
        return stream
    for v in range(len(rates)):
        counts[v] = MISSING
        if released[v] != MISSING:
            rho = cell_rho[d, v] if by_cell else row_rho[d]
            counts[v], stream = draw_count(stream, released[v], rates[v], rho)
    return stream


@compiled
def _draw_row_of_looks(stream, d, rates, data, released, counts):
    """The same for counts that were released several times."""
    n_releases = len(data.look_rho)
    x, noise, rho_of_looks = np.empty(n_releases, np.int64), np.empty(n_releases), data.look_rho[:, d].copy()
    at = data.row_starts[d]
    for v in range(len(rates)):
        counts[v] = MISSING
        if released[v] > 0:
            n = gather(data.looks[at], rho_of_looks, x, noise)
            counts[v], stream = draw_count_repeated(stream, x[:n], noise[:n], rates[v])
            at += 1
        elif released[v] == 0:
            rho = noise_of(
                d, v, data.row_rho, data.cell_rho, data.partial_starts, data.partial_columns, data.partial_rho
            )
            counts[v], stream = poisson(stream, math.exp(-rho) * rates[v])
    return stream


@compiled
def _sweep_rows(key, start, stop, factors, phi_by_component, data, noise, sums):
    theta, phi = factors
    row_topic, column_topic = sums
    n_components, width = phi_by_component.shape
    rates, released = np.empty(width), np.empty(width, dtype=np.int64)
    counts, scratch = np.empty(width, dtype=np.int64), np.empty(scratch_size(n_components))
    for d in range(start, stop):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.COUNTS, key.first_row + d)
        fill_rates(d, theta, phi_by_component, rates)
        stream = _draw_row(stream, d, rates, data, noise, released, counts)
        for v in range(width):
            if counts[v] > 0:
                stream = allocate(stream, d, v, counts[v], theta, phi, scratch, row_topic, column_topic)


@compiled
def _draw_rows(key, start, stop, first, rates, data, noise, counts):
    width = rates.shape[1]
    released = np.empty(width, dtype=np.int64)
    for d in range(start, stop):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.COUNTS, key.first_row + d)
        stream = _draw_row(stream, d, rates[d - first], data, noise, released, counts[d])
        for v in range(width):
            if counts[d, v] == MISSING:
                counts[d, v], stream = poisson(stream, rates[d - first, v])


@compiled
def _draw_from_prior(key, start, stop, data, noise):
    """Exponential with mean alpha/(1-alpha) = 1/expm1(rho)."""
    for d in range(start, stop):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.NOISE_RATES, key.first_row + d)
        for v in range(noise.plus.shape[1]):
            mean = 1.0 / math.expm1(data.cell_rho[d, v] if len(data.cell_rho) else data.row_rho[d])
            e, stream = exponential(stream)
            noise.plus[d, v] = mean * e
            e, stream = exponential(stream)
            noise.minus[d, v] = mean * e
