"""Memberships of new rows, topics held at their draws.

Given topics phi, the rows of new data are independent of each other and of the rows that were fitted. A chain
over theta alone draws the true counts and their allocation as any fit does, then

    theta_dk ~ Gamma(shape + tokens_dk, rate + sum_v observed_dv phi_kv).

For every kept draw of phi the chain goes a few sweeps and its last state is kept, so that the uncertainty of the
topics and that of the memberships are both in the draws. It goes on from where the last draw of the same chain
left it, as consecutive draws of phi are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from countveil.counts import PrivateCounts
from countveil.inference.derived_seed import derived_seed
from countveil.inference.engines.choose import choose_engine
from countveil.inference.plain_counts import PlainCounts
from countveil.kernels import steps
from countveil.kernels.gamma import SMALLEST
from countveil.models import TopicModel
from countveil.models.gamma_factor import draw_factor_rows
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey
from countveil.models.topic_model import TopicState


def membership_draws(
    model: TopicModel,
    data: PrivateCounts | PlainCounts,
    topics: np.ndarray,
    *,
    sweeps: int,
    burn_in: int,
    seed: int,
    threads: int,
    progress: Callable[[range], Iterable[int]] = iter,
) -> np.ndarray:
    """theta, float32 (chain, draw, rows, topics), for topics (chain, draw, topics, columns)."""
    n_chains, n_draws, n_topics, _ = topics.shape
    engine = choose_engine(model, data, "exact", "auto")
    keys = [SweepKey(derived_seed(seed, "transform"), chain, 0) for chain in range(n_chains)]
    thetas = [_start(data, topics[chain, 0]) for chain in range(n_chains)]
    kept = np.empty((n_chains, n_draws, data.shape[0], n_topics), dtype=np.float32)
    with RowWork(threads) as row_work:
        for draw in progress(range(n_draws)):
            for chain in range(n_chains):
                # Column by column in memory, as the engines have it; no entry may have underflowed to 0.
                columns = np.maximum(topics[chain, draw].T.astype(np.float64), SMALLEST, order="C")
                for _ in range(sweeps if draw else burn_in + sweeps):
                    keys[chain] = keys[chain]._replace(sweep=keys[chain].sweep + 1)
                    state = TopicState(thetas[chain], columns.T)
                    thetas[chain] = sweep_memberships(model, engine, state, keys[chain], row_work)
                with np.errstate(under="ignore"):
                    kept[chain, draw] = thetas[chain]
    return kept


def sweep_memberships(
    model: TopicModel, engine: Any, state: TopicState, key: SweepKey, row_work: RowWork
) -> np.ndarray:
    """One sweep over the counts and theta, phi as it is: the new theta."""
    sums = engine.sums(state, key, row_work)
    theta = np.empty(state.theta.shape)
    exposure = sums.exposure.of_rows(state.phi.T, len(theta))
    row_work.run(
        len(theta),
        lambda start, stop: draw_factor_rows(
            *key, steps.ROW_FACTOR, start, stop, model.shape, model.rate, sums.row_topic, exposure, theta
        ),
    )
    return theta


def _start(data: PrivateCounts | PlainCounts, phi: np.ndarray) -> np.ndarray:
    """All topics alike, at the scale of the data."""
    mean_rate = max(data.total() / max(data.n_observed, 1), 0.01)
    level = mean_rate * phi.shape[1] / max(float(phi.sum(dtype=np.float64)), SMALLEST)
    return np.full((data.shape[0], len(phi)), level)
