"""A checksum over a run: Zarr reads a lost or emptied chunk as zeros, and nobody would notice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import numpy as np
import xarray as xr

#: What we write. Groups and attributes that others add to a run are their own affair.
_GROUPS = ("posterior", "sample_stats", "release")
_ATTRIBUTES = (
    "format", "version", "settings", "model", "axes", "dims", "shape", "labelled", "fields", "scalars", "guarantee",
)  # fmt: skip


def checksum(tree: xr.DataTree) -> str:
    """SHA-256 of our attributes and of the arrays of our groups, by name."""
    # Only a run of several views has views, and a release for each: others keep the checksum they always had.
    attributes = [*_ATTRIBUTES, *(["views"] if "views" in tree.attrs else [])]
    digest = hashlib.sha256(json.dumps([tree.attrs.get(name) for name in attributes]).encode())
    of_views = [f"release_{view}" for view in json.loads(tree.attrs.get("views", "{}"))]
    for group in (*_GROUPS, *of_views):
        if group not in tree.children:
            continue
        for name, variable in sorted(
            tree[group].to_dataset().variables.items(), key=lambda item: str(item[0])
        ):
            digest.update(json.dumps([group, str(name), variable.dims, variable.shape]).encode())
            for part in _parts(variable.to_numpy()):
                digest.update(part)
    return digest.hexdigest()


def _parts(values: np.ndarray) -> Iterator[bytes]:
    """The array's bytes, draw by draw: the draws as a whole need not be copied."""
    if values.dtype.kind in "OTU":
        yield json.dumps([str(one) for one in values.reshape(-1)]).encode()
        return
    little = values.dtype.newbyteorder("<")
    yield little.str.encode()
    places = np.ndindex(*values.shape[:2]) if values.ndim > 2 else [()]
    for place in places:
        yield np.ascontiguousarray(values[place], dtype=little).tobytes()
