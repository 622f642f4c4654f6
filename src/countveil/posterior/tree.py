"""Draws as an xarray DataTree in ArviZ's schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import xarray as xr

from countveil import __version__
from countveil.inference.draws import Draws
from countveil.posterior.axis_names import free_names
from countveil.posterior.readable_labels import readable_labels
from countveil.posterior.stored_models import describe_ours

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
    """Groups ``posterior`` (the state's fields) and ``sample_stats`` (monitored scalars).

    The dimensions of a field that are axes of the data bear their names and labels.
    """
    kept = next(iter(draws.states.values())).shape[:2]
    sampling = {"chain": np.arange(kept[0]), "draw": np.arange(kept[1])}
    dims = {name: _dims_of(model, name, v.shape[2:], axes, shape) for name, v in draws.states.items()}
    other = {dim for each in dims.values() for dim in each if isinstance(dim, str)}
    names = free_names(axes, {"chain", "draw", *dims, *other})
    coordinates: dict[str, Any] = {
        **sampling,
        # Also of axes that no field has: the rows and columns of the data keep their labels in any case.
        **{
            name: texts
            for name, texts in zip(names, readable_labels(labels), strict=True)
            if texts is not None
        },
    }
    fields = {}
    for name, values in draws.states.items():
        named = tuple(dim if isinstance(dim, str) else names[dim] for dim in dims[name])
        fields[name] = (("chain", "draw", *named), values)
        for dim, length in zip(named, values.shape[2:], strict=True):
            coordinates.setdefault(dim, np.arange(length))
    scalars = {name: (("chain", "draw"), values) for name, values in draws.monitored.items()}
    settings = {**asdict(draws.settings), "seconds": draws.seconds, "interrupted": draws.interrupted}
    attributes = {
        "format": FORMAT,
        "version": VERSION,
        "settings": json.dumps(settings),
        "model": json.dumps(describe_model(model)),
        "axes": json.dumps(list(axes)),
        "dims": json.dumps(list(names)),
        "shape": json.dumps(list(shape)),
        "labelled": json.dumps([each is not None for each in labels]),
        "fields": json.dumps(list(fields)),
        "scalars": json.dumps(list(scalars)),
        "guarantee": guarantee or "",
    }
    made_by = {
        "inference_library": "countveil",
        "inference_library_version": __version__,
        "sampling_time": draws.seconds,
    }
    groups = {
        "/": xr.Dataset(attrs=attributes),
        "/posterior": xr.Dataset(fields, coords=coordinates, attrs=made_by),
        "/sample_stats": xr.Dataset(scalars, coords=sampling, attrs=made_by),
    }
    return xr.DataTree.from_dict(groups)


def describe_model(model: Any) -> dict[str, Any]:
    """Name and settings of a model: enough to build one of ours again, a note for a user's own."""
    ours = describe_ours(model)
    if ours is not None:
        return ours
    settings = {}
    if is_dataclass(model) and not isinstance(model, type):
        settings = {name: _plain(getattr(model, name)) for name in model.__dataclass_fields__}
    return {"name": type(model).__name__, "settings": {k: v for k, v in settings.items() if v is not None}}


def _plain(value: Any) -> bool | int | float | str | None:
    """What JSON can hold (numpy's numbers become Python's), None for anything else."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else None


def _dims_of(
    model: Any, field: str, lengths: tuple[int, ...], axes: tuple[str, ...], shape: tuple[int, ...]
) -> tuple[int | str, ...]:
    """For every dimension of a field the place of the axis it is, or a name of its own.

    The axes of a matrix are "row" and "column". A model that uses neither may call them by their own names.
    """
    dims: Mapping[str, tuple[str, ...]] = model.dims
    if field not in dims or len(dims[field]) != len(lengths):
        raise ValueError(
            f"model.dims: expected {len(lengths)} dimension names for {field!r}, got {dims.get(field)}"
        )
    known: tuple[str, ...] = getattr(model, "output_dims", axes)
    if (
        known is axes
        and len(axes) == 2
        and any(dim in ("row", "column") for each in dims.values() for dim in each)
    ):
        known = ("row", "column")
    found: list[int | str] = []
    for dim, length in zip(dims[field], lengths, strict=True):
        is_axis = dim in known and shape[known.index(dim)] == length
        found.append(known.index(dim) if is_axis else dim)
    return tuple(found)
