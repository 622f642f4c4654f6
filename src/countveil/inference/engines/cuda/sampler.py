"""Chains on a GPU.

A matrix of two factors stays on the device (``matrix_chain``), and so do the chains of a network, which are swept
together (``network_chains``). Of every other factorization that unfolds the true counts are drawn there, cell by
cell, and the factors by the model itself, on the processor: their state is small beside the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from countveil.inference.carry import Carry
from countveil.inference.engines.cuda import device, factors, matrix_chain, network_chains, sums
from countveil.inference.engines.cuda.counts import DeviceCounts
from countveil.inference.engines.cuda.matrix_chain import MatrixChain, Workspace
from countveil.inference.engines.cuda.network_chains import Network, NetworkChain
from countveil.inference.engines.cuda.serves import checked_device
from countveil.inference.engines.cuda.watch import Watch
from countveil.inference.monitor import Monitor
from countveil.inference.problem import Problem
from countveil.inference.relocation import Relocation, relocation_of
from countveil.inference.settings import Settings
from countveil.inference.store import Store
from countveil.kernels.philox import SweepKey
from countveil.models.einsum.exposure import exposure_of
from countveil.models.einsum.model import EinsumModel, MatrixTokens
from countveil.models.einsum.update import Statistics
from countveil.runtime.workers import Workers


def open_problem(problem: Problem, settings: Settings) -> CudaSampler:
    """A sampler that holds its chains on the device, or an error that says why not."""
    checked_device(problem, settings)
    return CudaSampler(problem, settings.seed, settings.threads, relocation_of(problem, settings))


class CudaSampler:
    """See ``engine.Sampler``."""

    def __init__(
        self, problem: Problem, seed: int, threads: int = 1, relocation: Relocation | None = None
    ) -> None:
        self._problem, self._seed = problem, np.uint64(seed)
        self._workers = Workers(threads)
        model, view = problem.model, problem.views[""]
        assert isinstance(model, EinsumModel)
        self._chains: dict[int, MatrixChain | NetworkChain | UnfoldedChain] = {}
        self._sweeps: dict[int, int] = {}
        self._swept: dict[int, bool] = {}  # since it was loaded
        self._work: Any
        self._kind: type[MatrixChain] | type[NetworkChain] | type[UnfoldedChain]
        if network_chains.fits(model, view.observed):
            self._work = Network(model, view.observed, seed, self._workers, relocation)
            self._kind = NetworkChain
            return
        counts = DeviceCounts(view.observed, model.n_components)
        if matrix_chain.fits(model) and relocation is None:
            self._work, self._kind = Workspace(model, counts), MatrixChain
        else:
            self._work, self._kind = UnfoldedWork(problem, counts, self._workers, relocation), UnfoldedChain

    def __enter__(self) -> CudaSampler:
        self._workers.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._workers.__exit__(*error)
        self._chains.clear()

    def start(self, chain: int) -> None:
        """Begin a chain at its starting state, sweep 0."""
        state = self._problem.start(SweepKey(self._seed, chain, 0), self._workers)
        self._load(chain, 0, state)

    def load(self, carry: Carry) -> None:
        """Go on with the chain of a carry, from its sweep."""
        state = self._problem.state_type(**{name: np.array(value) for name, value in carry.state.items()})
        self._load(carry.chain, carry.sweep, state, carry.extra)

    def _load(
        self, chain: int, sweep: int, state: Any, extra: Mapping[str, np.ndarray] | None = None
    ) -> None:
        if chain not in self._chains:
            self._chains[chain] = self._kind(self._work, int(self._seed), chain)
        self._chains[chain].load(state, sweep)
        self._chains[chain].extra = {name: np.array(value) for name, value in (extra or {}).items()}
        self._sweeps[chain], self._swept[chain] = sweep, False

    def carry(self, chain: int) -> Carry:
        """All that the chain needs to go on, copied."""
        state = self._chains[chain].state()._asdict()
        return Carry(
            chain,
            self._sweeps[chain],
            {name: np.array(value) for name, value in state.items()},
            {name: np.array(value) for name, value in self._chains[chain].extra.items()},
        )

    def sweep(self, chain: int) -> None:
        """One sweep: the true counts given the state, and the state given the counts."""
        self._chains[chain].sweep()
        self._sweeps[chain] += 1
        self._swept[chain] = True

    def keep(self, chain: int, store: Store) -> dict[str, float]:
        """Put the chain's state and its monitored scalars into a store: its next draw. Gives the scalars."""
        state = self._chains[chain].state()
        scalars = self._scalars(chain, state)
        store.keep(chain, state, scalars)
        return scalars

    def monitor(self, chain: int) -> dict[str, float]:
        """The scalars by which a chain is watched, of its last sweep."""
        return self._scalars(chain, self._chains[chain].state())

    def _scalars(self, chain: int, state: Any) -> dict[str, float]:
        held = self._chains[chain]
        if isinstance(held, MatrixChain):
            return self._watch.scalars(held, state, self._swept[chain])
        return self._monitor.scalars(state, held.statistics(), None)

    @cached_property
    def _monitor(self) -> Monitor:
        return Monitor(self._problem, self._workers)

    @cached_property
    def _watch(self) -> Watch:
        return Watch(self._problem, self._work, self._workers)


class UnfoldedWork:
    """What chains of one problem share whose factors are drawn on the processor."""

    def __init__(
        self, problem: Problem, counts: DeviceCounts, workers: Workers, relocation: Relocation | None
    ) -> None:
        self.problem, self.counts, self.workers, self.relocation = problem, counts, workers, relocation
        data, k = counts.data, problem.model.n_components
        self.theta = device.empty((data.n_rows, k), np.float64)
        self.phi = device.empty((data.width, k), np.float64)
        self.row_tokens = device.empty((data.n_rows, k), np.int64)
        self.column_tokens = device.empty((data.width, k), np.int64)
        self.key, self.one = device.empty(3, np.uint64), device.to_device(np.ones(1))
        self.buffer, (self.rows, self.columns) = sums.split_buffer([k, k])
        self.exposure = exposure_of(data.missing_starts, data.missing_columns, data.width)
        self.pairs: Mapping[str, Any] = problem.model.pair_cells({"": self.exposure}, problem.shapes)

    def tokens(self, seed: int, chain: int, sweep: int, state: Any) -> MatrixTokens:
        """Those of one sweep, in the matrix form."""
        theta, phi = self.problem.model.unfold(state)
        device.fill_from(self.theta, theta)
        device.fill_from(self.phi, phi.T)
        device.fill_from(self.key, np.array([seed, chain, sweep - 1], dtype=np.uint64))
        n = max(self.theta.shape[0] + self.phi.shape[0], 1) * self.theta.shape[1]
        n = max(n, len(self.buffer))
        device.launch(factors.start_sweep, n, self.key, self.row_tokens, self.column_tokens, self.buffer)
        self.rows.find_largest(self.theta, self.one)
        self.columns.find_largest(self.phi, self.one)
        self.counts.draw(
            self.key, self.theta, self.phi, self.rows.largest, self.columns.largest,
            self.row_tokens, self.column_tokens,
        )  # fmt: skip
        return MatrixTokens(
            device.to_host(self.row_tokens), device.to_host(self.column_tokens), self.exposure
        )


class UnfoldedChain:
    """A chain of any factorization that unfolds: counts on the device, factors on the processor."""

    def __init__(self, work: UnfoldedWork, seed: int, chain: int) -> None:
        self._work, self._seed, self._chain = work, seed, chain
        self._state: Any = None
        self._sweep = 0
        self.extra: dict[str, np.ndarray] = {}  # of a relocation under way
        self._statistics: Mapping[str, Statistics] | None = None

    def load(self, state: Any, sweep: int) -> None:
        """Go on from a state after so many sweeps."""
        self._state, self._sweep, self._statistics = state, sweep, None

    def state(self) -> Any:
        """The state."""
        return self._state

    def statistics(self) -> Mapping[str, Statistics] | None:
        """What the last sweep drew the state from."""
        return self._statistics

    def sweep(self) -> None:
        """One sweep."""
        work, model = self._work, self._work.problem.model
        key = SweepKey(np.uint64(self._seed), self._chain, self._sweep + 1)
        drawn = work.tokens(self._seed, self._chain, self._sweep + 1, self._state)
        self._statistics = {"": model.tokens_of_matrix(self._state, drawn, key, work.workers)}
        self._state = model.update_from_sums(self._state, self._statistics, work.pairs, key, work.workers)
        if work.relocation is not None:
            self._state = work.relocation.after_sweep(self._state, self.extra, key, work.workers)
        self._sweep += 1
