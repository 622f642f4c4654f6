"""Scale moves: what factors may trade without changing a rate of any array.

Let x be a summed index that some factors have. Multiplying each factor's entries at x by c**e, e = 1, 0 or -1,
leaves every rate of every view as it is if in every view the exponents of the factors that have x add up to 0: of
topics, theta_.k * c and phi_k. / c; of documents x words and documents x authors, theta goes by c, and the words'
and the authors' factors go by 1/c. The moves here are independent solutions, those of few factors first. Factors
that are fixed, tied, or have x twice stay as they are: so the memberships of a network with views beside it have
no move.

The counts say nothing about c, only the priors do: with s = log c its density is exp((sum a n over those
multiplied - sum a n over those divided) s - A e**s - B e**-s), a the shapes, n the numbers of entries at x, A and
B the sums of rate times entries on either side. The move is exact for any likelihood and mask, and it is what the
sampler would otherwise crawl along.

Where the means of a factor's components are inferred they go with it: its entries are then as probable as before,
and the law of the inverse means, 1 / b_x ~ Gamma(1, b0), takes the place of theirs, on the other side. With groups
of rows all b_gx go with it, G laws in place of one. (The rows of a single group cannot be multiplied: what the
other factors would have to give back is in the rates of all rows.)

Communities: theta_.c * e**s goes with pi_cd and pi_dc times e**-s (d != c) and pi_cc times e**-2s. The density is
exp(a (V - 2C) s - b (Theta_c e**s + sum_{d!=c} (pi_cd + pi_dc) e**-s + pi_cc e**-2s)); where pi is symmetric each
pair is one entry, and V - C - 1 takes the place of V - 2C.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from countveil.kernels import steps
from countveil.kernels.exact_sum import UNWEIGHTED, exact_sums
from countveil.kernels.gamma import SMALLEST
from countveil.kernels.log_scale import draw_log_scale
from countveil.kernels.philox import SweepKey, open_stream
from countveil.models.einsum import prior as prior_module
from countveil.models.einsum.inferred import Inferred, Prior
from countveil.models.einsum.prior import prior_rates
from countveil.models.einsum.spec import JoinedIndex, Spec, joined_indices
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers

#: 3**n combinations of exponents are tried; with more factors at one index there are no moves along it.
MOST_FACTORS = 9
_NOTHING = np.zeros(1)


class ScaleMove(NamedTuple):
    """Factors to multiply and factors to divide, each with the place of the summed index among its letters."""

    up: tuple[tuple[str, int], ...]
    down: tuple[tuple[str, int], ...]


def scale_moves(
    specs: Mapping[str, Spec], indices: Collection[JoinedIndex], fixed: Collection[str]
) -> list[ScaleMove]:
    """The moves along all summed indices.

    >>> from countveil.models.einsum.spec import joined_indices, read_spec
    >>> words, authors = read_spec("dk,kv->dv", ["theta", "phi"]), read_spec("dk,ka->da", ["theta", "psi"])
    >>> specs = {"words": words, "authors": authors}
    >>> scale_moves(specs, joined_indices(specs), fixed=())
    [ScaleMove(up=(('theta', 1),), down=(('phi', 0), ('psi', 0)))]
    """
    tied = {name for spec in specs.values() for name in spec.factors if len(spec.places(name)) > 1}
    moves = []
    for index in indices:
        if index.is_axis:
            continue
        places: dict[str, set[int]] = {}
        sums = []  # of every letter: the factors at whose terms it stands
        for view, letter in index.letters:
            spec = specs[view]
            having = [name for name in spec.factors if letter in spec.term(name)]
            for name in having:
                places.setdefault(name, set()).add(spec.term(name).index(letter))
            sums.append(having)
        free = [
            name for name, at in places.items() if len(at) == 1 and name not in tied and name not in fixed
        ]
        if not 2 <= len(free) <= MOST_FACTORS:
            continue
        equations = [[float(name in having) for name in free] for having in sums]
        for exponents in _independent(np.array(equations)):
            sides = [
                tuple((n, min(places[n])) for n, e in zip(free, exponents, strict=True) if e == sign)
                for sign in (1, -1)
            ]
            moves.append(ScaleMove(*sides))
    return moves


def _independent(equations: np.ndarray) -> list[np.ndarray]:
    """Independent solutions of ``equations @ e = 0`` in -1, 0, 1, those of few factors first.

    A solution and its opposite are one move: the first exponent that is not 0 is 1.
    """
    n = equations.shape[1]
    tried = np.array(list(product((0, 1, -1), repeat=n)), dtype=float).reshape(-1, n)
    solved = tried[~(tried @ equations.T).any(axis=1)]
    signs = np.array([row[row != 0][0] if row.any() else 0 for row in solved])
    solved = solved[signs == 1]
    found: list[np.ndarray] = []
    for row in solved[np.argsort(np.abs(solved).sum(axis=1), kind="stable")]:
        if np.linalg.matrix_rank(np.array([*found, row])) > len(found):
            found.append(row)
    return found


@lru_cache(maxsize=256)
def moves_of(spec: Spec, fixed: tuple[str, ...]) -> list[ScaleMove]:
    """The moves of a single view."""
    specs = {"": spec}
    return scale_moves(specs, joined_indices(specs), fixed)


def trade_scales(
    moves: list[ScaleMove],
    held: dict[str, np.ndarray],
    prior_of: Callable[[str], Prior],
    inferred: Mapping[str, Inferred],
    key: SweepKey,
    workers: Workers,
) -> None:
    """Draw every scale anew, in place."""
    first_row = 0
    for move in moves:
        power, sums = 0.0, [_NOTHING, _NOTHING]
        for sign, side in ((1, move.up), (-1, move.down)):
            for name, place in side:
                shape, table, weights, goes = _at_stake(name, place, prior_of(name), inferred.get(name), held)
                everyone = workers.of(name) if goes == 1 else workers  # means are no rows
                power += sign * goes * shape * everyone.number(len(table))
                to = 0 if sign * goes == 1 else 1
                sums[to] = sums[to] + exact_sums(table, everyone, weights)
        scale, inverse = _draw_scales(key, first_row, power, sums[0], sums[1])
        first_row += len(scale)
        for side, by in ((move.up, scale), (move.down, inverse)):
            for name, place in side:
                _multiply_at(held[name], place, by)
                if name in inferred and inferred[name].means:
                    _multiply_at(held[f"{name}_mean"], _place_in_means(inferred[name], place), by)


def _at_stake(
    name: str, place: int, prior: Prior, inferred: Inferred | None, held: Mapping[str, np.ndarray]
) -> tuple[float, np.ndarray, np.ndarray, int]:
    """What has a prior that depends on the move: a shape, a table of entries, their rates by row, and 1 or -1.

    With 1 the entries go as the factor does, with -1 they are inverse means, and go the other way.
    """
    if inferred is not None and inferred.means:
        shape, means = prior_module.HYPER.mean_shape, held[f"{name}_mean"]
        table = _table(shape * inferred.usual_mean / means, _place_in_means(inferred, place))
        return shape, table, UNWEIGHTED, -1
    rates, table = prior_rates(name, prior, inferred, held), _table(held[name], place)
    of_rows = rates.of_rows
    if 1 < len(of_rows) < len(table):  # a row of the factor is several of the table
        of_rows = np.repeat(of_rows, len(table) // len(of_rows))
    return rates.shape, table, of_rows, 1


def _place_in_means(inferred: Inferred, place: int) -> int:
    """Where the index at this place of a factor stands in its means: groups take the place of rows."""
    return place - 1 if inferred.groups is None else place


def _multiply_at(factor: np.ndarray, place: int, by: np.ndarray) -> None:
    """Multiply along the index at this place, in place."""
    table = _table(factor, place)
    _multiply(table, by)
    if place < factor.ndim - 1:  # the table is a copy
        factor[...] = np.moveaxis(table.reshape(np.moveaxis(factor, place, -1).shape), -1, place)


def _table(factor: np.ndarray, place: int) -> np.ndarray:
    """The factor as (everything else, the summed index at this place); no copy if that is the last."""
    last = factor if place == factor.ndim - 1 else np.ascontiguousarray(np.moveaxis(factor, place, -1))
    return last.reshape(-1, last.shape[-1])


@compiled
def _multiply(table, by):  # type: ignore[no-untyped-def]
    for i in range(table.shape[0]):
        for k in range(table.shape[1]):
            table[i, k] = max(table[i, k] * by[k], SMALLEST)


@compiled
def _draw_scales(key, first_row, power, up, down):  # type: ignore[no-untyped-def]
    """Scales and their inverses; a side that nothing is at stake on has a single sum."""
    n = max(len(up), len(down))
    scale, inverse = np.empty(n), np.empty(n)
    for x in range(n):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.SCALE, first_row + x)
        above, below = up[x] if len(up) > 1 else up[0], down[x] if len(down) > 1 else down[0]
        s, stream = draw_log_scale(stream, power, max(above, SMALLEST), max(below, SMALLEST), 0.0)
        scale[x] = math.exp(s)
        inverse[x] = 1.0 / scale[x]
    return scale, inverse


@compiled
def trade_in_blocks(  # type: ignore[no-untyped-def]
    key, shape, theta_rate, pi_rate, symmetric, theta, pi, means, mean_shape
):
    """Trade between memberships and blocks, community after community, in place.

    ``means`` of the memberships, with the shape of their law, go with them where they are inferred; if they are
    not, ``means`` has no entries.
    """
    n, size = theta.shape
    inferred = len(means) > 0
    power = -shape * (size + 1 if symmetric else 2 * size)
    power += -mean_shape if inferred else shape * n
    sums, scales = np.zeros(size), np.empty(size)
    if not inferred:
        for i in range(n):
            for c in range(size):
                sums[c] += theta_rate * theta[i, c]
    for c in range(size):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.SCALE, c)
        up, down = sums[c], 0.0
        for d in range(size):
            if d != c:
                down += pi_rate * (pi[c, d] if symmetric else pi[c, d] + pi[d, c])
        if inferred:
            up, down = SMALLEST, down + mean_shape / means[c]
        s, stream = draw_log_scale(stream, power, up, down, pi_rate * pi[c, c])
        scale = math.exp(s)
        scales[c] = scale
        if inferred:
            means[c] *= scale
        for d in range(size):
            # (c, c) is divided twice.
            pi[c, d] = max(pi[c, d] / scale, SMALLEST)
            pi[d, c] = max(pi[d, c] / scale, SMALLEST)
    _multiply(theta, scales)
