"""Factors of new rows, given kept draws of everything else.

Where a model unfolds, mu[d, v] = sum_l theta_dl phi_lv with the first axis' factor theta. Given phi, the rows of
new data are independent of each other and of the rows that were fitted. A chain over theta alone draws the true
counts and their allocation as any fit does, then

    theta_dl ~ Gamma(shape + tokens_dl, rate + sum_v observed_dv phi_lv).

New rows may be seen in several arrays (what an actor sends, what it receives): each has its own phi, tokens and
exposures add up. For every kept draw of phi the chain goes a few sweeps and its last state is kept, so that the
uncertainty of phi and that of theta are both in the draws. It goes on from where the last draw of the same chain
left it, as consecutive draws of phi are alike. What depends on phi alone is prepared once for every draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from countveil.inference.engines.cpu.choose import choose_algorithm
from countveil.inference.engines.cpu.sampler import matrix_algorithm
from countveil.inference.observed import observe
from countveil.inference.problem import Counts
from countveil.inference.settings import derived_seed
from countveil.kernels.gamma import SMALLEST
from countveil.kernels.philox import SweepKey
from countveil.models.count_model import mean_rate
from countveil.models.einsum.update import Prior, draw_factor
from countveil.runtime.workers import Workers


class NewRows(NamedTuple):
    """An array in which the new rows are seen."""

    data: Counts
    phi: Callable[[int, int], np.ndarray]  # (chain, draw) -> (l, width): one draw, made when it is needed


def new_row_draws(
    prior: Prior,
    views: Sequence[NewRows],
    sizes: tuple[int, int],
    *,
    sweeps: int,
    burn_in: int,
    seed: int,
    threads: int,
    progress: Callable[[range], Iterable[int]] = iter,
) -> np.ndarray:
    """theta, float32 (chain, draw, rows, l), for ``sizes`` = (chains, draws) of phi."""
    n_chains, n_draws = sizes
    # Every array has streams of its own: rows would meet the same numbers in all of them.
    seeds = [
        derived_seed(seed, "transform" if v == 0 else f"transform, array {v}") for v in range(len(views))
    ]
    thetas = [_start(views[0].data, views[0].phi(chain, 0)) for chain in range(n_chains)]
    n_rows, n_components = thetas[0].shape
    kept = np.empty((n_chains, n_draws, n_rows, n_components), dtype=np.float32)
    sweep = [0] * n_chains
    with Workers(threads) as workers:
        algorithms = [_algorithm(view.data, n_components, workers) for view in views]
        for draw in progress(range(n_draws)):
            for chain in range(n_chains):
                phis = [_columns(view.phi(chain, draw)) for view in views]
                prepared = [one.prepare(phi, workers) for one, phi in zip(algorithms, phis, strict=True)]
                for _ in range(sweeps if draw else burn_in + sweeps):
                    sweep[chain] += 1
                    keys = [SweepKey(own, chain, sweep[chain]) for own in seeds]
                    thetas[chain] = sweep_new_rows(
                        prior, algorithms, thetas[chain], phis, prepared, keys, workers
                    )
                with np.errstate(under="ignore"):
                    kept[chain, draw] = thetas[chain]
    return kept


def sweep_new_rows(
    prior: Prior,
    algorithms: Sequence[Any],
    theta: np.ndarray,
    phis: Sequence[np.ndarray],
    prepared: Sequence[Any],
    keys: Sequence[SweepKey],
    workers: Workers,
) -> np.ndarray:
    """One sweep over the counts of all arrays and theta, every phi (width, l) as it is: the new theta."""
    tokens, exposure = np.zeros(theta.shape, dtype=np.int64), np.zeros((1, theta.shape[1]))
    for algorithm, phi, ready, key in zip(algorithms, phis, prepared, keys, strict=True):
        drawn = algorithm.draw(theta, ready, key, workers)
        tokens = tokens + drawn.rows
        exposure = exposure + drawn.exposure.of_rows(phi)
    return draw_factor(keys[0], 0, prior, tokens, exposure, workers)


def _algorithm(data: Counts, n_components: int, workers: Workers) -> Any:
    """One for the matrix form: of a tensor all axes but the first count as columns."""
    observed = observe(data)
    shape = (observed.n_rows, observed.width)
    name = choose_algorithm(observed, shape, n_components, is_cp=True, is_tied=False)
    return matrix_algorithm(name, observed, n_components, workers)


def _columns(phi: np.ndarray) -> np.ndarray:
    """Column by column in memory, as algorithms have it; no entry may have underflowed to 0."""
    return np.maximum(phi.T.astype(np.float64), SMALLEST, order="C")


def _start(data: Counts, phi: np.ndarray) -> np.ndarray:
    """All entries alike, at the scale of the data."""
    level = mean_rate(data) * phi.shape[1] / max(float(phi.sum(dtype=np.float64)), SMALLEST)
    return np.full((data.shape[0], len(phi)), level)
