"""Many uniforms at once are the same numbers as one by one."""

import numba
import numpy as np
import pytest

from countveil.kernels.philox import open_stream
from countveil.kernels.uniform import uniform
from countveil.kernels.uniforms import fill_first_uniforms, fill_uniforms


@numba.njit
def one_by_one(seed, skip, n):
    stream = open_stream(seed, 3, 5, 2, 2**40 + 7)
    for _ in range(skip):
        _, stream = uniform(stream)
    out = np.empty(n + 3)
    for i in range(n + 3):
        out[i], stream = uniform(stream)
    return out


@numba.njit
def at_once(seed, skip, n):
    stream = open_stream(seed, 3, 5, 2, 2**40 + 7)
    for _ in range(skip):
        _, stream = uniform(stream)
    out = np.empty(n + 3)
    stream = fill_uniforms(stream, out, n)
    for i in range(n, n + 3):
        out[i], stream = uniform(stream)
    return out


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 17, 1000])
@pytest.mark.parametrize("skip", [0, 1, 2, 5])
def test_the_same_numbers_and_the_same_stream_afterwards(skip, n):
    assert np.array_equal(one_by_one(np.uint64(11), skip, n), at_once(np.uint64(11), skip, n))


@numba.njit
def first_of_each(seed, rows):
    out = np.empty(len(rows))
    for i in range(len(rows)):
        out[i], _ = uniform(open_stream(seed, 1, 2, 8, rows[i]))
    return out


def test_first_uniforms_of_many_streams():
    rows = np.concatenate([np.arange(20), 2**32 + np.arange(9), [2**44 - 1]])
    out = np.empty(len(rows))
    fill_first_uniforms(np.uint64(2**63 + 5), 1, 2, 8, rows, out)
    assert np.array_equal(out, first_of_each(np.uint64(2**63 + 5), rows))
    assert len(set(out)) == len(rows)
