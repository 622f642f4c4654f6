"""A run against its model and its data, before anything is computed of it.

Answers are as large as a run says its axes are, and compiled code walks draws by the sizes that its model says: in
a stranger's run each may say something else. So the axes must be those of the release and of the draws, and draws
must have the sizes of its state. Where chains go on no draws are read, but room is made for a state: it must
be no larger than a run of that size explains.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.bounded.room import ROW, ReleaseFileError, Room
from countveil.counts.cells.layout import n_rows_and_width
from countveil.inference.memory_needed import numbers_of_factors, numbers_unfolded, products_of_a_rate
from countveil.models.einsum.model import EinsumModel
from countveil.models.shared_factors import SharedFactors
from countveil.posterior.align.invariants import component_dim, row_sum_name
from countveil.posterior.runs.running_group import RUNNING
from countveil.posterior.runs.schema import is_described

#: Products of one rate: so many, or a hundred times the numbers of the state, of which honest models take a few.
_PRODUCTS, _PRODUCTS_OF_A_NUMBER = 2**20, 100
#: Bytes that a number of the state takes at the peak, copies counted; and in each further chain.
_NUMBER, _OF_A_FURTHER_CHAIN = 24, 8


def model_of(stored: Any, given: Any, tree: xr.DataTree, attributes: Mapping[str, Any]) -> Any:
    """The model of a run: its own, or the one that is given where it holds none (None if none is), or an error."""
    model, fields = given if stored is None else stored, attributes["fields"]
    if "views" in tree.attrs:
        views = json.loads(tree.attrs["views"])
        if not isinstance(views, dict):
            raise ValueError("no views")
        if (
            not isinstance(model, SharedFactors)
            or list(model.views) != list(views)
            or list(model.state_type._fields) != fields
        ):
            raise ValueError(
                f"model: expected the SharedFactors of this run (views {', '.join(views)}; factors "
                f"{', '.join(fields)}), got {'none' if model is None else repr(model)}"
            )
    elif stored is None and given is not None:
        dims = set(getattr(given, "dims", ()))
        # Where not all draws were kept, sums of rows may stand for their factor.
        same = dims == set(fields) if keeps_all(attributes) else len(set(fields) - dims) <= 1
        if not same:
            raise ValueError(
                f"model: expected the {attributes['model']['name']} of this run, whose state has "
                f"{', '.join(fields)}, got a {type(given).__name__}"
            )
    if stored is None and given is not None and not is_described(given, attributes["model"]):
        raise ValueError(
            f"model: expected the {attributes['model']['name']} of this run, settings and arrays as they were, got "
            f"{given!r}"
        )
    return model


def keeps_all(attributes: Mapping[str, Any]) -> bool:
    """Whether all draws of all fields are in a run."""
    return attributes["settings"].get("keep", "all") == "all"


def check_read(
    tree: xr.DataTree,
    attributes: Mapping[str, Any],
    releases: Mapping[str, PrivateCounts | CombinedReleases],
    model: Any,
    n_bytes: int,
) -> None:
    """Refuse what was read of a run of so many bytes unless its axes, data and draws are of one problem."""
    if not keeps_all(attributes):
        _check_running(tree, attributes, model)
    views, draws = json.loads(tree.attrs.get("views", "{}")), tree["posterior"].to_dataset()
    # A table of scalars has a line for every combination of their axes, and summaries are of all that is there.
    scalars = json.loads(tree.attrs["scalars"])
    if any(scalar.dims != ("chain", "draw") for scalar in tree["sample_stats"].data_vars.values()):
        raise ValueError("monitored scalars of other axes")
    if not set(draws.data_vars) <= {*json.loads(tree.attrs["fields"]), *scalars}:
        raise ValueError("draws of other fields")
    # Draws meet draws, and numpy would make gigabytes of a few that stand on other axes than the rest.
    kept = {dim: tree["sample_stats"].sizes[dim] for dim in ("chain", "draw")}
    for name, field in draws.data_vars.items():
        if list(field.sizes.items())[: 2 + (name in scalars)] != list(kept.items()):
            raise ValueError("draws of other axes")
    # Each view is a posterior of its own, with axes and labels of its own.
    room = Room(n_bytes)
    for view, told in (views or {"": attributes}).items():
        if views:
            room.take(sum(told["shape"]), ROW, "labels")
        release = releases.get(f"release_{view}" if view else "release")
        _check_axes(told, draws, release, n_bytes)
        one = model.views[view] if views else model
        if isinstance(one, EinsumModel):
            _check_rate(one, told["shape"])
            room.take(numbers_unfolded(one, told["shape"]), 8, "numbers")
            _check_draws(tuple(told["shape"]), draws, one)
            if not views and not _fields_kept(one, attributes) <= set(draws.data_vars):
                raise ValueError("draws of other fields")


def check_state(
    models: Mapping[str, EinsumModel],
    shapes: Mapping[str, Sequence[int]],
    n_chains: int,
    n_bytes: int,
    of_cells: int,
) -> None:
    """Refuse models whose states alone would take far more than the run: room is made for them before any draw.

    ``of_cells`` is what chains hold for each cell of the run's own releases.
    """
    numbers = 0
    for view, model in models.items():
        spec = model._spec
        _check_rate(model, shapes[view])
        numbers += sum(numbers_of_factors(model, shapes[view]).values())
        # As matrices: rows and columns, each by all summed indices of the first term.
        if spec.first is not None:
            summed = math.prod(model._sizes[c] for c in spec.terms[spec.first] if c in model._sizes)
            numbers += summed * sum(n_rows_and_width(tuple(shapes[view])))
    try:
        room = Room(n_bytes)
        room.take(numbers, _NUMBER + _OF_A_FURTHER_CHAIN * (n_chains - 1), "numbers")
        room.take(of_cells, 1, "bytes")
    except ReleaseFileError:
        raise ValueError(
            f"path: expected a model that fits a run of {n_bytes:,} bytes, got one with {numbers:,} numbers in "
            f"each of {n_chains} chains, and {of_cells:,} bytes of cells"
        ) from None


def _check_rate(model: EinsumModel, shape: Sequence[int]) -> None:
    """Refuse a model of few numbers of which one rate would take hours: nothing can stop that."""
    numbers, products = sum(numbers_of_factors(model, shape).values()), products_of_a_rate(model)
    if products > max(_PRODUCTS, _PRODUCTS_OF_A_NUMBER * numbers):
        raise ValueError(
            f"path: expected a model whose rates take about as many products as it has numbers ({numbers:,}), got "
            f"one of {products:,} for each"
        )


def _sizes(model: EinsumModel, shape: Sequence[int]) -> dict[str, int]:
    """How long each index of the model is, by its letter."""
    return {**model._sizes, **dict(zip(model._spec.output, shape, strict=True))}


def _check_running(tree: xr.DataTree, attributes: Mapping[str, Any], model: Any) -> None:
    """A run that has not kept all draws has running means of its chains, over its axes and components."""
    group = tree[RUNNING].to_dataset()
    expected = dict(zip(attributes["dims"], attributes["shape"], strict=True))
    expected["chain"] = tree["sample_stats"].sizes["chain"]
    same = all(group.sizes.get(dim, length) == length for dim, length in expected.items())
    if not same or not {"n_draws", "root", "length"} <= set(group) or not (group["n_draws"] > 0).all():
        raise ValueError("other running means")
    # Means meet means by their places: of other lengths numpy would make gigabytes of a few.
    if isinstance(model, EinsumModel):
        of_axes, shape = model._spec.per_axis is not None, tuple(attributes["shape"])
        component = component_dim(model) if of_axes else "community"
        matched = sum(shape[1:]) if of_axes else shape[0]
        expected = {**_lengths(shape, model), **expected, "matched": matched}
        root, each = (component, "matched"), (component,)
        known: dict[str, tuple] = {"n_draws": (), "length": each, "root": root, "share": each}
        for name, one in group.data_vars.items():
            dims = known.get(str(name), group[str(name).removesuffix("_sd")].dims[1:])
            if one.dims != ("chain", *dims) or any(
                n != expected.get(str(dim)) for dim, n in one.sizes.items()
            ):
                raise ValueError("other running means")


def _check_axes(
    told: Mapping[str, Any],
    draws: xr.Dataset,
    release: PrivateCounts | CombinedReleases | None,
    n_bytes: int,
) -> None:
    """The axes are those of draws and release; one that neither has is no longer than the run explains."""
    axes, dims, shape, labelled = (told[name] for name in ("axes", "dims", "shape", "labelled"))
    right = all(isinstance(axis, str) for axis in axes) and all(type(n) is int and n > 0 for n in shape)
    right = right and len(axes) == len(labelled) == len(shape)
    right = right and all(draws.sizes.get(dim, n) == n for dim, n in zip(dims, shape, strict=True))
    if not right or not (release is None or list(release.shape) == shape):
        raise ValueError("other axes")
    if release is None:
        room = Room(n_bytes)
        for n in (n for dim, n in zip(dims, shape, strict=True) if dim not in draws.sizes):
            room.take(n, ROW, "rows")


def _fields_kept(model: EinsumModel, attributes: Mapping[str, Any]) -> set[str]:
    """The fields of a state whose draws a run must have, by what it was to keep."""
    dims, keep = model.dims, attributes["settings"].get("keep", "all")
    if keep == "all":
        return set(dims)
    if keep == "columns":
        return {name for name in dims if model.output_dims[0] not in dims[name]} | {row_sum_name(model)}
    return {name for name in dims if not dims[name]}


def _lengths(shape: tuple[int, ...], model: EinsumModel) -> dict[str, int]:
    """How long each dimension of a state is, by the model and the shape of its data."""
    dims, sizes = model.dims, _sizes(model, model.check_shape(shape))
    lengths = {dim: len(labels) for dim, labels in getattr(model, "coordinates", {}).items()}
    for name in model._spec.factors:
        lengths |= {dim: sizes[c] for dim, c in zip(dims[name], model._spec.term(name), strict=True)}
    return lengths


def _check_draws(shape: tuple[int, ...], draws: xr.Dataset, model: EinsumModel) -> None:
    """Every field that was kept has the sizes that the model and the shape of its data say."""
    dims, lengths = model.dims, _lengths(shape, model)
    if model._spec.per_axis is not None:
        dims = {**dims, row_sum_name(model): (component_dim(model),)}
    for name in dims.keys() & draws.data_vars.keys():
        if (
            draws[name].shape[2:] != tuple(lengths[dim] for dim in dims[name])
            or draws[name].dtype.kind != "f"
        ):
            raise ValueError("draws of another size, or kind")
