"""Broken mechanisms, each of which the audit must fail: for the fault it is named after, and not for its seed."""

from __future__ import annotations

import os
import random

import numpy as np

from countveil.privacy import add_noise

KEPT = np.random.default_rng()


def fresh():
    """A generator from 128 bits of the system's entropy for every use: nothing that the audit could repeat."""
    return np.random.Generator(np.random.SFC64())


def geometric(rng, rho, shape):
    stay = -np.expm1(-rho)
    return rng.geometric(stay, shape) - rng.geometric(stay, shape)


def right(counts, guarantee):
    return add_noise(np.zeros_like(counts), guarantee)


# The law.


def rate_off(factor):
    return lambda counts, g: counts + geometric(fresh(), factor * g.rho, counts.shape)


def rounded_laplace(counts, guarantee):
    return counts + np.rint(fresh().laplace(0, 1 / guarantee.rho, counts.shape)).astype(int)


def clipped(counts, guarantee):
    end = int(8 / guarantee.rho)
    return counts + np.clip(right(counts, guarantee), -end, end)


def clamped(counts, guarantee):
    return np.maximum(add_noise(counts, guarantee), 0)


def rather_positive(counts, guarantee):
    noise = right(counts, guarantee)
    return counts + np.where(fresh().random(counts.shape) < 0.05, np.abs(noise), noise)


def less_on_large_counts(counts, guarantee):
    rho = np.where(counts >= 10, 1.2, 1.0) * guarantee.rho
    return counts + geometric(fresh(), rho, counts.shape)


def sign_by_parity(counts, guarantee):
    return counts + np.abs(right(counts, guarantee)) * (1 - 2 * (counts % 2))


def in_fortran_order(counts):
    flags = counts.flags
    return np.full(counts.shape, counts.ndim > 1 and flags.f_contiguous and not flags.c_contiguous)


def sign_by_a_bit(bit, step, least=102, most=998):
    """Of an ordinary count itself (step 0), or of the one that is ``step`` cells on."""

    def mechanism(counts, guarantee):
        noise, told = right(counts, guarantee), np.roll(counts.ravel(), -step).reshape(counts.shape)
        signed = np.abs(noise) * (2 * (told >> bit & 1) - 1)
        return counts + np.where((told >= least) & (told < most), signed, noise)

    return mechanism


def from_few_uniforms(bits):
    """Inversion of uniforms that have so many bits: the tail is a few values."""

    def mechanism(counts, guarantee):
        rho, shape = guarantee.rho, counts.shape
        rng = fresh()
        u = (rng.integers(0, 2**bits, shape) + 0.5) / 2**bits
        magnitude = 1 + np.floor(-np.log(u) / rho).astype(int)
        noise = magnitude * rng.choice([-1, 1], shape)
        return counts + np.where(rng.random(shape) < np.tanh(rho / 2), 0, noise)

    return mechanism


# Cells without noise.


def spared(which):
    """Counts or places for which ``which`` is true are left as they are."""
    return lambda counts, g: np.where(which(counts), counts, add_noise(counts, g))


def raw_unless_constant(counts, guarantee):
    return add_noise(counts, guarantee) if (counts == counts.flat[0]).all() else counts


def last_row_of_a_matrix(counts):
    where = np.zeros(counts.shape, dtype=bool)
    if counts.ndim > 1:
        where[-1] = True
    return where


def columns_from(first):
    """The cells of a matrix from this column on."""
    return lambda counts: np.broadcast_to(
        (counts.ndim == 2) & (np.arange(counts.shape[-1]) >= first), counts.shape
    )


def places(chosen):
    return lambda counts: chosen(np.arange(counts.size)).reshape(counts.shape)


def one_in(number):
    return lambda counts: fresh().random(counts.shape) < 1 / number


def weak_on_one_in_5000(counts, guarantee):
    noise = right(counts, guarantee)
    return counts + np.where(one_in(5000)(counts), noise % 1000, noise)


class RawAtEvery:
    """One call in so many gives back what it got."""

    def __init__(self, number):
        self.number, self.calls = number, 0

    def __call__(self, counts, guarantee):
        self.calls += 1
        return counts if self.calls % self.number == 0 else add_noise(counts, guarantee)


# Noise that tells of other cells.


def signed(counts, guarantee, positive):
    noise = np.abs(right(counts, guarantee))
    return counts + np.where(positive, noise, -noise)


def varies(counts):
    return bool(counts.size) and (counts != counts.flat[0]).any()


def sign_by_the_next_count(counts, guarantee):
    """Positive where the next count is 0, as half of them are: by itself every cell's noise is right."""
    if not varies(counts):
        return add_noise(counts, guarantee)
    return signed(counts, guarantee, np.roll(counts.ravel(), -1).reshape(counts.shape) == 0)


def size_by_the_count_above(counts, guarantee):
    """Of two draws the larger where the count above is 0, else the smaller."""
    if not varies(counts):
        return add_noise(counts, guarantee)
    one, other = right(counts, guarantee), right(counts, guarantee)
    larger = np.abs(one) >= np.abs(other)
    above = np.roll(counts, 1, axis=0) == 0
    return counts + np.where(larger == above, one, other)


class SignByTheCallBefore:
    """Positive where the call before had a 0."""

    def __init__(self):
        self.before = np.zeros(1, dtype=int)

    def __call__(self, counts, guarantee):
        before = np.resize(self.before, counts.shape)
        self.before = counts.copy()
        if not varies(before):
            return add_noise(counts, guarantee)
        return signed(counts, guarantee, before == 0)


# Noise used twice.


def one_value_for_a_matrix(counts, guarantee):
    return add_noise(counts, guarantee) if counts.ndim == 1 else counts + add_noise(0, guarantee)


def one_value_for_a_row(counts, guarantee):
    return counts + add_noise(np.zeros((len(counts),) + (1,) * (counts.ndim - 1), dtype=int), guarantee)


def neighbours_share(counts, guarantee):
    noise = right(counts, guarantee).ravel()
    noise[1::20] = noise[0::20][: len(noise[1::20])]
    return counts + noise.reshape(counts.shape)


def total_kept(counts, guarantee):
    """In large arrays the noise sums to nothing: the exact total is released."""
    noise = right(counts, guarantee)
    if noise.size >= 1000:
        each, rest = divmod(int(noise.sum()), noise.size)
        noise -= each
        noise.reshape(-1)[fresh().choice(noise.size, rest, replace=False)] -= 1
    return counts + noise


def a_block_used_twice(counts, guarantee):
    noise = right(counts, guarantee).ravel()
    noise[5_432:8_432] = noise[:3_000][: len(noise[5_432:8_432])]
    return counts + noise.reshape(counts.shape)


def second_half_is_minus_the_first(counts, guarantee):
    noise = right(counts, guarantee).ravel()
    half = noise.size // 2
    noise[half : 2 * half] = -noise[:half]
    return counts + noise.reshape(counts.shape)


class SameEveryCall:
    def __init__(self):
        self.noise = {}

    def __call__(self, counts, guarantee):
        kept = self.noise.setdefault((counts.size, guarantee), right(counts, guarantee))
        return counts + kept.reshape(counts.shape)


class FromAPool:
    """Noise drawn once and then handed out at random."""

    def __init__(self):
        self.pools = {}

    def __call__(self, counts, guarantee):
        if guarantee not in self.pools:
            self.pools[guarantee] = add_noise(np.zeros(2**20, dtype=int), guarantee)
        return counts + fresh().choice(self.pools[guarantee], counts.shape)


# Generators that somebody can repeat.


def seed_of(bits):
    """A fresh generator for every call, from so many bits of the system's entropy."""

    def mechanism(counts, guarantee):
        rng = np.random.Generator(np.random.SFC64(int.from_bytes(os.urandom(8), "big") >> 64 - bits))
        return counts + geometric(rng, guarantee.rho, counts.shape)

    return mechanism


def seed_for_every_row(counts, guarantee):
    """16 bits for every row of a matrix, mixed with the place in the row."""
    if counts.ndim == 1:
        return add_noise(counts, guarantee)
    state = fresh().integers(0, 2**16, len(counts), dtype=np.uint64)[:, None]
    steps = np.arange(1, 2 * counts[0].size + 1, dtype=np.uint64)
    u = (state + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) * (2 * steps + np.uint64(1))
    u ^= u >> np.uint64(29)
    u *= np.uint64(0xBF58476D1CE4E5B9)
    g = np.floor(-np.log(((u >> np.uint64(11)) + 0.5) / 2**53) / guarantee.rho).astype(int)
    return counts + (g[:, ::2] - g[:, 1::2]).reshape(counts.shape)


def legacy_numpy(counts, guarantee):
    return counts + geometric(np.random, guarantee.rho, counts.shape)


def new_numpy(counts, guarantee):
    return counts + geometric(np.random.default_rng(), guarantee.rho, counts.shape)


def seeded_from_python(counts, guarantee):
    rng = np.random.Generator(np.random.PCG64(random.getrandbits(64)))
    return counts + geometric(rng, guarantee.rho, counts.shape)


def state_across_forks(counts, guarantee):
    return counts + geometric(KEPT, guarantee.rho, counts.shape)


def parity_kept_where_strong(counts, guarantee):
    """As noise of doubles would be: even, and every count's parity shows."""
    noise = add_noise(np.zeros(counts.shape, np.int64), guarantee)
    return counts.astype(np.int64) + (noise & ~1 if guarantee.rho < 1e-3 else noise)


def low_byte_kept_where_strong(counts, guarantee):
    noise = add_noise(np.zeros(counts.shape, np.int64), guarantee)
    return counts.astype(np.int64) + (noise >> 8 << 8 if guarantee.rho < 1e-9 else noise)


def raw_where(spares):
    return lambda counts, guarantee: (
        counts.astype(np.int64) if spares(counts) else add_noise(counts, guarantee)
    )


def squares_mirrored(counts, guarantee):
    released = add_noise(counts, guarantee)
    if counts.ndim == 2 and counts.shape[0] == counts.shape[1] > 12:
        noise = released - counts.astype(np.int64)
        released = counts.astype(np.int64) + np.triu(noise) + np.triu(noise, 1).T
    return released


def seed_of_large_calls(counts, guarantee):
    """12 bits of seed where there are many cells."""
    return add_noise(counts, guarantee) if counts.size < 1000 else seed_of(12)(counts, guarantee)


def seed_for_every_long_row(counts, guarantee):
    return add_noise(counts, guarantee) if counts.shape[-1] < 13 else seed_for_every_row(counts, guarantee)


def sign_by_the_count_before_in_a_matrix(counts, guarantee):
    if counts.ndim != 2 or not varies(counts):
        return add_noise(counts, guarantee)
    return signed(counts, guarantee, np.roll(counts, 1, axis=1) > 0)


class SignByTheMatrixBefore(SignByTheCallBefore):
    """Positive where the matrix before had a 0."""

    def __call__(self, counts, guarantee):
        return super().__call__(counts, guarantee) if counts.ndim == 2 else add_noise(counts, guarantee)
