"""Posterior predictive draws: new counts of the same cells, and what would be released of them.

For every kept draw of the rates a count y ~ Poisson(mu), and of every release of it x = y + tau with the noise of
that release, max(x, 0) where it was clamped. All of one cell in one draw comes from one stream, the count first:
the draws of a cell do not depend on what else is asked for, and released values are those of the true counts with
noise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.cells.layout import flat_cells
from countveil.inference.observed import MISSING, cells_at
from countveil.kernels import steps
from countveil.kernels.philox import open_stream
from countveil.kernels.poisson import poisson
from countveil.kernels.uniform import exponential
from countveil.runtime.compiled import compiled

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior


class Looks(NamedTuple):
    """What was seen of some cells, (cells, releases); plain counts are one look without noise."""

    values: np.ndarray  # int64, signed where negative values were kept; 0 where nothing was shown
    shown: np.ndarray  # bool
    rho: np.ndarray  # float64, inf for plain counts
    clamped: np.ndarray  # bool (releases): whether values below 0 became 0

    def draw(
        self, seed: int, place: tuple[int, ...], cells: np.ndarray, rates: np.ndarray, rho: float | None
    ) -> np.ndarray:
        """(cells, releases): what would be released in the draw at ``place`` (chain, draw).

        ``rho`` is the noise of this draw where it was inferred; else None.
        """
        noise = self.rho if rho is None else np.where(np.isinf(self.rho), self.rho, rho)
        drawn = draw_counts(seed, place, cells, rates, noise)[:, 1:]
        return np.where(self.clamped, np.maximum(drawn, 0), drawn)


def looks_at(posterior: Posterior, data: Any, rows: np.ndarray, columns: np.ndarray) -> Looks:
    """What the fit saw of these cells; what the model leaves out was not shown."""
    values, rho = (one.reshape(len(rows), -1) for one in cells_at(posterior._observed(data), rows, columns))
    shown, values = values != MISSING, np.maximum(values, 0)
    releases = data.releases if isinstance(data, CombinedReleases) else (data,)
    clamped, width = np.ones(len(releases), dtype=bool), math.prod(posterior._shape[1:])
    wanted = rows * width + columns
    for r, release in enumerate(releases):
        negative = release.negative if isinstance(release, PrivateCounts) else None
        if negative is not None:
            clamped[r] = False
            listed = flat_cells(negative, width)
            here = np.flatnonzero(np.isin(wanted, listed))
            there = np.searchsorted(listed, wanted[here])
            values[here, r] = -negative.values[there].astype(np.int64)
    return Looks(np.where(shown, values, 0), shown, rho, clamped)


def draw_counts(
    seed: int, place: tuple[int, ...], cells: np.ndarray, rates: np.ndarray, rho: np.ndarray
) -> np.ndarray:
    """(cells, 1 + releases): counts with these rates, then the same counts with noise ``rho`` (cells, releases)."""
    drawn = np.empty((len(cells), 1 + rho.shape[1]), dtype=np.int64)
    _draw_cells(np.uint64(seed), *place, cells, rates, rho, drawn)
    return drawn


@compiled
def _draw_cells(seed, chain, draw, cells, rates, rho, out):  # type: ignore[no-untyped-def]
    for i in range(len(cells)):
        stream = open_stream(seed, chain, draw, steps.PREDICTIVE, cells[i])
        count, stream = poisson(stream, rates[i])
        out[i, 0] = count
        for r in range(rho.shape[1]):
            noise = np.int64(0)
            if not math.isinf(rho[i, r]):
                # P(floor(E / rho) >= k) = exp(-rho * k): a geometric variable; the noise is a difference of two.
                up, stream = exponential(stream)
                down, stream = exponential(stream)
                noise = np.int64(math.floor(up / rho[i, r])) - np.int64(math.floor(down / rho[i, r]))
            out[i, 1 + r] = count + noise
