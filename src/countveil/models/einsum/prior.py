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

``inferred`` says which factor has what. One that stands on an axis has scales; the first has means of its
components; and the last has a level m for the scale of the data (two levels would not be told apart; elsewhere m is
1, and a factor without an axis, such as a core, has the mean m for all entries). A factor without summed index is
itself a scale: w_v ~ Gamma(s, s / m).

**Groups.** Where the rows of a factor have groups g(i), each has means of its own, b_gk in place of b_k, with the
same law. With a fixed rate r there are no scales, u_i = 1, and beta_gk = shape / b_gk, the rate of the entries, is
Gamma(1, 1 / r), of mean r: so 1 / b_gk ~ Gamma(1, b0) in both cases, b0 = 1 or b0 = shape / r.

Given the factors all this is conjugate, but for s and t, which take a step of a slice sampler:

    g_i | u ~ Gamma(t + s, t + s m / u_i)
    1 / u_i | f, g ~ Gamma(s + shape K, s m g_i + shape sum_k f_ik / b_k)
    1 / b_k | f ~ Gamma(1 + shape n, b0 + shape sum_i f_ik / u_i)       (b_gk: n and sum over the rows of g)
    m | u, g ~ Gamma(1/2 + n s, d + s sum_i g_i / u_i),    d | m ~ Gamma(1, 1 + m)       (a core: 1 / m likewise)

(Gopalan, Hofman and Blei 2015 have such rates in their hierarchical Poisson factorization; for networks Karrer and
Newman 2011 call it degree correction.) Because scales are hyperparameters of the factors and not factors beside
them, whoever draws true counts sees a plain factorization. Sums over rows are sums of integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from countveil.kernels import steps
from countveil.kernels.elementary import log_of
from countveil.kernels.exact_sum import exact_sums, signed_sum
from countveil.kernels.gamma import SMALLEST, gamma
from countveil.kernels.law_shape import draw_law_shape
from countveil.kernels.philox import SweepKey, open_stream
from countveil.models.einsum.inferred import Inferred, Prior
from countveil.runtime.compiled import compiled, inlined
from countveil.runtime.workers import Workers

#: Rows of one factor's streams; factor f has rows from f * this on.
ROWS_PER_FACTOR = 2**36


class Hyper(NamedTuple):
    """The laws of what the laws of scales depend on: wide, because data of any size and kind come."""

    level: float = 0.5  # m is a quotient of two Gamma(level, 1)
    log_shape: float = 0.0  # log s, log t ~ Normal(log_shape, log_shape_sd)
    log_shape_sd: float = 1.0
    mean_shape: float = 1.0  # 1 / b_k ~ Gamma(mean_shape, mean_shape)


HYPER = Hyper()
#: Where all rows are of one group.
ONE_GROUP = np.zeros(1, dtype=np.int64)
# Scales stay within what single precision holds: kept draws are stored in it.
_SMALLEST, _LARGEST = 1e-30, 1e30
# The draws of a row's scale take about as many, beside a sum over its entries.
_NANOSECONDS = 100


class Law(NamedTuple):
    """Of the scales of an axis: level * Gamma(lower, lower) / Gamma(upper, upper)."""

    upper: float
    lower: float
    level: float


class PriorRates(NamedTuple):
    """Of the entries (i, k) of a factor, as (rows, all else): Gamma(shape, of_rows[i] * of_components[k]).

    With groups that is of_components[group_of[i] * n + k], n the number of all else.
    """

    shape: float
    of_rows: np.ndarray  # (rows), or (1) where all are alike
    of_components: np.ndarray  # (groups * all else)
    group_of: np.ndarray = ONE_GROUP  # (rows), or (1) where all are of one


def prior_rates(
    name: str, prior: Prior, inferred: Inferred | None, held: Mapping[str, np.ndarray]
) -> PriorRates:
    """The gamma prior of every entry of a factor, given what is inferred of it."""
    n_components = math.prod(held[name].shape[1:])
    if inferred is None:
        assert prior.rate is not None
        return _fixed_rates(prior.shape, prior.rate, n_components)
    level = float(held[f"{name}_level"]) if inferred.level else 1.0
    if inferred.is_scale:
        shape = float(held[f"{name}_shape"])
        return PriorRates(shape, np.array([shape / level]), _ones(n_components))
    components = 1.0 / held[f"{name}_mean"].reshape(-1) if inferred.means else _ones(n_components)
    rows = inferred.shape / held[f"{name}_scale"] if inferred.scales else np.array([inferred.shape / level])
    return PriorRates(inferred.shape, rows, components, _group_of(inferred))


def _group_of(inferred: Inferred) -> np.ndarray:
    return ONE_GROUP if inferred.groups is None else inferred.groups.of_rows


@lru_cache(maxsize=256)
def _fixed_rates(shape: float, rate: float, n_components: int) -> PriorRates:
    return PriorRates(shape, np.full(1, rate), _ones(n_components))


@lru_cache(maxsize=256)
def _ones(n: int) -> np.ndarray:
    return np.ones(n)  # that nobody writes to


def start_means(
    inferred: Mapping[str, Inferred], held: dict[str, np.ndarray], workers: Workers
) -> dict[str, np.ndarray]:
    """Arrays beside the factors at the start: scales and means that fit the factors as they are."""
    found: dict[str, np.ndarray] = {}
    for name, one in inferred.items():
        factor = held[name].reshape(len(held[name]), -1)
        of_rows = factor.sum(axis=1) / factor.shape[1]  # every row by itself
        everyone = workers.of(name)
        overall = float(exact_sums(of_rows[:, None], everyone)[0]) / everyone.number(len(factor))
        level = overall if one.level and not one.means else 1.0
        if one.scales:
            found[f"{name}_scale"] = np.clip(of_rows * (level / overall), _SMALLEST, _LARGEST)
            found |= {f"{name}_scale_{tail}": np.ones(()) for tail in ("upper", "lower")}
        if one.is_scale:
            found[f"{name}_shape"] = np.ones(())
        if one.means:
            groups = () if one.groups is None else (len(one.groups.labels),)
            mean = min(max(overall, _SMALLEST), _LARGEST)
            found[f"{name}_mean"] = np.full((*groups, *held[name].shape[1:]), mean)
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
        everyone = workers.of(name)
        if one.means:
            _draw_means_of_components(name, one, number, held, key, everyone)
        if one.scales:
            _draw_scales_and_law(name, one, number, held, key, everyone)
        elif one.is_scale:
            level = float(held[f"{name}_level"]) if one.level else 1.0
            n, sums = _sums_of_law(_terms_of_law(factor.reshape(-1), 1.0 / level), everyone)
            shape = _draw_shape(key, 4 * number, float(held[f"{name}_shape"]), n, sums, 0, HYPER)
            held[f"{name}_shape"] = np.asarray(shape)
            if one.level:
                rate = shape * float(sums[2]) * level
                new = _draw_level(key, 4 * number + 2, 1.0 / level, shape * n, rate, HYPER)
                held[f"{name}_level"] = np.asarray(1.0 / new)
        elif one.level:  # a core: its entries themselves have the level for their mean
            level = float(held[f"{name}_level"])
            entries = factor[np.triu_indices(len(factor))] if symmetric(name) else factor.reshape(-1)
            n, total = everyone.number(len(entries)), float(exact_sums(entries[:, None], everyone)[0])
            new = _draw_level(key, 4 * number + 2, 1.0 / level, one.shape * n, one.shape * total, HYPER)
            held[f"{name}_level"] = np.asarray(1.0 / new)


def _draw_means_of_components(
    name: str, one: Inferred, number: int, held: dict[str, np.ndarray], key: SweepKey, workers: Workers
) -> None:
    factor, means = held[name].reshape(len(held[name]), -1), held[f"{name}_mean"]
    each = one.shape / held[f"{name}_scale"] if one.scales else np.full(len(factor), one.shape)
    parts = [(factor, each)]
    if one.groups is not None:
        parts = [(factor[rows], each[rows]) for rows in one.groups.members]
    drawn, e = np.empty((len(parts), factor.shape[1])), HYPER.mean_shape
    for g, (part, weights) in enumerate(parts):
        first_row = number * ROWS_PER_FACTOR + g * factor.shape[1]
        shape, rate = e + one.shape * workers.number(len(part)), e * one.usual_mean
        _draw_means(key, first_row, shape, rate, exact_sums(part, workers, weights), drawn[g])
    held[f"{name}_mean"] = drawn.reshape(means.shape)


def _draw_scales_and_law(
    name: str, one: Inferred, number: int, held: dict[str, np.ndarray], key: SweepKey, workers: Workers
) -> None:
    factor = held[name].reshape(len(held[name]), -1)
    law = law_of(name, one, held)
    components = one.shape / held[f"{name}_mean"].reshape(-1) if one.means else np.full(1, one.shape)
    first_row, old = number * ROWS_PER_FACTOR + workers.first_row, held[f"{name}_scale"]
    scales, lower = new_scales(
        key, first_row, one.shape, law, components, factor, old, workers, _group_of(one)
    )  # fmt: skip
    held[f"{name}_scale"] = scales
    n, sums = _sums_of_law(_terms_of_scales(scales, lower, law.level), workers)
    new = _draw_law(key, 4 * number, law, one.level, n, sums, HYPER)
    held[f"{name}_scale_upper"], held[f"{name}_scale_lower"] = np.asarray(new[0]), np.asarray(new[1])
    if one.level:
        held[f"{name}_level"] = np.asarray(new[2])


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
    group_of: np.ndarray = ONE_GROUP,
) -> tuple[np.ndarray, np.ndarray]:
    """The scales of the rows of a factor, given it and the old ones; and the g of the law.

    ``components`` are shape / mean, one for all or one each, group after group.
    """
    out, lower = np.empty(len(factor)), np.empty(len(factor))
    more = shape * factor.shape[1]
    workers.run(
        len(out),
        lambda start, stop: _draw_scales(
            key, first_row, start, stop, law, more, components, group_of, factor, scales, lower, out
        ),
        small=workers.few(_NANOSECONDS + factor.shape[1]),
    )
    return out, lower


def log_prior_of_means(
    inferred: Mapping[str, Inferred], held: Mapping[str, np.ndarray], workers: Workers
) -> float:
    """The log-density of scales, means, shapes and levels, up to a constant."""
    total = 0.0
    for name, one in inferred.items():
        level = float(held[f"{name}_level"]) if one.level else 1.0
        if one.scales:
            law = law_of(name, one, held)
            each = np.empty(len(held[f"{name}_scale"]))
            _log_densities_of_scales(held[f"{name}_scale"], law, each)
            total += signed_sum(each, workers.of(name))
        if one.means:
            inverse, e = one.usual_mean / held[f"{name}_mean"], HYPER.mean_shape
            total += float(np.sum((e - 1.0) * np.log(inverse) - e * inverse))
        for field in (f"{name}_scale_upper", f"{name}_scale_lower", f"{name}_shape"):
            if field in held:
                total -= 0.5 * ((math.log(float(held[field])) - HYPER.log_shape) / HYPER.log_shape_sd) ** 2
        if one.level:
            total += (HYPER.level - 1.0) * math.log(level) - 2.0 * HYPER.level * math.log1p(level)
    return total


def _sums_of_law(terms: np.ndarray, workers: Workers) -> tuple[int, np.ndarray]:
    """Number of draws from a law, and the sums of what it is seen by; in any order of the draws."""
    return workers.number(len(terms)), exact_sums(terms, workers)


@compiled
def _terms_of_law(values, level):  # type: ignore[no-untyped-def]
    """By what the law of draws of mean 1, here the values times the level, is seen: three terms of each."""
    terms = np.empty((len(values), 3))
    for i in range(len(values)):
        _put_terms(values[i] * level, terms, i, 0)
    return terms


@compiled
def _terms_of_scales(scales, lower, level):  # type: ignore[no-untyped-def]
    """The same of both laws of scales: that of h_i = g_i m / u_i, and that of g_i."""
    terms = np.empty((len(scales), 6))
    for i in range(len(scales)):
        _put_terms(lower[i] / scales[i] * level, terms, i, 0)
        _put_terms(lower[i], terms, i, 3)
    return terms


@inlined
def _put_terms(x, terms, i, at):  # type: ignore[no-untyped-def]
    """Sums are made of what is not negative: logarithms above and below 0 apart."""
    log_x = log_of(max(x, SMALLEST))
    terms[i, at], terms[i, at + 1], terms[i, at + 2] = max(log_x, 0.0), max(-log_x, 0.0), x


@compiled
def _draw_scales(  # type: ignore[no-untyped-def]
    key, first_row, start, stop, law, more, components, group_of, factor, scales, lower, out
):
    """lower[i] = g_i given the old scale; out[i] = u_i given g_i and the factor."""
    s, t, m = law
    each = len(components) > 1
    for i in range(start, stop):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.PRIOR_SCALES, first_row + i)
        lower[i], stream = gamma(stream, t + s, t + s * m / scales[i])
        total = s * m * lower[i]
        mine = (group_of[i] if len(group_of) > 1 else group_of[0]) * factor.shape[1]
        for k in range(factor.shape[1]):
            total += (components[mine + k] if each else components[0]) * factor[i, k]
        x, stream = gamma(stream, s + more, total)
        out[i] = _within(1.0 / x)


@compiled
def _log_densities_of_scales(scales, law, out):  # type: ignore[no-untyped-def]
    """Of their inverses: a beta-prime law."""
    s, t, m = law
    constant = math.lgamma(s + t) - math.lgamma(s) - math.lgamma(t)
    for i in range(len(scales)):
        y = m / scales[i]
        one = s * math.log(s * y) + t * math.log(t) - (s + t) * math.log(t + s * y) + math.log(scales[i])
        out[i] = one + constant


@inlined
def _within(scale):  # type: ignore[no-untyped-def]
    return min(max(scale, _SMALLEST), _LARGEST)


@compiled
def _draw_means(key, first_row, shape, rate, sums, out):  # type: ignore[no-untyped-def]
    """1 / out[k] ~ Gamma(shape, rate + sums[k])."""
    for k in range(len(out)):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.PRIOR_MEANS, first_row + k)
        inverse, stream = gamma(stream, shape, rate + sums[k])
        out[k] = _within(1.0 / inverse)


@compiled
def _draw_shape(key, row, shape, n, sums, at, hyper):  # type: ignore[no-untyped-def]
    """A step of the shape of a law that is seen by the sums from ``at`` on."""
    stream = open_stream(key.seed, key.chain, key.sweep, steps.PRIOR_LAWS, row)
    sum_of_logs, mean, sd = sums[at] - sums[at + 1], hyper.log_shape, hyper.log_shape_sd
    drawn, stream = draw_law_shape(stream, shape, n, sum_of_logs, sums[at + 2], mean, sd)
    return drawn


@compiled
def _draw_law(key, row, law, has_level, n, sums, hyper):  # type: ignore[no-untyped-def]
    """The law of scales, given the sums of ``_terms_of_scales``."""
    upper = _draw_shape(key, row, law.upper, n, sums, 0, hyper)
    lower = _draw_shape(key, row + 1, law.lower, n, sums, 3, hyper)
    level = law.level
    if has_level:
        level = _draw_level(key, row + 2, law.level, upper * n, upper * sums[2] / law.level, hyper)
    return upper, lower, level


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
    return _within(drawn)
