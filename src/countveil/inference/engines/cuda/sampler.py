"""Chains on a GPU.

A matrix of two factors stays on the device (``matrix_chain``), and so do the chains of a network, which are swept
together (``network_chains``). Every other factorization that unfolds is sampled by the CPU engine, whose state is
small beside the data, with true counts from the device (``device_tokens``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from countveil.inference.carry import Carry
from countveil.inference.engines.cpu.sampler import CpuSampler
from countveil.inference.engines.cuda import matrix_chain, network_chains
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
from countveil.models.einsum.model import EinsumModel
from countveil.runtime.workers import Workers


def open_problem(problem: Problem, settings: Settings) -> CudaSampler | CpuSampler:
    """A sampler that holds its chains on the device, or an error that says why not."""
    checked_device(problem, settings)
    return sampler_of(problem, settings.seed, settings.threads, relocation_of(problem, settings))


def sampler_of(
    problem: Problem, seed: int, threads: int = 1, relocation: Relocation | None = None
) -> CudaSampler | CpuSampler:
    """The sampler of a problem that is served, see the top of this file."""
    model, view = problem.model, problem.views[""]
    is_matrix = matrix_chain.fits(model) and relocation is None
    if is_matrix or network_chains.fits(model, view.observed):
        return CudaSampler(problem, seed, threads, relocation)
    return CpuSampler(problem, seed, threads, "cuda", relocation=relocation)


class CudaSampler:
    """See ``engine.Sampler``. Of a matrix of two factors, or a network."""

    def __init__(
        self, problem: Problem, seed: int, threads: int = 1, relocation: Relocation | None = None
    ) -> None:
        self._problem, self._seed = problem, np.uint64(seed)
        self._workers = Workers(threads)
        model, view = problem.model, problem.views[""]
        assert isinstance(model, EinsumModel)
        self._chains: dict[int, MatrixChain | NetworkChain] = {}
        self._sweeps: dict[int, int] = {}
        self._swept: dict[int, bool] = {}  # since it was loaded
        self._work: Any
        self._kind: type[MatrixChain] | type[NetworkChain]
        if network_chains.fits(model, view.observed):
            self._work = Network(model, view.observed, seed, self._workers, relocation)
            self._kind = NetworkChain
        else:
            counts = DeviceCounts(view.observed, model.n_components)
            self._work, self._kind = Workspace(model, counts), MatrixChain

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
