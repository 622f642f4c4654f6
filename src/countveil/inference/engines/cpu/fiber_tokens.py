"""Tokens proposed on a row of fibers: where they fall, and whether they stand.

The fibers of a row lie end to end on a line, each as long as the number of tokens it expects; the tokens are the
points of a Poisson process of rate 1 on that line. Where in its fiber's interval a point lies says which component
it belongs to, and the component draws the place on the last axis.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from countveil.inference.engines.cpu.codes import UNSEEN, value_of
from countveil.inference.engines.cpu.fiber_cells import pass_on, weigh
from countveil.inference.engines.cpu.rows import allocate, cell_rate, lay_out, pick
from countveil.kernels.compiled import compiled, inlined
from countveil.kernels.count_conditional import draw_count_directly
from countveil.kernels.uniform import uniform
from countveil.kernels.uniforms import fill_uniforms

_STANDS, _FALLS = -1, -2


class TokenRoom(NamedTuple):
    """Room for tokens: points on a line."""

    points: np.ndarray
    interval: np.ndarray  # int32: the one in which a point lies
    component: np.ndarray  # int32
    column: np.ndarray  # int32


@compiled
def token_room(n_tokens):
    """Room for so many tokens."""
    return TokenRoom(
        np.empty(n_tokens),
        np.empty(n_tokens, dtype=np.int32),
        np.empty(n_tokens, dtype=np.int32),
        np.empty(n_tokens, dtype=np.int32),
    )


@compiled
def lay_out_fibers(boost, limit, totals, ends, crowded):
    """Put the fibers end to end on a line, each as long as its expected tokens; crowded ones are left out.

    Returns how many are crowded.
    """
    n_crowded, end = 0, 0.0
    for f in range(len(ends)):
        expected = boost * totals[f]
        is_crowded = not expected <= limit  # so is inf * 0, where boost has overflowed
        crowded[n_crowded] = f
        n_crowded += is_crowded
        end += 0.0 if is_crowded else expected
        ends[f] = end
    return n_crowded


@compiled
def scatter(stream, ends, room):
    """Points of a Poisson process of rate 1 on the line, in order, and the interval of each.

    Intervals lie end to end; an empty one gets none. ``(number of points, room, stream)``.
    """
    length = ends[-1]
    at, n_points = 0.0, np.int64(0)
    room.points[0] = length
    while at < length:
        # Gaps are exponential: probably enough of them, at once.
        n = np.int64(length - at + math.sqrt(length - at)) + 2
        if n_points + n > len(room.points):
            larger = token_room(2 * (n_points + n))
            larger.points[:n_points] = room.points[:n_points]
            room = larger
        points = room.points[n_points:]
        stream = fill_uniforms(stream, points, n)
        for a in range(n):
            points[a] = math.log(points[a])
        for a in range(n):
            at -= points[a]
            points[a] = at
        n_points += n
    points, interval = room.points, room.interval
    n_inside, place = np.uint64(0), np.uint64(0)
    while points[n_inside] < length:  # the last point is not
        inside = points[n_inside] < ends[place]
        interval[n_inside] = place
        n_inside += np.uint64(inside)
        place += np.uint64(not inside)
    return np.int64(n_inside), room, stream


@compiled
def choose_cells(
    stream, i, n_tokens, first, weights, keep, other, ends, codes, cell_rho, highest_rho, room, scratch
):
    """Component and column of every token; those that do not stay are left out.

    Tokens came at rate mu * exp(highest_rho): mu * exp(rho) stay on positive cells, mu * exp(-rho) on others.
    """
    points, fibers, components, columns = room
    row = np.uint64(i)
    before, whole, begin, end = -1, 0.0, 0.0, 0.0
    for a in range(n_tokens):
        f = np.uint64(fibers[a])
        if fibers[a] != before:
            before = fibers[a]
            whole = lay_out(row, f, first, weights, scratch)
            begin, end = ends[before - 1] if before > 0 else 0.0, ends[before]
        components[a] = pick((points[a] - begin) / (end - begin), whole, row, f, first, weights, scratch)
    stream = fill_uniforms(stream, points, n_tokens)
    length = keep.shape[1]
    for a in range(n_tokens):
        k = np.uint64(components[a])
        u = points[a] * length
        t = np.int64(u)
        t = t if t < length else length - 1  # rounding
        slot = np.uint64(t)
        columns[a] = fibers[a] * length + (t if u - t < keep[k, slot] else other[k, slot])
    stream = fill_uniforms(stream, points, n_tokens)
    by_cell = len(cell_rho) > 0
    stays_on_others = math.exp(-2.0 * highest_rho)
    n_kept = np.uint64(0)
    for a in range(n_tokens):
        v = columns[a]
        code = codes[np.uint64(v)]
        stays = 1.0 if code > 0 else stays_on_others
        if by_cell:
            rho = cell_rho[i, v]
            stays = math.exp((rho if code > 0 else -rho) - highest_rho)
        fibers[n_kept] = fibers[a]
        components[n_kept] = components[a]
        columns[n_kept] = v
        n_kept += np.uint64((points[a] < stays) & (code != UNSEEN))
    return np.int64(n_kept), stream


@compiled
def accept_or_redraw(
    stream, i, n_tokens, first, middle, last, codes, row_starts, columns, values, row_rho, cell_rho,
    proposals, room, cells, scratch, of_first, of_middle, of_last,
):  # fmt: skip
    """A positive cell's n proposed tokens stand with probability h(n), else the cell is drawn anew.

    ``proposals`` counts a cell's tokens; it is all zero before and after. The first token of a cell decides for
    all of them: STANDS or FALLS.
    """
    _, fibers, components, token_columns = room
    length = len(last)
    for a in range(n_tokens):
        proposals[token_columns[a]] += 1
    for a in range(n_tokens):
        f, k, v = fibers[a], components[a], token_columns[a]
        t = v - f * length
        n = proposals[v]
        # A single token stands without a look: x >= 1 on every positive cell.
        if n > 1 and codes[v] > 0:
            x = value_of(codes[v], i, v, row_starts, columns, values)
            rho = cell_rho[i, v] if len(cell_rho) else row_rho[i]
            stands, stream = stand(stream, n, x, rho)
            n = _STANDS if stands else _FALLS
            proposals[v] = n
            if not stands:
                stream = redraw(
                    stream, i, f, t, x, rho, first, middle, last, cells.theta, cells.tokens, scratch,
                    of_first, of_middle, of_last,
                )  # fmt: skip
        if n != _FALLS:
            of_first[i, k] += 1
            of_middle[f, k] += 1
            of_last[t, k] += 1
    for a in range(n_tokens):
        proposals[token_columns[a]] = 0
    return stream


@inlined
def stand(stream, n, x, rho):
    """Whether n tokens proposed on a positive cell stand: with probability h(n)."""
    if n <= x:
        return True, stream
    u, stream = uniform(stream)
    return u < math.exp(-2.0 * rho * (n - x)), stream


@compiled
def redraw(
    stream, i, f, t, x, rho, first, middle, last, theta, of_fiber, scratch, of_first, of_middle, of_last
):
    """One positive cell by an exact draw."""
    weigh(i, f, first, middle, theta)
    y, stream = draw_count_directly(stream, x, cell_rate(0, t, theta, last), rho)
    stream = allocate(stream, 0, t, y, theta, last, scratch, of_fiber, of_last)
    pass_on(i, f, of_fiber, of_first, of_middle)
    return stream
