"""The chains of one shard: its rows, and everything that is not a row's.

A shard is the CPU engine on some rows. Streams are named by a row's number among all rows, and whatever depends on
all rows (sums over rows, the plan, the algorithm, the start) is asked of all shards (``runtime.shards``). So every
shard draws its rows as one machine would, and all draw the same columns.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.files.rows import read_rows
from countveil.counts.sources.plain_counts import PlainCounts
from countveil.counts.sources.row_part import row_part
from countveil.inference.carry import RUNNING, Carry, RowFile, check_form, split_running, with_running
from countveil.inference.engines.cpu.sampler import CpuSampler
from countveil.inference.observed import Observed, check_total, observe
from countveil.inference.problem import Counts, Problem, View
from countveil.inference.row_files import (
    RowSaver,
    aligned_rows,
    part_of,
    rows_per_block,
    split_rows,
    with_rows,
)
from countveil.inference.settings import Settings
from countveil.inference.store import RowWriter, RunningMeans
from countveil.models.einsum.model import EinsumModel
from countveil.runtime.shards import Communicator, ShardWorkers


class ShardData(NamedTuple):
    """The data of a shard, as a start sees them: of these rows, with the totals of all."""

    shape: tuple[int, ...]
    n_observed: int
    counted: float
    released: Observed

    def total(self) -> float:
        """The sum of all true counts, or an estimate."""
        return self.counted


class RowsOnDisk(NamedTuple):
    """Rows of a release that whoever needs them reads."""

    path: str
    sha256: str
    start: int
    stop: int
    scratch: Path | None = None  # where they are unpacked, if not in memory

    def read(self) -> PrivateCounts:
        """Without labels: nobody asks a shard for them."""
        contents = read_rows(self.path, self.start, self.stop, self.scratch, named=False, sha256=self.sha256)
        return PrivateCounts._from_contents(contents)


class Shard(NamedTuple):
    """What a shard needs to begin."""

    model: EinsumModel  # of its rows (``EinsumModel.for_part``)
    part: Counts | RowsOnDisk  # its rows
    first_row: int
    method: str
    seed: int
    threads: int
    algorithm: str

    def open(self, communicator: Communicator) -> ShardSampler:
        """The sampler of the shard, once all shards are opened."""
        return ShardSampler(self, communicator)


class ShardSampler(CpuSampler):
    """See ``engine.Sampler``. Every shard calls the same methods in the same order."""

    def __init__(self, shard: Shard, communicator: Communicator) -> None:
        model, part, method = shard.model, shard.part, shard.method
        if isinstance(part, RowsOnDisk):
            part = part.read()
        self.communicator, self.first_row = communicator, shard.first_row
        self._axes, self._rows = row_axes(model), (shard.first_row, shard.first_row + part.shape[0])
        released = observe(part)
        observed = observe(part, as_plain=True) if method == "naive" else released
        counted, n_observed = total_of_all(part, communicator)
        data = ShardData(part.shape, n_observed, counted, released)
        problem = Problem(model, {"": View(model, part, data, observed, method)}, method)  # type: ignore[arg-type]
        workers = ShardWorkers(shard.threads, communicator, shard.first_row, [row_factor(model)])
        super().__init__(problem, shard.seed, shard.threads, shard.algorithm, workers)
        self._running: RunningMeans | None = None
        self._settings: Settings | None = None
        self._kept: dict[int, Mapping[str, np.ndarray]] = {}  # of every chain's last draw

    @property
    def row_axes(self) -> Mapping[str, int]:
        """Of what a chain has, the arrays with a row for each of the data's, and the axis that has them."""
        return self._axes

    def count_with(self, running: RunningMeans, settings: Settings) -> dict[str, int]:
        """From now on count in the rows of every draw, instead of handing them out; ``row_axes`` of the sums.

        In the sweep: one that is made again after a loss counts again. The sums are a part of the carry.
        """
        start, stop = self._rows
        self._running, self._settings = running.for_rows(self._problem.model, stop - start), settings
        axes = {RUNNING + name: axis for name, axis in self._running.row_axes.items()}
        self._axes = {**self._axes, **axes}
        for chain in self._chains:
            self._count_from(chain, self._running.sums(chain))
        return axes

    def _count_from(self, chain: int, sums: Mapping[str, np.ndarray]) -> None:
        held = self._chains[chain]
        held.extra = dict(with_running(self._carried(chain), sums).extra)

    def start(self, chain: int) -> None:
        """Begin a chain at its starting state, sweep 0."""
        super().start(chain)
        if self._running is not None:
            self._count_from(chain, self._running.sums(chain))

    def sweep(self, chain: int) -> None:
        """One sweep; a draw is counted in."""
        super().sweep(chain)
        held = self._chains[chain]
        if self._running is not None and self._settings is not None and self._settings.keeps(held.sweep):
            before = split_running(self._carried(chain))[1]
            sums, self._kept[chain] = self._running.counted_in(before, held.state, self._workers.of_rows)
            self._count_from(chain, sums)

    def kept_and_scalars(self, chain: int) -> tuple[Mapping[str, np.ndarray], dict[str, float]]:
        """Of the chain's draw, which is counted in: what is kept of it, and what the chain is watched by."""
        return dict(self._kept[chain]), self.monitor(chain)

    def load(self, carry: Carry) -> None:
        """Go on with the chain of a carry, of these rows or in files, from its sweep."""
        carry = with_rows(carry, *self._rows)
        if self._running is not None:
            self._running.check(split_running(carry)[1])
        if carry.chain in self._chains:
            check_form(carry, self._carried(carry.chain))
        self._problem.check_carry(carry)
        super().load(carry)

    def form(self, chain: int) -> Carry:
        """The chain's carry without rows."""
        return part_of(self._carried(chain), self._axes, slice(0))

    def _carried(self, chain: int) -> Carry:
        """Its carry, not copied."""
        held = self._chains[chain]
        return Carry(chain, held.sweep, held.state._asdict(), held.extra)

    def sees(self, path: str) -> bool:
        """Whether there is such a file where this shard is."""
        return Path(path).exists()

    def save_rows(self, chain: int, saver: RowSaver) -> tuple[Carry | None, RowFile]:
        """Write the rows of a checkpoint; all else of the carry, from the first shard, and the file."""
        rows, others = split_rows(self._carried(chain), self._axes)
        file = saver.save(rows, *self._rows)
        return (None if self.communicator.rank else others), file

    def keep_rows(self, chain: int, writer: RowWriter) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """Write the rows of a draw; all else of the state, and what the chain is watched by."""
        state, scalars = self.state_and_scalars(chain)
        writer.write({name: state[name] for name in state if name in self._axes}, self.first_row)
        return {name: value for name, value in state.items() if name not in self._axes}, scalars

    def totals(self) -> tuple[float, int]:
        """Of all shards: the sum of the true counts, or an estimate, and the number of observed cells."""
        data: Any = self._problem.views[""].data
        return data.counted, data.n_observed

    def costs(self) -> tuple[int, int]:
        """Bytes that this shard has sent so far, and the most memory that its process has had."""
        import resource  # not on Windows

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return getattr(self.communicator, "bytes_sent", 0), peak


def shard_of(problem: Problem, settings: Settings, rank: int, size: int, apart: bool = False) -> Shard:
    """What the shard of a rank needs; rows of a release that lies where all can read it are not sent.

    ``apart``: the first shard is elsewhere, too.
    """
    model, given, source = check_served(problem), problem.views[""].data, problem.source
    start, stop = rows_of_shard(model, given.shape, rank, size)
    part: Counts | RowsOnDisk
    if source is not None and (rank or apart or problem.is_unread):
        part = RowsOnDisk(source.path, source.sha256, start, stop, source.scratch)
    else:
        part = row_part(given, start, stop)
    return Shard(
        model.for_part(start, stop),
        part,
        start,
        problem.method,
        settings.seed,
        settings.threads,
        settings.algorithm,
    )


def spreads_rows(problem: Problem) -> bool:
    """Whether rows can be spread over shards: their factor is nobody else's, and the noise is known."""
    return problem.alpha is None and rows_are_apart(problem.model)


def rows_are_apart(model: Any) -> bool:
    """Whether the rows of a model have a factor that is nobody else's."""
    return isinstance(model, EinsumModel) and model.unfolds and not model.has_tied_factors


def check_served(problem: Problem) -> EinsumModel:
    """The model, whose rows can be spread over shards."""
    if not spreads_rows(problem):
        name = type(problem.model).__name__
        raise ValueError(
            f"engine: expected a model whose first axis has a factor of its own, and known noise, got {name}"
        )
    model: EinsumModel = problem.model
    return model


def row_factor(model: EinsumModel) -> str:
    """The name of the factor that has the rows."""
    spec = model._spec
    assert spec.first is not None
    return spec.names[spec.first]


def row_axes(model: EinsumModel) -> dict[str, int]:
    """Of what a chain has, the arrays with a row for each of the data's, and the axis that has them."""
    spec, name = model._spec, row_factor(model)
    return {
        name: spec.term(name).index(spec.output[0]),
        f"{name}_scale": 0,
        "noise_plus": 0,
        "noise_minus": 0,
    }


def rows_of_shard(model: EinsumModel, shape: tuple[int, ...], rank: int, size: int) -> tuple[int, int]:
    """The first row of a shard, and the first of the next."""
    return aligned_rows(shape[0], rank, size, block_of(model, shape))


def block_of(model: EinsumModel, shape: tuple[int, ...]) -> int:
    """Rows of a block: by the size of the rows' factor, in single precision as draws are kept."""
    spec = model._spec
    sizes = {**model._sizes, **dict(zip(spec.output, shape, strict=True))}
    each = math.prod(sizes[letter] for letter in spec.term(row_factor(model)) if letter != spec.output[0])
    return rows_per_block(shape[0], 4 * each)


def total_of_all(part: Counts, shards: Communicator) -> tuple[float, int]:
    """The total over all shards as one machine would compute it, and the number of observed cells."""
    n_observed = int(shards.total(np.array([part.n_observed]))[0])
    if isinstance(part, CombinedReleases):
        total = part.total(
            lambda release: total_of_all(release, shards)[0],
            lambda numbers: np.unique(np.concatenate(shards.gather_to_all(numbers))),
        )
        return total, n_observed
    # In two parts of 32 bits and more: of each shard it fits 64 bits (``observe``), not yet of all.
    high, low = shards.total(np.array(divmod(int(part.positive.values.sum(dtype=np.int64)), 2**32))).tolist()
    counted = float(high * 2**32 + low)
    check_total(counted)
    if isinstance(part, PlainCounts):
        return counted, n_observed
    assert isinstance(part, PrivateCounts)
    rho, index = np.unique(np.concatenate(shards.gather_to_all(part.nonpositive.rho)), return_inverse=True)
    number = np.zeros(len(rho), dtype=np.int64)
    np.add.at(number, index, np.concatenate(shards.gather_to_all(part.nonpositive.number)))
    with np.errstate(over="ignore"):
        below = number / np.expm1(rho)
    return float(counted - below.sum()), n_observed
