"""Pareto smoothed importance sampling: leave-one-out weights of draws, for many observations at once.

Vehtari, Simpson, Gelman, Yao and Gabry, "Pareto smoothed importance sampling" (JMLR 2024). An observation i is
left out by weights proportional to 1/p(x_i | draw). The largest of them, which decide how far the sum can be
trusted, are replaced by quantiles of a generalized Pareto law fitted to them (Zhang and Stephens, 2009). Its
shape k says whether the estimate is good: below min(1 - 1/log10(draws), 0.7).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

#: Weights of the law's shape: a normal prior around 1/2, worth so many draws.
_PRIOR_K, _PRIOR_DRAWS = 0.5, 10
_TINY = np.finfo(np.float64).tiny


class Smoothed(NamedTuple):
    """Normalised log weights (draws, observations), and the shape k of every tail."""

    log_weights: np.ndarray
    pareto_k: np.ndarray


def tail_length(n_draws: int, relative_efficiency: float) -> int:
    """How many of the largest weights are the tail: min(S/5, 3 sqrt(S/r)), for S draws worth r S.

    >>> tail_length(100, 1.0), tail_length(1000, 1.0)
    (20, 94)
    """
    return math.floor(min(n_draws / 5, 3 * math.sqrt(n_draws / relative_efficiency)))


def good_k(n_draws: int) -> float:
    """Above this shape the number of draws does not suffice.

    >>> round(good_k(1000), 3), good_k(10**6)
    (0.667, 0.7)
    """
    return min(1 - 1 / math.log10(n_draws), 0.7)


def smoothed_weights(log_likelihood: np.ndarray, relative_efficiency: float = 1.0) -> Smoothed:
    """Weights that leave out each observation, of log p(x_i | draw) as (draws, observations).

    Where all weights of a tail are equal there is nothing to smooth: k is -inf. Where an observation is impossible
    in some draw, leaving it out has no finite weights: k is inf.
    """
    n_draws, n = log_likelihood.shape
    n_tail = tail_length(n_draws, relative_efficiency)
    if n_tail < 6:
        raise ValueError(f"draws: expected at least 30, got {n_draws}")
    possible = np.isfinite(log_likelihood).all(axis=0)
    ratios = np.where(possible, -log_likelihood, 0.0)
    ratios -= ratios.max(axis=0)
    order = np.argsort(ratios, axis=0)
    tail_at = order[-n_tail:]
    tail = np.take_along_axis(ratios, tail_at, axis=0)
    cutoff = np.exp(np.take_along_axis(ratios, order[-n_tail - 1 : -n_tail], axis=0))
    flat = tail[-1] - tail[0] < _TINY
    k = np.full(n, -np.inf)
    varied = np.flatnonzero(~flat)
    if len(varied):
        beyond = np.exp(tail[:, varied]) - cutoff[:, varied]
        k[varied], scale = _pareto_fit(beyond)
        places = ((np.arange(n_tail) + 0.5) / n_tail)[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            quantiles = cutoff[:, varied] + _pareto_quantile(places, k[varied], scale)
            smooth = np.minimum(np.log(quantiles), tail[-1, varied])
        fitted = np.isfinite(k[varied]) & (scale > 0)
        tail[:, varied] = np.where(fitted, smooth, tail[:, varied])
        np.put_along_axis(ratios, tail_at, tail, axis=0)
    k[~possible] = np.inf
    return Smoothed(ratios - logsumexp(ratios, axis=0), k)


def _pareto_fit(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shape and scale of the law of x, (values in increasing order, observations).

    Zhang and Stephens (2009): the mean of b = -shape/scale over a grid of weights by its profile likelihood.
    """
    n = len(x)
    n_grid = 30 + math.isqrt(n)
    grid = 1 - np.sqrt(n_grid / (np.arange(1, n_grid + 1) - 0.5))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        b = grid[:, None] / (3 * x[int(n / 4 + 0.5) - 1]) + 1 / x[-1]  # (grid, observations)
        shapes = np.stack([np.log1p(-one * x).mean(axis=0) for one in b])
        profile = n * (np.log(-b / shapes) - shapes - 1)
        weights = np.exp(profile - logsumexp(profile, axis=0))
        weights = np.where(weights >= 10 * np.finfo(np.float64).eps, weights, 0.0)
        mean = (np.where(weights > 0, b, 0.0) * weights).sum(axis=0) / weights.sum(axis=0)
        shape = np.log1p(-mean * x).mean(axis=0)
        scale = -shape / mean
    return (n * shape + _PRIOR_DRAWS * _PRIOR_K) / (n + _PRIOR_DRAWS), scale


def _pareto_quantile(p: np.ndarray, shape: np.ndarray, scale: np.ndarray) -> np.ndarray:
    outside = -np.log1p(-p)
    return np.where(shape == 0, scale * outside, scale * np.expm1(shape * outside) / shape)
