"""Chains on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from countveil.inference.alpha import AlphaStep
from countveil.inference.carry import Carry
from countveil.inference.engines.cpu.cells import Cells, draw_counts, start_noise_rates
from countveil.inference.engines.cpu.choose import (
    choose_algorithm,
    fits_fibers,
    fits_integrated,
    noise_among,
)
from countveil.inference.engines.cpu.collapsed import Collapsed, collapsed_of
from countveil.inference.engines.cpu.fibers import Fibers
from countveil.inference.engines.cpu.tokens import Tokens
from countveil.inference.memory_needed import check_room
from countveil.inference.monitor import Monitor
from countveil.inference.observed import Observed
from countveil.inference.problem import Problem, View
from countveil.inference.relocation import Relocation, relocation_of
from countveil.inference.settings import Settings, derived_seed
from countveil.inference.store import Store
from countveil.kernels.philox import SweepKey
from countveil.models.count_model import generator
from countveil.models.einsum.exposure import Exposure, exposure_of
from countveil.models.einsum.model import EinsumModel
from countveil.models.einsum.update import Statistics
from countveil.runtime.workers import Workers

#: True counts from a GPU.
DEVICE_TOKENS = "countveil.inference.engines.cuda.device_tokens"


def open_problem(problem: Problem, settings: Settings) -> CpuSampler:
    """A sampler that holds its chains in memory."""
    return CpuSampler(
        problem,
        settings.seed,
        settings.threads,
        settings.algorithm,
        relocation=relocation_of(problem, settings),
        collapsed=collapsed_of(problem, settings),
    )


class _Chain:
    """A chain's state, and what its last sweep drew it from."""

    def __init__(self, sweep: int, state: Any, extra: dict[str, np.ndarray]) -> None:
        self.sweep, self.state, self.extra = sweep, state, extra
        self.statistics: Mapping[str, Statistics] | None = None


class CpuSampler:
    """See ``engine.Sampler``. What is in here beside the chains follows from the problem alone."""

    def __init__(
        self,
        problem: Problem,
        seed: int,
        threads: int,
        algorithm: str = "auto",
        workers: Workers | None = None,
        relocation: Relocation | None = None,
        collapsed: Collapsed | None = None,
    ) -> None:
        check_room(problem, 1)
        self._problem, self._algorithm, self._relocation = problem, algorithm, relocation
        self._collapsed = collapsed
        self._seed = np.uint64(seed)
        self._workers = Workers(threads) if workers is None else workers
        self._chains: dict[int, _Chain] = {}
        self._monitor: Monitor | None = None
        several = len(problem.views) > 1
        # Views have streams of their own: rows would meet the same numbers in all of them.
        self._seeds = {
            name: derived_seed(seed, f"view {name}") if several else self._seed for name in problem.views
        }
        self._views = {
            name: ViewSampler(view, algorithm, self._workers)
            for name, view in problem.views.items()
            if problem.alpha is None
        }
        if problem.alpha is not None:
            named_algorithm(
                problem.views[""], algorithm
            )  # said before any work; alpha chooses anew in every sweep
        self._alpha_step = None if problem.alpha is None else AlphaStep(problem.views[""], problem.alpha)
        self._pairs: Mapping[str, Any] = {}
        if problem.is_factorization:
            self._pairs = problem.model.pair_cells(
                {name: _exposure(view) for name, view in problem.views.items()}, problem.shapes
            )

    def __enter__(self) -> CpuSampler:
        self._workers.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._workers.__exit__(*error)

    def start(self, chain: int) -> None:
        """Begin a chain at its starting state, sweep 0."""
        check_room(self._problem, len(self._chains.keys() | {chain}))
        key = self._key(chain, 0)
        extra: dict[str, np.ndarray] = {}
        if self._problem.alpha is not None:
            extra["alpha"] = np.asarray(self._problem.alpha.start)
        for name, view in self._problem.views.items():
            if view.method == "bessel":
                rates = start_noise_rates(view.observed, key._replace(seed=self._seeds[name]), self._workers)
                extra |= {_of_view(name, rate): values for rate, values in rates.items()}
        self._chains[chain] = _Chain(0, self._problem.start(key, self._workers), extra)

    def load(self, carry: Carry) -> None:
        """Go on with the chain of a carry, from its sweep."""
        # In the order that is compiled already: a file may have another.
        fields = {name: np.array(value, order="C") for name, value in carry.state.items()}
        state = self._problem.state_type(**fields)
        extra = {name: np.array(value, order="C") for name, value in carry.extra.items()}
        needed = {"alpha"} if self._problem.alpha is not None else set()
        needed |= {
            _of_view(name, "noise_plus") for name, v in self._problem.views.items() if v.method == "bessel"
        }
        if not needed <= extra.keys():
            raise ValueError(
                f"carry: expected the arrays {', '.join(sorted(needed))} of this problem, got none"
            )
        self._chains[carry.chain] = _Chain(carry.sweep, state, extra)

    def carry(self, chain: int) -> Carry:
        """All that the chain needs to go on, copied."""
        held = self._chains[chain]
        state = {name: np.array(value) for name, value in held.state._asdict().items()}
        return Carry(chain, held.sweep, state, {name: np.array(value) for name, value in held.extra.items()})

    def sweep(self, chain: int) -> None:
        """One sweep: the true counts given the state, the state given the counts, and alpha where it is unknown."""
        held, problem = self._chains[chain], self._problem
        key = self._key(chain, held.sweep + 1)
        views = self._views or {"": self._at_alpha(float(held.extra["alpha"]))}
        if problem.is_factorization:
            if self._collapsed is not None and key.sweep in self._collapsed.sweeps:
                statistics = {"": self._collapsed.statistics(held.state, key, self._workers)}
            else:
                statistics = {
                    name: view.statistics(
                        problem.view_state(name, held.state),
                        key._replace(seed=self._seeds[name]),
                        self._workers,
                        _own(name, held.extra),
                    )
                    for name, view in views.items()
                }
            held.state = problem.model.update_from_sums(
                held.state, statistics, self._pairs, key, self._workers
            )
            held.statistics = statistics
        else:
            counts = views[""].counts(held.state, key, self._workers, held.extra)
            shape = problem.shapes[""]
            held.state = problem.model.update(held.state, counts.reshape(shape), generator(key))
        if self._alpha_step is not None:
            alpha = self._alpha_step.alpha(held.state, float(held.extra["alpha"]), key, self._workers)
            held.extra["alpha"] = np.asarray(alpha)
        if self._relocation is not None:
            held.state = self._relocation.after_sweep(held.state, held.extra, key, self._workers)
        held.sweep += 1

    def keep(self, chain: int, store: Store) -> dict[str, float]:
        """Put the chain's state and its monitored scalars into a store: its next draw. Gives the scalars."""
        scalars = self.monitor(chain)
        store.keep(chain, self._chains[chain].state, scalars)
        return scalars

    def state_and_scalars(self, chain: int) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """The same, for a store elsewhere: the fields of the state (a shard has those of its rows)."""
        return self._chains[chain].state._asdict(), self.monitor(chain)

    def monitor(self, chain: int) -> dict[str, float]:
        """The scalars by which a chain is watched, of its last sweep."""
        held = self._chains[chain]
        alpha = None if self._problem.alpha is None else float(held.extra["alpha"])
        if self._monitor is None:
            # No cached property: Python 3.11 makes those one at a time, and shards wait for each other here.
            self._monitor = Monitor(self._problem, self._workers)
        return self._monitor.scalars(held.state, held.statistics, alpha)

    def _key(self, chain: int, sweep: int) -> SweepKey:
        return SweepKey(self._seed, chain, sweep, self._workers.of_rows.first_row)

    def _at_alpha(self, alpha: float) -> ViewSampler:
        # Built anew, because what is prepared and chosen may depend on alpha: readable, and cheap beside a sweep.
        view = self._problem.views[""]
        view = view._replace(observed=view.observed.with_rho(-np.log(alpha)))
        return ViewSampler(view, self._algorithm, self._workers)


class ViewSampler:
    """Draws the true counts of one view by the algorithm that suits it."""

    def __init__(self, view: View, algorithm: str, workers: Workers) -> None:
        self._view = view
        model, data, shape = view.model, view.observed, view.data.shape
        self.algorithm = named_algorithm(view, algorithm, workers)
        self._fibers: Fibers | None = None
        self._matrix: Any = None
        if self.algorithm == "fibers":
            assert isinstance(model, EinsumModel)
            self._fibers = Fibers(model, data, shape, workers=workers)
        elif isinstance(model, EinsumModel) and model.unfolds:
            self._matrix = matrix_algorithm(self.algorithm, data, model.n_components, workers)

    def statistics(
        self, state: Any, key: SweepKey, workers: Workers, extra: Mapping[str, np.ndarray]
    ) -> Statistics:
        """The sufficient statistics of one sweep's true counts."""
        model = self._view.model
        assert isinstance(model, EinsumModel)
        if self._fibers is not None:
            return self._fibers.statistics(state, key, workers)
        if self._matrix is None:
            return model.tokens_of_counts(state, self.counts(state, key, workers, extra), key, workers)
        theta, phi = model.unfold(state)
        prepared = self._matrix.prepare(phi.T, workers)
        more = (extra,) if isinstance(self._matrix, Cells) else ()
        return model.tokens_of_matrix(
            state, self._matrix.draw(theta, prepared, key, workers, *more), key, workers
        )

    def counts(
        self, state: Any, key: SweepKey, workers: Workers, extra: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """All true counts, cell by cell."""
        view = self._view
        return draw_counts(view.model, state, view.observed, view.data.shape, key, workers, extra)


def named_algorithm(view: View, wanted: str = "auto", workers: Workers | None = None) -> str:
    """The algorithm for a view: the one that is wanted if it serves, or an error; by its costs if none is."""
    model, data, shape = view.model, view.observed, view.data.shape
    unfolds = isinstance(model, EinsumModel) and model.unfolds
    if view.method == "bessel" or not unfolds:
        if wanted not in ("auto", "cells"):
            why = "method 'bessel'" if view.method == "bessel" else "a model that is no matrix product"
            raise ValueError(f"algorithm: expected 'auto' or 'cells' for {why}, got {wanted!r}")
        return "cells"
    assert isinstance(model, EinsumModel)
    is_cp, is_tied = model._spec.per_axis is not None, model.has_tied_factors
    if wanted == "auto":
        return choose_algorithm(data, shape, model.n_components, is_cp, is_tied, workers)
    noise = noise_among(data, Workers(1) if workers is None else workers)
    if wanted == "cuda" and data.is_repeated:
        raise ValueError("algorithm: expected 'cuda' for counts that were released once, got it for others")
    if wanted == "fibers" and not fits_fibers(noise, shape, is_cp):
        raise ValueError(
            "algorithm: expected 'fibers' for a release of three axes or more in the CP form, got it for others"
        )
    if wanted == "integrated" and not fits_integrated(noise, is_tied):
        raise ValueError(
            "algorithm: expected 'integrated' for one release whose noise does not vary within a row, and no tied "
            "factor, got it for others"
        )
    return wanted


def matrix_algorithm(name: str, data: Observed, n_components: int, workers: Workers) -> Any:
    """The algorithm of this name for the matrix form: ``Tokens``, or one with its methods."""
    if name == "cells":
        return Cells(data, workers)
    if name == "cuda":  # not imported where it is not asked for: most people have no GPU
        return import_module(DEVICE_TOKENS).DeviceTokens(data, n_components, workers)
    return Tokens(data, n_components, workers, integrate=name == "integrated")


def _exposure(view: View) -> Exposure:
    """The exposure of the tokens that a sweep draws."""
    model, data = view.model, view.observed
    assert isinstance(model, EinsumModel)
    if not model.unfolds:  # missing counts are drawn, too
        return model.exposure_of_counts(view.data.shape)
    return exposure_of(data.missing_starts, data.missing_columns, data.width)


def _of_view(view: str, name: str) -> str:
    return f"{view}:{name}" if view else name


def _own(view: str, extra: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of one view, by their plain names."""
    if not view:
        return dict(extra)
    start = f"{view}:"
    return {name[len(start) :]: values for name, values in extra.items() if name.startswith(start)}
