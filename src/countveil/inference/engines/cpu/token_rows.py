"""Passes 1 to 3 of ``tokens``, row by row from the row's own stream; and rows that have nothing to propose.

A row that expects more tokens in one of them than it has cells there is drawn cell by cell: a heavy document, or a
state far from the data (the first sweeps, a weak prior where a row is mostly missing), where tokens would cost more
than a look at every cell, without a bound. Whether a row is crowded depends on the state and the data, never on the
randomness of the draw: both ways are exact, and the same for every split of rows.

Where alpha varies within a row, 1 proposes at the smallest alpha and thins by alpha_min/alpha of the cell, 2 and 3
propose at the largest and thin by alpha/alpha_max. Missing cells take no tokens in any pass. A plain row (rho =
inf) has nothing to draw: its counts are shared out. Positive cells of counts that were released several times are
drawn one by one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from countveil.inference.engines.cpu.choose import ColumnPlan
from countveil.inference.engines.cpu.proposals import (
    REJECTED,
    accept_or_reject,
    draw_tokens,
    forget,
    token_buffer,
)
from countveil.inference.engines.cpu.rows import (
    FEW_TOKENS,
    allocate,
    allocate_few,
    allocate_many,
    cell_rate,
    open_codes,
    scratch_size,
    value_of,
)
from countveil.inference.engines.cpu.visits import is_dropped
from countveil.inference.observed import gather, noise_of
from countveil.kernels import steps
from countveil.kernels.given_release.geometric import draw_count, draw_count_directly
from countveil.kernels.given_release.repeated import draw_count_repeated
from countveil.kernels.philox import open_stream
from countveil.kernels.poisson import poisson
from countveil.kernels.uniform import uniform
from countveil.runtime.compiled import compiled, inlined


class Options(NamedTuple):
    """How compiled code serves the rows."""

    plan: ColumnPlan
    codes: np.ndarray
    lowest_rho: np.ndarray
    highest_rho: np.ndarray
    tokens_per_visit: float


@compiled
def draw_rows(key, start, stop, factors, tables, data, options, integrate, sums):
    """Passes 1 to 3 for rows start..stop; where cells are integrated out, rows and columns of those kept."""
    theta, phi = factors
    row_topic, column_topic = sums
    proposed_tables, visited_tables = tables
    row_starts, row_rho, cell_rho = data.row_starts, data.row_rho, data.cell_rho
    plan, code_rows, lowest_rho, highest_rho, tokens_per_visit = options
    width, n_components = phi.shape
    scratch = np.empty(scratch_size(n_components))
    proposals = np.zeros(width, dtype=np.int32)
    tokens = token_buffer(n_components, 1024)
    row_codes = np.zeros(width, dtype=np.uint8)
    listed = len(code_rows) == 0
    by_cell = len(cell_rho) > 0
    varies = by_cell or len(data.partial_rho) > 0
    room = 0
    if integrate is not None:
        room = 4096
    # Not a literal 0, for which numba would first compile all that it is handed to.
    kept_rows, kept_columns, n_kept = np.empty(room, np.int32), np.empty(room, np.int32), np.int64(0)
    for d in range(start, stop):
        if math.isinf(row_rho[d]):
            share_out_rows(key, d, d + 1, factors, data, sums)
            continue
        stream = open_stream(key.seed, key.chain, key.sweep, steps.COUNTS, key.first_row + d)
        codes = row_codes if listed else code_rows[d]
        if listed:
            open_codes(d, data, codes)
        if len(plan.proposed):
            rho = highest_rho[d]
            expected = math.exp(rho) * cell_rate(d, 0, theta, proposed_tables.mass.reshape(1, -1))
            n_positive = row_starts[d + 1] - row_starts[d]
            before = n_kept
            if is_crowded(expected, n_positive, tokens_per_visit):
                if integrate is not None:
                    kept_columns = _with_room(kept_columns, n_kept, n_positive)
                n_kept, stream = _visit_positive(
                    stream, d, plan.is_proposed, factors, data, integrate, kept_columns, n_kept, scratch, sums
                )
            else:
                n, tokens, stream = draw_tokens(
                    stream, d, math.exp(rho), theta, proposed_tables, codes, True, tokens, scratch
                )
                if by_cell:
                    n, stream = _thin(stream, n, tokens, rho, cell_rho, d)
                if integrate is not None:
                    kept_columns = _with_room(kept_columns, n_kept, n)
                n_kept, stream = _settle(
                    stream, d, n, tokens, proposals, factors, data, codes,
                    integrate, kept_columns, n_kept, scratch, sums,
                )  # fmt: skip
            if integrate is not None:
                kept_rows = _with_room(kept_rows, before, n_kept - before)
                kept_rows[before:n_kept] = d
        if integrate is not None:
            continue
        rho = lowest_rho[d]
        for group in range(2):
            chosen = plan.proposed if group == 0 else plan.visited
            if len(chosen) == 0:
                continue
            own = proposed_tables if group == 0 else visited_tables
            expected = math.exp(-rho) * cell_rate(d, 0, theta, own.mass.reshape(1, -1))
            if is_crowded(expected, len(chosen), tokens_per_visit):
                stream = _visit_others(
                    stream, d, chosen, codes, theta, phi, data, scratch, row_topic, column_topic
                )
                continue
            n, tokens, stream = draw_tokens(
                stream, d, math.exp(-rho), theta, own, codes, False, tokens, scratch
            )
            if varies:
                n, stream = _thin_others(stream, n, tokens, rho, data, d)
            row = np.uint64(d)
            for i in range(n):
                v, k = np.uint64(tokens.column[i]), np.uint64(tokens.component[i])
                row_topic[row, k] += 1
                column_topic[v, k] += 1
    return kept_rows[:n_kept].copy(), kept_columns[:n_kept].copy()


@inlined
def is_crowded(n_tokens, n_cells, tokens_per_visit):
    """Whether so many expected tokens cost more than visits to so many cells."""
    return n_tokens > tokens_per_visit * (n_cells + 1)


@compiled
def _with_room(kept, n_kept, n_more):
    """The list, longer if it has no room for so many more."""
    if n_kept + n_more <= len(kept):
        return kept
    grown = np.empty(2 * (n_kept + n_more), dtype=kept.dtype)
    grown[:n_kept] = kept[:n_kept]
    return grown


@compiled
def share_out_rows(key, start, stop, factors, data, sums):
    """Plain rows, whose counts are known.

    The loop over rows is in here: a call for each would count every array that it is handed, in memory that all
    threads share, and two threads would wait for that a tenth of a sweep.
    """
    theta, phi = factors
    row_topic, column_topic = sums
    row_starts, columns, values = data.row_starts, data.columns, data.values
    scratch = np.empty(scratch_size(theta.shape[1]))
    for d in range(start, stop):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.COUNTS, key.first_row + d)
        for i in range(row_starts[d], row_starts[d + 1]):
            if values[i] <= FEW_TOKENS:
                stream = allocate_few(
                    stream, d, columns[i], values[i], theta, phi, scratch, row_topic, column_topic
                )
        for i in range(row_starts[d], row_starts[d + 1]):
            if values[i] > FEW_TOKENS:
                stream = allocate_many(
                    stream, d, columns[i], np.int64(values[i]), theta, phi, scratch, row_topic, column_topic
                )


@compiled
def draw_looks(key, start, stop, factors, data, sums):
    """The positive cells of rows start..stop, released several times, each from its own stream."""
    theta, phi = factors
    scratch = np.empty(scratch_size(theta.shape[1]))
    n_releases = len(data.look_rho)
    x, noise = np.empty(n_releases, dtype=np.int64), np.empty(n_releases)
    for d in range(start, stop):
        rho = data.look_rho[:, d].copy()
        for i in range(data.row_starts[d], data.row_starts[d + 1]):
            v = data.columns[i]
            cell = (key.first_row + d) * np.int64(data.width) + v
            stream = open_stream(key.seed, key.chain, key.sweep, steps.VISITED, cell)
            n = gather(data.looks[i], rho, x, noise)
            y, stream = draw_count_repeated(stream, x[:n], noise[:n], cell_rate(d, v, theta, phi))
            if y > 0:
                allocate(stream, d, v, y, theta, phi, scratch, sums.rows, sums.columns)


@inlined
def _settle(
    stream, d, n_tokens, tokens, proposals, factors, data, codes, integrate, kept, n_kept, scratch, sums
):
    """Count the tokens that stand, and draw the cells anew whose proposals are rejected: ``(n_kept, stream)``."""
    row_topic, column_topic = sums
    column, component, rejected = tokens.column, tokens.component, tokens.rejected
    n_rejected, n_kept, stream = accept_or_reject(
        stream, d, n_tokens, column, codes, data, integrate, proposals, rejected, kept, n_kept,
        (component, row_topic[d], column_topic),
    )  # fmt: skip
    if integrate is not None:
        forget(n_tokens, column, proposals)
    if integrate is None:
        row = np.uint64(d)
        for i in range(n_tokens):
            v, k = np.uint64(column[i]), np.uint64(component[i])
            if proposals[v] > REJECTED:
                row_topic[row, k] += 1
                column_topic[v, k] += 1
                proposals[v] = 0
    theta, phi = factors
    row_starts, columns, values = data.row_starts, data.columns, data.values
    row_rho, cell_rho = data.row_rho, data.cell_rho
    for i in rejected[:n_rejected]:
        v = column[i]
        proposals[v] = 0
        rho = cell_rho[d, v] if len(cell_rho) else row_rho[d]
        t = value_of(codes[v], d, v, row_starts, columns, values)
        y, stream = draw_count_directly(stream, t, cell_rate(d, v, theta, phi), rho)
        if y > 0:
            stays, stream = _stays(stream, rho, y, t, integrate)
            if stays:
                n_kept = _list_kept(integrate, kept, n_kept, v)
                stream = allocate(stream, d, v, y, theta, phi, scratch, row_topic, column_topic)
    return n_kept, stream


@inlined
def _stays(stream, rho, y, t, integrate):
    """``(whether a positive cell with count y > 0 keeps its tokens, stream)``: always, unless cells are integrated
    out.
    """
    if integrate is None:
        return True, stream
    u, stream = uniform(stream)
    return not is_dropped(u, rho, y, t), stream


@inlined
def _list_kept(integrate, kept, n_kept, v):
    """List column v among those that are kept: how many there are."""
    if integrate is not None:
        kept[n_kept] = v
        n_kept += 1
    return n_kept


@compiled
def _visit_positive(stream, d, is_chosen, factors, data, integrate, kept, n_kept, scratch, sums):
    """The positive cells of a crowded row in the chosen columns, one exact draw each: ``(n_kept, stream)``."""
    theta, phi = factors
    row_topic, column_topic = sums
    row_starts, columns, values = data.row_starts, data.columns, data.values
    row_rho, cell_rho = data.row_rho, data.cell_rho
    for i in range(row_starts[d], row_starts[d + 1]):
        v, t = columns[i], np.int64(values[i])
        if is_chosen[v]:
            rho = cell_rho[d, v] if len(cell_rho) else row_rho[d]
            y, stream = draw_count(stream, t, cell_rate(d, v, theta, phi), rho)
            if y > 0:
                stays, stream = _stays(stream, rho, y, t, integrate)
                if stays:
                    n_kept = _list_kept(integrate, kept, n_kept, v)
                    stream = allocate(stream, d, v, y, theta, phi, scratch, row_topic, column_topic)
    return n_kept, stream


@compiled
def _visit_others(stream, d, chosen, codes, theta, phi, data, scratch, row_topic, column_topic):
    """The observed cells x <= 0 of a crowded row in the chosen columns: y ~ Poisson(alpha*mu); the stream."""
    for v in chosen:
        if codes[v] == 0:
            rho = noise_of(
                d, v, data.row_rho, data.cell_rho, data.partial_starts, data.partial_columns, data.partial_rho
            )
            y, stream = poisson(stream, math.exp(-rho) * cell_rate(d, v, theta, phi))
            if y > 0:
                stream = allocate(stream, d, v, y, theta, phi, scratch, row_topic, column_topic)
    return stream


@compiled
def _thin(stream, n_tokens, tokens, highest_rho, cell_rho, d):
    """Where noise varies within a row: keep a token on a positive cell with probability alpha_min/alpha."""
    column, component = tokens.column, tokens.component
    n_kept = 0
    for i in range(n_tokens):
        v, k = column[i], component[i]
        u, stream = uniform(stream)
        if u < math.exp(cell_rho[d, v] - highest_rho):
            column[n_kept] = v
            component[n_kept] = k
            n_kept += 1
    return n_kept, stream


@compiled
def _thin_others(stream, n_tokens, tokens, lowest_rho, data, d):
    """The same for a token on a cell x <= 0: with probability alpha/alpha_max."""
    column, component = tokens.column, tokens.component
    n_kept = 0
    for i in range(n_tokens):
        v, k = column[i], component[i]
        rho = noise_of(
            d, v, data.row_rho, data.cell_rho, data.partial_starts, data.partial_columns, data.partial_rho
        )
        stays = True
        if rho > lowest_rho:
            u, stream = uniform(stream)
            stays = u < math.exp(lowest_rho - rho)
        if stays:
            column[n_kept] = v
            component[n_kept] = k
            n_kept += 1
    return n_kept, stream
