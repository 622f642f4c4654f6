"""All shards as one sampler, for whoever holds them: the draws of all rows come together here."""

from __future__ import annotations

from typing import Any, Protocol

from countveil.inference.carry import Carry
from countveil.inference.engines.sharded.shard import carry_part, joined, row_axes, rows_of_shard
from countveil.inference.store import Store
from countveil.models.einsum.model import EinsumModel


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

    def __init__(self, crew: Crew, model: EinsumModel, n_rows: int) -> None:
        self._crew, self._axes, self._state_type = crew, row_axes(model), model.state_type
        self._rows = [slice(*rows_of_shard(n_rows, rank, crew.size)) for rank in range(crew.size)]

    def __enter__(self) -> ShardedSampler:
        return self

    def __exit__(self, *error: Any) -> None:
        self._crew.close()

    def start(self, chain: int) -> None:
        """Begin a chain at its starting state, sweep 0."""
        self._crew.call("start", chain)

    def load(self, carry: Carry) -> None:
        """Go on with the chain of a carry, from its sweep."""
        self._crew.call_each("load", [carry_part(carry, self._axes, rows) for rows in self._rows])

    def sweep(self, chain: int) -> None:
        """One sweep of a chain."""
        self._crew.call("sweep", chain)

    def monitor(self, chain: int) -> dict[str, float]:
        """The scalars by which a chain is watched, of its last sweep."""
        return self._crew.call("monitor", chain)[0]

    def keep(self, chain: int, store: Store) -> dict[str, float]:
        """Put the chain's state and its monitored scalars into a store: its next draw. Gives the scalars."""
        state, scalars = self.draw(chain)
        store.keep(chain, state, scalars)
        return scalars

    def draw(self, chain: int) -> tuple[Any, dict[str, float]]:
        """The chain's state, of all rows, and its monitored scalars."""
        found = self._crew.call("state_and_scalars", chain)
        return self._state_type(**joined([part for part, _ in found], self._axes)), found[0][1]

    def carry(self, chain: int) -> Carry:
        """All that the chain needs to go on, copied."""
        return joined_carry(self._crew.call("carry", chain), self._axes)


def joined_carry(parts: list[Carry], axes: dict[str, int]) -> Carry:
    """The carry of all rows."""
    return parts[0]._replace(
        state=joined([part.state for part in parts], axes), extra=joined([part.extra for part in parts], axes)
    )
