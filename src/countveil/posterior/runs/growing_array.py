"""One array of a run that grows, (chain, draw, ...), and the numbers of its draws.

A draw, or some small ones, are a chunk, and a chunk is a file; a large one is cut into blocks of rows, each a chunk
(``row_writer``). What is not yet a whole chunk is held in memory, and written all the same whenever the array is
brought up to date. The shape in the metadata says how many draws there
are: whoever opens the folder sees those, and no zeros in place of others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from countveil.posterior.runs.row_writer import CODEC, chunks_along
from countveil.posterior.runs.run_files import RunFiles
from countveil.posterior.runs.schema import SMALLEST_CHUNK

#: Numbers of one chunk of what has one number per draw.
SCALARS_PER_CHUNK = 4096


class GrowingArray:
    """An array of which every one of ``n_chains`` has ``draws`` draws of a ``shape``; more come chain by chain."""

    def __init__(
        self, files: RunFiles, path: Path, draws: int, n_chains: int, shape: Sequence[int] = ()
    ) -> None:
        self._files, self._path = files, path
        self._node: dict[str, Any] = json.loads((path / "zarr.json").read_bytes())
        _check_node(self._node, n_chains, shape, path.name)
        _, self._together, *self._rest = self._node["chunk_grid"]["configuration"]["chunk_shape"]
        self._dtype = np.dtype(self._node["data_type"]).newbyteorder("<")
        self._filled = [draws] * n_chains
        grid = [-(-n // size) for n, size in zip(self._node["shape"][2:], self._rest, strict=True)]
        #: The axis of a draw that is cut into blocks, if one is.
        self.cut = next((axis for axis, n in enumerate(grid) if n > 1), None)
        self._blocks = 1 if self.cut is None else grid[self.cut]
        #: How many files a draw is, and its bytes.
        self.n_files, self.n_bytes = math.prod(grid), self._dtype.itemsize * math.prod(shape)
        self._open: list[np.ndarray | None] = [None] * n_chains
        for chain in range(n_chains):  # all of it is looked at: zarr would read a lost chunk as zeros
            for number in range(-(-draws // self._together)):
                for block in range(self._blocks):
                    self._read(chain, number, block)
        if draws % self._together:
            self._open = [self._read(chain, draws // self._together) for chain in range(n_chains)]

    def append(self, chain: int, value: np.ndarray | float) -> None:
        """The next draw of a chain, by its place in the array."""
        given = np.asarray(value).dtype
        if given.kind != self._dtype.kind or (given.kind != "f" and given.itemsize > self._dtype.itemsize):
            # A stranger's: draws would be cut short.
            raise ValueError(
                f"path: expected a run of this problem, got one with another {self._path.name!r}"
            )
        if self.cut is not None:
            value = np.asarray(value)
            for number, block in chunks_along(value, self.cut, self._rest[self.cut], self._dtype.str):
                self._write(chain, self._filled[chain], block, number)
            self._filled[chain] += 1
            return
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

    @property
    def chunk(self) -> tuple[int, str]:
        """Rows of a block, of an array that is cut, and the kind of its numbers."""
        return self._rest[self.cut or 0], self._dtype.str

    def written(self, chain: int) -> None:
        """Shards have written the chain's next draw."""
        self._filled[chain] += 1

    def bring_up_to_date(self) -> None:
        """What was appended to every chain is on disk, and the metadata say so."""
        for chain, chunk in enumerate(self._open):
            if chunk is not None:
                self._write(chain, self._filled[chain] // self._together, chunk)
        self._node["shape"][1] = min(self._filled)
        self._files.write_json(self._path / "zarr.json", self._node)

    def _file(self, chain: int, number: int, block: int) -> Path:
        place = ["0"] * len(self._rest)
        if self.cut is not None:
            place[self.cut] = str(block)
        return self._path.joinpath("c", str(chain), str(number), *place)

    def _write(self, chain: int, number: int, chunk: np.ndarray, block: int = 0) -> None:
        self._files.write(self._file(chain, number, block), [CODEC.encode(chunk)])

    def _read(self, chain: int, number: int, block: int = 0) -> np.ndarray:
        try:
            decoded = CODEC.decode(self._file(chain, number, block).read_bytes())
            return np.frombuffer(decoded, self._dtype).reshape(self._together, *self._rest).copy()
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"path: expected a whole run, got one with a damaged or lost chunk of {self._path.name!r}"
            ) from error


def _check_node(node: dict[str, Any], n_chains: int, shape: Sequence[int], name: str) -> None:
    """Refuse a stranger's array of other chains, draws or chunks: without draws its chunks may be of any size."""
    _, together, *rest = node["chunk_grid"]["configuration"]["chunk_shape"]
    size = np.dtype(node["data_type"]).itemsize * math.prod(shape)
    same = (node["shape"][0], node["shape"][2:]) == (n_chains, list(shape))
    same = same and all(cut <= max(1, n) for cut, n in zip(rest, shape, strict=True))
    if not same or not (
        together == 1 or (together <= SCALARS_PER_CHUNK and together * size <= SMALLEST_CHUNK)
    ):
        raise ValueError(f"path: expected a run of this problem, got one with another {name!r}")


def n_draws(path: Path) -> int:
    """How many the coordinate of draws has."""
    (number,) = json.loads((path / "zarr.json").read_bytes())["shape"]
    return int(number)


def number_draws(files: RunFiles, path: Path, draws: int) -> None:
    """The coordinate of draws: 0, 1, 2, ..."""
    node = json.loads((path / "zarr.json").read_bytes())
    (size,) = node["chunk_grid"]["configuration"]["chunk_shape"]
    if size > SCALARS_PER_CHUNK:
        raise ValueError("path: expected a run of this problem, got one with other numbers of draws")
    before, node["shape"] = node["shape"][0], [draws]
    for number in range(min(before, draws) // size, -(-draws // size)):
        whole = np.arange(number * size, (number + 1) * size).astype("<i8")
        files.write(path / "c" / str(number), [CODEC.encode(whole)])
    files.write_json(path / "zarr.json", node)
