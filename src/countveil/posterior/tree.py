"""Draws as an xarray DataTree in ArviZ's schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
import xarray as xr

from countveil.inference.draws import Draws

FORMAT = "countveil-run"
VERSION = 1


def make_tree(
    draws: Draws,
    model: Any,
    axes: tuple[str, ...],
    shape: tuple[int, ...],
    labels: tuple[np.ndarray | None, ...],
    guarantee: str | None,
) -> xr.DataTree:
    """Groups ``posterior`` (the state's fields) and ``sample_stats`` (monitored scalars)."""
    kept = next(iter(draws.states.values())).shape[:2]
    sampling = {"chain": np.arange(kept[0]), "draw": np.arange(kept[1])}
    named = {"row": axes[0], "column": axes[1]} if len(axes) == 2 else {}
    fields, coordinates = {}, dict(sampling)
    for name, values in draws.states.items():
        dims = tuple(named.get(d, d) for d in _dims_of(model, name, values.ndim - 2))
        fields[name] = (("chain", "draw", *dims), values)
        for dim, length in zip(dims, values.shape[2:], strict=True):
            coordinates.setdefault(dim, axis_labels(dim, length, axes, shape, labels))
    settings = {**asdict(draws.settings), "seconds": draws.seconds, "interrupted": draws.interrupted}
    attributes = {
        "format": FORMAT,
        "version": VERSION,
        "inference_library": "countveil",
        "settings": json.dumps(settings),
        "model": json.dumps(describe_model(model)),
        "axes": json.dumps(list(axes)),
        "shape": json.dumps(list(shape)),
        "labelled": json.dumps([each is not None for each in labels]),
        "guarantee": guarantee or "",
    }
    scalars = {name: (("chain", "draw"), values) for name, values in draws.monitored.items()}
    groups = {
        "/": xr.Dataset(attrs=attributes),
        "/posterior": xr.Dataset(fields, coords=coordinates),
        "/sample_stats": xr.Dataset(scalars, coords=sampling),
    }
    return xr.DataTree.from_dict(groups)


def axis_labels(
    dim: str,
    length: int,
    axes: tuple[str, ...],
    shape: tuple[int, ...],
    labels: tuple[np.ndarray | None, ...],
) -> np.ndarray:
    """The labels of a dimension that is an axis of the data, else 0, 1, 2, ..."""
    if dim in axes:
        at = axes.index(dim)
        if shape[at] == length and labels[at] is not None:
            return labels[at]  # type: ignore[return-value]
    return np.arange(length)


def describe_model(model: Any) -> dict[str, Any]:
    """Name and settings of a model: enough to build one of ours again, a note for a user's own."""
    settings = asdict(model) if is_dataclass(model) and not isinstance(model, type) else {}
    known = {k: v for k, v in settings.items() if isinstance(v, (bool, int, float, str))}
    return {"name": type(model).__name__, "settings": known}


def _dims_of(model: Any, field: str, n_dims: int) -> tuple[str, ...]:
    dims: Mapping[str, tuple[str, ...]] = model.dims
    if field not in dims or len(dims[field]) != n_dims:
        raise ValueError(
            f"model.dims: expected {n_dims} dimension names for {field!r}, got {dims.get(field)}"
        )
    return tuple(dims[field])
