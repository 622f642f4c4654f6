"""Carry: all that a chain needs to go on.

With the seed it is exactly a checkpoint: two processes that hold equal carries draw equal draws, whatever the
hardware's number of threads. Nothing else that matters lives in an engine.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

_VERSION, _WITH_ALL_ROWS = 2, 1
#: In ``extra`` of a chain in a trial of a relocation: the state before it, field by field, and its log-likelihood.
BEFORE = "before:"


class RowFile(NamedTuple):
    """A file of some rows of a chain (``row_files``)."""

    path: str  # in the bytes of a carry its name alone: it lies beside them
    start: int
    stop: int
    sha256: str


class SpreadRows(NamedTuple):
    """Arrays that are not in a carry, but by rows in files."""

    axes: Mapping[str, int]  # of each the axis that has the rows
    files: tuple[RowFile, ...]  # in the order of rows

    def named(self) -> list[RowFile]:
        """The files by their names alone."""
        return [file._replace(path=os.path.basename(file.path)) for file in self.files]  # noqa: PTH119


def has_form(carry: Carry, own: Carry) -> bool:
    """Whether a carry from a file has the arrays of one's own: compiled code does not look at their sizes."""
    return carry.chain == own.chain and all(
        found.keys() == expected.keys() and all(is_like(found[name], expected[name]) for name in expected)
        for found, expected in ((carry.state, own.state), (carry.extra, own.extra))
    )


def is_like(one: Any, other: Any) -> bool:
    """Whether an array has the shape and the kind of another, and no NaN."""
    one, other = np.asarray(one), np.asarray(other)
    same = one.shape == other.shape and one.dtype.kind == other.dtype.kind
    return same and not (one.dtype.kind == "f" and bool(np.isnan(one).any()))


class Carry(NamedTuple):
    """The state of one chain after ``sweep`` sweeps, in full precision."""

    chain: int
    sweep: int
    state: Mapping[str, np.ndarray]  # the fields of the model's state
    # What the method or the problem adds: noise rates of bessel, an inferred alpha.
    extra: Mapping[str, np.ndarray]
    rows: SpreadRows | None = None

    def to_bytes(self) -> bytes:
        """A self-contained file (numpy's npz, no pickle)."""
        arrays = {f"state/{name}": np.asarray(value) for name, value in self.state.items()}
        arrays |= {f"extra/{name}": np.asarray(value) for name, value in self.extra.items()}
        header: dict[str, Any] = {"version": _WITH_ALL_ROWS, "chain": self.chain, "sweep": self.sweep}
        header["arrays"] = list(arrays)
        if self.rows is not None:
            header |= {"version": _VERSION, "axes": dict(self.rows.axes), "rows": self.rows.named()}
        file = io.BytesIO()
        numbered: Any = {f"array{i}": value for i, value in enumerate(arrays.values())}
        np.savez(
            file, allow_pickle=False, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **numbered
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Carry:
        """The carry again.

        >>> carry = Carry(0, 7, {"theta": np.ones((2, 3))}, {"alpha": np.float64(0.5)})
        >>> Carry.from_bytes(carry.to_bytes())
        Carry(chain=0, sweep=7, state={'theta': array([[1., 1., 1.],
               [1., 1., 1.]])}, extra={'alpha': array(0.5)}, rows=None)
        """
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            header = json.loads(found["header"].tobytes())
            if header["version"] > _VERSION:
                raise ValueError(f"carry: expected version {_VERSION} or older, got {header['version']}")
            arrays = {name: found[f"array{i}"] for i, name in enumerate(header["arrays"])}
        parts: dict[str, dict[str, np.ndarray]] = {"state": {}, "extra": {}}
        for name, value in arrays.items():
            kind, _, field = name.partition("/")
            parts[kind][field] = value
        rows = None
        if "rows" in header:
            files = [RowFile(str(name), int(a), int(b), str(sha)) for name, a, b, sha in header["rows"]]
            rows = SpreadRows({str(name): int(axis) for name, axis in header["axes"].items()}, tuple(files))
        return cls(header["chain"], header["sweep"], parts["state"], parts["extra"], rows)
