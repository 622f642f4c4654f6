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
#: In ``extra`` of a chain whose rows are spread: what its shards have counted in of draws that are not kept
#: (``posterior.running_means``).
RUNNING = "running:"


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


def has_running(carry: Carry) -> bool:
    """Whether there are running means in a carry, or in its files."""
    elsewhere = () if carry.rows is None else carry.rows.axes
    return any(name.startswith(RUNNING) for name in (*carry.extra, *elsewhere))


def with_running(carry: Carry, sums: Mapping[str, np.ndarray]) -> Carry:
    """The carry with these running means.

    >>> carry = with_running(Carry(0, 7, {}, {"alpha": np.float64(0.5)}), {"share": np.zeros(1)})
    >>> split_running(carry)
    (Carry(chain=0, sweep=7, state={}, extra={'alpha': np.float64(0.5)}, rows=None), {'share': array([0.])})
    """
    return carry._replace(extra={**carry.extra, **{RUNNING + name: one for name, one in sums.items()}})


def split_running(carry: Carry) -> tuple[Carry, dict[str, np.ndarray]]:
    """The carry without its running means, and these."""
    sums = {name[len(RUNNING) :]: one for name, one in carry.extra.items() if name.startswith(RUNNING)}
    others = {name: one for name, one in carry.extra.items() if not name.startswith(RUNNING)}
    return carry._replace(extra=others), sums


def check_form(carry: Carry | None, own: Carry | None) -> None:
    """Refuse a carry from a file that has not the arrays of one's own: compiled code does not look at their sizes.

    Arrays that it has in other files are looked at when they have been read.
    """
    if carry is None or own is None or not _has_form(carry, own):
        raise ValueError("path: expected a checkpoint of this problem, got one with another state")


def _has_form(carry: Carry, own: Carry) -> bool:
    extra = own.extra
    if any(name.startswith(BEFORE) for name in carry.extra):  # stopped in the midst of a relocation
        kept = {f"{BEFORE}{name}": value for name, value in own.state.items()}
        extra = {**extra, **kept, f"{BEFORE}log_likelihood": np.zeros(())}
    same, elsewhere = carry.chain == own.chain, () if carry.rows is None else carry.rows.axes
    for found, expected in ((carry.state, own.state), (carry.extra, extra)):
        here = {name: value for name, value in expected.items() if name not in elsewhere}
        same = same and found.keys() == here.keys()
        same = same and all(is_like(found[name], here[name]) for name in here)
    return same


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
