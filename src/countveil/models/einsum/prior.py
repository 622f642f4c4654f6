"""Priors of factors: fixed gammas, or gammas whose means are inferred.

**Fixed.** Every entry ~ Gamma(shape, rate).

**Inferred** (``rate`` is None). Words and people differ: what one place of an axis has in all components goes up
and down together, by a scale of its own whose law is inferred too, so that heavy tails are found, not assumed.

    f_ik ~ Gamma(shape, shape / (u_i b_k))        mean u_i b_k
    1 / u_i ~ Gamma(s, s m)                       the scales of an axis: heavy tails if s is small
    1 / b_k ~ Gamma(e, e)                         the means of components
    log s, log e ~ Normal(0, 1),    m ~ m' / m'' with m', m'' ~ Gamma(1/2, 1)     (``Hyper``)

``Inferred`` says which factor has what. One that stands on an axis has scales; the first has means of its
components; and the last has a level m for the scale of the data (two levels would not be told apart; elsewhere m is
1, and a factor without an axis, such as a core, has the mean m for all entries). A factor without summed index is
itself a scale: w_v ~ Gamma(s, s / m).

Given the factors all this is conjugate, but for s and e, which take a step of a slice sampler:

    1 / u_i | f ~ Gamma(s + shape K, s m + shape sum_k f_ik / b_k)
    1 / b_k | f ~ Gamma(e + shape n, e + shape sum_i f_ik / u_i)
    m | u ~ Gamma(1/2 + n s, d + s sum_i 1 / u_i),    d | m ~ Gamma(1, 1 + m)       (a core: 1 / m likewise)

(Gopalan, Hofman and Blei 2015 have such rates in their hierarchical Poisson factorization; for networks Karrer and
Newman 2011 call it degree correction.) Because scales are hyperparameters of the factors and not factors beside
them, whoever draws true counts sees a plain factorization. Sums over rows are sums of integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from countveil.kernels import steps
from countveil.kernels.exact_sum import exact_sums
from countveil.kernels.gamma import SMALLEST, gamma
from countveil.kernels.law_shape import draw_law_shape
from countveil.kernels.philox import SweepKey, open_stream
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers

if TYPE_CHECKING:
    from countveil.models.einsum.model import EinsumModel

#: Rows of one factor's streams; factor f has rows from f * this on.
ROWS_PER_FACTOR = 2**36


class Hyper(NamedTuple):
    """The laws of what the laws of scales depend on: wide, because data of any size and kind come."""

    level: float = 0.5  # m is a quotient of two Gamma(level, 1)
    log_shape: float = 0.0  # log s ~ Normal(log_shape, log_shape_sd)
    log_shape_sd: float = 1.0


HYPER = Hyper()
# Scales stay within what single precision holds: kept draws are stored in it.
_SMALLEST, _LARGEST = 1e-30, 1e30


class Prior(NamedTuple):
    """Entries are independent Gamma(shape, rate); those of a symmetric matrix on and above the diagonal.

    Without a rate the means of the entries are inferred.
    """

    shape: float
    rate: float | None = None
    symmetric: bool = False


class Inferred(NamedTuple):
    """What is inferred about the means of one factor's entries."""

    shape: float  # of the entries, given their means
    scales: bool  # one for every place of its axis
    means: bool  # one for every component
    level: bool  # the scale of the data
    is_scale: bool  # it has no summed index: its entries are scales themselves


class PriorRates(NamedTuple):
    """Of the entries (i, k) of a factor, as (rows, all else): Gamma(shape, of_rows[i] * of_components[k])."""

    shape: float
    of_rows: np.ndarray  # (rows), or (1) where all are alike
    of_components: np.ndarray  # (all else)


def inferred_means(views: Mapping[str, EinsumModel]) -> dict[str, Inferred]:
    """For every factor whose prior has no rate what is inferred of it, over all views."""
    found: dict[str, Inferred] = {}
    for model in views.values():
        spec = model._spec
        free = [n for n in spec.factors if model._prior(n).rate is None and n not in model._fixed]
        summed = {name: bool(set(spec.term(name)) - set(spec.output)) for name in free}
        on_axis = {name: bool(set(spec.term(name)) & set(spec.output)) for name in free}
        leading = [spec.names[spec.first]] if spec.first is not None else []
        first = next((n for n in (*leading, *free) if n in free and summed[n] and on_axis[n]), None)
        last = next((n for n in reversed(free) if summed[n]), next(reversed(free), None))
        for name in free:
            mine = Inferred(
                model._prior(name).shape,
                scales=summed[name] and on_axis[name],
                means=name == first,
                level=name == last,
                is_scale=not summed[name],
            )
            before = found.get(name, mine)
            found[name] = mine._replace(means=mine.means or before.means, level=mine.level or before.level)
    return found


def added_fields(
    inferred: Mapping[str, Inferred], dims: Mapping[str, tuple[str, ...]] | None = None
) -> dict[str, tuple[str, ...]]:
    """What is inferred, as fields of a state: names, and those of their dimensions; the factors' are ``dims``."""
    found: dict[str, tuple[str, ...]] = {}
    for name, one in inferred.items():
        row, *components = ("",) if dims is None else dims[name]
        if one.scales:
            found[f"{name}_scale"] = (row,)
        if one.scales or one.is_scale:
            found[f"{name}_scale_shape"] = ()
        if one.means:
            found[f"{name}_mean"] = tuple(components)
            found[f"{name}_mean_shape"] = ()
        if one.level:
            found[f"{name}_level"] = ()
    return found


def prior_rates(
    name: str, prior: Prior, inferred: Inferred | None, held: Mapping[str, np.ndarray]
) -> PriorRates:
    """The gamma prior of every entry of a factor, given what is inferred of it."""
    n_components = math.prod(held[name].shape[1:])
    if inferred is None:
        assert prior.rate is not None
        return PriorRates(prior.shape, np.full(1, prior.rate), np.ones(n_components))
    level = float(held[f"{name}_level"]) if inferred.level else 1.0
    if inferred.is_scale:
        shape = float(held[f"{name}_scale_shape"])
        return PriorRates(shape, np.full(1, shape / level), np.ones(n_components))
    components = 1.0 / held[f"{name}_mean"].reshape(-1) if inferred.means else np.ones(n_components)
    rows = inferred.shape / held[f"{name}_scale"] if inferred.scales else np.full(1, inferred.shape / level)
    return PriorRates(inferred.shape, rows, components)


def start_means(
    inferred: Mapping[str, Inferred], held: dict[str, np.ndarray], workers: Workers
) -> dict[str, np.ndarray]:
    """Arrays beside the factors at the start: scales and means that fit the factors as they are."""
    found: dict[str, np.ndarray] = {}
    for name, one in inferred.items():
        factor = held[name].reshape(len(held[name]), -1)
        of_rows = factor.sum(axis=1) / factor.shape[1]  # every row by itself
        overall = float(exact_sums(of_rows[:, None], workers)[0]) / len(factor)
        level = overall if one.level and not one.means else 1.0
        if one.scales:
            found[f"{name}_scale"] = _within(of_rows * (level / overall))
        if one.scales or one.is_scale:
            found[f"{name}_scale_shape"] = np.ones(())
        if one.means:
            found[f"{name}_mean"] = _within(np.full(held[name].shape[1:], overall))
            found[f"{name}_mean_shape"] = np.ones(())
        if one.level:
            found[f"{name}_level"] = np.asarray(level)
    return found


def draw_means(
    inferred: Mapping[str, Inferred],
    symmetric: Callable[[str], bool],
    held: dict[str, np.ndarray],
    key: SweepKey,
    workers: Workers,
) -> None:
    """Everything that is inferred about the means, drawn anew given the factors, in place."""
    factors = list(held)
    for name, one in inferred.items():
        number = factors.index(name)
        factor = held[name].reshape(len(held[name]), -1)
        level = float(held[f"{name}_level"]) if one.level else 1.0
        if one.means:
            means, shape = held[f"{name}_mean"], float(held[f"{name}_mean_shape"])
            sums = exact_sums(factor * (one.shape / held[f"{name}_scale"])[:, None], workers)
            inverse = np.empty(means.size)
            _draw_inverse_means(key, number * ROWS_PER_FACTOR, shape, one.shape * len(factor), sums, inverse)
            held[f"{name}_mean"] = _within(1.0 / inverse).reshape(means.shape)
            fit = _sums_of_law(1.0 / held[f"{name}_mean"].reshape(-1), 1.0, workers)
            held[f"{name}_mean_shape"] = _new_shape(key, number, 1, shape, fit)
        if one.scales:
            shape = float(held[f"{name}_scale_shape"])
            components = one.shape / held[f"{name}_mean"].reshape(-1) if one.means else np.full(1, one.shape)
            scales = new_scales(
                key, number * ROWS_PER_FACTOR, one.shape, shape, level, components, factor, workers
            )
            held[f"{name}_scale"] = scales
            values, law_level = 1.0 / scales, level
        elif one.is_scale:
            values, law_level = factor.reshape(-1), 1.0 / level
        else:  # a core: its entries themselves have the level for their mean
            entries = factor[np.triu_indices(len(factor))] if symmetric(name) else factor.reshape(-1)
            fit = _sums_of_law(entries, 1.0, workers)
            held[f"{name}_level"] = 1.0 / _new_level(key, number, 1.0 / level, one.shape, fit)
            continue
        fit = _sums_of_law(values, law_level, workers)
        new_shape = _new_shape(key, number, 0, float(held[f"{name}_scale_shape"]), fit)
        held[f"{name}_scale_shape"] = new_shape
        if one.level:
            new = _new_level(key, number, law_level, float(new_shape), (fit[0], 0.0, fit[2] / law_level))
            held[f"{name}_level"] = 1.0 / new if one.is_scale else new


def move_level(
    name: str,
    inferred: Inferred,
    held: dict[str, np.ndarray],
    n_tokens: int,
    rate: float,
    key: SweepKey,
    number: int,
) -> None:
    """Multiply the factor that has the level, its scales and the level by one number, given the tokens, in place.

    Entries, scales and level are then as probable given each other as before, so that only the tokens and the prior
    of m decide: c ~ Gamma(1/2 + tokens, total rate + d m). Without it the total would crawl: each of the three
    is held by the others.
    """
    level = float(held[f"{name}_level"])
    by = float(_draw_move(key, 4 * number + 3, level, n_tokens, rate, HYPER))
    fields = [name, f"{name}_level", *([f"{name}_scale"] if inferred.scales else [])]
    for field in fields:
        held[field] = held[field] * by


def new_scales(
    key: SweepKey,
    first_row: int,
    shape: float,
    law_shape: float,
    level: float,
    components: np.ndarray,
    factor: np.ndarray,
    workers: Workers,
) -> np.ndarray:
    """The scales of the rows of a factor, given it; ``components`` are shape / mean, one for all or one each."""
    out = np.empty(len(factor))
    each = np.broadcast_to(components, factor.shape[1:]).copy()
    dof = law_shape + shape * factor.shape[1]
    workers.run(
        len(out),
        lambda start, stop: _draw_scales(
            key, first_row, start, stop, dof, law_shape * level, each, factor, out
        ),
    )
    return _within(out)


def log_prior_of_means(
    inferred: Mapping[str, Inferred], held: Mapping[str, np.ndarray], workers: Workers
) -> float:
    """The log-density of everything that is inferred about the means, in the variables that have gamma laws."""
    total = 0.0
    for name, one in inferred.items():
        level = float(held[f"{name}_level"]) if one.level else 1.0
        laws = []
        if one.scales:
            laws.append((held[f"{name}_scale_shape"], 1.0 / held[f"{name}_scale"], level))
        for field in (f"{name}_scale_shape", f"{name}_mean_shape"):
            if field in held:
                total -= 0.5 * ((math.log(float(held[field])) - HYPER.log_shape) / HYPER.log_shape_sd) ** 2
        if one.means:
            laws.append((held[f"{name}_mean_shape"], 1.0 / held[f"{name}_mean"].reshape(-1), 1.0))
        for shape, values, law_level in laws:
            s, (n, logs, terms) = float(shape), _sums_of_law(values, law_level, workers)
            total += n * (s * math.log(s) - math.lgamma(s)) + s * (logs - terms)
            total -= float(np.log(values).sum())
        if one.level:
            total += (HYPER.level - 1.0) * math.log(level) - 2.0 * HYPER.level * math.log1p(level)
    return total


def _within(scales: np.ndarray) -> np.ndarray:
    return np.clip(scales, _SMALLEST, _LARGEST)


def _sums_of_law(values: np.ndarray, level: float, workers: Workers) -> tuple[int, float, float]:
    """Number, sum of logarithms, sum of the values times the level; in any order of the values."""
    scaled = values * level
    logs = np.log(np.maximum(scaled, SMALLEST))
    terms = np.stack([np.maximum(logs, 0.0), np.maximum(-logs, 0.0), scaled], axis=1)
    up, down, total = exact_sums(terms, workers)
    return len(values), float(up - down), float(total)


def _new_shape(
    key: SweepKey, number: int, which: int, shape: float, fit: tuple[int, float, float]
) -> np.ndarray:
    """The shape of a law, given the sums of what was drawn from it."""
    return np.asarray(_draw_shape(key, 4 * number + which, shape, *fit, HYPER))


def _new_level(
    key: SweepKey, number: int, level: float, shape: float, fit: tuple[int, float, float]
) -> np.ndarray:
    """The factor m in Gamma(shape, shape * m), given the sums of what was drawn from it."""
    return np.asarray(_draw_level(key, 4 * number + 2, level, shape * fit[0], shape * fit[2], HYPER))


@compiled
def _draw_scales(key, first_row, start, stop, dof, rate, components, factor, out):  # type: ignore[no-untyped-def]
    """out[i] = 1 / Gamma(dof, rate + sum_k components[k] * factor[i, k])."""
    for i in range(start, stop):
        total = rate
        for k in range(factor.shape[1]):
            total += components[k] * factor[i, k]
        stream = open_stream(key.seed, key.chain, key.sweep, steps.PRIOR_SCALES, first_row + i)
        x, stream = gamma(stream, dof, total)
        out[i] = 1.0 / x


@compiled
def _draw_inverse_means(key, first_row, shape, more, sums, out):  # type: ignore[no-untyped-def]
    for k in range(len(out)):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.PRIOR_MEANS, first_row + k)
        out[k], stream = gamma(stream, shape + more, shape + sums[k])


@compiled
def _draw_shape(key, row, shape, n, sum_of_logs, total, hyper):  # type: ignore[no-untyped-def]
    stream = open_stream(key.seed, key.chain, key.sweep, steps.PRIOR_LAWS, row)
    mean, sd = hyper.log_shape, hyper.log_shape_sd
    drawn, stream = draw_law_shape(stream, shape, n, sum_of_logs, total, mean, sd)
    return drawn


@compiled
def _draw_move(key, row, level, n_tokens, rate, hyper):  # type: ignore[no-untyped-def]
    stream = open_stream(key.seed, key.chain, key.sweep, steps.PRIOR_LAWS, row)
    d, stream = gamma(stream, 2.0 * hyper.level, 1.0 + level)
    drawn, stream = gamma(stream, hyper.level + n_tokens, rate + d * level)
    return max(drawn, _SMALLEST)


@compiled
def _draw_level(key, row, level, shape, rate, hyper):  # type: ignore[no-untyped-def]
    """m ~ Gamma(h, d) with d ~ Gamma(h, 1) before; the data add ``shape`` and ``rate``."""
    stream = open_stream(key.seed, key.chain, key.sweep, steps.PRIOR_LAWS, row)
    d, stream = gamma(stream, 2.0 * hyper.level, 1.0 + level)
    drawn, stream = gamma(stream, hyper.level + shape, d + rate)
    return min(max(drawn, _SMALLEST), _LARGEST)
