"""What ranks of an MPI job say to each other (``runtime.shards.Communicator``), by mpi4py."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np


def world() -> Any:
    """All ranks of the job, or an error that says what is missing."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ImportError(
            f"engine: expected mpi4py and an MPI library for 'mpi' (pip install 'countveil[mpi]'), got: {error}"
        ) from None
    return MPI.COMM_WORLD


class MpiCommunicator:
    """See ``runtime.shards.Communicator``."""

    def __init__(self, ranks: Any) -> None:
        from mpi4py import MPI

        self._ranks, self._mpi = ranks, MPI
        self.rank, self.size = ranks.Get_rank(), ranks.Get_size()
        #: What this rank has sent to all: to see what a sweep costs.
        self.bytes_sent = 0

    def largest(self, values: np.ndarray) -> np.ndarray:
        return self._reduced(np.ascontiguousarray(values), self._mpi.MAX)

    def total(self, values: np.ndarray) -> np.ndarray:
        return self._reduced(np.ascontiguousarray(values, dtype=np.int64), self._mpi.SUM)

    def _reduced(self, values: np.ndarray, operation: Any) -> np.ndarray:
        self.bytes_sent += values.nbytes
        if self.size == 1:
            return values
        out = np.empty_like(values)
        self._ranks.Allreduce(values, out, operation)
        return out

    def gather(self, values: np.ndarray) -> list[np.ndarray] | None:
        self.bytes_sent += values.nbytes
        return self._ranks.gather(values)

    def gather_to_all(self, values: np.ndarray) -> list[np.ndarray]:
        self.bytes_sent += values.nbytes
        if values.dtype.hasobject or values.ndim == 0:
            return self._ranks.allgather(values)
        # By their bytes: a pickle would copy them twice.
        shapes = self._ranks.allgather(values.shape)
        sizes = [math.prod(shape) * values.itemsize for shape in shapes]
        out = np.empty(sum(sizes), dtype=np.uint8)
        mine = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self._ranks.Allgatherv(mine, [out, sizes])
        ends = np.cumsum(sizes).tolist()
        return [
            out[end - size : end].view(values.dtype).reshape(shape)
            for end, size, shape in zip(ends, sizes, shapes, strict=True)
        ]

    def broadcast(self, text: bytes) -> bytes:
        return self._ranks.bcast(text)

    def barrier(self) -> None:
        self._ranks.Barrier()


def ranks_of_this_machine(ranks: Any) -> int:
    """How many ranks share the cores."""
    from mpi4py import MPI

    here = ranks.Split_type(MPI.COMM_TYPE_SHARED)
    n = here.Get_size()
    here.Free()
    return n


def started_by_mpi() -> bool:
    """Whether this process belongs to a job of several, as far as its environment says."""
    names = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")
    return any(name in os.environ for name in names)
