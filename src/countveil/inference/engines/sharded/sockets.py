"""What shards in other processes say to each other (``runtime.shards.Communicator``), over plain TCP connections.

The shards are a tree: shard r has the children 2r+1 and 2r+2. Maxima and sums go up to shard 0 and the result down
again, so that none of them sends more than it would to two others. Whoever connects must say a secret of 32 bytes,
which the shards of one run share. Nothing that is received is executed: a message is a list of arrays, each by its
type, its shape and its bytes.
"""

from __future__ import annotations

import hmac
import json
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from countveil.runtime.shards import ShardLostError

_SECONDS_TO_CONNECT = 120.0
#: Until whoever has connected says the secret.
_SECONDS_TO_SPEAK = 5.0
_KINDS = ("i", "u", "f", "b")


class SocketCommunicator:
    """See ``runtime.shards.Communicator``. First ``listen``, then, once all do, ``connect``."""

    def __init__(self, rank: int, size: int, secret: bytes, host: str) -> None:
        self.rank, self.size, self._secret = rank, size, secret
        self._listening = socket.create_server((host, 0))
        self._listening.settimeout(_SECONDS_TO_CONNECT)
        self._parent: socket.socket | None = None
        self._children: list[socket.socket] = []
        #: What this shard has sent: to see what a sweep costs.
        self.bytes_sent = 0

    @property
    def address(self) -> tuple[str, int]:
        """Where the children find it."""
        return self._listening.getsockname()[:2]

    def connect(self, addresses: list[tuple[str, int]]) -> None:
        """Reach the parent, and let the children in; the addresses are those of all shards."""
        n_children = sum(child < self.size for child in (2 * self.rank + 1, 2 * self.rank + 2))
        try:
            if self.rank:
                parent = socket.create_connection(addresses[(self.rank - 1) // 2], _SECONDS_TO_CONNECT)
                parent.sendall(self._secret + struct.pack("<q", self.rank))
                self._parent = _tuned(parent)
            came: dict[int, socket.socket] = {}
            while len(came) < n_children:
                child, _ = self._listening.accept()
                try:
                    said = _said_in_time(child, len(self._secret) + 8)
                except OSError:  # a stranger, who says nothing or leaves: no matter
                    child.close()
                    continue
                if hmac.compare_digest(said[: len(self._secret)], self._secret):
                    came[struct.unpack("<q", said[len(self._secret) :])[0]] = _tuned(child)
                else:
                    child.close()
        except OSError as error:
            raise ShardLostError(f"shards: expected to reach all of them, got {error}") from error
        self._children = [came[rank] for rank in sorted(came)]
        self._listening.close()

    def close(self) -> None:
        """Those who wait for this shard learn that it is gone."""
        for one in (self._listening, self._parent, *self._children):
            if one is not None:
                one.close()

    def largest(self, values: np.ndarray) -> np.ndarray:
        return self._reduced(np.ascontiguousarray(values), np.maximum)

    def total(self, values: np.ndarray) -> np.ndarray:
        return self._reduced(np.ascontiguousarray(values, dtype=np.int64), np.add)

    def gather(self, values: np.ndarray) -> list[np.ndarray] | None:
        found = self._gathered(values)
        return found if self.rank == 0 else None

    def gather_to_all(self, values: np.ndarray) -> list[np.ndarray]:
        found = self._gathered(values)
        return self._down(found if self.rank == 0 else [])

    def broadcast(self, text: bytes) -> bytes:
        return self._down([np.frombuffer(text, np.uint8)])[0].tobytes()

    def barrier(self) -> None:
        self.total(np.zeros(1, dtype=np.int64))

    def _reduced(
        self, values: np.ndarray, combine: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        for child in self._children:
            values = combine(values, self._receive(child)[0])
        if self._parent is not None:
            self._send(self._parent, [values])
        return self._down([values])[0]

    def _gathered(self, values: np.ndarray) -> list[np.ndarray]:
        """Of this shard and those below it; at shard 0 of all, in their order."""
        found = [(self.rank, np.ascontiguousarray(values))]
        for child in self._children:
            ranks, *arrays = self._receive(child)
            found += zip(ranks.tolist(), arrays, strict=True)
        found.sort(key=lambda one: one[0])
        if self._parent is not None:
            self._send(self._parent, [np.array([rank for rank, _ in found]), *(array for _, array in found)])
        return [array for _, array in found]

    def _down(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        if self._parent is not None:
            arrays = self._receive(self._parent)
        for child in self._children:
            self._send(child, arrays)
        return arrays

    def _send(self, to: socket.socket, arrays: list[np.ndarray]) -> None:
        header = json.dumps([[array.dtype.str, list(array.shape)] for array in arrays]).encode()
        try:
            to.sendall(struct.pack("<q", len(header)) + header)
            for array in arrays:
                to.sendall(_bytes_of(np.ascontiguousarray(array)))
                self.bytes_sent += array.nbytes
        except OSError as error:
            self._lost(error)

    def _receive(self, other: socket.socket) -> list[np.ndarray]:
        try:
            header = json.loads(_received(other, struct.unpack("<q", _received(other, 8))[0]))
            return [_array(other, *told) for told in header]
        except OSError as error:
            self._lost(error)
            raise

    def _lost(self, error: OSError) -> None:
        self.close()
        raise ShardLostError(f"shards: expected all of them, got {error} from one") from error


def _said_in_time(stranger: socket.socket, n: int) -> bytes:
    """So many bytes; who drips them is no shard."""
    said, until = b"", time.monotonic() + _SECONDS_TO_SPEAK
    while len(said) < n:
        stranger.settimeout(max(0.001, until - time.monotonic()))
        part = stranger.recv(n - len(said))
        if not part or time.monotonic() > until:
            raise ConnectionResetError("a stranger")
        said += part
    return said


def _tuned(connection: socket.socket) -> socket.socket:
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connection


def _array(other: socket.socket, kind: str, shape: list[int]) -> np.ndarray:
    dtype = np.dtype(kind)
    if dtype.kind not in _KINDS:
        raise ValueError("expected an array of numbers")
    found = np.empty(shape, dtype)
    _fill(other, _bytes_of(found))
    return found


def _bytes_of(array: np.ndarray) -> memoryview:
    """The memory of an array, without a copy."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def _received(other: socket.socket, n: int) -> bytes:
    found = bytearray(n)
    _fill(other, memoryview(found))
    return bytes(found)


def _fill(other: socket.socket, room: memoryview) -> None:
    at = 0
    while at < len(room):
        n = other.recv_into(room[at:])
        if n == 0:
            raise ConnectionResetError("a closed connection")
        at += n


def connected(communicators: list[Any]) -> list[Any]:
    """Communicators of one process, each reached from a thread of its own: for tests."""
    from concurrent.futures import ThreadPoolExecutor

    addresses = [one.address for one in communicators]
    with ThreadPoolExecutor(len(communicators)) as pool:
        list(pool.map(lambda one: one.connect(addresses), communicators))
    return communicators
