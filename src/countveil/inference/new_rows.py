"""Factors of new rows, all other factors held at their draws.

Where a model unfolds, mu[d, v] = sum_l theta_dl phi_lv with the first axis' factor theta. Given phi, the rows of
new data are independent of each other and of the rows that were fitted. A chain over theta alone draws the true
counts and their allocation as any fit does, then

    theta_dl ~ Gamma(shape + tokens_dl, rate + sum_v observed_dv phi_lv).

New rows may be seen in several arrays (what an actor sends, what it receives): each has its own phi, tokens and
exposures add up. For every kept draw of phi the chain goes a few sweeps and its last state is kept, so that the
uncertainty of phi and that of theta are both in the draws. It goes on from where the last draw of the same chain
left it, as consecutive draws of phi are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.inference.derived_seed import derived_seed
from countveil.inference.engines.choose import choose_engine
from countveil.inference.plain_counts import PlainCounts
from countveil.kernels import steps
from countveil.kernels.gamma import SMALLEST
from countveil.models.gamma_factor import draw_factor_rows
from countveil.models.prior import Prior
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey
from countveil.models.topic_model import TopicModel, TopicState


class View(NamedTuple):
    """An array in which the new rows are seen."""

    data: PrivateCounts | CombinedReleases | PlainCounts
    phi: Callable[[int, int], np.ndarray]  # (chain, draw) -> (l, width): one draw, made when it is needed


def new_row_draws(
    prior: Prior,
    views: Sequence[View],
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
    n_rows, n_topics = thetas[0].shape
    engines = [_engine(view.data, n_topics) for view in views]
    kept = np.empty((n_chains, n_draws, n_rows, n_topics), dtype=np.float32)
    sweep = [0] * n_chains
    with RowWork(threads) as row_work:
        for draw in progress(range(n_draws)):
            for chain in range(n_chains):
                phis = [_columns(view.phi(chain, draw)) for view in views]
                for _ in range(sweeps if draw else burn_in + sweeps):
                    sweep[chain] += 1
                    keys = [SweepKey(own, chain, sweep[chain]) for own in seeds]
                    thetas[chain] = sweep_new_rows(prior, engines, thetas[chain], phis, keys, row_work)
                with np.errstate(under="ignore"):
                    kept[chain, draw] = thetas[chain]
    return kept


def sweep_new_rows(
    prior: Prior,
    engines: Sequence[Any],
    theta: np.ndarray,
    phis: Sequence[np.ndarray],
    keys: Sequence[SweepKey],
    row_work: RowWork,
) -> np.ndarray:
    """One sweep over the counts of all arrays and theta, every phi (l, width) as it is: the new theta."""
    tokens, exposure = np.zeros(theta.shape, dtype=np.int64), np.zeros((1, theta.shape[1]))
    for engine, phi, key in zip(engines, phis, keys, strict=True):
        sums = engine.sums(TopicState(theta, phi), key, row_work)
        tokens = tokens + sums.row_topic
        exposure = exposure + sums.exposure.of_rows(phi.T, len(theta))
    new = np.empty(theta.shape)
    row_work.run(
        len(new),
        lambda start, stop: draw_factor_rows(
            *keys[0], steps.ROW_FACTOR, 0, start, stop, prior.shape, prior.rate, tokens, exposure, new
        ),
    )
    return new


def _engine(data: PrivateCounts | CombinedReleases | PlainCounts, n_topics: int) -> Any:
    """One for topics: of a tensor all axes but the first count as columns. Its prior plays no role here."""
    return choose_engine(TopicModel(n_topics), data, "exact", "auto")


def _columns(phi: np.ndarray) -> np.ndarray:
    """Column by column in memory, as the engines have it; no entry may have underflowed to 0."""
    return np.maximum(phi.T.astype(np.float64), SMALLEST, order="C").T


def _start(data: PrivateCounts | CombinedReleases | PlainCounts, phi: np.ndarray) -> np.ndarray:
    """All entries alike, at the scale of the data."""
    mean_rate = max(data.total() / max(data.n_observed, 1), 0.01)
    level = mean_rate * phi.shape[1] / max(float(phi.sum(dtype=np.float64)), SMALLEST)
    return np.full((data.shape[0], len(phi)), level)
