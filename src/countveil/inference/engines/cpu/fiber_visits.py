"""The cells of crowded fibers: one exact draw each."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from countveil.inference.engines.cpu.products import LANES, sums_of_rows
from countveil.inference.engines.cpu.rows import (
    FEW_TOKENS,
    LARGE,
    UNSEEN,
    allocate_many,
    lay_out,
    pick,
    value_of,
)
from countveil.inference.engines.cpu.visits import sort_out
from countveil.kernels.given_release.geometric import draw_count_at, few_counts_at
from countveil.kernels.uniform import fill_uniforms
from countveil.runtime.compiled import compiled, inlined

#: Fibers that are visited together: loops over all their cells are long enough to be fast.
FIBERS = 32


class CellBuffer(NamedTuple):
    """For the cells of some fibers of a row: rows of a topic model whose words are the last axis.

    Cells lie fiber after fiber, each with its length rounded up to whole vectors.
    """

    theta: np.ndarray  # (fibers, components): a_ik g_fk
    tokens: np.ndarray  # int64 (fibers, components); all zero between visits
    rates: np.ndarray  # (fibers, padded length)
    means: np.ndarray  # of the proposals
    released: np.ndarray  # x up to 254, and 0 below
    uniforms: np.ndarray
    cells: np.ndarray  # int64: those with tokens
    counts: np.ndarray  # int64: of these cells
    hard: np.ndarray  # int64: cells that are drawn one by one
    points: np.ndarray  # for the tokens of counts that are not many


@compiled
def cell_buffer(length, n_components):
    """For fibers of this length."""
    padded = -(-length // LANES) * LANES
    n = FIBERS * padded
    return CellBuffer(
        np.empty((FIBERS, n_components)),
        np.zeros((FIBERS, n_components), dtype=np.int64),
        np.empty((FIBERS, padded)),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n * FEW_TOKENS),
    )


@inlined
def visit(stream, i, fibers, factors, codes, data, buffer, scratch, sums):
    """One exact draw for every observed cell of at most FIBERS fibers; the stream after them.

    See ``visits``: a cell whose uniform is not below the mean of its proposals has none. Most of the others are
    settled by plain arithmetic on their uniform (``few_counts_at``), which a loop does for several at a time.
    """
    first, middle, last, last_by_component = (
        factors.first,
        factors.middle,
        factors.last,
        factors.last_by_component,
    )
    row_starts, columns, values = data.row_starts, data.columns, data.values
    row_rho, cell_rho = data.row_rho, data.cell_rho
    of_first, of_middle, of_last = sums
    theta, of_fibers, rates, means, released, uniforms, cells, counts, hard, points = buffer
    length, padded = len(last), rates.shape[1]
    by_cell = len(cell_rho) > 0
    rho = 0.0 if by_cell else row_rho[i]
    scale, inverse = math.exp(-rho), math.exp(rho)
    for c in range(len(fibers)):
        weigh(i, fibers[c], c, first, middle, theta)
        sums_of_rows(theta, c, last_by_component, rates[c])
        here, there = slice(c * padded, (c + 1) * padded), slice(fibers[c] * length, (fibers[c] + 1) * length)
        expect(codes[there], rates[c], scale, inverse, means[here], released[here])
        if by_cell:
            expect_by_cell(codes[there], rates[c], cell_rho[i, there], means[here])
    n = len(fibers) * padded
    stream = fill_uniforms(stream, uniforms, n)
    n_open = leave_out_settled(n, uniforms, means, released, cells)
    square = math.nan if by_cell else scale * scale
    few_counts_at(uniforms[:n_open], released[:n_open], means[:n_open], square)
    n_few, n_hard = sort_out(n_open, means, uniforms, cells, counts, hard)
    for q in range(n_hard):
        c, t = place_of(hard[q], padded)
        v = fibers[c] * length + np.int64(t)
        if by_cell:
            rho = cell_rho[i, v]
            scale, inverse = math.exp(-rho), math.exp(rho)
        x, mu = np.int64(codes[v]), rates[c, t]
        if x == LARGE:
            x = value_of(codes[v], i, v, row_starts, columns, values)
        y, stream = draw_count_at(uniforms[q], stream, x, mu, rho, mu * inverse, mu * scale)
        if y > FEW_TOKENS:
            stream = allocate_many(stream, c, t, y, theta, last, scratch, of_fibers, of_last)
        else:
            cells[n_few] = hard[q]
            counts[n_few] = y
            n_few += y > 0
    n_tokens = 0
    for q in range(n_few):
        n_tokens += counts[q]
    stream = fill_uniforms(stream, points, n_tokens)
    a = 0
    for q in range(n_few):
        c, t = place_of(cells[q], padded)
        whole = lay_out(c, t, theta, last, scratch)
        for _ in range(counts[q]):
            k = pick(points[a], whole, c, t, theta, last, scratch)
            of_fibers[c, k] += 1
            of_last[t, k] += 1
            a += 1
    for f in range(len(fibers)):
        pass_on(i, fibers[f], f, of_fibers, of_first, of_middle)
    return stream


@inlined
def place_of(cell, padded):
    """Fiber and place within it. Unsigned, because numba checks a signed index for being negative."""
    fiber = np.uint64(cell) // np.uint64(padded)
    return fiber, np.uint64(cell) - fiber * np.uint64(padded)


@inlined
def expect(codes, rates, scale, inverse, means, released):
    """How many tokens are proposed on each cell of a fiber: none where it was not seen, nor on the padding."""
    for t in range(len(codes)):
        means[t] = rates[t] * (0.0 if codes[t] == UNSEEN else inverse if codes[t] > 0 else scale)
        released[t] = codes[t]
    for t in range(len(codes), len(means)):
        means[t] = 0.0


@compiled
def expect_by_cell(codes, rates, rho, means):
    """``expect`` where every cell has its own noise."""
    for t in range(len(codes)):
        if codes[t] != UNSEEN:
            means[t] = rates[t] * math.exp(rho[t] if codes[t] > 0 else -rho[t])


@compiled
def leave_out_settled(n, uniforms, means, released, cells):
    """Move what is left to the front, with the numbers of the cells: how many."""
    n_open = np.uint64(0)
    for cell in range(np.uint64(n)):
        u, mean = uniforms[cell], means[cell]
        cells[n_open] = cell
        uniforms[n_open] = u
        means[n_open] = mean
        released[n_open] = released[cell]
        n_open += np.uint64(u < mean)
    return np.int64(n_open)


@inlined
def weigh(i, f, c, first, middle, theta):
    """theta_c: a_ik g_fk."""
    for k in range(theta.shape[1]):
        theta[c, k] = first[i, k] * middle[f, k]


@inlined
def pass_on(i, f, c, of_fibers, of_first, of_middle):
    """The tokens of a fiber are tokens of its row and of its place between."""
    for k in range(of_fibers.shape[1]):
        n = of_fibers[c, k]
        of_first[i, k] += n
        of_middle[f, k] += n
        of_fibers[c, k] = 0
