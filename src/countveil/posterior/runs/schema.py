"""What stands in a run: draws as an xarray DataTree in ArviZ's schema, attributes that describe them, a checksum.

A model is stored as a name and settings, the arguments that make it again; it says itself which (``describe``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import xarray as xr

from countveil.inference.monitor import LOG_LIKELIHOOD
from countveil.inference.settings import described_settings
from countveil.inference.store import Draws, Running
from countveil.models import CommunityModel, Factorization, SharedFactors, TensorModel, TopicModel
from countveil.models.einsum.model import EinsumModel
from countveil.models.unknown_noise import UnknownNoise
from countveil.posterior.axes import free_names, readable_labels
from countveil.version import __version__

FORMAT = "countveil-run"
VERSION = 1
#: How xarray opens a run. It has no times, and to make times of a stranger's bytes takes tens of bytes for each.
OPENING: dict[str, Any] = {"engine": "zarr", "zarr_format": 3, "consolidated": False, "decode_times": False}

#: Draws smaller than this share a chunk: a file for each of ten thousand numbers would take minutes.
SMALLEST_CHUNK = 2**16

#: The bytes of a release are cut into chunks of this size.
LARGEST_CHUNK = 2**26

#: What we write. Groups and attributes that others add to a run are their own affair.
_GROUPS = ("posterior", "sample_stats", "running")
_ATTRIBUTES = (
    "format", "version", "settings", "model", "axes", "dims", "shape", "labelled", "fields", "scalars", "guarantee",
)  # fmt: skip

#: The checksum of draws reads so much of them together.
_BYTES_AT_ONCE = 2**21

#: What the monitored log-likelihood was called in older runs.
_OLD = "log_likelihood"

#: The names under which models are stored.
_MODELS = {
    f"countveil.{kind.__name__}": kind
    for kind in (TopicModel, CommunityModel, TensorModel, Factorization, SharedFactors)
}
#: Of settings whose defaults have changed: what a description without them means.
_FIRST_DEFAULTS = {f"countveil.{kind.__name__}": {"rate": 1.0} for kind in (TopicModel, CommunityModel)}


def make_tree(
    draws: Draws,
    model: Any,
    axes: tuple[str, ...],
    shape: tuple[int, ...],
    labels: tuple[np.ndarray | None, ...],
    guarantee: str | None,
) -> xr.DataTree:
    """Groups ``posterior`` (the state's fields) and ``sample_stats`` (monitored scalars).

    Where not all draws were kept, also ``running``: means and standard deviations of every chain.

    The dimensions of a field that are axes of the data bear their names and labels.
    """
    kept = next(iter(draws.monitored.values())).shape[:2]
    running = Running({}, {}) if draws.running is None else draws.running
    sampling = {"chain": np.arange(kept[0]), "draw": np.arange(kept[1])}
    dims = {
        name: running.dims.get(name) or _dims_of(model, name, v.shape[2:], axes, shape)
        for name, v in draws.states.items()
    }
    other = {dim for each in (*dims.values(), *running.dims.values()) for dim in each if isinstance(dim, str)}
    names = free_names(axes, {"chain", "draw", *dims, *running.dims, *other})
    coordinates: dict[str, Any] = {
        **sampling,
        # Also of axes that no field has: the rows and columns of the data keep their labels in any case.
        **{
            name: texts
            for name, texts in zip(names, readable_labels(labels), strict=True)
            if texts is not None
        },
    }
    own = getattr(model, "coordinates", {})
    fields, known = {}, dict(zip(own, readable_labels(tuple(own.values())), strict=True))
    for name, values in draws.states.items():
        named = _named(dims[name], names)
        fields[name] = (("chain", "draw", *named), values)
        for dim, length in zip(named, values.shape[2:], strict=True):
            coordinates.setdefault(dim, known.get(dim, np.arange(length)))
    scalars = {name: (("chain", "draw"), values) for name, values in draws.monitored.items()}
    attributes = {
        "format": FORMAT,
        "version": VERSION,
        "settings": described_settings(draws.settings, draws.seconds, draws.stopped),
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
    if draws.running is not None:
        means = {
            name: (("chain", *_named(running.dims[name], names)), a) for name, a in running.arrays.items()
        }
        groups["/running"] = xr.Dataset(means, {"chain": sampling["chain"]})
    return xr.DataTree.from_dict(groups)


def _named(dims: tuple[int | str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dim if isinstance(dim, str) else names[dim] for dim in dims)


def describe_model(model: Any) -> dict[str, Any]:
    """Name and settings of a model: enough to build one of ours again, a note for a user's own."""
    ours = describe_ours(model)
    if ours is not None:
        return ours
    settings = {}
    if is_dataclass(model) and not isinstance(model, type):
        settings = {name: _plain(getattr(model, name)) for name in model.__dataclass_fields__}
    return {"name": type(model).__name__, "settings": settings}


def is_described(model: Any, described: dict[str, Any]) -> bool:
    """Whether a model that a run does not hold is the one of its description, as far as that goes.

    Descriptions of earlier versions had no mappings and no arrays.
    """
    model = model.model if isinstance(model, UnknownNoise) else model
    now = json.loads(json.dumps(describe_model(model)))
    then = described["settings"]
    return now["name"] == described["name"] and {name: now["settings"].get(name) for name in then} == then


def describe_ours(model: Any) -> dict[str, Any] | None:
    """Name and settings of one of our models; None for any other, and for one that holds arrays.

    >>> describe_ours(TopicModel(2))
    {'name': 'countveil.TopicModel', 'settings': {'n_topics': 2, 'shape': 0.1, 'rate': None}}
    """
    name = f"countveil.{type(model).__name__}"
    settings = model.describe() if _MODELS.get(name) is type(model) else None
    if settings is None:
        return None
    ours = tuple(_MODELS.values())
    described = {key: describe_ours(one) if type(one) in ours else one for key, one in settings.items()}
    if any(described[key] is None for key, one in settings.items() if type(one) in ours):
        return None
    return {"name": name, "settings": described}


def stored_model(described: dict[str, Any]) -> Any:
    """The model again, or None if it is a user's own."""
    kind = _MODELS.get(described["name"])
    if kind is None:
        return None
    settings = _FIRST_DEFAULTS.get(described["name"], {}) | described["settings"]
    return kind(**{key: stored_model(one) if _is_model(one) else one for key, one in settings.items()})


def _is_model(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"name", "settings"}
        and isinstance(value["settings"], dict)
    )


def _plain(value: Any) -> Any:
    """What JSON can hold (numpy's numbers become Python's), of arrays their SHA-256, None for anything else."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, EinsumModel):
        return describe_model(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        text = f"{value.dtype.str} {value.shape} ".encode()
        return f"sha256 {hashlib.sha256(text + np.ascontiguousarray(value).tobytes()).hexdigest()}"
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


def present_name(scalar: str) -> str:
    """The name that a monitored scalar of a stored run has now; older runs hold ``log_likelihood``.

    >>> present_name("log_likelihood_words"), present_name("total_rate")
    ('sampled_log_likelihood_words', 'total_rate')
    """
    return LOG_LIKELIHOOD + scalar[len(_OLD) :] if scalar == _OLD or scalar.startswith(f"{_OLD}_") else scalar


def release_groups(attributes: Mapping[Any, Any]) -> list[str]:
    """Where a run of these attributes may hold releases: one, or one for every view."""
    return ["release", *(f"release_{view}" for view in json.loads(attributes.get("views", "{}")))]


def checksum(tree: xr.DataTree) -> str:
    """SHA-256 of our attributes and of the arrays of our groups, by name.

    Zarr reads a lost or emptied chunk as zeros, and nobody would notice.
    """
    # Only a run of several views has views, and a release for each; only one of selected chains says which: others
    # keep the checksum they always had.
    attributes = [*_ATTRIBUTES, *(name for name in ("views", "selected") if name in tree.attrs)]
    digest = hashlib.sha256(json.dumps([tree.attrs.get(name) for name in attributes]).encode())
    for group in (*_GROUPS, *release_groups(tree.attrs)):
        if group not in tree.children:
            continue
        for name, variable in sorted(
            tree[group].to_dataset().variables.items(), key=lambda item: str(item[0])
        ):
            digest.update(json.dumps([group, str(name), variable.dims, variable.shape]).encode())
            for part in _parts(variable):
                digest.update(part)
    return digest.hexdigest()


def _parts(variable: xr.Variable) -> Iterator[bytes | memoryview]:
    """The array's bytes, some draws at a time: of a run on disk no more need be in memory."""
    if variable.dtype.kind in "OTU":
        yield json.dumps([str(one) for one in variable.to_numpy().reshape(-1)]).encode()
        return
    little = variable.dtype.newbyteorder("<")
    yield little.str.encode()
    if variable.size == 0:
        return  # an axis may be long beside an empty one
    if variable.ndim <= 2:
        yield np.ascontiguousarray(variable.to_numpy(), dtype=little).data
        return
    size = variable.nbytes // (variable.shape[0] * variable.shape[1])  # of a draw
    # By whole chunks: one that is cut would be decoded anew for each of its parts.
    chunk: tuple[int, ...] = variable.encoding.get("chunks") or ()
    draws, rows = (chunk[1], chunk[2]) if len(chunk) == variable.ndim else (1, 1)
    draws *= max(1, _BYTES_AT_ONCE // (draws * size))
    rows *= max(1, variable.shape[2] * _BYTES_AT_ONCE // (rows * size))  # of a large draw
    for chain in range(variable.shape[0]):
        for start in range(0, variable.shape[1], draws):
            some = variable[chain, start : start + draws]
            for row in range(0, some.shape[1], rows if draws == 1 else some.shape[1]):
                part = some if draws > 1 else some[:, row : row + rows]
                yield np.ascontiguousarray(part.to_numpy(), dtype=little).data
