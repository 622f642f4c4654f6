"""How probable counts are under posterior draws of their rates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.special import gammaln

from countveil.evaluation.scored_cells import scored_cells


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
    for rates, count in scored_cells(rate_draws, counts, cells, name="rate_draws", n_draws_axes=1):
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
