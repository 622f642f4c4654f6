"""One array of a run that grows, (chain, draw, ...), and the numbers of its draws.

A draw, or some small ones, are a chunk, and a chunk is a file. What is not yet a whole chunk is held in memory, and
written all the same whenever the array is brought up to date. The shape in the metadata says how many draws there
are: whoever opens the folder sees those, and no zeros in place of others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np

from countveil.posterior.runs.run_files import RunFiles

#: With a checksum: a changed byte is noticed when it is read.
CODEC = numcodecs.Zstd(level=0, checksum=True)

#: Numbers of one chunk of what has one number per draw.
SCALARS_PER_CHUNK = 4096


class GrowingArray:
    """An array of which every chain has ``draws`` draws; more come chain by chain."""

    def __init__(self, files: RunFiles, path: Path, draws: int) -> None:
        self._files, self._path = files, path
        self._node: dict[str, Any] = json.loads((path / "zarr.json").read_bytes())
        n_chains = self._node["shape"][0]
        _, self._together, *self._rest = self._node["chunk_grid"]["configuration"]["chunk_shape"]
        self._dtype = np.dtype(self._node["data_type"]).newbyteorder("<")
        self._filled = [draws] * n_chains
        self._open: list[np.ndarray | None] = [None] * n_chains
        for chain in range(n_chains):  # all of it is looked at: zarr would read a lost chunk as zeros
            for number in range(-(-draws // self._together)):
                self._read(chain, number)
        if draws % self._together:
            self._open = [self._read(chain, draws // self._together) for chain in range(n_chains)]

    def append(self, chain: int, value: np.ndarray | float) -> None:
        """The next draw of a chain, by its place in the array."""
        chunk = self._open[chain]
        if chunk is None:
            chunk = self._open[chain] = np.zeros((self._together, *self._rest), dtype=self._dtype)
        place = self._filled[chain] % self._together
        with np.errstate(under="ignore"):  # single precision
            chunk[place] = value
        self._filled[chain] += 1
        if place + 1 == self._together:
            self._write(chain, self._filled[chain] // self._together - 1, chunk)
            self._open[chain] = None

    def bring_up_to_date(self) -> None:
        """What was appended to every chain is on disk, and the metadata say so."""
        for chain, chunk in enumerate(self._open):
            if chunk is not None:
                self._write(chain, self._filled[chain] // self._together, chunk)
        self._node["shape"][1] = min(self._filled)
        self._files.write_json(self._path / "zarr.json", self._node)

    def _file(self, chain: int, number: int) -> Path:
        return self._path.joinpath("c", str(chain), str(number), *["0"] * len(self._rest))

    def _write(self, chain: int, number: int, chunk: np.ndarray) -> None:
        self._files.write(self._file(chain, number), [CODEC.encode(chunk)])

    def _read(self, chain: int, number: int) -> np.ndarray:
        try:
            decoded = CODEC.decode(self._file(chain, number).read_bytes())
            return np.frombuffer(decoded, self._dtype).reshape(self._together, *self._rest).copy()
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"path: expected a whole run, got one with a damaged or lost chunk of {self._path.name!r}"
            ) from error


def number_draws(files: RunFiles, path: Path, draws: int) -> None:
    """The coordinate of draws: 0, 1, 2, ..."""
    node = json.loads((path / "zarr.json").read_bytes())
    (size,) = node["chunk_grid"]["configuration"]["chunk_shape"]
    before, node["shape"] = node["shape"][0], [draws]
    for number in range(min(before, draws) // size, -(-draws // size)):
        whole = np.arange(number * size, (number + 1) * size).astype("<i8")
        files.write(path / "c" / str(number), [CODEC.encode(whole)])
    files.write_json(path / "zarr.json", node)
