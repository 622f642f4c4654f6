"""The matrix form of any factorization at the cost of its tokens: a sweep that never looks at most cells.

mu_dv = sum_k theta_dk phi_vk. By superposition tokens are proposed for whole rows at once (``proposals``): for row
d and component k, Poisson(theta_dk Phi_k / alpha) tokens, each with a column drawn in proportion to phi_k. Tokens
arrive already allocated to a component. A cell with x <= 0 has y ~ Poisson(alpha*mu), likewise by tokens.

Row by row (``token_rows``, pass 4 ``visits``):

1. columns reached by tokens, positive cells: propose at 1/alpha, group by cell, accept or redraw;
2. the same columns, cells x <= 0: tokens at rate alpha;
3. visited columns, cells x <= 0: tokens at rate alpha;
4. visited columns, positive cells: one exact draw each; in columns with large counts all cells are visited.

``integrate`` hands positive cells back where that is possible and leaves out 2 and 3: what is left are the kept
cells' tokens, and an exposure of 1 - alpha everywhere, 1 on the kept cells. It mixes faster where noise is strong.

Cost: O(tokens/alpha on the proposed columns + K per positive cell of the visited ones + (rows + columns) K).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from countveil.counts.files.scratch import is_mapped
from countveil.inference.engines.cpu.alias_tables import WordTables, word_tables
from countveil.inference.engines.cpu.choose import (
    TOKENS_PER_VISIT,
    ColumnChoice,
    choose_columns,
)
from countveil.inference.engines.cpu.rows import (
    Counters,
    Factors,
    Sums,
    code_matrix,
    released_total,
)
from countveil.inference.engines.cpu.token_rows import Options, draw_looks, draw_rows, share_out_rows
from countveil.inference.engines.cpu.visits import VisitedCells, visit_cells
from countveil.inference.observed import Observed, rows_between
from countveil.kernels.philox import SweepKey
from countveil.models.einsum.exposure import exposure_of
from countveil.models.einsum.model import MatrixTokens
from countveil.runtime.workers import Workers

#: Of data on disk: listed cells of the rows that are drawn together. What is listed of them takes some 20 MB.
CELLS_PER_PART = 1 << 20


class Prepared(NamedTuple):
    """What depends on phi alone."""

    phi: np.ndarray  # (columns, components)
    proposed: WordTables
    visited: WordTables


class _Part(NamedTuple):
    """Some rows, and what compiled code needs to serve them."""

    start: int
    stop: int
    data: Observed
    options: Options
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
        options = Options(self._plan, codes, data.lowest_rho, data.highest_rho, self._tokens_per_visit)
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
            kept[0, start] = draw_rows(
                key, start, stop, factors, tables, data, options, self._integrate, sums(worker)
            )

        def visits(worker: int, start: int, stop: int) -> None:
            kept[1, start] = visit_cells(
                key, start, stop, cells, factors, data, self._integrate, sums(worker)
            )

        def plain_rows(worker: int, start: int, stop: int) -> None:
            share_out_rows(key, start, stop, factors, data, sums(worker))

        def looks(worker: int, start: int, stop: int) -> None:
            draw_looks(key, start, stop, factors, data, sums(worker))

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
