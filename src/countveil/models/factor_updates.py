"""All factors of one array or of several, drawn one after the other given their tokens.

A factor may stand in several arrays (views). Given the tokens of all of them, an entry that stands at one term of
each is Gamma(shape + its tokens in all views, rate + its exposure in all views), because the views are independent
given the factors. Where it stands at two terms of a view it is drawn row after row (``tied_factor``): the cells of
all such views are stacked, and its exposure in the others comes on top.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from countveil.kernels.gamma import SMALLEST
from countveil.models.factor_draws import draw_factor, draw_symmetric_factor, draw_tied_factor
from countveil.models.factor_exposure import exposure_at, pair_weights
from countveil.models.pair_cells import PairCells
from countveil.models.row_work import RowWork
from countveil.models.sweep_key import SweepKey

if TYPE_CHECKING:
    from countveil.models.factor_model import FactorModel, FactorSums

#: A model of one array, and what is known of its tokens.
View = tuple["FactorModel", "FactorSums"]


def draw_factors(
    views: Sequence[View],
    factors: tuple[str, ...],
    pairs: Mapping[str, PairCells],
    held: dict[str, np.ndarray],
    key: SweepKey,
    row_work: RowWork,
) -> None:
    """Every factor that is not fixed, drawn anew into ``held``; those of the first axes come first.

    ``pairs`` has the cells of every factor that stands at two terms, of all views together.
    """
    specs = [model._spec for model, _ in views]
    leading = [spec.names[spec.first] for spec in specs if spec.first is not None]
    for name in dict.fromkeys((*leading, *factors)):
        having = [view for view in views if name in view[0]._spec.factors]
        one = having[0][0]  # what is shared is alike in all of them
        if name in one._fixed:
            continue
        number, prior = factors.index(name), one._prior(name)
        tokens = _sum(_tokens_of(view, name) for view in having)
        exposures, weights = [], []
        for model, sums in having:
            state, places = state_of(model, held), model._spec.places(name)
            if len(places) == 2:
                weights.append(pair_weights(model, state, name))
            else:
                exposures.append(exposure_at(model, state, places[0], sums.exposure))
        further = _sum(exposures) if exposures else None
        if weights:
            term, output = one._spec.term(name), one._spec.output
            axis = next(place for place, letter in enumerate(term) if letter in output)
            stacked = np.concatenate(weights)
            held[name] = draw_tied_factor(
                key, number, prior, tokens, further, stacked, pairs[name], held[name], axis
            )
            continue
        assert further is not None  # it stands at one term of every view
        draw = draw_symmetric_factor if prior.symmetric else draw_factor
        held[name] = draw(key, number, prior, tokens, further, row_work)


def log_joint(views: Sequence[View], factors: tuple[str, ...], held: Mapping[str, np.ndarray]) -> float:
    """log p(tokens, factors) up to a constant of the tokens: a scalar to watch a chain by."""
    total = 0.0
    for name in factors:
        having = [view for view in views if name in view[0]._spec.factors]
        logs = np.log(np.maximum(held[name], SMALLEST))
        for view in having:
            total += float(np.sum(_tokens_of(view, name) * logs))
        model = having[0][0]
        if name not in model._fixed:
            prior = model._prior(name)
            density = (prior.shape - 1) * logs - prior.rate * held[name]
            total += float(np.sum(np.triu(density) if prior.symmetric else density))
    for model, sums in views:
        total -= model._observed_rate(state_of(model, held), sums.exposure)
    return total


def state_of(model: FactorModel, held: Mapping[str, np.ndarray]) -> Any:
    """The state of one view: its own factors among those held."""
    return model.state_type(*(held[name] for name in model._spec.factors))


def _tokens_of(view: View, name: str) -> np.ndarray:
    model, sums = view
    return sums.tokens[model._spec.factors.index(name)]


def _sum(arrays: Iterable[np.ndarray]) -> np.ndarray:
    first, *others = arrays
    return sum(others, first)
