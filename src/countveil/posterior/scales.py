"""How much every place of an axis has: the scales that a prior with inferred means has found.

Only their proportions mean something: factors trade their scales. So every draw is divided by its geometric mean,
and a scale of 2 is twice that of a typical place. A place may have several: what an actor receives goes with its
activity and with what it receives relative to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from countveil.posterior.axes import free_names
from countveil.posterior.summary import interval_dataset, mean_and_interval

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior


def scales_of(posterior: Posterior, axis: Any, interval: float) -> xr.Dataset:
    """Mean and interval of the scales along one axis, given by its name or its place."""
    model, axes = posterior.model, posterior._axes
    if not hasattr(model, "_inferred"):
        raise TypeError(f"scales: expected the posterior of a factorization, got {type(model).__name__}")
    place = _place(axis, axes)
    draws = _draws(posterior, model._spec.output[place])
    if draws is None:
        raise ValueError(
            f"scales: expected an axis whose scales were inferred, got {axes[place]!r}; a model with a number for "
            "its rate has the same prior for every entry"
        )
    logs = np.log(draws)
    relative = np.exp(logs - logs.mean(axis=1, keepdims=True))
    name = free_names(axes, {"mean", "low", "high"})[place]
    coordinates = {name: posterior._axis_labels(place)}
    return interval_dataset((name,), mean_and_interval(relative, interval), coordinates, interval)


def _draws(posterior: Posterior, letter: str) -> np.ndarray | None:
    """(draws, places) scales along the axis of this letter; None if there are none."""
    fields, found = posterior.tree["posterior"], None
    spec = posterior.model._spec.by_axis
    for term, name in zip(spec.terms, spec.names, strict=True):
        inferred = posterior.model._inferred.get(name)
        if inferred is None or term[0] != letter:
            continue
        field = f"{name}_scale" if inferred.scales else name if term == letter else None
        if field is not None:
            each = fields[field].to_numpy().astype(np.float64)
            each = np.maximum(each.reshape(-1, each.shape[-1]), np.finfo(np.float32).tiny)
            found = each if found is None else found * each
    return found


def _place(axis: Any, axes: tuple[str, ...]) -> int:
    if isinstance(axis, str) and axis in axes:
        return axes.index(axis)
    if isinstance(axis, int) and not isinstance(axis, bool) and 0 <= axis < len(axes):
        return axis
    known = ", ".join(map(repr, axes))
    raise ValueError(f"axis: expected one of {known}, or a number below {len(axes)}, got {axis!r}")
