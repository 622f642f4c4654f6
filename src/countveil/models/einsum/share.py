"""Tokens shared out over summed indices, and rates of single cells, for any einsum.

Given its count, a cell's tokens fall on the terms of its sum independently, in proportion to the terms (Poisson
splitting). Every cell and group has a stream of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property, lru_cache

import numpy as np

from countveil.kernels import steps
from countveil.kernels.binomial import multinomial
from countveil.kernels.philox import SweepKey, open_stream
from countveil.models.einsum.spec import Spec
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers


class Layout:
    """Sizes, shapes and offsets of a spec (by axis) for data of one shape.

    All factors stand one after the other in one flat array. The entry of a term is then a sum of offsets: one for
    the cell, one for the group of summed indices that is known already, one for the others. So one compiled
    function serves every einsum.
    """

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

    def flat(self, held: Mapping[str, np.ndarray]) -> np.ndarray:
        """All factors in one array."""
        return np.concatenate([held[name].reshape(-1) for name in self.spec.factors])

    def unflat(self, flat: np.ndarray) -> list[np.ndarray]:
        """The factors again, as views."""
        return [
            flat[start:stop].reshape(shape)
            for start, stop, shape in zip(self.bases[:-1], self.bases[1:], self.shapes, strict=True)
        ]


@lru_cache(maxsize=64)
def layout_of(spec: Spec, sizes: tuple[tuple[str, int], ...], shape: tuple[int, ...]) -> Layout:
    """The layout, made once for every shape."""
    return Layout(spec, dict(sizes), shape)


def share(
    layout: Layout,
    held: Mapping[str, np.ndarray],
    counts: np.ndarray,
    offsets: tuple[np.ndarray, np.ndarray, np.ndarray],
    key: SweepKey,
    workers: Workers,
) -> list[np.ndarray]:
    """Counts of (cells, group) shared out over what remains: the tokens of every factor, by axis."""
    flat = layout.flat(held)
    out = np.zeros((workers.threads, len(flat)), dtype=np.int64)
    if len(offsets[0]):  # else a factor alone

        def cells(worker: int, start: int, stop: int) -> None:
            _share_tokens(key, start, stop, counts, flat, *offsets, out[worker])

        workers.run_with_worker(len(counts), cells)
    return layout.unflat(out[0] if len(out) == 1 else out.sum(axis=0))


@compiled
def _share_tokens(  # type: ignore[no-untyped-def]
    key, start, stop, counts, flat, cell, group, latent, out
):
    """Share counts[i, g] out over the columns of ``latent`` for cells start..stop; add to ``out``.

    The weight of r is the product over terms p of flat[cell[p, i] + group[p, g] + latent[p, r]].
    """
    n_terms, n_latent = latent.shape
    weights = np.empty(n_latent)
    shares = np.empty(n_latent, dtype=np.int64)
    at = np.empty(n_terms, dtype=np.int64)
    n_groups = counts.shape[1]
    for i in range(start, stop):
        for g in range(n_groups):
            n = counts[i, g]
            if n == 0:
                continue
            for p in range(n_terms):
                at[p] = cell[p, i] + group[p, g]
            if n_latent == 1:
                for p in range(n_terms):
                    out[at[p] + latent[p, 0]] += n
                continue
            for r in range(n_latent):
                weight = 1.0
                for p in range(n_terms):
                    weight *= flat[at[p] + latent[p, r]]
                weights[r] = weight
                shares[r] = 0
            stream = open_stream(key.seed, key.chain, key.sweep, steps.SHARES, i * np.int64(n_groups) + g)
            stream = multinomial(stream, n, weights, shares)
            for r in range(n_latent):
                if shares[r] > 0:
                    for p in range(n_terms):
                        out[at[p] + latent[p, r]] += shares[r]


@compiled
def cell_rates(chosen, flat, cell, latent, out):  # type: ignore[no-untyped-def]
    """out[i]: the rate of cell chosen[i], summed in one fixed order."""
    n_terms, n_latent = latent.shape
    for i in range(len(chosen)):
        total = 0.0
        for r in range(n_latent):
            weight = 1.0
            for p in range(n_terms):
                weight *= flat[cell[p, chosen[i]] + latent[p, r]]
            total += weight
        out[i] = total
