"""All shards as one sampler, for whoever holds them: the draws of all rows come together here."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from countveil.inference.carry import Carry, SpreadRows
from countveil.inference.engines.sharded.shard import check_served, row_axes, rows_of_shard
from countveil.inference.first_look import warn_of_a_prior_that_fights
from countveil.inference.problem import Problem
from countveil.inference.row_files import RowSaver, joined, part_of, with_rows
from countveil.inference.settings import Settings
from countveil.inference.store import RowWriter, RunningMeans, Store


class Crew(Protocol):
    """Shards that live elsewhere (threads, other processes), and do what they are told all together."""

    #: How many there are.
    size: int

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard, and wait for all of them; what each gives.

        Of dictionaries of arrays, states and carries all but the first may have those of their rows alone.
        """

    def call_each(self, method: str, arguments: list[Any]) -> list[Any]:
        """The same, with an argument of its own for each."""

    def close(self) -> None:
        """Let them go."""


class ShardedSampler:
    """See ``engine.Sampler``."""

    def __init__(self, crew: Crew, problem: Problem) -> None:
        model = check_served(problem)
        self._crew, self._axes, self._state_type = crew, row_axes(model), model.state_type
        if problem.is_unread:
            warn_of_a_prior_that_fights(problem, crew.call("totals")[0])
        self._bounds = [
            rows_of_shard(model, problem.shapes[""], rank, crew.size) for rank in range(crew.size)
        ]
        self._sees: dict[str, bool] = {}

    def __enter__(self) -> ShardedSampler:
        return self

    def __exit__(self, *error: Any) -> None:
        self._crew.close()

    def start(self, chain: int) -> None:
        """Begin a chain at its starting state, sweep 0."""
        self._crew.call("start", chain)

    def load(self, carry: Carry) -> None:
        """Go on with the chain of a carry, from its sweep; rows that are in files each shard reads for itself."""
        if carry.rows is not None and self._all_see(carry.rows.files[0].path):
            self._crew.call("load", carry)
            return
        carry = with_rows(carry)
        parts = [part_of(carry, self._axes, slice(*rows)) for rows in self._bounds]
        self._crew.call_each("load", parts)

    def sweep(self, chain: int) -> None:
        """One sweep of a chain."""
        self._crew.call("sweep", chain)

    def monitor(self, chain: int) -> dict[str, float]:
        """The scalars by which a chain is watched, of its last sweep."""
        return self._crew.call("monitor", chain)[0]

    def count_with(self, running: RunningMeans, settings: Settings) -> bool:
        """From now on shards count in their rows of every draw: these do not come here."""
        self._axes = {**self._axes, **self._crew.call("count_with", running, settings)[0]}
        return True

    def keep(self, chain: int, store: Store) -> dict[str, float]:
        """Put the chain's state and its monitored scalars into a store: its next draw. Gives the scalars.

        Shards write their rows themselves where they can.
        """
        if store.counts_apart:
            kept, scalars = self._crew.call("kept_and_scalars", chain)[0]
            store.keep_columns(chain, kept, scalars)
            return scalars
        writer = store.row_writer(chain)
        if writer is None or not self._can_write(writer):
            state, scalars = self.draw(chain)
            store.keep(chain, state, scalars)
            return scalars
        columns, scalars = self._crew.call("keep_rows", chain, writer)[0]
        store.keep_columns(chain, columns, scalars)
        return scalars

    def draw(self, chain: int) -> tuple[Any, dict[str, float]]:
        """The chain's state, of all rows, and its monitored scalars."""
        found = self._crew.call("state_and_scalars", chain)
        return self._state_type(**joined([part for part, _ in found], self._axes)), found[0][1]

    def carry(self, chain: int) -> Carry:
        """All that the chain needs to go on, copied."""
        parts = self._crew.call("carry", chain)
        return parts[0]._replace(
            state=joined([part.state for part in parts], self._axes),
            extra=joined([part.extra for part in parts], self._axes),
        )

    def carry_apart(self, chain: int, saver: RowSaver) -> Carry:
        """The same, with the rows in files that the shards write, where they can."""
        if not self._all_see(saver.folder):
            return self.carry(chain)
        found = self._crew.call("save_rows", chain, saver)
        carry: Carry = found[0][0]
        return carry._replace(rows=SpreadRows(self._axes, tuple(file for _, file in found)))

    def form(self, chain: int) -> Carry:
        """The carry, with arrays of rows that have no numbers and take no memory."""
        carry: Carry = self._crew.call("form", chain)[0]
        n_rows = self._bounds[-1][1]
        state, extra = (
            {
                name: _stretched(value, self._axes[name], n_rows) if name in self._axes else value
                for name, value in arrays.items()
            }
            for arrays in (carry.state, carry.extra)
        )
        return carry._replace(state=state, extra=extra)

    def _can_write(self, writer: RowWriter) -> bool:
        """Whether every chunk is one shard's, in all arrays that have rows."""
        block, n_rows = writer.block, self._bounds[-1][1]
        ends = all(
            start % block == 0 and (stop % block == 0 or stop == n_rows) for start, stop in self._bounds
        )
        fields = {name for name in self._state_type._fields if name in self._axes}
        return ends and fields == set(writer.arrays) and self._all_see(writer.seen)

    def _all_see(self, path: str) -> bool:
        """Whether every shard sees what is there: machines may have disks of their own."""
        if path not in self._sees:
            self._sees[path] = all(self._crew.call("sees", path))
        return self._sees[path]


def _stretched(array: np.ndarray, axis: int, length: int) -> np.ndarray:
    shape = (*array.shape[:axis], length, *array.shape[axis + 1 :])
    return np.broadcast_to(np.ones((), array.dtype), shape)  # sums over rows may be divided by
