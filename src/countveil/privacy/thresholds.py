"""Exact draws from a finite law, given the bounds of its cumulative probabilities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from countveil.privacy.random_source import Source

Bounds = Callable[[int, int], tuple[int, int]]  # (k, bits) -> low <= 2**bits * P(outcome <= k) <= high

_UNSURE = -(2**15)  # no outcome: these 16 bits do not decide


class Table:
    """Outcomes ``first .. last``, drawn by inversion: the number of thresholds ``P(outcome <= k)`` below a
    uniform U, with the bits of U drawn only as far as needed to know that number.

    The first 16 bits of U choose one of 65,536 equal cells, and a cell that contains no threshold decides.
    Otherwise 48 more bits give a word of U, compared with ``floor(2**64 * threshold)``; a word equal to one
    of these gets 64 more bits, and the thresholds that much more precision, until nothing is equal.
    """

    def __init__(self, bounds: Bounds, first: int, last: int) -> None:
        self.first = first
        self._bounds = bounds
        self._thresholds = np.array([self._floor(k, 64) for k in range(first, last)], dtype=np.uint64)
        start = np.arange(2**16, dtype=np.uint64) << np.uint64(48)
        below = np.searchsorted(self._thresholds, start, side="left")
        through = np.searchsorted(self._thresholds, start + np.uint64(2**48 - 1), side="right")
        self._cells = np.where(below == through, first + below, _UNSURE).astype(np.int16)
        # A table is shared by all draws with its rate: nobody may change it.
        self._thresholds.setflags(write=False)
        self._cells.setflags(write=False)

    def draw(self, size: int, source: Source) -> npt.NDArray[np.int16]:
        """``size`` independent outcomes."""
        words = np.frombuffer(source(2 * size), dtype=np.uint16, count=size)
        outcome = self._cells.take(words)
        unsure = np.flatnonzero(outcome == _UNSURE)
        if unsure.size:
            outcome[unsure] = self._search(words[unsure], source)
        return outcome

    def _search(self, words: npt.NDArray[np.uint16], source: Source) -> npt.NDArray[np.int64]:
        more = np.frombuffer(source(8 * words.size), dtype=np.uint64, count=words.size)
        words64 = words.astype(np.uint64) << np.uint64(48) | more >> np.uint64(16)
        below = np.searchsorted(self._thresholds, words64, side="left")
        through = np.searchsorted(self._thresholds, words64, side="right")
        for i in np.flatnonzero(below != through):
            below[i] += self._settle(int(words64[i]), int(below[i]), int(through[i]), source)
        return self.first + below

    def _settle(self, word: int, below: int, through: int, source: Source) -> int:
        """How many of the tied thresholds (numbers below .. through - 1) are under U.

        It ends. Fair bits stay tied for another 64 with chance 2**-64 per threshold. Constant bytes, as of a dead
        source, or bytes in any circle make U rational, and no threshold is (see law.py): they part somewhere, at
        rate 1000 after 1443 bits. What they decide is not released: see source.py.
        """
        bits = 64
        while True:
            bits += 64
            word = word << 64 | int.from_bytes(source(8), "big")
            floors = [self._floor(self.first + i, bits) for i in range(below, through)]
            if word not in floors:
                return sum(floor < word for floor in floors)

    def _floor(self, k: int, bits: int) -> int:
        """floor(2**bits * threshold k): precision grows until both bounds agree on it."""
        guard = 64
        while True:
            low, high = self._bounds(k, bits + guard)
            if low >> guard == high >> guard:
                return low >> guard
            guard *= 2
