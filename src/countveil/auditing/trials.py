"""What is put in: counts of every size mixed, in arrays of one to three axes, large and small.

A mechanism that spares zeros, large counts, the last row, or every array that is not constant must meet such
counts. They are drawn anew for every audit, so that no mechanism can know them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

# Constant arrays: zeros, ones, ordinary and large counts.
CONSTANTS = (0, 1, 7, 10**6)
TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
# Twelve cells in every way that one to three axes allow, for calls that must be quick.
SMALL = ((12,), (3, 4), (1, 12), (2, 3, 2), (12, 1), (6, 2), (2, 1, 6))


def mixed_counts(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Half zeros, a quarter 1 to 9, an eighth 10 to 999, an eighth from 2**10 to 2**40."""
    pool = np.concatenate(
        [
            np.zeros(2**15, dtype=np.int64),
            rng.integers(1, 10, 2**14),
            rng.integers(10, 1000, 2**13),
            np.exp2(rng.uniform(10, 40, 2**13)).astype(np.int64),
        ]
    )
    return pool[rng.integers(0, len(pool), shape, dtype=np.uint16)]


#: Bits of counts by which they are split, beside the first.
BITS = (1, 2, 3)


def any_half(rng: np.random.Generator) -> int:
    """A number by which ``kinds`` splits counts in two: another one for every audit."""
    return int(rng.integers(2**63)) * 2 + 1


def kinds(counts: np.ndarray, half: int) -> list[np.ndarray]:
    """Counts by size, parity and further bits, and any half of them: noise that depends on the count would show.

    Zeros, small, ordinary and large ones, odd and even ones, odd ones of each size; of small and ordinary ones, and
    of large ones, those with a bit of ``BITS``; of ordinary and of large ones a half that nobody knows beforehand
    (multiply-shift hashing).
    """
    size = np.searchsorted([1, 10, 1000], counts, side="right")
    odd = counts % 2 == 1
    few = (size == 1) | (size == 2)
    chosen = (counts.astype(np.uint64) * np.uint64(half)) >> np.uint64(63) == 1
    return [
        *(size == i for i in range(4)),
        odd,
        ~odd,
        *(odd & (size == i) for i in (1, 2, 3)),
        *(some & (counts >> bit & 1 == 1) for some in (few, size == 3) for bit in BITS),
        *(chosen & (size == i) for i in (2, 3)),
    ]


def large_trials(size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Some ``size`` mixed cells: a line, a matrix in either order of memory, a square, an array of three axes."""
    yield mixed_counts((size // 3,), rng)
    side = int((size // 6) ** 0.5)
    yield mixed_counts((side, side), rng)
    yield mixed_counts((max(size // 6 // 301, 1), 301), rng)
    yield mixed_counts((max(size // 6 // 7, 1), 7), rng).T  # long rows
    yield mixed_counts((max(size // 6 // 299, 1), 13, 23), rng)


def typed_trials(size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """A matrix of some ``size`` mixed cells of every type."""
    for kind in TYPES:
        yield typed(mixed_counts((max(size // 7, 1), 7), rng), kind)


def typed(counts: np.ndarray, kind: str) -> np.ndarray:
    """The counts in this type, those that it does not hold as large as it goes."""
    largest = 1 if kind == "bool" else min(int(np.iinfo(kind).max), 2**40)
    return np.minimum(counts, largest).astype(kind)


def small_trials(number: int, rng: np.random.Generator, any_type: bool) -> Iterator[np.ndarray]:
    """So many arrays of one to three axes, each axis of 1 to 6 cells; or of every type, some of them read-only."""
    counts = mixed_counts((number, 6, 6, 6), rng)
    for one, axes, ends in zip(
        counts, rng.integers(1, 4, number), rng.integers(1, 7, (number, 3)), strict=True
    ):
        i, j, k = ends
        kind = TYPES[rng.integers(len(TYPES))] if any_type else "int64"
        given = typed(one, kind)
        given.setflags(write=not any_type or bool(rng.integers(2)))
        yield (given[:i, 0, 0], given[:i, :j, 0], given[:i, :j, :k])[axes - 1]
