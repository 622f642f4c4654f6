"""The chains of one shard: its rows, and everything that is not a row's.

A shard is the CPU engine on some rows. Streams are named by a row's number among all rows, and whatever depends on
all rows (sums over rows, the plan, the algorithm, the start) is asked of all shards (``runtime.shards``). So every
shard draws its rows as one machine would, and all draw the same columns.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.files.rows import read_rows
from countveil.counts.sources.plain_counts import PlainCounts
from countveil.counts.sources.row_part import row_part
from countveil.inference.carry import Carry
from countveil.inference.engines.cpu.sampler import CpuSampler
from countveil.inference.observed import Observed, observe
from countveil.inference.problem import Counts, Problem, View
from countveil.inference.settings import Settings
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
    start: int
    stop: int
    scratch: Path | None = None  # where they are unpacked, if not in memory


class Shard(NamedTuple):
    """What a shard needs to begin."""

    model: EinsumModel  # of its rows (``EinsumModel.for_part``)
    part: Counts | RowsOnDisk  # its rows
    first_row: int
    method: str
    seed: int
    threads: int
    algorithm: str

    @property
    def row_axes(self) -> dict[str, int]:
        """See ``row_axes``."""
        return row_axes(self.model)

    def open(self, communicator: Communicator) -> ShardSampler:
        """The sampler of the shard, once all shards are opened."""
        return ShardSampler(self, communicator)


class ShardSampler(CpuSampler):
    """See ``engine.Sampler``. Every shard calls the same methods in the same order."""

    def __init__(self, shard: Shard, communicator: Communicator) -> None:
        model, part, method = shard.model, shard.part, shard.method
        if isinstance(part, RowsOnDisk):
            part = PrivateCounts._from_contents(read_rows(*part))
        self.communicator, self.first_row = communicator, shard.first_row
        released = observe(part)
        observed = observe(part, as_plain=True) if method == "naive" else released
        counted, n_observed = total_of_all(part, communicator)
        data = ShardData(part.shape, n_observed, counted, released)
        problem = Problem(model, {"": View(model, part, data, observed, method)}, method)  # type: ignore[arg-type]
        workers = ShardWorkers(shard.threads, communicator, shard.first_row, [row_factor(model)])
        super().__init__(problem, shard.seed, shard.threads, shard.algorithm, workers)

    def costs(self) -> tuple[int, int]:
        """Bytes that this shard has sent so far, and the most memory that its process has had."""
        import resource  # not on Windows

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return getattr(self.communicator, "bytes_sent", 0), peak


def shard_of(problem: Problem, settings: Settings, rank: int, size: int, apart: bool = False) -> Shard:
    """What the shard of a rank needs; rows of a release that lies where all can read it are not sent.

    ``apart``: the first shard is elsewhere, too.
    """
    model, given = check_served(problem), problem.views[""].data
    start, stop = rows_of_shard(given.shape[0], rank, size)
    part: Counts | RowsOnDisk
    if (rank or apart) and problem.source is not None:
        scratch = None if problem.scratch is None else Path(problem.scratch)
        part = RowsOnDisk(problem.source, start, stop, scratch)
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
    model = problem.model
    return (
        problem.alpha is None
        and isinstance(model, EinsumModel)
        and model.unfolds
        and not model.has_tied_factors
    )


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


def rows_of_shard(n_rows: int, rank: int, size: int) -> tuple[int, int]:
    """The first row of a shard, and the first of the next.

    >>> [rows_of_shard(10, rank, 3) for rank in range(3)]
    [(0, 3), (3, 6), (6, 10)]
    """
    if size > n_rows:
        raise ValueError(f"shards: expected at most one for each of the {n_rows} rows, got {size}")
    return n_rows * rank // size, n_rows * (rank + 1) // size


def joined(parts: Sequence[Mapping[str, np.ndarray]], axes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Arrays of all rows, of those that the shards have; what is no row's they have alike."""
    return {
        name: np.concatenate([part[name] for part in parts], axis=axes[name]) if name in axes else value
        for name, value in parts[0].items()
    }


def part_of(arrays: Mapping[str, np.ndarray], axes: Mapping[str, int], rows: slice) -> dict[str, np.ndarray]:
    """Those of some rows."""
    return {
        name: np.asarray(value)[(slice(None),) * axes[name] + (rows,)] if name in axes else value
        for name, value in arrays.items()
    }


def carry_part(carry: Carry, axes: Mapping[str, int], rows: slice) -> Carry:
    """What a shard with these rows needs of a carry."""
    return carry._replace(state=part_of(carry.state, axes, rows), extra=part_of(carry.extra, axes, rows))


def total_of_all(part: Counts, shards: Communicator) -> tuple[float, int]:
    """The total over all shards as one machine would compute it, and the number of observed cells."""
    n_observed = int(shards.total(np.array([part.n_observed]))[0])
    if isinstance(part, CombinedReleases):
        each = [total_of_all(release, shards) for release in part.releases]
        seen = sum(observed for _, observed in each)
        return sum(total for total, _ in each) / max(seen, 1) * n_observed, n_observed
    counted = float(shards.total(np.array([part.positive.values.sum(dtype=np.int64)]))[0])
    if isinstance(part, PlainCounts):
        return counted, n_observed
    assert isinstance(part, PrivateCounts)
    rho, index = np.unique(np.concatenate(shards.gather_to_all(part.nonpositive.rho)), return_inverse=True)
    number = np.zeros(len(rho), dtype=np.int64)
    np.add.at(number, index, np.concatenate(shards.gather_to_all(part.nonpositive.number)))
    with np.errstate(over="ignore"):
        below = number / np.expm1(rho)
    return float(counted - below.sum()), n_observed
