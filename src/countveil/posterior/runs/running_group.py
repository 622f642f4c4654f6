"""The group of running means in a run on disk, ``running``: a summary of every chain, (chain, ...).

While a run grows they are in its checkpoints, with the carries they belong to: one file that is there whole. At the
end of the run, and when chains are merged, they are written here, where any reader of Zarr finds them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from countveil.posterior.running_means import summaries_of, summary_of
from countveil.posterior.runs.checkpoint import Checkpoint
from countveil.posterior.runs.growing_array import CODEC
from countveil.posterior.runs.run_files import RunFiles
from countveil.posterior.runs.writer import LARGEST_CHUNK

RUNNING = "running"


def chunks_of(variable: xr.DataArray) -> tuple[int, ...]:
    """A chunk for every chain, or several where it is large: cut along the second dimension."""
    shape = [max(1, n) for n in variable.shape]
    if len(shape) > 1:
        row = variable.dtype.itemsize * math.prod(shape[2:])
        shape[1] = min(shape[1], max(1, LARGEST_CHUNK // row))
    return (1, *shape[1:])


def write_running(files: RunFiles, chains: Sequence[Mapping[str, np.ndarray]]) -> None:
    """The summaries of what chains have counted in, one after the other, into arrays that the folder has."""
    for row, sums in enumerate(chains):
        for name, array in summary_of(sums).items():
            _write_chain(files, name, row, len(chains), array)


def _write_chain(files: RunFiles, name: str, row: int, n_chains: int, array: np.ndarray) -> None:
    path = files.root / RUNNING / name
    node: dict[str, Any] = json.loads((path / "zarr.json").read_bytes())
    _, *chunk = node["chunk_grid"]["configuration"]["chunk_shape"]
    kind = np.dtype(node["data_type"]).newbyteorder("<")
    if node["shape"][1:] != list(array.shape):
        raise ValueError(f"path: expected a whole run, got another {name!r} among its running means")
    for place in np.ndindex(*(-(-n // size) for n, size in zip(array.shape, chunk, strict=True))):
        part = array[tuple(slice(i * size, (i + 1) * size) for i, size in zip(place, chunk, strict=True))]
        whole = np.zeros(chunk, dtype=kind)
        whole[tuple(map(slice, part.shape))] = part
        files.write(path.joinpath("c", str(row), *map(str, place)), [CODEC.encode(whole)])
    if node["shape"][0] != n_chains:
        node["shape"][0] = n_chains
        files.write_json(path / "zarr.json", node)


def running_of(checkpoint: Checkpoint, folder: Path) -> xr.Dataset:
    """The group as it was at a checkpoint of the run in this folder."""
    return as_group(checkpoint.running, folder, [carry.chain for carry in checkpoint.carries])


def as_group(running: Sequence[Mapping[str, np.ndarray]], folder: Path, chains: Sequence[int]) -> xr.Dataset:
    """What chains have counted in, with the names of dimensions that the folder has."""
    found = {}
    for name, array in summaries_of(running).items():
        if Path(name).name != name:
            raise ValueError("a name that leads elsewhere")
        node = json.loads((folder / RUNNING / name / "zarr.json").read_bytes())
        if node["shape"][1:] != list(array.shape[1:]):
            raise ValueError(f"another {name!r} in the checkpoint")
        found[name] = (tuple(node["dimension_names"]), array)
    return xr.Dataset(found, {"chain": list(chains)})
