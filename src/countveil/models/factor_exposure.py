"""What a factor's entries meet: the sum over observed cells of the product of all other terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from countveil.models.contraction import contract
from countveil.models.exposure import Exposure, ordered_sum
from countveil.models.listed_exposure import ListedExposure
from countveil.models.spec import Spec

if TYPE_CHECKING:
    from countveil.models.factor_model import FactorModel


def exposure_at(
    model: FactorModel, state: Any, place: int, observed: Exposure | ListedExposure
) -> np.ndarray:
    """The sum over observed cells of the product of all other terms, for every entry at this term.

    An axis has length 1 where all its entries meet the same.
    """
    spec, arrays = model._spec, model._at_terms(state)
    term = spec.terms[place]
    others = [p for p in range(len(spec.terms)) if p != place]
    everything = isinstance(observed, Exposure) and len(observed.missing_columns) == 0
    if everything and spec.per_axis is not None:
        total = np.ones(())
        for p in others:
            total = total * ordered_sum(to_letters(arrays[p], spec.terms[p], _axis_first(spec, p)))
        return total.reshape([-1 if c in spec.latent else 1 for c in term])
    layout = model._layout(model._shape(state))
    if everything or spec.first is None:
        return contract([spec.terms[p] for p in others], [arrays[p] for p in others], term, layout.sizes)
    theta, phi = model.unfold(state)
    letters = spec.output[0] + layout.group
    if place == spec.first:
        of_rows = observed.of_rows(phi.T, len(theta))
        return to_letters(of_rows.reshape([layout.sizes[c] for c in letters]), letters, term)
    # What is observed of the first axis, column by column, takes the place of its factor.
    letters = layout.rest + layout.group
    seen = observed.of_columns(theta, layout.size(layout.rest))
    others.remove(spec.first)
    return contract(
        [letters, *(spec.terms[p] for p in others)],
        [seen.reshape([layout.sizes[c] for c in letters]), *(arrays[p] for p in others)],
        term,
        layout.sizes,
    )


def pair_weights(model: FactorModel, state: Any, name: str) -> np.ndarray:
    """w (t, c, d): the product of all other terms, for a factor at two terms with letters ic and jd."""
    spec, layout, arrays = model._spec, model._layout(model._shape(state)), model._at_terms(state)
    one, two = (spec.terms[p] for p in spec.places(name))
    others = [p for p in range(len(spec.terms)) if spec.names[p] != name]
    c, d = ("".join(x for x in term if x not in spec.output) for term in (one, two))
    t = "".join(x for x in spec.output if x not in one + two)
    fresh = "".join(x for x in d if x not in c)
    found = contract(
        [spec.terms[p] for p in others], [arrays[p] for p in others], t + c + fresh, layout.sizes
    )
    if fresh == d:
        return found.reshape(layout.size(t), layout.size(c), layout.size(d))
    # Shared letters: the terms meet only where these agree.
    units = [np.eye(layout.sizes[x]) for x in d if x in c]
    renamed = dict(zip((x for x in d if x in c), _fresh_letters(spec, len(units)), strict=True))
    turned = "".join(renamed.get(x, x) for x in d)
    spread = contract(
        [t + c + fresh, *(x + y for x, y in renamed.items())],
        [found, *units],
        t + c + turned,
        layout.sizes,
    )
    return spread.reshape(layout.size(t), layout.size(c), layout.size(d))


def to_letters(array: np.ndarray, letters: str, wanted: str) -> np.ndarray:
    """The same array with its axes in another order, in C order."""
    return np.ascontiguousarray(array.transpose([letters.index(c) for c in wanted]))


def _axis_first(spec: Spec, place: int) -> str:
    """The letters of a term of the CP form: its axis, then the summed index."""
    return "".join(sorted(spec.terms[place], key=spec.latent.__contains__))


def _fresh_letters(spec: Spec, n: int) -> list[str]:
    used = "".join(spec.terms) + spec.output
    return [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in used][:n]
