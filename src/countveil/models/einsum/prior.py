"""Priors of factors: fixed gammas, or gammas whose means are inferred.

**Fixed.** Every entry ~ Gamma(shape, rate).

**Inferred** (``rate`` is None). Words and people differ: what one place of an axis has in all components goes up
and down together, by a scale of its own. The law of the scales has a tail on either side, each as heavy as the data
say: frequent words follow Zipf's law, and most words may be rare.

    f_ik ~ Gamma(shape, shape / (u_i b_k))        mean u_i b_k
    u_i = m g_i / h_i                             scales: g_i ~ Gamma(t, t), h_i ~ Gamma(s, s)
    1 / b_k ~ Gamma(1, 1)                         means of components
    log s, log t ~ Normal(0, 1)                   s small: some have much more than others; t small: some much less
    m ~ m' / m'' with m', m'' ~ Gamma(1/2, 1)     the level (``Hyper`` has these numbers)

``Inferred`` says which factor has what. One that stands on an axis has scales; the first has means of its
components; and the last has a level m for the scale of the data (two levels would not be told apart; elsewhere m is
1, and a factor without an axis, such as a core, has the mean m for all entries). A factor without summed index is
itself a scale: w_v ~ Gamma(s, s / m).

Given the factors all this is conjugate, but for s and t, which take a step of a slice sampler:

    g_i | u ~ Gamma(t + s, t + s m / u_i)
    1 / u_i | f, g ~ Gamma(s + shape K, s m g_i + shape sum_k f_ik / b_k)
    1 / b_k | f ~ Gamma(1 + shape n, 1 + shape sum_i f_ik / u_i)
    m | u, g ~ Gamma(1/2 + n s, d + s sum_i g_i / u_i),    d | m ~ Gamma(1, 1 + m)       (a core: 1 / m likewise)

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
    log_shape: float = 0.0  # log s, log t ~ Normal(log_shape, log_shape_sd)
    log_shape_sd: float = 1.0
    mean_shape: float = 1.0  # 1 / b_k ~ Gamma(mean_shape, mean_shape)


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


class Law(NamedTuple):
    """Of the scales of an axis: level * Gamma(lower, lower) / Gamma(upper, upper)."""

    upper: float
    lower: float
    level: float


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
            found[f"{name}_scale_upper"] = found[f"{name}_scale_lower"] = ()
        if one.is_scale:
            found[f"{name}_shape"] = ()
        if one.means:
            found[f"{name}_mean"] = tuple(components)
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
        shape = float(held[f"{name}_shape"])
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
            found |= {f"{name}_scale_{tail}": np.ones(()) for tail in ("upper", "lower")}
        if one.is_scale:
            found[f"{name}_shape"] = np.ones(())
        if one.means:
            found[f"{name}_mean"] = _within(np.full(held[name].shape[1:], overall))
        if one.level:
            found[f"{name}_level"] = np.asarray(level)
    return found


def law_of(name: str, one: Inferred, held: Mapping[str, np.ndarray]) -> Law:
    """The law of a factor's scales as it is."""
    upper, lower = (float(held[f"{name}_scale_{tail}"]) for tail in ("upper", "lower"))
    return Law(upper, lower, float(held[f"{name}_level"]) if one.level else 1.0)


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
        if one.means:
            means = held[f"{name}_mean"]
            sums = exact_sums(factor * (one.shape / held[f"{name}_scale"])[:, None], workers)
            inverse = np.empty(means.size)
            first_row, e = number * ROWS_PER_FACTOR, HYPER.mean_shape
            _draw_inverse_means(key, first_row, e + one.shape * len(factor), e, sums, inverse)
            held[f"{name}_mean"] = _within(1.0 / inverse).reshape(means.shape)
        if one.scales:
            _draw_scales_and_law(name, one, number, held, key, workers)
        elif one.is_scale:
            level = float(held[f"{name}_level"]) if one.level else 1.0
            fit = _sums_of_law(factor.reshape(-1), 1.0 / level, workers)
            shape = _draw_shape(key, 4 * number, float(held[f"{name}_shape"]), *fit, HYPER)
            held[f"{name}_shape"] = np.asarray(shape)
            if one.level:
                new = _draw_level(
                    key, 4 * number + 2, 1.0 / level, shape * fit[0], shape * fit[2] * level, HYPER
                )
                held[f"{name}_level"] = np.asarray(1.0 / new)
        elif one.level:  # a core: its entries themselves have the level for their mean
            level = float(held[f"{name}_level"])
            entries = factor[np.triu_indices(len(factor))] if symmetric(name) else factor.reshape(-1)
            n, _, total = _sums_of_law(entries, 1.0, workers)
            new = _draw_level(key, 4 * number + 2, 1.0 / level, one.shape * n, one.shape * total, HYPER)
            held[f"{name}_level"] = np.asarray(1.0 / new)


def _draw_scales_and_law(
    name: str, one: Inferred, number: int, held: dict[str, np.ndarray], key: SweepKey, workers: Workers
) -> None:
    factor = held[name].reshape(len(held[name]), -1)
    law = law_of(name, one, held)
    components = one.shape / held[f"{name}_mean"].reshape(-1) if one.means else np.full(1, one.shape)
    scales, lower = new_scales(
        key, number * ROWS_PER_FACTOR, one.shape, law, components, factor, held[f"{name}_scale"], workers
    )
    held[f"{name}_scale"] = scales
    fit = _sums_of_law(lower / scales, law.level, workers)
    upper = _draw_shape(key, 4 * number, law.upper, *fit, HYPER)
    held[f"{name}_scale_upper"] = np.asarray(upper)
    low = _draw_shape(key, 4 * number + 1, law.lower, *_sums_of_law(lower, 1.0, workers), HYPER)
    held[f"{name}_scale_lower"] = np.asarray(low)
    if one.level:
        rate = upper * fit[2] / law.level
        held[f"{name}_level"] = np.asarray(
            _draw_level(key, 4 * number + 2, law.level, upper * fit[0], rate, HYPER)
        )


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
    law: Law,
    components: np.ndarray,
    factor: np.ndarray,
    scales: np.ndarray,
    workers: Workers,
) -> tuple[np.ndarray, np.ndarray]:
    """The scales of the rows of a factor, given it and the old ones; and the g of the law.

    ``components`` are shape / mean, one for all or one each.
    """
    out, lower = np.empty(len(factor)), np.empty(len(factor))
    each = np.broadcast_to(components, factor.shape[1:]).copy()
    more = shape * factor.shape[1]
    workers.run(
        len(out),
        lambda start, stop: _draw_scales(
            key, first_row, start, stop, law, more, each, factor, scales, lower, out
        ),
    )
    return _within(out), lower


def log_prior_of_means(inferred: Mapping[str, Inferred], held: Mapping[str, np.ndarray]) -> float:
    """The log-density of scales, means, shapes and levels, up to a constant."""
    total = 0.0
    for name, one in inferred.items():
        level = float(held[f"{name}_level"]) if one.level else 1.0
        if one.scales:
            law = law_of(name, one, held)
            total += float(_log_density_of_scales(held[f"{name}_scale"], law))
        if one.means:
            inverse, e = 1.0 / held[f"{name}_mean"], HYPER.mean_shape
            total += float(np.sum((e - 1.0) * np.log(inverse) - e * inverse))
        for field in (f"{name}_scale_upper", f"{name}_scale_lower", f"{name}_shape"):
            if field in held:
                total -= 0.5 * ((math.log(float(held[field])) - HYPER.log_shape) / HYPER.log_shape_sd) ** 2
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


@compiled
def _draw_scales(  # type: ignore[no-untyped-def]
    key, first_row, start, stop, law, more, components, factor, scales, lower, out
):
    """lower[i] = g_i given the old scale; out[i] = u_i given g_i and the factor."""
    s, t, m = law
    for i in range(start, stop):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.PRIOR_SCALES, first_row + i)
        lower[i], stream = gamma(stream, t + s, t + s * m / scales[i])
        total = s * m * lower[i]
        for k in range(factor.shape[1]):
            total += components[k] * factor[i, k]
        x, stream = gamma(stream, s + more, total)
        out[i] = 1.0 / x


@compiled
def _log_density_of_scales(scales, law):  # type: ignore[no-untyped-def]
    """Of their inverses: a beta-prime law."""
    s, t, m = law
    total = 0.0
    for i in range(len(scales)):
        y = m / scales[i]
        total += s * math.log(s * y) + t * math.log(t) - (s + t) * math.log(t + s * y) + math.log(scales[i])
    return total + len(scales) * (math.lgamma(s + t) - math.lgamma(s) - math.lgamma(t))


@compiled
def _draw_inverse_means(key, first_row, shape, rate, sums, out):  # type: ignore[no-untyped-def]
    for k in range(len(out)):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.PRIOR_MEANS, first_row + k)
        out[k], stream = gamma(stream, shape, rate + sums[k])


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
