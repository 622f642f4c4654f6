"""The CP form: every axis of the data has a factor of its own, and one summed index is all that joins them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from countveil.models.factor_exposure import to_letters

if TYPE_CHECKING:
    from countveil.models.factor_model import FactorModel


def is_cp(model: FactorModel) -> bool:
    """Whether the model has this form."""
    return model._spec.per_axis is not None


def axis_factors(model: FactorModel, state: Any) -> list[np.ndarray]:
    """The factors in the order of the axes, each (axis, component)."""
    spec = model._spec
    assert spec.per_axis is not None
    held = dict(zip(spec.factors, state, strict=True))
    return [
        to_letters(held[name], spec.term(name), axis + spec.latent)
        for axis, name in zip(spec.output, spec.per_axis, strict=True)
    ]


def tokens_of_factors(model: FactorModel, of_axes: list[np.ndarray]) -> list[np.ndarray]:
    """The tokens of ``axis_factors``, in the order and the shapes of the factors themselves."""
    spec = model._spec
    assert spec.per_axis is not None
    found = {
        name: to_letters(array, axis + spec.latent, spec.term(name))
        for axis, name, array in zip(spec.output, spec.per_axis, of_axes, strict=True)
    }
    return [found[name] for name in spec.factors]
