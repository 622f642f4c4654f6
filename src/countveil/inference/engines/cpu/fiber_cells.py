"""The cells of crowded fibers: one exact draw each."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from countveil.inference.engines.cpu.cell_products import LANES, sums_of_rows
from countveil.inference.engines.cpu.codes import UNSEEN, value_of
from countveil.inference.engines.cpu.rows import FEW_TOKENS, allocate_many, lay_out, pick
from countveil.kernels.compiled import compiled, inlined
from countveil.kernels.count_conditional import draw_count_at
from countveil.kernels.uniforms import fill_uniforms


class CellRoom(NamedTuple):
    """Room for the cells of a fiber, which are the only row of a topic model whose words are the last axis."""

    theta: np.ndarray  # (1, components): a_ik g_fk
    tokens: np.ndarray  # int64 (1, components); all zero between fibers
    uniforms: np.ndarray
    rates: np.ndarray
    drawn: np.ndarray  # int64
    counts: np.ndarray  # int64
    points: np.ndarray


@compiled
def cell_room(length, n_components):
    """Room for a fiber of this length."""
    return CellRoom(
        np.empty((1, n_components)),
        np.zeros((1, n_components), dtype=np.int64),
        np.empty(length),
        np.empty(-(-length // LANES) * LANES),
        np.empty(length, dtype=np.int64),
        np.empty(length, dtype=np.int64),
        np.empty(length * FEW_TOKENS),
    )


@compiled
def visit(
    stream, i, fibers, first, middle, last, last_by_component, codes, row_starts, columns, values,
    row_rho, cell_rho, room, scratch, of_first, of_middle, of_last,
):  # fmt: skip
    """One exact draw for every observed cell of these fibers, after a first look.

    See ``visits``: a cell whose uniform is not below the mean of its proposals has none.
    """
    theta, of_fiber, uniforms, rates, drawn, counts, points = room
    length = len(last)
    by_cell = len(cell_rho) > 0
    scale, inverse, before = 1.0, 1.0, 0.0
    for f in fibers:
        start = f * length
        weigh(i, f, first, middle, theta)
        sums_of_rows(theta, 0, last_by_component, rates)
        stream = fill_uniforms(stream, uniforms, length)
        n_open = 0
        for t in range(length):
            rho = cell_rho[i, start + t] if by_cell else row_rho[i]
            if rho != before:
                scale, inverse, before = math.exp(-rho), math.exp(rho), rho
            code = codes[start + t]
            settled = uniforms[t] >= rates[t] * (inverse if code > 0 else scale)
            drawn[n_open] = t
            n_open += (not settled) & (code != UNSEEN)
        n_drawn, n_tokens = 0, 0
        for q in range(n_open):
            t = drawn[q]
            rho = cell_rho[i, start + t] if by_cell else row_rho[i]
            if rho != before:
                scale, inverse, before = math.exp(-rho), math.exp(rho), rho
            x = value_of(codes[start + t], i, start + t, row_starts, columns, values)
            mu = rates[t]
            y, stream = draw_count_at(uniforms[t], stream, x, mu, rho, mu * inverse, mu * scale)
            if y > FEW_TOKENS:
                stream = allocate_many(stream, 0, t, y, theta, last, scratch, of_fiber, of_last)
            else:
                drawn[n_drawn] = t
                counts[n_drawn] = y
                n_tokens += y
                n_drawn += y > 0
        stream = fill_uniforms(stream, points, n_tokens)
        a = 0
        for q in range(n_drawn):
            row, place = np.uint64(0), np.uint64(drawn[q])
            whole = lay_out(row, place, theta, last, scratch)
            for _ in range(counts[q]):
                k = pick(points[a], whole, row, place, theta, last, scratch)
                of_fiber[row, k] += 1
                of_last[place, k] += 1
                a += 1
        pass_on(i, f, of_fiber, of_first, of_middle)
    return stream


@inlined
def weigh(i, f, first, middle, theta):
    """a_ik g_fk."""
    for k in range(theta.shape[1]):
        theta[0, k] = first[i, k] * middle[f, k]


@inlined
def pass_on(i, f, of_fiber, of_first, of_middle):
    """The tokens of a fiber are tokens of its row and of its place between."""
    for k in range(of_fiber.shape[1]):
        n = of_fiber[0, k]
        of_first[i, k] += n
        of_middle[f, k] += n
        of_fiber[0, k] = 0
