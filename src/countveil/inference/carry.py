"""Carry: all that a chain needs to go on.

With the seed it is exactly a checkpoint: two processes that hold equal carries draw equal draws, whatever the
hardware's number of threads. Nothing else that matters lives in an engine.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

_VERSION = 1
#: In ``extra`` of a chain in a trial of a relocation: the state before it, field by field, and its log-likelihood.
BEFORE = "before:"


class Carry(NamedTuple):
    """The state of one chain after ``sweep`` sweeps, in full precision."""

    chain: int
    sweep: int
    state: Mapping[str, np.ndarray]  # the fields of the model's state
    # What the method or the problem adds: noise rates of bessel, an inferred alpha.
    extra: Mapping[str, np.ndarray]

    def to_bytes(self) -> bytes:
        """A self-contained file (numpy's npz, no pickle)."""
        arrays = {f"state/{name}": np.asarray(value) for name, value in self.state.items()}
        arrays |= {f"extra/{name}": np.asarray(value) for name, value in self.extra.items()}
        header = {"version": _VERSION, "chain": self.chain, "sweep": self.sweep, "arrays": list(arrays)}
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
               [1., 1., 1.]])}, extra={'alpha': array(0.5)})
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
        return cls(header["chain"], header["sweep"], parts["state"], parts["extra"])
