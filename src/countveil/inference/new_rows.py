"""Factors of new rows, given kept draws of everything else.

Where a model unfolds, mu[d, v] = sum_l theta_dl phi_lv with the first axis' factor theta. Given phi, the rows of
new data are independent of each other and of the rows that were fitted. A chain over theta alone draws the true
counts and their allocation as any fit does, then

    theta_dl ~ Gamma(shape + tokens_dl, rate + sum_v observed_dv phi_lv).

Where the means of theta's entries were inferred, new rows have scales of their own from the law that was found.
Where those of groups of rows were, a new row has the means of its group, or, if nobody knows that, a group that is
drawn too: before the data it is g as often as fitted rows are,

    P(g | theta_d, u_d) ~ n_g prod_l b_gl**-shape exp(-shape theta_dl / (u_d b_gl)).

New rows may be seen in several arrays (what an actor sends, what it receives): each has its own phi, tokens and
exposures add up. In one of them a row may have a further scale of its own, w_d ~ Gamma(s, s): what an actor
receives relative to what it sends. For every kept draw of phi the chain goes a few sweeps and its last state is
kept, so that the uncertainty of phi and that of theta are both in the draws. It goes on from where the last draw
of the same chain left it, as consecutive draws of phi are alike. What depends on phi alone is prepared once for
every draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from countveil.inference.engines.cpu.choose import choose_algorithm, choose_columns
from countveil.inference.engines.cpu.tokens import Choice, Tokens
from countveil.inference.observed import observe
from countveil.inference.problem import Counts
from countveil.inference.settings import derived_seed
from countveil.kernels import steps
from countveil.kernels.gamma import SMALLEST
from countveil.kernels.philox import SweepKey, open_stream
from countveil.kernels.uniform import uniform
from countveil.models.count_model import mean_rate
from countveil.models.einsum.prior import ONE_GROUP, ROWS_PER_FACTOR, Law, PriorRates, new_scales
from countveil.models.einsum.update import draw_factor
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers


class NewRows(NamedTuple):
    """An array in which the new rows are seen."""

    data: Counts
    phi: Callable[[int, int], np.ndarray]  # (chain, draw) -> (l, width): one draw, made when it is needed
    #: (chain, draw) -> s, where rows have a further scale here.
    scale_shape: Callable[[int, int], float] | None = None


class RowPrior(NamedTuple):
    """The prior of new rows: Gamma(shape, shape / (u_d b_l)), u_d by the law that was found; or u_d = 1, fixed."""

    shape: float
    means: Callable[[int, int], np.ndarray]  # (chain, draw) -> b, one of each l, or (groups, l)
    law: Callable[[int, int], Law] | None = None  # (chain, draw) ->; None where rows have no scales


class NewGroups(NamedTuple):
    """The groups of new rows."""

    of_rows: np.ndarray  # int64 (rows): the number of each, -1 where it is not known
    sizes: np.ndarray  # (groups): how many fitted rows are of each


def new_row_draws(
    prior: RowPrior,
    views: Sequence[NewRows],
    sizes: tuple[int, int],
    *,
    sweeps: int,
    burn_in: int,
    seed: int,
    threads: int,
    progress: Callable[[range], Iterable[int]] = iter,
    groups: NewGroups | None = None,
    choices: Choices | None = None,
    first_row: int = 0,
    unseen_shape: Callable[[int, int], float] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the new rows, for ``sizes`` = (chains, draws) of phi.

    theta, float32 (chain, draw, rows, l), and the further scales of the last array, (chain, draw, rows). Where the
    rows are some of many, ``choices`` are those of all, and ``first_row`` is the number of the first among them:
    the draws are then those that these rows have among all. ``unseen_shape``, (chain, draw) -> s, is that of scales
    in an array in which none of the rows is seen: nothing but their law is known of them.
    """
    n_chains, n_draws = sizes
    # Every array has streams of its own: rows would meet the same numbers in all of them.
    seeds = [
        derived_seed(seed, "transform" if v == 0 else f"transform, array {v}") for v in range(len(views))
    ]
    first = [views[0].phi(chain, 0) for chain in range(n_chains)]
    n_rows, n_components = views[0].data.shape[0], len(first[0])
    if choices is None:
        choices = choices_of([view.data for view in views], n_components)
    rows = [_Rows(_start(n_rows, choices.mean_rate, phi), len(views), groups) for phi in first]
    kept = np.empty((n_chains, n_draws, n_rows, n_components), dtype=np.float32)
    further = np.empty((n_chains, n_draws, n_rows), dtype=np.float32)
    sweep = [0] * n_chains
    with Workers(threads) as workers:
        algorithms = [
            Tokens(observe(view.data), n_components, workers, integrate=name == "integrated", chosen=choice)
            for view, (name, choice) in zip(views, choices.algorithms, strict=True)
        ]
        for draw in progress(range(n_draws)):
            for chain in range(n_chains):
                at, state = (chain, draw), rows[chain]
                phis = [_columns(view.phi(*at)) for view in views]
                shapes = [None if view.scale_shape is None else view.scale_shape(*at) for view in views]
                means = prior.means(*at)
                law = None if prior.law is None else prior.law(*at)
                prepared = [one.prepare(phi, workers) for one, phi in zip(algorithms, phis, strict=True)]
                for _ in range(sweeps if draw else burn_in + sweeps):
                    sweep[chain] += 1
                    keys = [SweepKey(own, chain, sweep[chain], first_row) for own in seeds]
                    inverse = (1.0 / means).reshape(-1)
                    rates = PriorRates(prior.shape, prior.shape / state.scales, inverse, state.group_of)
                    sweep_new_rows(rates, algorithms, state, phis, prepared, shapes, keys, workers)
                    if groups is not None:
                        _draw_groups(
                            keys[0], prior.shape, means, np.log(groups.sizes), groups.of_rows, state.theta,
                            state.scales, state.group_of,
                        )  # fmt: skip
                    if law is not None:
                        by_mean = (prior.shape / means).reshape(-1)
                        state.scales, _ = new_scales(
                            keys[0], first_row, prior.shape, law, by_mean, state.theta, state.scales, workers,
                            state.group_of,
                        )  # fmt: skip
                scales = state.further[-1]
                if unseen_shape is not None:
                    scales = _scales_from_law(keys[0], unseen_shape(*at), n_rows, workers)
                with np.errstate(under="ignore"):
                    kept[chain, draw], further[chain, draw] = state.theta, scales
    return kept, further


class _Rows:
    """The new rows of one chain."""

    def __init__(self, theta: np.ndarray, n_views: int, groups: NewGroups | None = None) -> None:
        self.theta = theta
        self.group_of = ONE_GROUP
        if groups is not None:
            self.group_of = np.where(groups.of_rows < 0, np.argmax(groups.sizes), groups.of_rows)
        self.scales = np.ones(len(theta))
        self.further = [np.ones(len(theta)) for _ in range(n_views)]


def sweep_new_rows(
    prior: PriorRates,
    algorithms: Sequence[Any],
    rows: _Rows,
    phis: Sequence[np.ndarray],
    prepared: Sequence[Any],
    shapes: Sequence[float | None],
    keys: Sequence[SweepKey],
    workers: Workers,
) -> None:
    """One sweep over the counts of all arrays and theta, every phi (width, l) as it is."""
    tokens, exposure = np.zeros(rows.theta.shape, dtype=np.int64), np.zeros((1, rows.theta.shape[1]))
    met = []
    for algorithm, phi, ready, key, scale in zip(algorithms, phis, prepared, keys, rows.further, strict=True):
        drawn = algorithm.draw(rows.theta * scale[:, None], ready, key, workers)
        tokens = tokens + drawn.rows
        met.append((drawn.rows, drawn.exposure.of_rows(phi)))
        exposure = exposure + met[-1][1] * scale[:, None]
    first_row = keys[0].first_row
    rows.theta = draw_factor(keys[0], first_row, prior, tokens, exposure, workers)
    for place, (shape, (own, of_rows)) in enumerate(zip(shapes, met, strict=True)):
        if shape is not None:
            law = PriorRates(shape, np.full(1, shape), np.ones(1))
            total = np.sum(rows.theta * of_rows, axis=1)[:, None]
            stream = (1 + place) * ROWS_PER_FACTOR + first_row
            drawn = draw_factor(keys[0], stream, law, own.sum(axis=1)[:, None], total, workers)
            rows.further[place] = drawn[:, 0]


def _scales_from_law(key: SweepKey, shape: float, n_rows: int, workers: Workers) -> np.ndarray:
    """w_d ~ Gamma(s, s): by the streams that the second array has, without tokens and exposure."""
    law, stream = PriorRates(shape, np.full(1, shape), np.ones(1)), 2 * ROWS_PER_FACTOR + key.first_row
    nothing = np.zeros((n_rows, 1))
    return draw_factor(key, stream, law, nothing.astype(np.int64), nothing, workers)[:, 0]


class Choices(NamedTuple):
    """What is chosen by all new rows together, and holds for each of them."""

    mean_rate: float  # of the first array
    algorithms: tuple[tuple[str, Choice], ...]  # one for each array


def choices_of(arrays: Sequence[Counts], n_components: int) -> Choices:
    """By totals of all rows: the same however rows are divided."""
    return Choices(mean_rate(arrays[0]), tuple(_algorithm(data, n_components) for data in arrays))


def _algorithm(data: Counts, n_components: int) -> tuple[str, Choice]:
    """One for the matrix form: of a tensor all axes but the first count as columns."""
    observed, alone = observe(data), Workers(1)
    shape = (observed.n_rows, observed.width)
    name = choose_algorithm(observed, shape, n_components, is_cp=True, is_tied=False)
    columns = choose_columns(observed, n_components, name == "integrated", alone)
    return name, Choice(columns, 2 * len(observed.missing_columns) > observed.n_rows * observed.width)


def _columns(phi: np.ndarray) -> np.ndarray:
    """Column by column in memory, as algorithms have it; no entry may have underflowed to 0."""
    return np.maximum(phi.T.astype(np.float64), SMALLEST, order="C")


def _start(n_rows: int, mean: float, phi: np.ndarray) -> np.ndarray:
    """All entries alike, at the scale of the data."""
    level = mean * phi.shape[1] / max(float(phi.sum(dtype=np.float64)), SMALLEST)
    return np.full((n_rows, len(phi)), level)


@compiled
def _draw_groups(key, shape, means, log_sizes, known, theta, scales, group_of):  # type: ignore[no-untyped-def]
    """A group for every row whose ``known`` is -1, given its theta and scale, in place."""
    n_groups, n = means.shape
    logs = np.empty(n_groups)
    for i in range(len(known)):
        if known[i] >= 0:
            continue
        for g in range(n_groups):
            logs[g] = log_sizes[g]
            for k in range(n):
                logs[g] -= shape * (math.log(means[g, k]) + theta[i, k] / (scales[i] * means[g, k]))
        top = np.max(logs)
        total = 0.0
        for g in range(n_groups):
            logs[g] = math.exp(logs[g] - top)
            total += logs[g]
        stream = open_stream(key.seed, key.chain, key.sweep, steps.NEW_GROUPS, key.first_row + i)
        u, stream = uniform(stream)
        u *= total
        g = 0
        while g < n_groups - 1 and u >= logs[g]:
            u -= logs[g]
            g += 1
        group_of[i] = g
