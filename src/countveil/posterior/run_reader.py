"""Runs from disk, checked."""

from __future__ import annotations

import json
import os
from collections import namedtuple
from pathlib import Path
from typing import Any

import xarray as xr

from countveil.posterior.checksum import checksum
from countveil.posterior.posterior import Posterior
from countveil.posterior.posterior_file_error import PosteriorFileError
from countveil.posterior.release_group import unpack_release
from countveil.posterior.shared_posterior import SharedPosterior
from countveil.posterior.shared_reader import reopened, stored_labels
from countveil.posterior.stored_models import state_type_of, stored_model
from countveil.posterior.tree import FORMAT, VERSION


def load_posterior(
    path: str | os.PathLike[str], model: Any = None, *, state_type: Any = None
) -> Posterior | SharedPosterior:
    """A run that ``Posterior.save`` wrote; a ``SharedPosterior`` if it is one of several views.

    The run of a model of your own needs that ``model`` again, wherever rates are asked for. Its states come as
    a named tuple with the same fields, or as your ``state_type`` if that has methods of its own.

    >>> import countveil as cv, tempfile
    >>> posterior = cv.fit(cv.TopicModel(2), [[3, 0], [1, 4]], sweeps=20, seed=1, progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     posterior.save(f"{folder}/run.zarr")
    ...     cv.load_posterior(f"{folder}/run.zarr")
    Posterior(TopicModel(n_topics=2, shape=0.1, rate=1.0), 2 x 2, 2 chains x 2 draws)
    """
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(
            f"path: expected the folder of a run, got {str(folder)!r}, which does not exist"
        )
    if not (folder / "zarr.json").is_file():
        raise PosteriorFileError(f"path: expected the folder of a run, got {str(folder)!r}, which is none")
    try:
        tree = _load_tree(folder)
        releases = {
            group: unpack_release(tree[group].to_dataset())
            for group in _release_groups(tree)
            if group in tree.children
        }
        tree = _as_fitted(tree)
        attributes = {
            name: json.loads(tree.attrs[name])
            for name in ("settings", "model", "axes", "dims", "shape", "labelled", "fields")
        }
        stored = stored_model(attributes["model"])
        labels = stored_labels(tree, attributes["dims"], attributes["labelled"])
    except (PosteriorFileError, MemoryError):
        raise
    except Exception as error:
        # Whatever zarr, xarray or json find wrong: the reader wants to hear that the run is damaged.
        kind = type(error).__name__
        raise PosteriorFileError(
            f"path: expected a whole run, got a damaged one in {str(folder)!r} ({kind})"
        ) from error
    if "views" in tree.attrs:
        return reopened(tree, model if stored is None else stored, releases)
    fields = attributes["fields"]
    if model is not None and stored is None:
        _check_model(model, attributes["model"]["name"], fields)
    if state_type is None:
        state_type = namedtuple("State", fields) if stored is None else state_type_of(stored)
    axes, shape = tuple(attributes["axes"]), tuple(attributes["shape"])
    seed = attributes["settings"]["seed"]
    return Posterior(
        tree,
        model if stored is None else stored,
        state_type,
        releases.get("release"),
        axes,
        shape,
        labels,
        seed,
    )


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


def _release_groups(tree: xr.DataTree) -> list[str]:
    """Where the file may hold releases: one, or one for every view."""
    return ["release", *(f"release_{view}" for view in json.loads(tree.attrs.get("views", "{}")))]


def _as_fitted(tree: xr.DataTree) -> xr.DataTree:
    """The tree as it was before it was saved: what only the file needs goes, and the order comes back."""
    order = {"posterior": json.loads(tree.attrs["fields"]), "sample_stats": json.loads(tree.attrs["scalars"])}
    groups, releases = {"/": tree.to_dataset().drop_attrs()}, _release_groups(tree)
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


def _check_model(model: Any, name: str, fields: list[str]) -> None:
    if set(getattr(model, "dims", ())) != set(fields):
        raise ValueError(
            f"model: expected the {name} of this run, whose state has {', '.join(fields)}, "
            f"got a {type(model).__name__}"
        )
