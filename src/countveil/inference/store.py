"""Stores: where kept draws go. Here memory; ``posterior/runs/zarr_store.py`` has the folder that grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from countveil.inference.carry import Carry
from countveil.inference.row_files import RowSaver
from countveil.inference.settings import COMPLETE, Settings
from countveil.runtime.workers import Workers


class Carries(Protocol):
    """The carries of all chains, one at a time: they may be large."""

    def __call__(self, saver: RowSaver | None = None) -> Iterator[Carry]:
        """With a saver shards may write their rows by themselves (``Carry.rows``)."""


class Running(NamedTuple):
    """Of fields whose draws are not kept: means and standard deviations over the draws of each chain."""

    arrays: Mapping[str, np.ndarray]  # name -> (chain, ...)
    #: Of these, and of what is kept as draws in place of fields, without chain and draw: names, or places of axes.
    dims: Mapping[str, tuple[int | str, ...]]


class RunningMeans(Protocol):
    """Takes the states of all chains one by one, where not all draws are kept (``posterior.running_means``)."""

    def take(self, chain: int, state: Any) -> Mapping[str, np.ndarray]:
        """Count a state in; what of it is kept as a draw."""

    def summaries(self, chains: Sequence[int]) -> Running:
        """All that was counted in."""

    def begin(self, state: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Get ready for states like this one, of whose rows the numbers do not matter; what is kept of it."""

    def for_rows(self, model: Any, n_rows: int) -> RunningMeans:
        """The same for so many rows with a model of their own: for a shard."""

    @property
    def row_axes(self) -> Mapping[str, int]:
        """Of the arrays in ``sums`` those with a row for each of the data's, and the axis that has them."""

    def sums(self, chain: int) -> Mapping[str, np.ndarray]:
        """All that a chain needs to go on counting; of one that has not begun zeros."""

    def check(self, sums: Mapping[str, np.ndarray]) -> None:
        """An error, if these are not the sums of states like those it has begun with."""

    def counted_in(
        self, before: Mapping[str, np.ndarray], state: Any, everyone: Workers
    ) -> tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]:
        """What a chain has counted in with this state, and what of it is kept as a draw."""


class Draws(NamedTuple):
    """Kept draws of all chains, chain by chain, draw by draw."""

    states: dict[str, np.ndarray]  # field of the state -> float32 (chain, draw, ...)
    monitored: dict[str, np.ndarray]  # name -> float64 (chain, draw)
    state_type: Any  # the NamedTuple class of the model's state
    settings: Settings
    seconds: float
    stopped: str  # why the chains ended: see ``chains.run_into``
    running: Running | None = None  # None where all draws are kept

    @property
    def interrupted(self) -> bool:
        """Whether they ended before they should."""
        return self.stopped not in COMPLETE


class RowWriter(Protocol):
    """What a shard writes its rows of a draw with; it is sent to all shards (``posterior.runs.row_writer``)."""

    @property
    def block(self) -> int:
        """Rows of a chunk: shards begin and end at the ends of chunks."""

    @property
    def arrays(self) -> Mapping[str, Any]:
        """By their names, those that it writes."""

    @property
    def seen(self) -> str:
        """A file that every shard must see, or it cannot write there."""

    def write(self, arrays: Mapping[str, np.ndarray], first_row: int) -> None:
        """Arrays of consecutive rows. They are a draw once the store says so (``Store.keep_columns``)."""


class Store(Protocol):
    """Takes draws as they come, so that an interrupt loses nothing; complete draws only."""

    #: Whether running means are held by shards, each of its rows, and come with the carries.
    counts_apart: bool

    @property
    def chains(self) -> Sequence[int]:
        """The numbers of the chains whose draws it takes."""

    @property
    def spread_means(self) -> RunningMeans | None:
        """Running means that shards may hold; None where there are none, or where whole states come here."""

    def begin(self, started: Callable[[], Iterable[Carry]]) -> Iterable[Carry]:
        """Make room for chains like those that have started; the carries with which they go on, if any."""

    def keep(self, chain: int, state: Any, monitored: dict[str, float]) -> None:
        """Take a copy of one state and its scalars: the chain's next draw."""

    def row_writer(self, chain: int) -> RowWriter | None:
        """What shards write the rows of the chain's next draw with; None if the store takes whole states alone."""

    def keep_columns(self, chain: int, state: Mapping[str, np.ndarray], monitored: dict[str, float]) -> None:
        """The rest of a draw whose rows are written, or counted in elsewhere."""

    def swept(self, sweep: int, carries: Carries, last: bool) -> bool:
        """All chains have done this sweep: the moment for a checkpoint, above all the ``last``. True if they shall
        stop.
        """

    def stopped(self, carries: Carries | None) -> None:
        """Ctrl-C: the last moment for a checkpoint; None where chains are in the middle of a sweep."""

    def common(self) -> int:
        """Draws that every chain has."""


def kept_of(state: Any, chain: int, running: RunningMeans | None) -> Mapping[str, np.ndarray]:
    """What is kept of a state as a draw: all of its fields, unless there are running means."""
    return dict(zip(state._fields, state, strict=True)) if running is None else running.take(chain, state)


class MemoryStore:
    """Room for the draws of all chains, filled as they come."""

    counts_apart = False
    spread_means = None

    def __init__(self, settings: Settings, running: RunningMeans | None = None) -> None:
        self._settings, self._running = settings, running
        self._states: dict[str, np.ndarray] = {}
        self._monitored: dict[str, np.ndarray] = {}
        self._state_type: Any = None
        self._filled = np.zeros(settings.chains, dtype=np.int64)
        self.chains = range(settings.chains)

    def begin(self, started: Callable[[], Iterable[Carry]]) -> Iterable[Carry]:
        """All chains start anew."""
        return ()

    def swept(self, sweep: int, carries: Carries, last: bool) -> bool:
        """Nothing to do."""
        return False

    def stopped(self, carries: Carries | None) -> None:
        """Nothing to do."""

    def row_writer(self, chain: int) -> RowWriter | None:
        """Draws are in this process, all of them."""
        return None

    def keep(self, chain: int, state: Any, monitored: dict[str, float]) -> None:
        """Take a copy of one state and its scalars."""
        self._state_type = type(state)
        self.keep_columns(chain, kept_of(state, chain, self._running), monitored)

    def keep_columns(self, chain: int, state: Mapping[str, np.ndarray], monitored: dict[str, float]) -> None:
        """Take a copy of what is kept of a state, and of its scalars."""
        room = (self._settings.chains, self._settings.kept)
        draw = self._filled[chain]
        for name, value in state.items():
            value = np.asarray(value)
            if name not in self._states:
                # Single precision halves the memory; a posterior is not known to eight digits anyway.
                kind = np.float32 if value.dtype.kind == "f" else value.dtype
                self._states[name] = np.zeros((*room, *value.shape), dtype=kind)
            with np.errstate(under="ignore"):
                self._states[name][chain, draw] = value
        for name, scalar in monitored.items():
            self._monitored.setdefault(name, np.zeros(room))[chain, draw] = scalar
        self._filled[chain] += 1

    def common(self) -> int:
        """Draws that every chain has."""
        return int(self._filled.min())

    def draws(self, seconds: float, stopped: str) -> Draws:
        """Everything that all chains have in common."""
        kept = self.common()
        return Draws(
            {name: array[:, :kept] for name, array in self._states.items()},
            {name: array[:, :kept] for name, array in self._monitored.items()},
            self._state_type,
            self._settings,
            seconds,
            stopped,
            None if self._running is None else self._running.summaries(self.chains),
        )
