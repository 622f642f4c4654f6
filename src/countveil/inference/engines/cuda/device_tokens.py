"""True counts from a device, for whoever holds the factors: an algorithm beside those of the CPU engine.

Factors of other factorizations than a matrix's two are drawn by the model itself, on the processor; and so are
those of a shard, which has a GPU of its own for its rows (``engine="mpi"`` or ``"ray"``, ``algorithm="cuda"``).
"""

from __future__ import annotations

import threading

import numpy as np

from countveil.inference.engines.cpu.rows import of_all_rows
from countveil.inference.engines.cuda import device, factors, sums
from countveil.inference.engines.cuda.counts import DeviceCounts, bytes_of_counts
from countveil.inference.engines.cuda.halves import MOST_COMPONENTS
from countveil.inference.observed import Observed
from countveil.inference.settings import derived_seed
from countveil.kernels.philox import SweepKey
from countveil.models.einsum.exposure import exposure_of
from countveil.models.einsum.model import MatrixTokens
from countveil.runtime.workers import Workers

#: Shards that are threads of one process share its device.
_turn = threading.Lock()


class DeviceTokens:
    """For one release or plain counts, as any noise is known. See ``cpu.tokens.Tokens``.

    A device names the streams of its cells by the rows that it has. Rows that begin further down have another seed:
    draws of several shards have the law of one's, and not its bits.
    """

    def __init__(self, data: Observed, n_components: int, workers: Workers) -> None:
        _check(data, n_components)
        with _turn:
            self._counts = DeviceCounts(data, n_components)
            self._theta = device.empty((data.n_rows, n_components), np.float64)
            self._phi = device.empty((data.width, n_components), np.float64)
            self._row_tokens = device.empty((data.n_rows, n_components), np.int64)
            self._column_tokens = device.empty((data.width, n_components), np.int64)
            self._key, self._one = device.empty(3, np.uint64), device.to_device(np.ones(1))
            self._buffer, (self._rows, self._columns) = sums.split_buffer([n_components, n_components])
        self._exposure = exposure_of(data.missing_starts, data.missing_columns, data.width, workers)

    def prepare(self, phi: np.ndarray, workers: Workers) -> np.ndarray:
        """Nothing to do: phi is (columns, components)."""
        return phi

    def draw(self, theta: np.ndarray, phi: np.ndarray, key: SweepKey, workers: Workers) -> MatrixTokens:
        """The sums of allocated tokens of one sweep; theta is (rows, components)."""
        seed = key.seed if key.first_row == 0 else derived_seed(key.seed, f"rows from {key.first_row}")
        with _turn:
            rows, columns = self._drawn(theta, phi, int(seed), key.chain, key.sweep)
        return MatrixTokens(rows, of_all_rows(columns, workers), self._exposure)

    def _drawn(
        self, theta: np.ndarray, phi: np.ndarray, seed: int, chain: int, sweep: int
    ) -> tuple[np.ndarray, np.ndarray]:
        device.fill_from(self._theta, theta)
        device.fill_from(self._phi, phi)
        # The first kernel goes on to the next sweep.
        device.fill_from(self._key, np.array([seed, chain, sweep - 1], dtype=np.uint64))
        tokens = self._row_tokens, self._column_tokens
        n = max((len(theta) + len(phi)) * theta.shape[1], len(self._buffer))
        device.launch(factors.start_sweep, n, self._key, *tokens, self._buffer)
        self._rows.find_largest(self._theta, self._one)
        self._columns.find_largest(self._phi, self._one)
        self._counts.draw(
            self._key, self._theta, self._phi, self._rows.largest, self._columns.largest, *tokens
        )
        return device.to_host(tokens[0]), device.to_host(tokens[1])


def _check(data: Observed, n_components: int) -> None:
    """Or an error that says before any work why not."""
    if n_components >= MOST_COMPONENTS:
        raise ValueError(
            f"algorithm: expected fewer than {MOST_COMPONENTS} components for 'cuda', got {n_components}"
        )
    found = device.find_device()
    if isinstance(found, str):
        raise RuntimeError(f"algorithm: expected a GPU for 'cuda', got none: {found}")
    needed = bytes_of_counts(data, n_components) + 16 * (data.n_rows + data.width) * n_components
    if needed > found.free:
        raise MemoryError(
            f"algorithm: expected {needed} bytes of free memory on {found.name} for 'cuda', got {found.free} of "
            f"{found.total}"
        )
