"""The group of running means in a run on disk, ``running``: a summary of every chain, (chain, ...).

While a run grows they are in its checkpoints, with the carries they belong to: one file that is there whole, or one
for every shard. At the end of the run, and when chains are merged, they are written here, where any reader of Zarr
finds them; of what shards have, one shard's rows at a time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from countveil.counts.files.names import is_plain_name
from countveil.inference.carry import RUNNING as OF_CARRY
from countveil.inference.carry import Carry, split_running
from countveil.inference.row_files import MOST_BLOCKS, rows_per_block, with_rows
from countveil.posterior.running_means import summaries_of, summary_name, summary_of
from countveil.posterior.runs.checkpoint import Checkpoint
from countveil.posterior.runs.growing_array import CODEC
from countveil.posterior.runs.run_files import RunFiles

RUNNING = "running"


def chunks_of(group: xr.Dataset, rows: str) -> dict[str, tuple[int, ...]]:
    """The chunks of every array: one for each chain, cut into blocks of rows as draws are."""
    cut = [one for one in group.data_vars.values() if one.dims.count(rows) == 1 and one.sizes[rows]]
    # By the bytes of a draw, in single precision: then blocks begin where shards do (``inference.row_files``).
    sizes = [4 * math.prod(one.shape[1:]) // one.sizes[rows] for one in cut]
    block = rows_per_block(cut[0].sizes[rows], max(sizes)) if cut else 2**63
    return {
        str(name): (
            1,
            *(min(max(1, n), block) if dim == rows else max(1, n) for dim, n in list(one.sizes.items())[1:]),
        )
        for name, one in group.data_vars.items()
    }


class Part(NamedTuple):
    """What a chain has counted in, of all rows or of some."""

    sums: Mapping[str, np.ndarray]
    axes: Mapping[str, int] = MappingProxyType({})  # of summaries that are cut, the one that has rows
    start: int = 0


def write_running(files: RunFiles, chains: Sequence[Mapping[str, np.ndarray]]) -> None:
    """The summaries of what chains have counted in, one after the other, into arrays that the folder has."""
    for row, sums in enumerate(chains):
        if set(sums) != set(chains[0]):  # a stranger's
            raise ValueError("path: expected chains that counted in the same, got others")
        _write_part(files, row, len(chains), Part(sums))


def write_running_of(files: RunFiles, carries: Sequence[Carry]) -> None:
    """The same, of carries that have them, where the rows may be in files: those of one file at a time."""
    for row, carry in enumerate(carries):
        for part in _parts(files, carry):
            _write_part(files, row, len(carries), part)


def _parts(files: RunFiles, carry: Carry) -> Iterator[Part]:
    files_of_rows, axes_of_rows = ((), {}) if carry.rows is None else (carry.rows.files, carry.rows.axes)
    axes = {
        summary_name(name[len(OF_CARRY) :]): axis
        for name, axis in axes_of_rows.items()
        if name.startswith(OF_CARRY)
    }
    blocks = {_chunk(_node(files.root, name))[axis] for name, axis in axes.items()}
    if not axes or any(file.start % block for file in files_of_rows for block in blocks):
        yield Part(
            split_running(with_rows(carry))[1]
        )  # there are few rows, or shards would begin with blocks
        return
    for file in files_of_rows:
        yield Part(split_running(with_rows(carry, file.start, file.stop))[1], axes, file.start)


def _array(folder: Path, name: str) -> Path:
    """Where an array of the group lies. Its name comes out of a checkpoint, perhaps a stranger's."""
    if not is_plain_name(name):
        raise ValueError("a name that leads elsewhere")
    return folder / RUNNING / name


def _node(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_array(folder, name) / "zarr.json").read_bytes())
    return found


def _chunk(node: dict[str, Any]) -> list[int]:
    """Of what a chain has."""
    sizes: list[int] = node["chunk_grid"]["configuration"]["chunk_shape"][1:]
    return sizes


def _write_part(files: RunFiles, row: int, n_chains: int, part: Part) -> None:
    for name, array in summary_of(part.sums).items():
        axis = part.axes.get(name)
        if axis is not None or part.start == 0:
            _write_array(files, name, row, n_chains, array, axis, part.start)


def _write_array(
    files: RunFiles, name: str, row: int, n_chains: int, array: np.ndarray, axis: int | None, start: int
) -> None:
    """An array of a chain, or its rows from ``start`` on, the first of a chunk."""
    node, path = _node(files.root, name), _array(files.root, name)
    chunk = _chunk(node)
    kind = np.dtype(node["data_type"]).newbyteorder("<")
    of_chain = list(node["shape"][1:])
    if axis is not None and start + array.shape[axis] <= of_chain[axis]:
        of_chain[axis] = array.shape[axis]
    wide = any(size > max(1, n) for size, n in zip(chunk, node["shape"][1:], strict=True))
    n_files = math.prod(-(-n // size) for size, n in zip(chunk, node["shape"][1:], strict=True))
    # A stranger's chunk may be of any size where there is no chain.
    if wide or n_files > MOST_BLOCKS or of_chain != list(array.shape):
        raise ValueError(f"path: expected a whole run, got another {name!r} among its running means")
    for place in np.ndindex(*(-(-n // size) for n, size in zip(array.shape, chunk, strict=True))):
        part = array[tuple(slice(i * size, (i + 1) * size) for i, size in zip(place, chunk, strict=True))]
        whole = np.zeros(chunk, dtype=kind)
        whole[tuple(map(slice, part.shape))] = part
        at = list(place)
        if axis is not None:
            at[axis] += start // chunk[axis]
        files.write(path.joinpath("c", str(row), *map(str, at)), [CODEC.encode(whole)])
    if node["shape"][0] != n_chains:
        node["shape"][0] = n_chains
        files.write_json(path / "zarr.json", node)


def running_of(checkpoint: Checkpoint, folder: Path) -> xr.Dataset:
    """The group as it was at a checkpoint of the run in this folder."""
    chains = [carry.chain for carry in checkpoint.carries]
    return as_group([checkpoint.sums(place) for place in range(len(chains))], folder, chains)


def as_group(running: Sequence[Mapping[str, np.ndarray]], folder: Path, chains: Sequence[int]) -> xr.Dataset:
    """What chains have counted in, with the names of dimensions that the folder has."""
    found = {}
    for name, array in summaries_of(running).items():
        node = _node(folder, name)
        if node["shape"][1:] != list(array.shape[1:]):
            raise ValueError(f"another {name!r} in the checkpoint")
        found[name] = (tuple(node["dimension_names"]), array)
    return xr.Dataset(found, {"chain": list(chains)})
