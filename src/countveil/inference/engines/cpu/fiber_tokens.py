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
from countveil.kernels.compiled import compiled
from countveil.kernels.count_conditional import draw_count_directly
from countveil.kernels.uniform import uniform
from countveil.kernels.uniforms import fill_exponentials, fill_uniforms

_STANDS, _FALLS = -1, -2
_ZERO, _ONE = np.uint64(0), np.uint64(1)


class TokenRoom(NamedTuple):
    """Room for tokens: points on a line."""

    points: np.ndarray
    interval: np.ndarray  # int32: the one in which a point lies
    component: np.ndarray  # int32
    column: np.ndarray  # int32
    fallen: np.ndarray  # int32: one token of every cell whose proposals are not accepted


@compiled
def token_room(n_tokens):
    """Room for so many tokens."""
    return TokenRoom(
        np.empty(n_tokens),
        np.empty(n_tokens, dtype=np.int32),
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
def room_for(expected, room):
    """Room for as many tokens as may come where so many are expected: more have a probability below 1e-50."""
    n = np.int64(2.0 * expected) + 100
    return room if n <= len(room.points) else token_room(2 * n)


@compiled
def scatter(stream, ends, points, interval):
    """Points of a Poisson process of rate 1 on the line, in order, and the interval of each.

    Intervals lie end to end; an empty one gets none. ``(number of points, stream)``.
    """
    length = ends[-1]
    at, n_points = 0.0, np.int64(0)
    while at < length and n_points < len(points):
        # Gaps are exponential: probably enough of them, at once.
        n = min(np.int64(length - at + 2.0 * math.sqrt(length - at)) + 2, len(points) - n_points)
        gaps = points[n_points : n_points + n]
        stream = fill_exponentials(stream, gaps, n)
        for a in range(n):
            at += gaps[a]
            gaps[a] = at
        n_points += n
    while n_points > 0 and not points[n_points - 1] < length:
        n_points -= 1
    find_intervals(points, n_points, ends, interval)
    return n_points, stream


@compiled
def find_intervals(points, n_points, ends, interval):
    """The interval of every point; both are in order.

    From both ends at once: either search waits for itself alone, and a processor does the two side by side.
    """
    one, place = np.uint64(0), np.uint64(0)
    other, other_place = np.uint64(max(n_points, 1) - 1), np.uint64(len(ends) - 1)
    while one < other:
        inside = points[one] < ends[place]
        interval[one] = place
        one += np.uint64(inside)
        place += np.uint64(not inside)
        # The first interval has no end before it, and all that is left: its points never go further back.
        outside = (points[other] < ends[other_place - _ONE]) if other_place > _ZERO else False
        interval[other] = other_place
        other -= np.uint64(not outside)
        other_place -= np.uint64(outside)
    if n_points > 0:
        while not points[one] < ends[place]:
            place += _ONE
        interval[one] = place


@compiled
def choose_cells(
    stream, i, n_tokens, first, weights, keep, other, ends, codes, cell_rho, highest_rho, room, scratch
):
    """Component and column of every token; those that do not stay are left out.

    Tokens came at rate mu * exp(highest_rho): mu * exp(rho) stay on positive cells, mu * exp(-rho) on others.
    """
    points, fibers, components, columns, _ = room
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
    by_cell = len(cell_rho) > 0
    stays_on_others = math.exp(-2.0 * highest_rho)
    n_kept = np.uint64(0)
    for a in range(n_tokens):
        k = np.uint64(components[a])
        u = points[a] * length
        t = np.int64(u)
        t = t if t < length else length - 1  # rounding
        # The slot's interval is cut in two at ``share``: within its part, u is as good as a new uniform.
        u -= t
        share = keep[k, np.uint64(t)]
        own = u < share
        within, part = (u, share) if own else (u - share, 1.0 - share)
        v = fibers[a] * length + (t if own else other[k, np.uint64(t)])
        code = codes[np.uint64(v)]
        stays = 1.0 if code > 0 else stays_on_others
        if by_cell:
            rho = cell_rho[i, v]
            stays = math.exp((rho if code > 0 else -rho) - highest_rho)
        fibers[n_kept] = fibers[a]
        components[n_kept] = components[a]
        columns[n_kept] = v
        n_kept += np.uint64((within < stays * part) & (code != UNSEEN))
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
    _, fibers, components, token_columns, fallen = room
    length = len(last)
    for a in range(n_tokens):
        proposals[token_columns[a]] += 1
    n_fallen = 0
    for a in range(n_tokens):
        f, k, v = fibers[a], components[a], token_columns[a]
        n = proposals[v]
        # A single token stands without a look: x >= 1 on every positive cell.
        if n > 1 and codes[v] > 0:
            n_excess = n - value_of(codes[v], i, v, row_starts, columns, values)
            n = _STANDS
            if n_excess > 0:
                rho = cell_rho[i, v] if len(cell_rho) else row_rho[i]
                u, stream = uniform(stream)
                if u >= math.exp(-2.0 * rho * n_excess):
                    n = _FALLS
                    fallen[n_fallen] = a
                    n_fallen += 1
            proposals[v] = n
        if n != _FALLS:
            of_first[i, k] += 1
            of_middle[f, k] += 1
            of_last[v - f * length, k] += 1
    for a in range(n_tokens):
        proposals[token_columns[a]] = 0
    theta, of_fibers = cells.theta, cells.tokens
    for a in fallen[:n_fallen]:
        f, v = fibers[a], token_columns[a]
        rho = cell_rho[i, v] if len(cell_rho) else row_rho[i]
        x, t = value_of(codes[v], i, v, row_starts, columns, values), v - f * length
        weigh(i, f, 0, first, middle, theta)
        y, stream = draw_count_directly(stream, x, cell_rate(0, t, theta, last), rho)
        if y > 0:
            stream = allocate(stream, 0, t, y, theta, last, scratch, of_fibers, of_last)
            pass_on(i, f, 0, of_fibers, of_first, of_middle)
    return stream
