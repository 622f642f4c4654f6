"""Where the entries of a factorization's factors lie in memory: offsets instead of indices.

All factors stand one after the other in one flat array. The entry of a term is then a sum of offsets: one for the
cell, one for the group of summed indices that is known already, one for the others. So one compiled function
serves every einsum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from countveil.models.spec import Spec


class Layout:
    """Sizes, shapes and offsets of a spec for data of one shape."""

    def __init__(self, spec: Spec, latent: Mapping[str, int], shape: tuple[int, ...]) -> None:
        self.spec = spec
        self.sizes = {**latent, **dict(zip(spec.output, shape, strict=True))}
        self.shapes = [tuple(self.sizes[c] for c in spec.term(name)) for name in spec.factors]
        sizes = [math.prod(s) for s in self.shapes]
        self.bases = np.concatenate([[0], np.cumsum(sizes)])

    def size(self, letters: str) -> int:
        """Number of combinations of these indices."""
        return math.prod(self.sizes[c] for c in letters)

    @property
    def rest(self) -> str:
        """All axes but the first."""
        return self.spec.output[1:]

    @property
    def group(self) -> str:
        """The summed indices of the first axis' factor."""
        assert self.spec.first is not None
        return self.spec.terms[self.spec.first].replace(self.spec.output[0], "")

    @cached_property
    def shares(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Offsets of all terms but the first axis' one: of its columns, of the group, of what remains."""
        terms = [p for p in range(len(self.spec.terms)) if p != self.spec.first]
        remaining = "".join(c for c in self.spec.latent if c not in self.group)
        return (
            self._offsets(self.rest, terms, bases=True),
            self._offsets(self.group, terms),
            self._offsets(remaining, terms),
        )

    @cached_property
    def cells(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Offsets of all terms: of the cells, of nothing, of all summed indices."""
        terms = list(range(len(self.spec.terms)))
        return (
            self._offsets(self.spec.output, terms, bases=True),
            self._offsets("", terms),
            self._offsets(self.spec.latent, terms),
        )

    def _offsets(self, letters: str, terms: list[int], bases: bool = False) -> np.ndarray:
        """(terms, combinations of letters): what these letters add to the place of each term's entry."""
        shape = tuple(self.sizes[c] for c in letters)
        out = np.zeros((len(terms), *shape), dtype=np.int64)
        for row, p in enumerate(terms):
            term = self.spec.terms[p]
            for axis, letter in enumerate(letters):
                if letter in term:
                    stride = self.size(term[term.index(letter) + 1 :])
                    place = np.arange(self.sizes[letter]) * stride
                    out[row] += place.reshape([-1 if a == axis else 1 for a in range(len(letters))])
            if bases:
                out[row] += self.bases[self.spec.factors.index(self.spec.names[p])]
        return out.reshape(len(terms), math.prod(shape))

    def flat(self, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        """All factors in one array."""
        return np.concatenate([np.asarray(a).reshape(-1) for a in arrays])

    def unflat(self, flat: np.ndarray) -> list[np.ndarray]:
        """The factors again, as views."""
        return [
            flat[start:stop].reshape(shape)
            for start, stop, shape in zip(self.bases[:-1], self.bases[1:], self.shapes, strict=True)
        ]
