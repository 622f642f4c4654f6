"""Shards that speak over TCP connections: sums, maxima, gatherings; and who is not one of them."""

import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from countveil.inference.engines.sharded import sockets
from countveil.inference.engines.sharded.sockets import SocketCommunicator
from countveil.runtime.shards import ShardLostError

SECRET = bytes(range(32))


def together(size, function):
    """The function on every shard, each in a thread of its own."""
    shards = [SocketCommunicator(rank, size, SECRET, "127.0.0.1") for rank in range(size)]
    addresses = [shard.address for shard in shards]

    def work(shard):
        try:
            shard.connect(addresses)
            return function(shard)
        finally:
            shard.close()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, shards))


def add_up(shard, times):
    for _ in range(times):
        shard.total(np.ones(1, dtype=np.int64))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_all_shards_have_the_same_sums_and_maxima(size):
    def said(shard):
        mine = np.arange(6).reshape(2, 3) * 2**40 * (shard.rank + 1)
        parts = shard.gather(np.full(shard.rank, 0.1))
        shard.barrier()
        return (
            shard.total(mine).tolist(),
            shard.largest(np.array([0.1, -float(shard.rank)])).tolist(),
            [len(part) for part in shard.gather_to_all(np.zeros((shard.rank, 2)))],
            None if parts is None else [part.tolist() for part in parts],
            shard.broadcast(b"%d" % shard.rank),
        )

    found = together(size, said)
    total = (np.arange(6).reshape(2, 3) * 2**40 * sum(range(1, size + 1))).tolist()
    for rank, (sums, maxima, lengths, parts, text) in enumerate(found):
        assert (sums, maxima, lengths, text) == (total, [0.1, 0.0], list(range(size)), b"0")
        assert parts == ([[0.1] * r for r in range(size)] if rank == 0 else None)


def test_a_shard_that_is_gone_is_missed_by_all():
    def one_leaves(shard):
        if shard.rank == 2:
            return "left"
        with pytest.raises(ShardLostError, match="shards: expected all of them"):
            add_up(shard, 3)
        return "told"

    assert together(5, one_leaves) == ["told", "told", "left", "told", "told"]


def test_who_does_not_know_the_secret_is_not_let_in():
    shards = [SocketCommunicator(rank, 2, SECRET, "127.0.0.1") for rank in range(2)]
    addresses = [shard.address for shard in shards]
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(shards[0].connect, addresses)
        with socket.create_connection(addresses[0]) as stranger:
            stranger.sendall(bytes(40))
            assert stranger.recv(1) == b""
        shards[1].connect(addresses)
        first.result()
        sums = list(pool.map(lambda shard: shard.total(np.ones(1, dtype=np.int64))[0], shards))
    assert sums == [2, 2]
    for shard in shards:
        shard.close()


def test_strangers_who_leave_or_say_nothing_do_not_matter(monkeypatch):
    monkeypatch.setattr(sockets, "_SECONDS_TO_SPEAK", 0.2)
    shards = [SocketCommunicator(rank, 2, SECRET, "127.0.0.1") for rank in range(2)]
    addresses = [shard.address for shard in shards]
    socket.create_connection(addresses[0]).close()
    with socket.create_connection(addresses[0]), ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda shard: shard.connect(addresses), shards))
        sums = list(pool.map(lambda shard: int(shard.total(np.ones(1, dtype=np.int64))[0]), shards))
    assert sums == [2, 2]
    for shard in shards:
        shard.close()
