"""The matrix form of any factorization at the cost of its tokens: a sweep that never looks at most cells.

mu_dv = sum_k theta_dk phi_vk. By superposition tokens are proposed for whole rows at once (``proposals``): for row
d and component k, Poisson(theta_dk Phi_k / alpha) tokens, each with a column drawn in proportion to phi_k. Tokens
arrive already allocated to a component. A cell with x <= 0 has y ~ Poisson(alpha*mu), likewise by tokens.

Row by row, from the row's own stream (pass 4 from the cell's own):

1. columns reached by tokens, positive cells: propose at 1/alpha, group by cell, accept or redraw;
2. the same columns, cells x <= 0: tokens at rate alpha;
3. visited columns, cells x <= 0: tokens at rate alpha;
4. visited columns, positive cells: one exact draw each; in columns with large counts all cells are visited.

A row that expects more tokens in 1, 2 or 3 than it has cells is drawn cell by cell there: a heavy document, or a
state far from the data (the first sweeps, a weak prior where a row is mostly missing), where tokens would cost more
than a look at every cell, without a bound. Whether a row is crowded depends on the state and the data, never on the
randomness of the draw: both ways are exact, and the same for every split of rows.

Where alpha varies within a row, 1 proposes at the smallest alpha and thins by alpha_min/alpha of the cell, 2 and 3
propose at the largest and thin by alpha/alpha_max. Missing cells take no tokens in any pass. A plain row (rho =
inf) has nothing to draw: its counts are shared out. Positive cells of counts that were released several times are
drawn one by one.

``integrate`` hands positive cells back where that is possible and leaves out 2 and 3: what is left are the kept
cells' tokens, and an exposure of 1 - alpha everywhere, 1 on the kept cells. It mixes faster where noise is strong.

Cost: O(tokens/alpha on the proposed columns + K per positive cell of the visited ones + (rows + columns) K).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from countveil.counts.files.scratch import is_mapped
from countveil.inference.engines.cpu.alias_tables import WordTables, word_tables
from countveil.inference.engines.cpu.choose import (
    TOKENS_PER_VISIT,
    ColumnChoice,
    ColumnPlan,
    choose_columns,
)
from countveil.inference.engines.cpu.proposals import (
    REJECTED,
    accept_or_reject,
    draw_tokens,
    forget,
    token_buffer,
)
from countveil.inference.engines.cpu.rows import (
    FEW_TOKENS,
    Counters,
    Factors,
    Sums,
    allocate,
    allocate_few,
    allocate_many,
    cell_rate,
    code_matrix,
    open_codes,
    released_total,
    scratch_size,
    value_of,
)
from countveil.inference.engines.cpu.visits import VisitedCells, is_dropped, visit_cells
from countveil.inference.observed import Observed, gather, noise_of, rows_between
from countveil.kernels import steps
from countveil.kernels.noise.geometric import draw_count, draw_count_directly
from countveil.kernels.noise.repeated import draw_count_repeated
from countveil.kernels.philox import SweepKey, open_stream
from countveil.kernels.poisson import poisson
from countveil.kernels.uniform import uniform
from countveil.models.einsum.exposure import exposure_of
from countveil.models.einsum.model import MatrixTokens
from countveil.runtime.compiled import compiled, inlined
from countveil.runtime.workers import Workers

#: Of data on disk: listed cells of the rows that are drawn together. What is listed of them takes some 20 MB.
CELLS_PER_PART = 1 << 20


class Prepared(NamedTuple):
    """What depends on phi alone."""

    phi: np.ndarray  # (columns, components)
    proposed: WordTables
    visited: WordTables


class _Options(NamedTuple):
    """How compiled code serves the rows."""

    plan: ColumnPlan
    codes: np.ndarray
    lowest_rho: np.ndarray
    highest_rho: np.ndarray
    tokens_per_visit: float


class _Part(NamedTuple):
    """Some rows, and what compiled code needs to serve them."""

    start: int
    stop: int
    data: Observed
    options: _Options
    cells: VisitedCells


class Choice(NamedTuple):
    """What is chosen by totals of all rows, so that some of them by themselves are drawn as among all."""

    columns: ColumnChoice
    lists_observed: bool | None = None  # see ``exposure_of``


class Tokens:
    """For any data, exact method; with ``integrate`` where noise does not vary within a row.

    Of data that lie on disk (``counts/files/scratch``) some rows are looked at after the others, and what is listed
    of them is listed anew in every sweep: memory holds that of some rows alone.
    """

    def __init__(
        self, data: Observed, n_components: int, workers: Workers, *, integrate: bool = False,
        tokens_per_visit: float = TOKENS_PER_VISIT, chosen: Choice | None = None,
    ) -> None:  # fmt: skip
        """``chosen`` where the data are some of the rows alone."""
        self._data, self._tokens_per_visit = data, tokens_per_visit
        # None where nothing is integrated out: compiled code leaves those branches out then.
        self._integrate = True if integrate else None
        self._released = released_total(data)
        if chosen is None:
            self._columns, lists_observed = choose_columns(data, n_components, integrate, workers), None
        else:
            self._columns, lists_observed = chosen
        self._plan, self._ends = self._columns.plan(), _ends_of_parts(data)
        self._whole = self._part(0, data.n_rows) if len(self._ends) == 1 else None
        self._exposure = exposure_of(
            data.missing_starts, data.missing_columns, data.width, workers, lists_observed
        )

    def prepare(self, phi: np.ndarray, workers: Workers) -> Prepared:
        """Tables of the columns; phi is (columns, components)."""
        plan, none = self._plan, np.zeros(0, dtype=np.int32)
        needs_visited = not (self._integrate or self._data.is_plain)
        return Prepared(
            phi,
            word_tables(phi, plan.proposed, workers),
            word_tables(phi, plan.visited if needs_visited else none, workers),
        )

    def draw(self, theta: np.ndarray, prepared: Prepared, key: SweepKey, workers: Workers) -> MatrixTokens:
        """The sums of allocated tokens of one sweep; theta is (rows, components)."""
        counters = Counters(Factors(theta, prepared.phi), self._released, workers)
        none = np.zeros(0, dtype=np.int32)
        kept = [(none, none)]  # plain rows keep nothing
        for part in self._parts():
            for rows, columns in self._draw_part(part, theta, prepared, key, workers, counters):
                kept.append((rows + np.int32(part.start), columns))
        exposure = self._exposure
        if self._integrate:
            exposure = exposure._replace(
                alpha=np.exp(-self._data.row_rho),
                kept_rows=np.concatenate([part[0] for part in kept]),
                kept_columns=np.concatenate([part[1] for part in kept]),
            )
        return MatrixTokens(counters.rows, counters.columns(workers), exposure)

    def _parts(self) -> Iterator[_Part]:
        if self._whole is not None:
            yield self._whole
            return
        for start, stop in pairwise((0, *self._ends)):
            yield self._part(start, stop)

    def _part(self, start: int, stop: int) -> _Part:
        data = rows_between(self._data, start, stop)
        codes = np.zeros((0, 0), np.uint8) if data.is_plain else code_matrix(data)
        options = _Options(self._plan, codes, data.lowest_rho, data.highest_rho, self._tokens_per_visit)
        return _Part(start, stop, data, options, self._columns.cells(data))

    def _draw_part(
        self,
        part: _Part,
        theta: np.ndarray,
        prepared: Prepared,
        key: SweepKey,
        workers: Workers,
        counters: Counters,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Count the tokens of some rows; where cells are integrated out, those kept: rows (of these), columns."""
        data, options, cells = part.data, part.options, part.cells
        factors = Factors(theta[part.start : part.stop], prepared.phi)
        tables = (prepared.proposed, prepared.visited)
        key = key._replace(first_row=key.first_row + part.start)
        kept: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

        def sums(worker: int) -> Sums:
            rows, columns = counters.of(worker)
            return Sums(rows[part.start : part.stop], columns)

        def rows(worker: int, start: int, stop: int) -> None:
            kept[0, start] = _draw_rows(
                key, start, stop, factors, tables, data, options, self._integrate, sums(worker)
            )

        def visits(worker: int, start: int, stop: int) -> None:
            kept[1, start] = visit_cells(
                key, start, stop, cells, factors, data, self._integrate, sums(worker)
            )

        def plain_rows(worker: int, start: int, stop: int) -> None:
            _share_out_rows(key, start, stop, factors, data, sums(worker))

        def looks(worker: int, start: int, stop: int) -> None:
            _draw_looks(key, start, stop, factors, data, sums(worker))

        # Functions of their own: what the data do not need is not compiled.
        workers.run_with_worker(data.n_rows, plain_rows if data.is_plain else rows)
        if data.is_repeated:
            workers.run_with_worker(data.n_rows, looks)
        if len(cells.rows):
            workers.run_with_worker(cells.n_blocks, visits, small=1)
        return [kept[place] for place in sorted(kept)]


def _ends_of_parts(data: Observed) -> list[int]:
    """The rows where parts end: one part in memory, on disk as many as keep what is listed of each small."""
    if not (is_mapped(data.columns) or is_mapped(data.missing_columns)):
        return [data.n_rows]
    listed = data.row_starts + data.missing_starts
    ends = [0]
    while ends[-1] < data.n_rows:
        stop = int(np.searchsorted(listed, listed[ends[-1]] + CELLS_PER_PART, side="right")) - 1
        ends.append(min(max(stop, ends[-1] + 1), data.n_rows))
    return ends[1:]


@compiled
def _draw_rows(key, start, stop, factors, tables, data, options, integrate, sums):
    """Passes 1 to 3 for rows start..stop; where cells are integrated out, rows and columns of those kept."""
    theta, phi = factors
    row_topic, column_topic = sums
    proposed_tables, visited_tables = tables
    row_starts, columns, values = data.row_starts, data.columns, data.values
    row_rho, cell_rho = data.row_rho, data.cell_rho
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
        stream = open_stream(key.seed, key.chain, key.sweep, steps.COUNTS, key.first_row + d)
        if math.isinf(row_rho[d]):
            _share_out(stream, d, theta, phi, row_starts, columns, values, scratch, row_topic, column_topic)
            continue
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
def _share_out(stream, d, theta, phi, row_starts, columns, values, scratch, row_topic, column_topic):
    """A plain row: its counts are known."""
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
def _share_out_rows(key, start, stop, factors, data, sums):
    """Plain rows alone."""
    theta, phi = factors
    scratch = np.empty(scratch_size(theta.shape[1]))
    for d in range(start, stop):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.COUNTS, key.first_row + d)
        _share_out(
            stream,
            d,
            theta,
            phi,
            data.row_starts,
            data.columns,
            data.values,
            scratch,
            sums.rows,
            sums.columns,
        )


@compiled
def _draw_looks(key, start, stop, factors, data, sums):
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
        stream, d, n_tokens, column, codes, data, integrate, proposals, rejected, kept, n_kept
    )
    row = np.uint64(d)
    for i in range(n_tokens):
        v, k = np.uint64(column[i]), np.uint64(component[i])
        if proposals[v] > REJECTED:
            row_topic[row, k] += 1
            column_topic[v, k] += 1
            proposals[v] = 0
    if integrate is not None:
        forget(n_tokens, column, proposals)
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
