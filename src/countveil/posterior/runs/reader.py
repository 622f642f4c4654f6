"""Runs from disk, checked."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.posterior.runs.check_folder import NotOpenedError, check_folder
from countveil.posterior.runs.packed_release import unpack_release
from countveil.posterior.runs.schema import FORMAT, VERSION, checksum, release_groups, stored_model


class PosteriorFileError(ValueError):
    """A folder that is not a complete run of countveil, or of a version this one cannot read.

    >>> import countveil as cv, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cv.load_posterior(folder)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    PosteriorFileError: path: expected the folder of a run, got an empty folder, which is none
    """


class StoredRun(NamedTuple):
    """What a folder holds."""

    tree: xr.DataTree  # as it was before it was saved
    releases: Mapping[str, PrivateCounts | CombinedReleases]  # by their groups, see ``release_groups``
    model: Any  # None if it is a user's own
    labels: tuple[np.ndarray | None, ...]
    attributes: Mapping[str, Any]


def read_run(path: str | os.PathLike[str]) -> StoredRun:
    """A run that ``save_run`` wrote, whole and of a version that is known, or an error."""
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(
            f"path: expected the folder of a run, got {str(folder)!r}, which does not exist"
        )
    if not (folder / "zarr.json").is_file():
        raise PosteriorFileError(f"path: expected the folder of a run, got {str(folder)!r}, which is none")
    try:
        check_folder(folder)
        tree = _load_tree(folder)
        releases = {
            group: unpack_release(tree[group].to_dataset())
            for group in release_groups(tree)
            if group in tree.children
        }
        tree = _as_fitted(tree)
        attributes = {
            name: json.loads(tree.attrs[name])
            for name in ("settings", "model", "axes", "dims", "shape", "labelled", "fields")
        }
        model = stored_model(attributes["model"])
        labels = stored_labels(tree, attributes["dims"], attributes["labelled"])
    except (PosteriorFileError, MemoryError):
        raise
    except NotOpenedError as error:
        raise PosteriorFileError(
            f"path: expected a run of countveil, got {error} in {str(folder)!r}, which is not opened"
        ) from error
    except Exception as error:
        # Whatever zarr, xarray or json find wrong: the reader wants to hear that the run is damaged.
        kind = type(error).__name__
        raise PosteriorFileError(
            f"path: expected a whole run, got a damaged one in {str(folder)!r} ({kind})"
        ) from error
    return StoredRun(tree, releases, model, labels, attributes)


def stored_labels(tree: xr.DataTree, dims: list[str], labelled: list[bool]) -> tuple[np.ndarray | None, ...]:
    """The labels of every axis that had some."""
    found = tree["posterior"].coords
    return tuple(found[dim].to_numpy() if has else None for dim, has in zip(dims, labelled, strict=True))


def _load_tree(folder: Path) -> xr.DataTree:
    with xr.open_datatree(folder, engine="zarr", consolidated=False) as lazy:
        found = lazy.attrs
        if found.get("format") != FORMAT:
            raise PosteriorFileError(
                f"path: expected a run of countveil, got another Zarr folder in {str(folder)!r}"
            )
        if found["version"] > VERSION:
            raise PosteriorFileError(
                f"path: expected format version {VERSION} or older, got {found['version']}: update countveil"
            )
        if found.get("complete") != 1:
            raise PosteriorFileError(
                f"path: expected a complete run, got an unfinished one in {str(folder)!r}"
            )
        tree = lazy.load()
    if found["checksum"] != checksum(tree):
        raise PosteriorFileError(
            f"path: expected a whole run, got a damaged one in {str(folder)!r} (its checksum differs)"
        )
    return tree


def _as_fitted(tree: xr.DataTree) -> xr.DataTree:
    """The tree as it was before it was saved: what only the file needs goes, and the order comes back."""
    order = {"posterior": json.loads(tree.attrs["fields"]), "sample_stats": json.loads(tree.attrs["scalars"])}
    groups, releases = {"/": tree.to_dataset().drop_attrs()}, release_groups(tree)
    for node in tree.descendants:
        group = node.path.strip("/")
        if group not in releases:
            dataset = node.to_dataset(inherit=False).drop_encoding()
            if group in order:
                names = [*order[group], *(v for v in dataset.data_vars if v not in order[group])]
                dataset = xr.Dataset({v: dataset[v] for v in names}, dataset.coords, dataset.attrs)
            texts = {name: c for name, c in dataset.coords.items() if c.dtype.kind in "TU"}
            groups[group] = dataset.assign_coords(
                {name: (c.dims, c.to_numpy().astype(object)) for name, c in texts.items()}
            )
    loaded = xr.DataTree.from_dict(groups)
    loaded.attrs = {k: v for k, v in tree.attrs.items() if k not in ("checksum", "complete")}
    return loaded
