"""One factor drawn given its tokens and its exposure, every row from a stream of its own."""

from __future__ import annotations

import numpy as np

from countveil.kernels import steps
from countveil.models.gamma_factor import draw_factor_rows
from countveil.models.pair_cells import PairCells
from countveil.models.prior import Prior
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey
from countveil.models.tied_factor import draw_tied_rows

#: Rows of one factor's streams; factor f has rows from f * this on.
ROWS_PER_FACTOR = 2**36


def draw_factor(
    key: SweepKey, number: int, prior: Prior, tokens: np.ndarray, exposure: np.ndarray, row_work: RowWork
) -> np.ndarray:
    """Every entry from Gamma(shape + tokens, rate + exposure); an axis of ``exposure`` may have length 1."""
    flat = tokens.reshape(len(tokens), -1)
    if exposure.shape[1:] != tokens.shape[1:]:
        exposure = np.broadcast_to(exposure, (len(exposure), *tokens.shape[1:])).copy()
    exposed = exposure.reshape(len(exposure), -1)
    out = np.empty(flat.shape)
    first = number * ROWS_PER_FACTOR
    row_work.run(
        len(out),
        lambda start, stop: draw_factor_rows(
            *key, steps.FACTOR, first, start, stop, prior.shape, prior.rate, flat, exposed, out
        ),
    )
    return out.reshape(tokens.shape)


def draw_symmetric_factor(
    key: SweepKey, number: int, prior: Prior, tokens: np.ndarray, exposure: np.ndarray, row_work: RowWork
) -> np.ndarray:
    """A symmetric matrix: the tokens and exposures of (c, d) and (d, c) belong to one entry."""
    off = ~np.eye(len(tokens), dtype=bool)
    drawn = draw_factor(key, number, prior, tokens + off * tokens.T, exposure + off * exposure.T, row_work)
    return np.triu(drawn) + np.triu(drawn, 1).T


def draw_tied_factor(
    key: SweepKey,
    number: int,
    prior: Prior,
    tokens: np.ndarray,
    further: np.ndarray | None,
    weights: np.ndarray,
    pairs: PairCells,
    before: np.ndarray,
    axis: int,
) -> np.ndarray:
    """A factor at two terms, row after row; ``axis`` is the place of its rows among its own axes.

    ``further`` is its exposure in other arrays, in which it stands at one term.
    """
    moved = np.moveaxis(before, axis, 0)
    values = moved.reshape(len(moved), -1).copy()
    counts = np.moveaxis(tokens, axis, 0).reshape(values.shape)
    exposed = np.zeros(values.shape)
    if further is not None:
        exposed += np.moveaxis(np.broadcast_to(further, before.shape), axis, 0).reshape(values.shape)
    first = number * ROWS_PER_FACTOR
    draw_tied_rows(*key, first, prior.shape, prior.rate, counts, exposed, weights, *pairs, values)
    return np.ascontiguousarray(np.moveaxis(values.reshape(moved.shape), 0, axis))
