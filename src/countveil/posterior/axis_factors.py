"""The draws of a model that has one factor for every axis, and one index that joins them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from countveil.models.cp_form import is_cp
from countveil.models.factor_model import FactorModel


def has_axis_factors(model: Any) -> bool:
    """Whether it is a matrix factorization such as ``dk,kv->dv``, or the CP form of a tensor."""
    return isinstance(model, FactorModel) and is_cp(model)


def axis_draws(model: FactorModel, fields: Mapping[Any, Any]) -> list[np.ndarray]:
    """For every axis its factor as (draws of all chains, length of the axis, components)."""
    spec, found = model._spec, []
    assert spec.per_axis is not None
    for axis, name in zip(spec.output, spec.per_axis, strict=True):
        values = np.asarray(fields[name])
        values = values.reshape(-1, *values.shape[2:])
        found.append(values if spec.term(name)[0] == axis else np.swapaxes(values, 1, 2))
    return found


def fixed_places(model: FactorModel, n_draws: int) -> np.ndarray | None:
    """The order of components that a fixed factor tells apart: always the same; None if it is to be found."""
    spec = model._spec
    if not any(name in model._fixed for name in spec.per_axis or ()):
        return None
    return np.tile(np.arange(model._sizes[spec.latent]), (n_draws, 1))
