"""All factors of one array or of several, drawn one after the other given their tokens.

A factor may stand in several arrays (views). Given the tokens of all of them, an entry that stands at one term of
each is Gamma(shape + its tokens in all views, rate + its exposure in all views), because the views are independent
given the factors. Where it stands at two terms of a view it is drawn row after row (``tied``): the cells of all
such views are stacked, and its exposure in the others comes on top.

Factors lie by axis here (``Spec.by_axis``), and every row of one has a stream of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from countveil.kernels import steps
from countveil.kernels.exact_sum import exact_sums, signed_sum
from countveil.kernels.gamma import SMALLEST, gamma_at, small_gamma_at
from countveil.kernels.philox import SweepKey, open_stream
from countveil.kernels.uniform import fill_exponentials, fill_word_pairs, skip_blocks
from countveil.models.einsum.exposure import Exposure, Seen, exposure_at
from countveil.models.einsum.inferred import Inferred
from countveil.models.einsum.prior import (
    ROWS_PER_FACTOR,
    PriorRates,
    log_prior_of_means,
    move_level,
    prior_rates,
)
from countveil.models.einsum.tied import PairCells, draw_tied_rows, pair_weights, stacked_weights
from countveil.runtime.compiled import compiled
from countveil.runtime.workers import Workers

if TYPE_CHECKING:
    from countveil.models.einsum.model import EinsumModel

# Entries that are drawn together, in whole rows.
_CHUNK = 1024
# A gamma draw takes about as many.
_NANOSECONDS = 30


class Statistics(NamedTuple):
    """The sufficient statistics of one view: all that the factors need to know of its true counts."""

    tokens: list[np.ndarray]  # of every entry of every factor, by axis
    exposure: Exposure


def draw_factors(
    views: Mapping[str, EinsumModel],
    inferred: Mapping[str, Inferred],
    statistics: Mapping[str, Statistics],
    pairs: Mapping[str, PairCells],
    held: dict[str, np.ndarray],
    key: SweepKey,
    workers: Workers,
) -> None:
    """Every factor that is not fixed, drawn anew into ``held``; those of the first axes come first.

    ``pairs`` has the cells of every factor that stands at two terms, of all views together.
    """
    factors = list(dict.fromkeys(name for model in views.values() for name in model._spec.factors))
    specs = [model._spec for model in views.values()]
    leading = [spec.names[spec.first] for spec in specs if spec.first is not None]
    seen: dict[str, Seen] = {view: {} for view in views}
    for name in dict.fromkeys((*leading, *factors)):
        having = {view: model for view, model in views.items() if name in model._spec.factors}
        one = next(iter(having.values()))  # what is shared is alike in all of them
        if name in one._fixed:
            continue
        everyone = workers.of(name)
        prior, first_row = one._prior(name), factors.index(name) * ROWS_PER_FACTOR + everyone.first_row
        rates = prior_rates(name, prior, inferred.get(name), held)
        tokens = _sum(_tokens_of(model, statistics[view], name) for view, model in having.items())
        exposures, weights = [], []
        for view, model in having.items():
            places = model._spec.places(name)
            if len(places) == 2:
                weights.append(pair_weights(model, held, name))
            else:
                exposures.append(
                    exposure_at(model, held, places[0], statistics[view].exposure, workers, seen[view])
                )
        if weights:
            values = held[name].reshape(len(tokens), -1).copy()
            further = np.zeros(values.shape)
            if exposures:
                further += np.broadcast_to(_sum(exposures), tokens.shape).reshape(values.shape)
            flat = tokens.reshape(values.shape)
            draw_tied_rows(
                key, first_row, rates, flat, further, stacked_weights(weights), pairs[name], values
            )  # fmt: skip
            held[name] = values.reshape(tokens.shape)
            continue
        exposure = _sum(exposures)
        if prior.symmetric:  # (c, d) and (d, c) are one entry
            off = ~np.eye(len(tokens), dtype=bool)
            tokens, exposure = tokens + off * tokens.T, exposure + off * exposure.T
        drawn = draw_factor(key, first_row, rates, tokens, exposure, everyone)
        held[name] = mirrored(drawn) if prior.symmetric else drawn
        if name in inferred and inferred[name].level:
            values = held[name]
            if prior.symmetric:
                values, tokens = np.triu(values), np.triu(tokens)
            rate, n_tokens = _total_rate(values, exposure, everyone), _number(tokens.reshape(-1))
            move_level(name, inferred[name], held, everyone.number(n_tokens), rate, key, factors.index(name))


def draw_factor(
    key: SweepKey,
    first_row: int,
    prior: PriorRates,
    tokens: np.ndarray,
    exposure: np.ndarray,
    workers: Workers,
) -> np.ndarray:
    """Every entry from Gamma(shape + tokens, prior rate + exposure); an axis of ``exposure`` may have length 1.

    Row i has the stream of row ``first_row`` + i.
    """
    flat = tokens.reshape(len(tokens), -1)
    if exposure.shape[1:] != tokens.shape[1:]:
        exposure = np.broadcast_to(exposure, (len(exposure), *tokens.shape[1:]))
    exposed = np.ascontiguousarray(exposure).reshape(len(exposure), -1)
    out = np.empty(flat.shape)
    workers.fill(
        out,
        lambda start, stop: _draw_rows(key, first_row, start, stop, prior, flat, exposed, out),
        work=_NANOSECONDS * max(out.shape[1], 1),
    )
    return out.reshape(tokens.shape)


def start_factor(key: SweepKey, first_row: int, shape: tuple[int, ...]) -> np.ndarray:
    """Exponential values of mean 1, every row from a stream of its own."""
    out = np.empty((shape[0], math.prod(shape[1:])))
    _fill_start(key, first_row, out)
    return out.reshape(shape)


def log_joint(
    views: Mapping[str, EinsumModel],
    inferred: Mapping[str, Inferred],
    statistics: Mapping[str, Statistics],
    held: Mapping[str, np.ndarray],
    workers: Workers,
) -> float:
    """log p(tokens, factors) up to a constant of the tokens: a scalar to watch a chain by."""
    total = log_prior_of_means(inferred, held, workers)
    for name in dict.fromkeys(name for model in views.values() for name in model._spec.factors):
        values = held[name]
        having = {view: model for view, model in views.items() if name in model._spec.factors}
        model = next(iter(having.values()))
        prior, fixed = model._prior(name), name in model._fixed
        tokens = _sum(_tokens_of(model, statistics[view], name) for view, model in having.items())
        flat = np.ascontiguousarray(values.reshape(len(values), -1))
        flat_tokens = tokens.reshape(flat.shape)
        everyone, of_rows = workers.of(name), np.empty(len(flat))
        if fixed:
            np.sum(flat_tokens * np.log(np.maximum(flat, SMALLEST)), axis=1, out=of_rows)
            total += signed_sum(of_rows, everyone)
            continue
        rates = prior_rates(name, prior, inferred.get(name), held)
        if prior.symmetric:  # tokens of (c, d) and (d, c) are of one entry
            flat_tokens = np.triu(flat_tokens + flat_tokens.T - np.diag(np.diag(flat_tokens)))
        _log_densities(flat_tokens, flat, rates, prior.symmetric, of_rows)
        total += signed_sum(of_rows, everyone)
    for view, model in views.items():
        total -= model._observed_rate(held, statistics[view].exposure, workers)
    return total


def mirrored(matrix: np.ndarray) -> np.ndarray:
    """The symmetric matrix with this upper half."""
    return np.triu(matrix) + np.triu(matrix, 1).T


def _tokens_of(model: EinsumModel, statistics: Statistics, name: str) -> np.ndarray:
    return statistics.tokens[model._spec.factors.index(name)]


def _total_rate(values: np.ndarray, exposure: np.ndarray, everyone: Workers) -> float:
    """The expected tokens of a factor with this exposure."""
    if len(exposure) > 1 or exposure.shape[1:] != values.shape[1:]:
        return float(exact_sums((values * exposure).reshape(-1, 1), everyone)[0])
    # All rows meet the same: no array of products, and sums that are several at a time.
    sums = exact_sums(values.reshape(len(values), -1), everyone)
    return math.fsum(sums * exposure.reshape(-1))


@compiled
def _number(tokens):  # type: ignore[no-untyped-def]
    n = 0
    for i in range(len(tokens)):
        n += tokens[i]
    return n


def _sum(arrays: Iterable[np.ndarray]) -> np.ndarray:
    first, *others = arrays
    return sum(others, first)


@compiled
def _draw_rows(key, first_row, start, stop, prior, tokens, exposure, out):  # type: ignore[no-untyped-def]
    """out[i, k] ~ Gamma(shape + tokens[i, k], prior rate + exposure[i, k]) for rows start..stop.

    ``exposure`` has one row per row of ``out``, or a single one for all. Most entries of a sparse factor have no
    token and a shape below 1: those are drawn in one loop over the entries of many rows (``small_gamma_at``), and
    the others one by one, from the same words.
    """
    shared = exposure.shape[0] == 1
    shape, of_rows, of_components, group_of = prior
    n = out.shape[1]
    n_rows = max(1, _CHUNK // max(n, 1))
    one, two = np.empty(n_rows * n, dtype=np.uint64), np.empty(n_rows * n, dtype=np.uint64)
    shapes, drawn = np.empty(n_rows * n), np.empty(n_rows * n)
    for begin in range(start, stop, n_rows):
        end = min(begin + n_rows, stop)
        for i in range(begin, end):
            at = (i - begin) * n
            stream = open_stream(key.seed, key.chain, key.sweep, steps.FACTOR, first_row + i)
            fill_word_pairs(stream, one[at : at + n], two[at : at + n])
            for k in range(n):
                shapes[at + k] = shape + tokens[i, k]
        for e in range((end - begin) * n):
            drawn[e] = small_gamma_at(one[e], two[e], shapes[e])
        for i in range(begin, end):
            at = (i - begin) * n
            stream = open_stream(key.seed, key.chain, key.sweep, steps.FACTOR, first_row + i)
            stream = skip_blocks(stream, n)
            of_row = of_rows[i] if len(of_rows) > 1 else of_rows[0]
            mine = (group_of[i] if len(group_of) > 1 else group_of[0]) * n
            for k in range(n):
                g = drawn[at + k]
                r = of_row * of_components[mine + k] + (exposure[0, k] if shared else exposure[i, k])
                if g > 0.0:
                    out[i, k] = max(g / r, SMALLEST)
                else:
                    out[i, k], stream = gamma_at(one[at + k], two[at + k], stream, shapes[at + k], r)


@compiled
def _fill_start(key, first_row, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        stream = open_stream(key.seed, key.chain, key.sweep, steps.START, first_row + i)
        fill_exponentials(stream, out[i], out.shape[1])
        for k in range(out.shape[1]):
            out[i, k] = max(out[i, k], SMALLEST)


@compiled
def _log_densities(tokens, factor, prior, upper_half, out):  # type: ignore[no-untyped-def]
    """Of every row tokens * log(factor) and the log-densities of the priors, without arrays in between."""
    shape, of_rows, of_components, group_of = prior
    logs = np.log(of_components)
    for i in range(factor.shape[0]):
        total = 0.0
        of_row = of_rows[i] if len(of_rows) > 1 else of_rows[0]
        log_of_row = math.log(of_row)
        mine = (group_of[i] if len(group_of) > 1 else group_of[0]) * factor.shape[1]
        for k in range(i if upper_half else 0, factor.shape[1]):
            x = factor[i, k]
            rate = of_row * of_components[mine + k]
            total += (tokens[i, k] + shape - 1.0) * math.log(max(x, SMALLEST)) - rate * x
            total += shape * (log_of_row + logs[mine + k]) - math.lgamma(shape)
        out[i] = total
