"""A factor on two axes, drawn row after row.

mu_ijt = g_i h_j sum_cd f_ic f_jd w_tcd is linear in row r of f on the cells (r, j, t) and (i, r, t) with i, j != r;
g and h are factors that have the axis i or j by itself, 1 if there are none. Given the tokens and all other rows,
f_rc ~ Gamma(shape + its tokens on both axes, rate + sum_jt sum_d f_jd (e_rjt g_r h_j w_tcd + e_jrt g_j h_r w_tdc)),
e = 1 where observed. The other rows are the new ones before r and the old ones after it: drawing all rows at once
given the old ones would not leave the posterior invariant.

On an observed cell (r, r, t) the row meets itself. Its entries are drawn one after the other then, from a gamma
density with a quadratic term.

``PairCells`` lists the cells for this: pairs (i, j) of one set of things, with all other axes flattened to t.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from countveil.kernels import steps
from countveil.kernels.gamma import gamma
from countveil.kernels.philox import open_stream
from countveil.kernels.uniform import uniform
from countveil.models.einsum.contraction import contract
from countveil.models.einsum.exposure import Exposure
from countveil.models.einsum.spec import Spec
from countveil.runtime.compiled import compiled

if TYPE_CHECKING:
    from countveil.models.einsum.model import EinsumModel


class PairCells(NamedTuple):
    """Lists of the observed cells, or else of the missing ones, for every r sorted by t."""

    observed: bool
    out_starts: np.ndarray  # int64 (n + 1): cells (r, j, t), j != r
    out_other: np.ndarray
    out_t: np.ndarray
    in_starts: np.ndarray  # cells (i, r, t), i != r
    in_other: np.ndarray
    in_t: np.ndarray
    self_starts: np.ndarray  # cells (r, r, t)
    self_t: np.ndarray


def pair_cells(exposure: Exposure, shape: tuple[int, ...], first: int, second: int) -> PairCells:
    """The listed cells of ``exposure`` as pairs of the places along two axes."""
    rows = np.repeat(np.arange(shape[0]), np.diff(exposure.starts))
    index = np.unravel_index(rows * (np.prod(shape[1:], dtype=np.int64)) + exposure.columns, shape)
    i, j = index[first], index[second]
    others = [axis for axis in range(len(shape)) if axis not in (first, second)]
    t = np.zeros(len(i), dtype=np.int64)
    if others:
        t = np.ravel_multi_index([index[a] for a in others], [shape[a] for a in others]).astype(np.int64)
    return _pairs(exposure.lists_observed, i, j, t, shape[first])


def stacked_pairs(parts: Sequence[PairCells], depths: Sequence[int]) -> PairCells:
    """The cells of several arrays as those of one whose t runs over the t of each, one array after the other.

    ``depths`` are the numbers of t. If some list observed cells and others missing ones, all list observed ones.
    """
    if len(parts) == 1:
        return parts[0]
    if len({part.observed for part in parts}) > 1:
        parts = [
            part if part.observed else _observed(part, depth)
            for part, depth in zip(parts, depths, strict=True)
        ]
    firsts = np.concatenate([[0], np.cumsum(depths)])
    n = len(parts[0].self_starts) - 1

    def together(starts: str, t: str, other: str | None = None) -> tuple[np.ndarray, ...]:
        r = np.concatenate([_rows(getattr(part, starts)) for part in parts])
        at = np.concatenate([getattr(p, t) + first for p, first in zip(parts, firsts, strict=False)])
        others = None if other is None else np.concatenate([getattr(part, other) for part in parts])
        return _by(r, at, n, others)

    return PairCells(
        parts[0].observed,
        *together("out_starts", "out_t", "out_other"),
        *together("in_starts", "in_t", "in_other"),
        *together("self_starts", "self_t"),
    )


def _observed(missing: PairCells, depth: int) -> PairCells:
    """The same cells, the observed ones listed instead."""
    n = len(missing.self_starts) - 1
    seen = np.ones((n, n, depth), dtype=bool)
    seen[_rows(missing.out_starts), missing.out_other, missing.out_t] = False
    here = _rows(missing.self_starts)
    seen[here, here, missing.self_t] = False
    i, j, t = np.nonzero(seen)
    return _pairs(True, i, j, t, n)


def _rows(starts: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _pairs(observed: bool, i: np.ndarray, j: np.ndarray, t: np.ndarray, n: int) -> PairCells:
    same = i == j
    return PairCells(
        observed,
        *_by(i[~same], t[~same], n, j[~same]),
        *_by(j[~same], t[~same], n, i[~same]),
        *_by(i[same], t[same], n),
    )


def _by(r: np.ndarray, t: np.ndarray, n: int, other: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
    order = np.lexsort((t, r))
    starts = np.concatenate([[0], np.cumsum(np.bincount(r, minlength=n))]).astype(np.int64)
    listed = () if other is None else (other[order].astype(np.int64),)
    return (starts, *listed, t[order])


class PairWeights(NamedTuple):
    """What a tied factor meets in one array, or in several whose t are stacked."""

    w: np.ndarray  # (t, c, d)
    view: np.ndarray  # int64 (t): the array that each t is of
    g: np.ndarray  # (arrays, n)
    h: np.ndarray  # (arrays, n)


def stacked_weights(parts: Sequence[PairWeights]) -> PairWeights:
    """Those of several arrays."""
    if len(parts) == 1:
        return parts[0]
    return PairWeights(
        np.concatenate([part.w for part in parts]),
        np.repeat(np.arange(len(parts)), [len(part.w) for part in parts]),
        np.concatenate([part.g for part in parts]),
        np.concatenate([part.h for part in parts]),
    )


def pair_weights(model: EinsumModel, held: Mapping[str, np.ndarray], name: str) -> PairWeights:
    """Of a factor that stands at two terms, with letters ic and jd."""
    spec = model._spec.by_axis
    w = _product_of_others(model, held, name)
    n = len(held[name])
    g, h = np.ones((1, n)), np.ones((1, n))
    axes = [spec.terms[p][0] for p in spec.places(name)]
    for term, factor in zip(spec.terms, spec.names, strict=True):
        for axis, scale in zip(axes, (g, h), strict=True):
            if term == axis:
                scale *= held[factor]
    return PairWeights(w, np.zeros(len(w), dtype=np.int64), g, h)


def _product_of_others(model: EinsumModel, held: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """w (t, c, d): the product of the terms that have neither axis of the tied factor."""
    spec = model._spec.by_axis
    layout = model._layout(model._shape_of(held))
    one, two = (spec.terms[p] for p in spec.places(name))
    others = [
        p for p, term in enumerate(spec.terms) if spec.names[p] != name and not {one[0], two[0]} & set(term)
    ]
    c, d = ("".join(x for x in term if x not in spec.output) for term in (one, two))
    t = "".join(x for x in spec.output if x not in one + two)
    fresh = "".join(x for x in d if x not in c)
    found = contract(
        [spec.terms[p] for p in others],
        [held[spec.names[p]] for p in others],
        t + c + fresh,
        layout.sizes,
    )
    if fresh == d:
        return found.reshape(layout.size(t), layout.size(c), layout.size(d))
    # Shared letters: the terms meet only where these agree.
    units = [np.eye(layout.sizes[x]) for x in d if x in c]
    renamed = dict(zip((x for x in d if x in c), _fresh_letters(spec, len(units)), strict=True))
    turned = "".join(renamed.get(x, x) for x in d)
    spread = contract(
        [t + c + fresh, *(x + y for x, y in renamed.items())],
        [found, *units],
        t + c + turned,
        layout.sizes,
    )
    return spread.reshape(layout.size(t), layout.size(c), layout.size(d))


def _fresh_letters(spec: Spec, n: int) -> list[str]:
    used = "".join(spec.terms) + spec.output
    return [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in used][:n]


@compiled
def draw_tied_rows(  # type: ignore[no-untyped-def]
    key, first_row, prior, tokens, further, weights, pairs, values
):
    """Draw ``values`` (n, C) in place, given ``PairWeights`` and the cells as ``PairCells`` has them.

    ``further`` (n, C) is exposure from elsewhere, added to the rates: of arrays in which the factor stands once.
    """
    shape, of_rows, of_components, _ = prior  # tied rows have no groups
    observed, out_starts, out_other, out_t, in_starts, in_other, in_t, self_starts, self_t = pairs
    w, view, g, h = weights
    n, size = values.shape
    n_views = len(g)
    sign = 1.0 if observed else -1.0
    turned = np.ascontiguousarray(np.transpose(w, (0, 2, 1)))
    total = np.zeros((n_views, size, size))
    if not observed:
        for t in range(len(w)):
            total[view[t]] += w[t]
    # Of the row's own c last: sums over d then go on for several c at a time.
    by_side = np.empty((n_views, 2, size, size))
    for v in range(n_views):
        by_side[v, 0], by_side[v, 1] = total[v].T, total[v]
    # Sums over the rows that have not been drawn yet, times h as partners on the second axis, times g on the first.
    below = np.zeros((n_views, 2, n + 1, size))
    for v in range(n_views):
        for r in range(n - 1, -1, -1):
            for c in range(size):
                below[v, 0, r, c] = below[v, 0, r + 1, c] + h[v, r] * values[r, c]
                below[v, 1, r, c] = below[v, 1, r + 1, c] + g[v, r] * values[r, c]
    above = np.zeros((n_views, 2, size))
    linear = np.empty(size)
    others = np.empty(size)
    own = np.empty((size, size))
    for r in range(n):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.TIED_FACTOR, first_row + r)
        linear[:] = 0.0
        if not observed:
            for v in range(n_views):
                for side in range(2):
                    own_scale = g[v, r] if side == 0 else h[v, r]
                    for d in range(size):
                        other = own_scale * (above[v, side, d] + below[v, side, r + 1, d])
                        for c in range(size):
                            linear[c] += other * by_side[v, side, d, c]
        _add_listed(r, out_starts, out_other, out_t, turned, view, g, h, sign, values, others, linear)
        _add_listed(r, in_starts, in_other, in_t, w, view, h, g, sign, values, others, linear)
        n_self = self_starts[r + 1] - self_starts[r]
        if not observed:
            n_self = len(w) - n_self
        of_row = of_rows[r] if len(of_rows) > 1 else of_rows[0]
        if n_self == 0:
            for c in range(size):
                rest = of_row * of_components[c] + further[r, c] + max(linear[c], 0.0)
                values[r, c], stream = gamma(stream, shape + tokens[r, c], rest)
        else:
            own[:] = 0.0
            for v in range(n_views):
                own += g[v, r] * h[v, r] * total[v]
            for i in range(self_starts[r], self_starts[r + 1]):
                v = view[self_t[i]]
                own += sign * g[v, r] * h[v, r] * w[self_t[i]]
            for c in range(size):
                met = of_row * of_components[c] + further[r, c] + max(linear[c], 0.0)
                for d in range(size):
                    if d != c:
                        met += values[r, d] * max(own[c, d] + own[d, c], 0.0)
                values[r, c], stream = quadratic_gamma(stream, shape + tokens[r, c], met, max(own[c, c], 0.0))
        for v in range(n_views):
            for c in range(size):
                above[v, 0, c] += h[v, r] * values[r, c]
                above[v, 1, c] += g[v, r] * values[r, c]


@compiled
def _add_listed(  # type: ignore[no-untyped-def]
    r, starts, other, at, w, view, own, others, sign, values, together, linear
):
    """Add sign * sum over the listed cells of row r: cells of one t share their multiplication by w_t (d, c)."""
    size = len(linear)
    i, stop = starts[r], starts[r + 1]
    while i < stop:
        t = at[i]
        v = view[t]
        together[:] = 0.0
        while i < stop and at[i] == t:
            for d in range(size):
                together[d] += others[v, other[i]] * values[other[i], d]
            i += 1
        for d in range(size):
            weight = sign * own[v, r] * together[d]
            for c in range(size):
                linear[c] += weight * w[t, d, c]


@compiled
def quadratic_gamma(stream, shape, rate, square):  # type: ignore[no-untyped-def]
    """``(x, stream)``, density proportional to x**(shape-1) * exp(-rate*x - square*x**2), square >= 0.

    With m the root of 2*square*m**2 + rate*m = shape, -rate*x - square*x**2 is -(rate + 2*square*m)*x -
    square*(x-m)**2 plus a constant: propose from Gamma(shape, rate + 2*square*m), accept with
    exp(-square*(x-m)**2). At least exp(-1/2) of all proposals are accepted.
    """
    if square <= 0.0:
        return gamma(stream, shape, rate)
    m = 2.0 * shape / (rate + math.sqrt(rate * rate + 8.0 * square * shape))
    while True:
        x, stream = gamma(stream, shape, rate + 2.0 * square * m)
        u, stream = uniform(stream)
        if not math.log(u) > -square * (x - m) * (x - m):  # NaN ends it too
            return x, stream
