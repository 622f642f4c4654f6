"""Chains of a network whose states stay on the device, swept together.

A network is small, and one chain of it leaves a device idle: so all chains go through a sweep by the same
launches, each at a place ("slot") of its own in every array. A sweep that is asked for waits until all chains have
been asked, or until something is to be known of one. What a chain draws depends on its number, the sweep and its
state, and not on who goes with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeGuard

import numpy as np

from countveil.inference.engines.cuda import network_cells, network_factors, network_priors, network_tokens
from countveil.inference.engines.cuda.device import (
    Recorded,
    empty,
    fill_from,
    launch,
    launch_blocks,
    queue,
    synchronize,
    to_device,
    to_host,
)
from countveil.inference.observed import Observed, rows_of
from countveil.inference.relocation import Relocation
from countveil.kernels.philox import SweepKey
from countveil.models import CommunityModel
from countveil.models.einsum import prior as prior_module
from countveil.models.einsum.exposure import exposure_of
from countveil.models.einsum.update import Statistics
from countveil.runtime.workers import Workers

#: One chain of a larger network fills a device by itself.
MOST_CELLS = 2**22
#: Chains are swept in so many groups, of no fewer than so many: while rows of some are drawn one after the other,
#: which leaves a device idle, the cells of others fill it.
GROUPS, LEAST_OF_GROUP = 4, 8
#: Fields of a state that are numbers, in the order of their places on the device.
_SCALARS = ("theta_scale_upper", "theta_scale_lower", "receiving_shape", "pi_level")


def fits(model: Any, data: Observed) -> TypeGuard[CommunityModel]:
    """Whether chains of a model can be swept here: a network without self-loops."""
    if not isinstance(model, CommunityModel) or model.self_loops:
        return False
    if (
        model.n_communities > network_factors.MOST_COMMUNITIES
        or data.n_rows * data.width > MOST_CELLS
        or data.is_repeated
    ):
        return False
    missing = rows_of(data.missing_starts) == data.missing_columns
    return int(missing.sum()) == data.n_rows


def bytes_of_chains(model: CommunityModel, data: Observed, n_chains: int) -> int:
    """About what the data and the chains take on the device."""
    n_communities = model.n_communities
    of_chain = 8 * (10 * data.n_rows + 4 * n_communities + 2) * n_communities + 8 * data.n_rows * data.width
    if model.rate is None:
        of_chain += 8 * (3 * data.n_rows + n_communities + 1) * (n_communities + 1)
    listed = 2 * 8 * min(len(data.missing_columns), data.n_rows * data.width)
    return data.n_rows * data.width * 8 + data.cell_rho.nbytes + listed + n_chains * of_chain


class Network:
    """The data on the device, and all chains."""

    def __init__(
        self,
        model: CommunityModel,
        data: Observed,
        seed: int,
        workers: Workers,
        relocation: Relocation | None,
    ) -> None:
        self.model, self._seed, self._workers, self._relocation = model, seed, workers, relocation
        self._n, self._size = data.n_rows, model.n_communities
        self._infers, self._has_receiving = model.rate is None, "receiving" in model._spec.factors
        self.exposure = exposure_of(data.missing_starts, data.missing_columns, data.width)
        pairs = model.pair_cells({"": self.exposure}, {"": (data.n_rows, data.width)})["theta"]
        self._lists_observed = pairs.observed
        self._lists = tuple(
            map(to_device, (pairs.out_starts, pairs.out_other, pairs.in_starts, pairs.in_other))
        )
        self._released = to_device(_dense(data))
        with np.errstate(over="ignore", under="ignore"):
            noise = data.row_rho, np.exp(data.row_rho), np.exp(-data.row_rho), data.cell_rho
        self._noise = tuple(map(to_device, noise))
        self._chains: dict[int, NetworkChain] = {}  # in the order of their slots, once they have any
        self._is_open = False
        self._asked: set[int] = set()

    def load(self, chain: NetworkChain, state: Any) -> None:
        """Put a chain into a state."""
        number = chain.number
        self._asked.discard(number)
        held = self.model._hold(state)
        if self._is_open and number not in self._chains:  # one more: all take their places anew
            self.sweep_asked()
            for other in self._chains.values():
                other.held = self._on_host(other)
            self._is_open = False
        self._chains[number] = chain
        chain.held = held
        if self._is_open:
            self._put(chain)

    def ask(self, chain: NetworkChain) -> None:
        """One sweep of a chain, to be done with those of the others."""
        if chain.number in self._asked:
            self.sweep_asked()
        self._asked.add(chain.number)
        if len(self._asked) == len(self._chains):
            self.sweep_asked()

    def state(self, chain: NetworkChain) -> Any:
        """A copy of a chain's state."""
        self.sweep_asked()
        return self.model._state(self._on_host(chain) if self._is_open else chain.held)

    def tokens(self, chain: NetworkChain) -> list[np.ndarray]:
        """Those of all factors, of a chain's last sweep."""
        self.sweep_asked()
        counters = [self._tokens, self._block_tokens]
        if self._has_receiving:
            counters.append(self._received_tokens)
        return [to_host(counter[chain.slot]) for counter in counters]

    def sweep_asked(self) -> None:
        """All sweeps that have been asked for. Nothing waits for the device, but where components are moved."""
        if not self._asked:
            return
        if not self._is_open:
            self._open()
        asked = [chain for number, chain in self._chains.items() if number in self._asked]
        self._asked = set()
        if len(asked) == len(self._chains):
            for number, group in enumerate(self._groups):
                with queue(number):
                    group()
        else:
            synchronize()  # groups may be at work
            self._sweep(to_device(np.array([chain.slot for chain in asked])))
            synchronize()
        for chain in asked:
            chain.sweeps += 1
            if self._relocation is not None and self._relocation.acts_after(chain.sweeps):
                key = SweepKey(np.uint64(self._seed), chain.number, chain.sweeps)
                state = self.model._state(self._on_host(chain))
                moved = self._relocation.after_sweep(state, chain.extra, key, self._workers)
                chain.held = self.model._hold(moved)
                self._put(chain)

    def _open(self) -> None:
        """Places for all chains, and their states there."""
        k, n, size = len(self._chains), self._n, self._size
        self._keys = empty((k, 3), np.uint64)
        self._all = to_device(np.arange(k))
        self._theta, self._rows_drawn, self._below, self._exposed = (
            empty((k, n, size), np.float64) for _ in range(4)
        )
        self._pi, self._turned, self._blocks_drawn = (empty((k, size, size), np.float64) for _ in range(3))
        self._phi, self._totals = empty((k, size, n), np.float64), empty((k, size), np.float64)
        self._in_two = size <= network_tokens.MOST
        self._phi_parts = empty((k, size, 0 if self._in_two else network_cells.LANES, n), np.float64)
        self._of_receivers = empty((k, n if self._in_two else 0, size), np.int32)
        self._counts, self._many = empty((k, n * n), np.int64), empty(k, np.int32)
        self._tokens, self._block_tokens = empty((k, n, size), np.int64), empty((k, size, size), np.int64)
        self._open_priors(k)
        n_groups = min(max(k // LEAST_OF_GROUP, 1), GROUPS)
        slots = [to_device(part) for part in np.array_split(np.arange(k), n_groups)]
        self._groups = [Recorded(partial(self._sweep, of_group)) for of_group in slots]
        for slot, chain in enumerate(self._chains.values()):
            chain.slot = slot
            self._put(chain)
        self._is_open = True

    def _open_priors(self, k: int) -> None:
        """Places for what is inferred; kernels that have no use for an array get one without entries."""
        n, size = self._n, self._size
        rows, communities = (n, size) if self._infers else (0, 0)
        receivers = n if self._has_receiving else 0
        self._scales, self._means = empty((k, rows), np.float64), empty((k, communities), np.float64)
        self._scalars = empty((k, network_factors.N_SCALARS), np.float64)
        self._met_by = empty((k, communities, communities), np.float64)
        self._received = empty((k, receivers), np.float64)
        self._received_tokens = empty((k, receivers), np.int64)
        self._receivers, self._below_receivers = (empty((k, receivers, size), np.float64) for _ in range(2))
        self._weighted_phi = empty((k, size, receivers), np.float64)
        self._fields = {"theta": self._theta, "pi": self._pi}
        if self._infers:
            self._fields |= {"theta_scale": self._scales, "theta_mean": self._means}
        if self._has_receiving:
            self._fields["receiving"] = self._received

    def _put(self, chain: NetworkChain) -> None:
        for name, array in self._fields.items():
            fill_from(array[chain.slot], chain.held[name])
        if self._infers:
            scalars = [float(chain.held.get(name, 1.0)) for name in _SCALARS]
            fill_from(self._scalars[chain.slot], np.array(scalars))
        key = np.array([self._seed, chain.number, chain.sweeps], dtype=np.uint64)
        fill_from(self._keys[chain.slot], key)

    def _on_host(self, chain: NetworkChain) -> dict[str, np.ndarray]:
        held = {name: to_host(array[chain.slot]) for name, array in self._fields.items()}
        if not self._infers:
            return held
        scalars = zip(_SCALARS, to_host(self._scalars[chain.slot]), strict=True)
        known = self.model.state_type._fields
        return held | {name: np.asarray(x) for name, x in scalars if name in known}

    def _sweep(self, slots: Any) -> None:
        """One sweep of the chains at these slots."""
        k, n, size = len(slots), self._n, self._size
        keys, theta, pi, phi, turned = self._keys, self._theta, self._pi, self._phi, self._turned
        tokens, block_tokens, totals = self._tokens, self._block_tokens, self._totals
        shape, symmetric = self.model.shape, not self.model.directed
        rate = (
            shape if self.model.rate is None else float(self.model.rate)
        )  # over scales and means, if there are any
        hyper = prior_module.HYPER
        lists = self._lists_observed, *self._lists
        phi_parts, counts, many = self._phi_parts, self._counts, self._many
        launch(
            network_cells.open_sweep, k * max(n, size) * size,
            keys, slots, theta, pi, phi, phi_parts, turned, tokens, self._of_receivers, block_tokens, many,
        )  # fmt: skip
        if self._has_receiving:
            launch(
                network_priors.weigh_receivers, k * n * size,
                slots, self._received, theta, phi, self._receivers, self._weighted_phi,
            )  # fmt: skip
        launch_blocks(
            network_cells.draw_counts, k * math.ceil(n * n / network_cells.RUN), network_cells.THREADS,
            keys, slots, self._released, *self._noise, theta,
            self._weighted_phi if self._has_receiving else phi, counts, many,
        )  # fmt: skip
        if self._in_two:
            launch_blocks(
                network_tokens.give_senders, k * math.ceil(n * n / network_tokens.RUN),
                network_tokens.SENDER_THREADS,
                keys, slots, theta, phi, counts, tokens, self._of_receivers,
            )  # fmt: skip
            launch_blocks(
                network_tokens.give_receivers, k * n, network_tokens.RECEIVER_THREADS,
                keys, slots, theta, pi, self._of_receivers, tokens, block_tokens,
            )  # fmt: skip
        else:
            launch_blocks(
                network_cells.give_tokens, k * math.ceil(n * n / network_cells.THREADS), network_cells.THREADS,
                keys, slots, theta, pi, phi, phi_parts, counts, tokens, block_tokens,
            )  # fmt: skip
        launch_blocks(
            network_cells.give_many, k, network_cells.THREADS,
            keys, slots, theta, pi, phi, counts, many, tokens, block_tokens,
        )  # fmt: skip
        drawn = self._rows_drawn, self._blocks_drawn
        launch(
            network_factors.draw_gammas, k * (n + size) * size,
            keys, slots, shape, symmetric, tokens, block_tokens, *drawn,
        )  # fmt: skip
        kind = self._infers, self._has_receiving
        of_rows = (
            self._scales, self._means, self._received, self._receivers, self._below_receivers,
        )  # fmt: skip
        n_listed = len(self._lists[1]) + len(self._lists[3])
        if network_factors.has_short_rows(size, self._lists_observed, n_listed):
            launch_blocks(
                network_factors.short_rows_kernel(*kind), k, network_factors.SHORT_THREADS,
                slots, rate, drawn[0], pi, self._below, theta, totals, *of_rows,
            )  # fmt: skip
        else:
            launch_blocks(
                network_factors.rows_kernel(*kind), k, network_factors.THREADS,
                slots, rate, *lists, drawn[0], pi, turned, self._below, theta, totals, *of_rows,
            )  # fmt: skip
        launch(
            network_factors.fill_exposure, k * n * size,
            slots, self._lists_observed, *self._lists[2:], theta, totals, self._exposed,
        )  # fmt: skip
        launch(
            network_factors.blocks_kernel(self._infers), k * size * size,
            slots, rate, symmetric, drawn[1], self._exposed,
            self._receivers if self._has_receiving else theta, self._scalars, self._met_by, pi,
        )  # fmt: skip
        if self._infers:
            launch_blocks(
                network_priors.move_level, k, network_factors.THREADS,
                keys, slots, symmetric, hyper.level, block_tokens, self._met_by, self._scalars, pi,
            )  # fmt: skip
        if self._has_receiving:
            launch(
                network_priors.draw_receiving, k * n,
                keys, slots, counts, self._exposed, theta, pi, self._scalars,
                self._received_tokens, self._received, threads=network_priors.FEW_THREADS,
            )  # fmt: skip
        is_short = size <= network_factors.MOST_SHORT
        trade = network_factors.short_trade_kernel if is_short else network_factors.trade_kernel
        launch_blocks(
            trade(self._infers), k, network_factors.THREADS,
            keys, slots, shape, rate, hyper.mean_shape, symmetric, totals, self._scalars, self._means, pi, theta,
        )  # fmt: skip
        if self._infers:
            launch_blocks(
                network_priors.draw_priors, k, network_factors.THREADS,
                keys, slots, shape, symmetric, *hyper, theta, pi, self._received,
                self._means, self._scales, self._scalars,
            )  # fmt: skip


class NetworkChain:
    """One of them, as ``CudaSampler`` has chains."""

    def __init__(self, work: Network, seed: int, chain: int) -> None:
        self._work, self.number = work, chain
        self.slot, self.sweeps, self._swept = -1, 0, False
        self.held: dict[str, np.ndarray] = {}  # what it is loaded with
        self.extra: dict[str, np.ndarray] = {}  # of a relocation under way

    def load(self, state: Any, sweep: int) -> None:
        """Go on from a state after so many sweeps."""
        self.sweeps, self._swept = sweep, False
        self._work.load(self, state)

    def state(self) -> Any:
        """A copy of the state."""
        return self._work.state(self)

    def statistics(self) -> Mapping[str, Statistics] | None:
        """What the last sweep drew the state from."""
        if not self._swept:
            return None
        return {"": Statistics(self._work.tokens(self), self._work.exposure)}

    def sweep(self) -> None:
        """One sweep, some time before anybody looks."""
        self._work.ask(self)
        self._swept = True


def _dense(data: Observed) -> np.ndarray:
    """What was released of every cell: 0 for x <= 0, -1 if it is missing."""
    large = data.values.max(initial=0) > np.iinfo(np.int32).max
    out = np.zeros((data.n_rows, data.width), dtype=np.int64 if large else np.int32)
    out[rows_of(data.row_starts), data.columns] = data.values
    out[rows_of(data.missing_starts), data.missing_columns] = -1
    return out
