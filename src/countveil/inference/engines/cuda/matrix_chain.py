"""A chain of a matrix of two factors whose state stays on the device: sweeps move nothing but tokens' counters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from countveil.inference.engines.cuda import factors, sums
from countveil.inference.engines.cuda.counts import DeviceCounts
from countveil.inference.engines.cuda.device import (
    Recorded,
    empty,
    fill_from,
    launch,
    launch_blocks,
    to_device,
    to_host,
)
from countveil.models.einsum import prior as prior_module
from countveil.models.einsum.exposure import Exposure, exposure_of
from countveil.models.einsum.inferred import Inferred
from countveil.models.einsum.model import EinsumModel
from countveil.models.einsum.update import Statistics


def fits(model: Any) -> bool:
    """Whether the factors of a model can be drawn here: two free ones, without groups."""
    if not isinstance(model, EinsumModel) or model.matrix_fields is None or model._fixed:
        return False
    row, column = model.matrix_fields
    if any(model._prior(name).groups is not None or model._prior(name).symmetric for name in (row, column)):
        return False
    inferred = dict(model._inferred)
    if not inferred:
        return True
    return inferred == {
        row: Inferred(model._prior(row).shape, scales=True, means=True, level=False, is_scale=False),
        column: Inferred(model._prior(column).shape, scales=True, means=False, level=True, is_scale=False),
    }


def bytes_of_chain(n_rows: int, width: int, n_components: int) -> int:
    """What a chain takes on the device: both factors and the counters of their tokens."""
    return 2 * 8 * (n_rows + width) * (n_components + 1)


class Workspace:
    """What chains of one problem share: nothing in it outlasts a sweep."""

    def __init__(self, model: EinsumModel, counts: DeviceCounts) -> None:
        self.model, self.counts, data = model, counts, counts.data
        assert model.matrix_fields is not None
        self.row, self.column = model.matrix_fields
        self.inferred = bool(model._inferred)
        self.n_rows, self.width, self.n_components = data.n_rows, data.width, model.n_components
        k = self.n_components
        self.buffer, found = sums.split_buffer([k, k, k, k, factors.N_TERMS, factors.N_TERMS, 1])
        self.rows_before, self.columns_before, self.rows, self.columns, *others = found
        self.row_laws, self.column_laws, self.met = others
        self.one, self.nothing = to_device(np.ones(1)), empty((0, 1), np.int64)
        self.row_by, self.column_by = empty(k, np.float64), empty(k, np.float64)
        n_rows, n_columns = (self.n_rows, self.width) if self.inferred else (1, 1)
        # With a fixed prior they stay 1.
        self.row_weights, self.column_weights = to_device(np.ones(n_rows)), to_device(np.ones(n_columns))
        self.row_terms, self.column_terms = (
            empty((n, factors.N_TERMS), np.float64) for n in (n_rows, n_columns)
        )
        self.exposure = exposure_of(data.missing_starts, data.missing_columns, data.width)
        self.is_whole = self.exposure.is_whole
        self.row_exposure = empty((0 if self.is_whole else self.n_rows, k), np.float64)
        self.column_exposure = empty((0 if self.is_whole else self.width, k), np.float64)
        if self.is_whole:
            self.no_sums = empty((2, 0), np.float64), empty((2, 2, 0), np.int64)
        else:
            self.met_rows = empty((self.width, 1), np.float64)
            self.by_rows = to_device(self.exposure.starts), to_device(self.exposure.columns)
            self.by_columns = tuple(map(to_device, _turned(self.exposure, self.width)))
        of_rows, of_columns = model._prior(self.row), model._prior(self.column)
        self.priors = factors.Priors(
            float(of_rows.shape),
            float(of_rows.shape if of_rows.rate is None else of_rows.rate),
            float(of_columns.shape),
            float(of_columns.shape if of_columns.rate is None else of_columns.rate),
            self.inferred,
        )
        self.hyper = to_device(np.array(prior_module.HYPER, dtype=np.float64))

    def expose(self, lists: Any, before: sums.Sums, other: Any, out: Any) -> None:
        """Sums of the other factor over observed cells, where some are missing."""
        if not self.is_whole:
            launch(
                sums.fill_exposure, out.shape[0] * out.shape[1],
                *lists, self.exposure.lists_observed, *before.sums, other, out,
            )  # fmt: skip


class MatrixChain:
    """One chain. Its arrays lie by axis: theta (rows, K), phi (columns, K)."""

    def __init__(self, work: Workspace, seed: int, chain: int) -> None:
        self._work, self._identity = work, (seed, chain)
        k = work.n_components
        self._theta, self._phi = empty((work.n_rows, k), np.float64), empty((work.width, k), np.float64)
        self._row_tokens = empty((work.n_rows, k), np.int64)
        self._column_tokens = empty((work.width, k), np.int64)
        sizes = (work.n_rows, work.width, k) if work.inferred else (1, 1, 1)
        self._row_scales, self._column_scales, self._means = (empty(n, np.float64) for n in sizes)
        self._scalars = empty(factors.N_SCALARS, np.float64)
        self._key = empty(3, np.uint64)
        self._recorded = Recorded(self._sweep)
        self.extra: dict[str, np.ndarray] = {}  # such chains have nothing beside their state

    def load(self, state: Any, sweep: int) -> None:
        """Go on from a state after so many sweeps."""
        work = self._work
        held = work.model._hold(state)
        fill_from(self._theta, held[work.row])
        fill_from(self._phi, held[work.column])
        scalars = np.ones(factors.N_SCALARS)
        rows, columns, means = np.ones(1), np.ones(1), np.ones(1)
        if work.inferred:
            rows, columns = held[f"{work.row}_scale"], held[f"{work.column}_scale"]
            means = held[f"{work.row}_mean"]
            fields = self._scalar_fields()
            scalars[: len(fields)] = [float(held[field]) for field in fields]
        fill_from(self._row_scales, rows)
        fill_from(self._column_scales, columns)
        fill_from(self._means, means)
        fill_from(self._scalars, scalars)
        fill_from(self._key, np.array([*self._identity, sweep], dtype=np.uint64))

    def state(self) -> Any:
        """A copy of the state."""
        work = self._work
        held = {work.row: to_host(self._theta), work.column: to_host(self._phi)}
        if work.inferred:
            held[f"{work.row}_scale"] = to_host(self._row_scales)
            held[f"{work.column}_scale"] = to_host(self._column_scales)
            held[f"{work.row}_mean"] = to_host(self._means)
            scalars = to_host(self._scalars)
            held |= {field: np.asarray(x) for field, x in zip(self._scalar_fields(), scalars, strict=False)}
        return work.model._state(held)

    def statistics(self) -> Mapping[str, Statistics]:
        """A copy of what the last sweep drew the state from."""
        by_name = {self._work.row: to_host(self._row_tokens), self._work.column: to_host(self._column_tokens)}
        tokens = [by_name[name] for name in self._work.model._spec.factors]
        return {"": Statistics(tokens, self._work.exposure)}

    @property
    def factors(self) -> tuple[Any, Any]:
        """theta (rows, K) and phi (columns, K), where they are."""
        return self._theta, self._phi

    @property
    def rows(self) -> tuple[Any, Any]:
        """Tokens and entries of the first factor."""
        return self._row_tokens, self._theta

    @property
    def columns(self) -> tuple[Any, Any]:
        """Those of the second."""
        return self._column_tokens, self._phi

    @property
    def row_prior(self) -> tuple[float, float, Any, Any]:
        """Shape, top, scales and means of the first factor's prior (``factors.Priors``)."""
        return *self._work.priors[:2], self._row_scales, self._means

    @property
    def column_prior(self) -> tuple[float, float, Any, Any]:
        """Those of the second."""
        return *self._work.priors[2:4], self._column_scales, self._work.one

    def _scalar_fields(self) -> list[str]:
        row, column = self._work.row, self._work.column
        laws = [f"{name}_scale_{tail}" for name in (row, column) for tail in ("upper", "lower")]
        return [*laws, f"{column}_level"]

    def sweep(self) -> None:
        """One sweep. Nothing waits for the device."""
        self._recorded()

    def _sweep(self) -> None:
        """Tokens, factors, scales, and what is inferred of them."""
        work, key = self._work, self._key
        theta, phi, scalars, means = self._theta, self._phi, self._scalars, self._means
        n = max((work.n_rows + work.width) * work.n_components, len(work.buffer))
        launch(factors.start_sweep, n, key, self._row_tokens, self._column_tokens, work.buffer)
        sums.find_both_largest(work.rows_before, theta, work.columns_before, phi)
        work.columns_before.add(phi, work.one, work.nothing)
        work.counts.draw(
            key, theta, phi, work.rows_before.largest, work.columns_before.largest,
            self._row_tokens, self._column_tokens,
        )  # fmt: skip
        row_shape, row_top, column_shape, column_top, inferred = work.priors
        by_rows, by_columns = ((), ()) if work.is_whole else (work.by_rows, work.by_columns)
        row_weights, column_weights = work.row_weights, work.column_weights
        work.expose(by_rows, work.columns_before, phi, work.row_exposure)
        rows_at_once = factors.rows_of_block(work.n_components)
        launch_blocks(
            factors.draw_factor, sums.n_blocks(work.n_rows, work.n_components, rows_at_once), sums.THREADS,
            key, 0, row_shape, row_top, self._row_scales, means, self._row_tokens, work.is_whole,
            *work.columns_before.sums, work.row_exposure, theta, inferred, row_weights, work.rows.bits,
        )  # fmt: skip
        work.rows.add(theta, row_weights, self._row_tokens)
        work.expose(by_columns, work.rows, theta, work.column_exposure)
        launch_blocks(
            factors.draw_factor, sums.n_blocks(work.width, work.n_components, rows_at_once), sums.THREADS,
            key, 1, column_shape, column_top, self._column_scales, work.one, self._column_tokens, work.is_whole,
            *work.rows.sums, work.column_exposure, phi, inferred, column_weights, work.columns.bits,
        )  # fmt: skip
        work.columns.add(phi, column_weights, work.nothing)
        met = work.no_sums if work.is_whole else (work.met.largest, work.met.halves)
        if inferred and not work.is_whole:
            launch(sums.fill_met, work.width, phi, work.column_exposure, work.met_rows)
            work.met.find_largest(work.met_rows, work.one)
            work.met.add(work.met_rows, work.one, work.nothing)
        launch_blocks(
            factors.move_scales, 1, factors.MOVE_THREADS,
            key, work.n_rows, work.width, *work.priors, work.hyper,
            work.rows.largest, work.rows.halves, work.rows.tokens,
            work.columns.largest, work.columns.halves, *met, means, scalars, work.row_by, work.column_by,
        )  # fmt: skip
        if not inferred:
            launch(factors.multiply, work.n_rows * work.n_components, work.row_by, theta)
            launch(factors.multiply, work.width * work.n_components, work.column_by, phi)
            return
        n_first, n_second = (math.ceil(n / factors.BLOCK_ROWS) for n in (work.n_rows, work.width))
        launch_blocks(
            factors.draw_scales, n_first + n_second, factors.ROW_THREADS,
            key, n_first, scalars,
            row_shape, means, work.row_by, theta, self._row_scales, work.row_terms, work.row_laws.bits,
            column_shape, work.one, work.column_by, phi, self._column_scales, work.column_terms,
            work.column_laws.bits,
        )  # fmt: skip
        sums.add_both(work.row_laws, work.row_terms, work.column_laws, work.column_terms)
        launch_blocks(
            factors.draw_laws, 1, 32,
            key, work.n_rows, work.width, work.row_laws.largest, work.row_laws.halves,
            work.column_laws.largest, work.column_laws.halves, work.hyper, scalars,
        )  # fmt: skip


def _turned(exposure: Exposure, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The cells of an exposure listed by columns."""
    rows = np.repeat(np.arange(len(exposure.starts) - 1), np.diff(exposure.starts))
    order = np.argsort(exposure.columns, kind="stable")
    number = np.bincount(exposure.columns, minlength=width)
    return np.concatenate([[0], np.cumsum(number)]).astype(np.int64), rows[order].astype(np.int64)
