"""Many uniforms at once are the same numbers as one by one."""

import numba
import numpy as np
import pytest

from countveil.kernels.philox import next_word, open_stream
from countveil.kernels.uniform import (
    fill_exponentials,
    fill_first_uniforms,
    fill_uniforms,
    fill_word_pairs,
    skip_blocks,
    uniform,
)


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
    out = np.empty((2, len(rows)))
    for i in range(len(rows)):
        out[0, i], stream = uniform(open_stream(seed, 1, 2, 8, rows[i]))
        out[1, i], stream = uniform(stream)
    return out


def test_first_uniforms_of_many_streams():
    rows = np.concatenate([np.arange(20), 2**32 + np.arange(9), [2**44 - 1]])
    out = np.empty((2, len(rows)))
    fill_first_uniforms(np.uint64(2**63 + 5), 1, 2, 8, rows, *out)
    assert np.array_equal(out, first_of_each(np.uint64(2**63 + 5), rows))
    assert len(set(out.ravel())) == out.size


@numba.njit
def exponentials(seed, n):
    out, gaps = np.empty(n + 1), np.empty(n + 1)
    stream = fill_uniforms(open_stream(seed, 1, 2, 3, 4), out, n + 1)
    stream = fill_exponentials(open_stream(seed, 1, 2, 3, 4), gaps, n)
    gaps[n], stream = uniform(stream)
    return out, gaps


def test_exponentials_are_minus_the_logarithms_of_uniforms():
    out, gaps = exponentials(np.uint64(5), 999)
    np.testing.assert_allclose(gaps[:-1], -np.log(out[:-1]), rtol=1e-15)
    assert gaps[-1] == out[-1], "the stream goes on after them"


@numba.njit
def words(seed, n):
    alone, together = np.empty(2 * n + 1, dtype=np.uint64), np.empty((2, n), dtype=np.uint64)
    stream = open_stream(seed, 1, 2, 3, 4)
    for i in range(2 * n + 1):
        alone[i], stream = next_word(stream)
    stream = open_stream(seed, 1, 2, 3, 4)
    fill_word_pairs(stream, together[0], together[1])
    after, stream = next_word(skip_blocks(stream, n))
    return alone, together, after


@pytest.mark.parametrize("n", [0, 1, 20, 333])
def test_words_in_pairs(n):
    alone, together, after = words(np.uint64(7), n)
    assert np.array_equal(alone[:-1].reshape(n, 2).T, together)
    assert alone[-1] == after
