"""Predicted rates beside the counts: how far they are, and how probable they make them.

A 10,000 x 10,000 matrix of rates is 800 MB, a hundred draws of it 80 GB: scores must not need them in one
piece. So rates come as an array or as (rows, block) pairs, counts may be sparse, and one block at a time is
dense.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from countveil.counts.foreign import refuse_labels
from countveil.counts.inputs.arrays import TrueCounts, read_true_counts

# 16 MB of doubles: a large array is cut so that temporary copies stay small.
CELLS_PER_BLOCK = 1 << 21


def mean_absolute_error(
    rates: np.ndarray | Iterable[tuple[slice, np.ndarray]], counts: Any, *, cells: Any = None
) -> float:
    """The mean over cells of ``abs(rate - count)``.

    It is the paper's measure, and it flatters silence. The constant nearest to counts in absolute distance is
    their median, and most cells of a count matrix are 0: on the Enron documents predicting 0 everywhere gives
    0.0151, a good non-private factorization 0.024. So put ``log_score`` beside it.

    Parameters
    ----------
    rates
        An array of the shape of ``counts``, or (slice of rows, block) pairs that hold every row once.
    counts
        The true counts: an array, or a scipy.sparse matrix whose absent cells are zeros.
    cells
        A boolean mask, dense or sparse: score these cells only, e.g. those held out.

    Examples
    --------
    >>> import numpy as np
    >>> from countveil.evaluation import mean_absolute_error
    >>> counts = np.array([[0, 2], [1, 0]])
    >>> mean_absolute_error(np.array([[0.5, 1.5], [1.0, 0.0]]), counts)
    0.25
    >>> mean_absolute_error([(slice(0, 1), [[0.5, 1.5]]), (slice(1, 2), [[1.0, 0.0]])], counts)
    0.25
    >>> mean_absolute_error(np.zeros((2, 2)), counts, cells=counts > 0)
    1.5
    """
    total, n = 0.0, 0
    for rate, count in _scored_cells(rates, counts, cells, name="rates", n_draws_axes=0):
        total += float(np.abs(rate - count).sum())
        n += count.size
    return total / n


def log_score(
    rate_draws: np.ndarray | Iterable[tuple[slice, np.ndarray]], counts: Any, *, cells: Any = None
) -> float:
    """The mean over cells of the log of the posterior predictive probability; higher is better.

    ``mean over cells of log( mean over draws s of Poisson(count; rate_s) )``

    It is a proper score (Gneiting and Raftery, 2007): in expectation nothing beats the true distribution.
    The mean absolute error rewards predicting 0 everywhere; here a rate of 0 in all draws where the count is
    positive was declared impossible, and the score is -inf. With cells held out from the fit it is the
    expected log predictive density of the Bayesian literature.

    Parameters
    ----------
    rate_draws
        Posterior draws of the rates, shape (draws, rows, columns), or (slice of rows, block of that kind)
        pairs that together hold every row once. For one point estimate pass ``rates[np.newaxis]``.
    counts
        The true counts: an array, or a scipy.sparse matrix whose absent cells are zeros.
    cells
        A boolean mask, dense or sparse: score these cells only, e.g. those held out.

    Examples
    --------
    >>> import numpy as np
    >>> from countveil.evaluation import log_score
    >>> counts = np.array([[0, 2]])
    >>> draws = np.array([[[0.1, 1.0]], [[0.3, 3.0]]])
    >>> round(log_score(draws, counts), 4)
    -0.8923
    >>> log_score(np.zeros((1, 1, 2)), counts)
    -inf
    """
    total, n = 0.0, 0
    for rates, count in _scored_cells(rate_draws, counts, cells, name="rate_draws", n_draws_axes=1):
        total += float(_log_mean_exp(_log_poisson(count, rates)).sum())
        n += count.size
    return total / n


def _log_poisson(count: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """log Poisson(count; rates), the logarithms only where they are needed: most counts are 0."""
    found = -rates
    (positive,) = np.nonzero(count)
    y = count[positive].astype(np.float64)
    with np.errstate(divide="ignore"):
        found[:, positive] += y * np.log(rates[:, positive]) - gammaln(y + 1)
    return found


def _log_mean_exp(values: np.ndarray) -> np.ndarray:
    """log(mean(exp(values))) over the first axis; -inf where all are."""
    highest = values.max(axis=0)
    # Where all are -inf, subtracting 0 in place of -inf leaves exp(-inf) = 0 and log(0) = -inf.
    shift = np.where(np.isneginf(highest), 0.0, highest)
    values -= shift
    np.exp(values, out=values)
    with np.errstate(divide="ignore"):
        return np.log(values.mean(axis=0)) + shift


def _scored_cells(
    rates: Any, counts: Any, cells: Any, *, name: str, n_draws_axes: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rates, counts) of the chosen cells, block by block: shapes (..., n) and (n,).

    The ``n_draws_axes`` leading axes of the rates (0 or 1) stand before the rows.
    """
    truth = _truth(counts)
    chosen = _chosen(cells, truth.shape)
    if isinstance(rates, np.ndarray) or hasattr(rates, "__array__"):
        refuse_labels(rates, name)
        pairs = _cut(np.asarray(rates), truth.shape, name, n_draws_axes)
    elif isinstance(rates, Iterable) and not sparse.issparse(rates):
        pairs = _checked_pairs(rates, truth.shape, name, n_draws_axes)
    else:
        raise TypeError(
            f"{name}: expected an array or (slice of rows, block) pairs, got {type(rates).__name__}"
        )
    for start, stop, block in pairs:
        values = block.reshape(*block.shape[:n_draws_axes], -1)
        y = truth.rows(start, stop).reshape(-1)
        if chosen is not None:
            here = _dense_rows(chosen, start, stop)
            values, y = values[..., here], y[here]
        values = values.astype(np.float64, copy=False)
        _check_values(values, name)
        yield values, y


def _truth(counts: Any) -> TrueCounts:
    if isinstance(counts, np.ma.MaskedArray):
        raise TypeError(
            "counts: expected an array without a mask, got a masked array; choose cells by `cells`"
        )
    return read_true_counts(counts)


def _chosen(cells: Any, shape: tuple[int, ...]) -> Any:
    """The mask, or None for all cells; sparse masks by rows."""
    if cells is None:
        return None
    refuse_labels(cells, "cells")
    mask = sparse.csr_array(cells) if sparse.issparse(cells) else np.asarray(cells)
    if mask.dtype != bool:
        raise TypeError(f"cells: expected booleans, got {mask.dtype}")
    if mask.shape != shape:
        raise ValueError(f"cells: expected the shape of counts, {shape}, got {mask.shape}")
    if not mask.sum():
        raise ValueError("cells: expected at least one chosen cell, got none")
    return mask


def _dense_rows(mask: Any, start: int, stop: int) -> np.ndarray:
    rows = mask[start:stop]
    return (rows.toarray() if sparse.issparse(rows) else rows).reshape(-1)


def _cut(
    rates: np.ndarray, shape: tuple[int, ...], name: str, n_draws_axes: int
) -> Iterator[tuple[int, int, np.ndarray]]:
    """An array, in blocks of rows."""
    _check_block(rates, shape, name, n_draws_axes)
    step = max(1, CELLS_PER_BLOCK // (rates.size // shape[0]))
    for start in range(0, shape[0], step):
        stop = min(start + step, shape[0])
        yield start, stop, rates[(slice(None),) * n_draws_axes + (slice(start, stop),)]


def _checked_pairs(
    pairs: Iterable[Any], shape: tuple[int, ...], name: str, n_draws_axes: int
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Pairs in any order that together hold every row exactly once."""
    seen = np.zeros(shape[0], dtype=bool)
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], slice)):
            raise TypeError(f"{name}: expected (slice of rows, block) pairs, got {type(pair).__name__}")
        start, stop, step = pair[0].indices(shape[0])
        if step != 1 or start >= stop or (pair[0].stop is not None and pair[0].stop > shape[0]):
            raise ValueError(f"{name}: expected slices of consecutive rows below {shape[0]}, got {pair[0]}")
        if seen[start:stop].any():
            raise ValueError(f"{name}: expected every row once, got rows of {pair[0]} twice")
        seen[start:stop] = True
        refuse_labels(pair[1], name)
        block = np.asarray(pair[1])
        _check_block(block, (stop - start, *shape[1:]), name, n_draws_axes)
        yield start, stop, block
    if not seen.all():
        raise ValueError(f"{name}: expected all {shape[0]} rows, got {int(seen.sum())}")


def _check_block(block: np.ndarray, shape: tuple[int, ...], name: str, n_draws_axes: int) -> None:
    if block.dtype.kind not in "iuf":
        raise TypeError(f"{name}: expected numbers, got {block.dtype}")
    draws, rest = block.shape[:n_draws_axes], block.shape[n_draws_axes:]
    if rest != shape or math.prod(draws) == 0:
        wanted = ", ".join(["draws"] * n_draws_axes + [str(n) for n in shape])
        raise ValueError(f"{name}: expected shape ({wanted}), got {block.shape}")


def _check_values(values: np.ndarray, name: str) -> None:
    # min() and max() see NaN too, and need no temporary array.
    if values.size and not (values.min() >= 0 and values.max() < np.inf):
        raise ValueError(f"{name}: expected finite rates of at least 0, got negative, infinite or NaN ones")
