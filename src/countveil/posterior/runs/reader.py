"""Runs from disk, checked."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
import zarr

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.bounded.room import Room
from countveil.counts.files.names import is_plain_name, path_below
from countveil.counts.inputs.labels import check_lengths
from countveil.counts.places import local_path
from countveil.counts.release_on_disk import ReleaseOnDisk
from countveil.inference.settings import stored_settings
from countveil.posterior.diagnostics.select import selection_of
from countveil.posterior.runs.checkpoint import read_checkpoint
from countveil.posterior.runs.checks.chunk import NotOpenedError
from countveil.posterior.runs.checks.folder import MOST_NODES, check_folder
from countveil.posterior.runs.packed_release import release_at, size_on_disk, unpack_release
from countveil.posterior.runs.run_files import CHECKPOINT_GROUP, PLACE
from countveil.posterior.runs.running_group import RUNNING, running_of
from countveil.posterior.runs.schema import (
    FORMAT,
    OPENING,
    VERSION,
    checksum,
    present_name,
    release_groups,
    stored_model,
)


class PosteriorFileError(ValueError):
    """A folder that is not a whole run of countveil, or of a version this one cannot read.

    >>> import countveil as cv, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cv.load_posterior(folder)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    PosteriorFileError: path: expected the folder of a run, got an empty folder, which is none
    """


#: Letters of an error that say what was found.
_LONGEST_FOUND = 300
#: Attributes that say something of every axis.
_OF_AXES = ("axes", "dims", "shape", "labelled")
#: Attributes that a posterior does not have.
_LASTING = ("model", "axes", "dims", "shape", "views")  # attributes that no extension changes
_OF_THE_FILE = ("checksum", "complete", "coming", "draws", "chains", "problem", "elsewhere")


class StoredRun(NamedTuple):
    """What a folder holds."""

    tree: xr.DataTree  # as it was before it was saved
    releases: Mapping[str, PrivateCounts | CombinedReleases]  # by their groups, see ``release_groups``
    model: Any  # None if it is a user's own
    labels: tuple[np.ndarray | None, ...]
    attributes: Mapping[str, Any]
    #: Releases that it refers to, opened when somebody asks: a stranger may have written any path there.
    elsewhere: Mapping[str, Callable[[], ReleaseOnDisk]]


def read_run(path: str | os.PathLike[str]) -> StoredRun:
    """A run, whole and of a version that is known, or an error; of an unfinished one what is there.

    Whether it fits its model is for ``checks/problem.py`` to say, before anything is computed of it.
    """
    folder = checked_folder(path)
    try:
        tree = _load_tree(folder)
        groups = [group for group in release_groups(tree.attrs) if group in tree.children]
        room = Room(sum(size_on_disk(folder / group) for group in groups))
        releases = {group: unpack_release(tree[group].to_dataset(), room) for group in groups}
        problem, places = json.loads(tree.attrs.get("problem", "{}")), places_in(tree.attrs)
        tree = _as_fitted(tree)
        attributes = {
            name: json.loads(tree.attrs[name])
            for name in ("settings", "model", "axes", "dims", "shape", "labelled", "fields")
        } | {"problem": problem}
        model = stored_model(attributes["model"])
        selection_of(tree)  # that it can be read
        for coordinate in tree["posterior"].coords.values():
            _check_lengths_of(coordinate.to_numpy())
        labels = stored_labels(tree, attributes["dims"], attributes["labelled"])
    except (PosteriorFileError, MemoryError):
        raise
    except Exception as error:
        raise damaged(folder, error) from error
    elsewhere = {group: partial(release_at, place, folder) for group, place in places.items()}
    return StoredRun(tree, releases, model, labels, attributes, elsewhere)


def checked_folder(path: str | os.PathLike[str]) -> Path:
    """A folder that may be opened, or an error."""
    folder = local_path(path)
    if not folder.exists():
        raise FileNotFoundError(
            f"path: expected the folder of a run, got {str(folder)!r}, which does not exist"
        )
    if not (folder / "zarr.json").is_file():
        what = "a file, perhaps a release" if folder.is_file() else "none"
        raise PosteriorFileError(f"path: expected the folder of a run, got {str(folder)!r}, which is {what}")
    folder = folder.resolve()  # a link to it may be turned elsewhere before it is opened
    try:
        check_folder(folder)
    except NotOpenedError as error:
        found = str(error)
        if (
            len(found) > _LONGEST_FOUND
        ):  # a type, a codec, a number: a stranger may make them as long as he likes
            found = f"{found[: _LONGEST_FOUND // 2]} ... {found[-_LONGEST_FOUND // 2 :]}"
        raise PosteriorFileError(
            f"path: expected a run of countveil, got {found} in {str(folder)!r}, which is not opened"
        ) from error
    except Exception as error:
        raise damaged(folder, error) from error
    return folder


def damaged(folder: Path, error: Exception) -> PosteriorFileError:
    """Whatever zarr, xarray or json find wrong: the reader wants to hear that the run is damaged."""
    kind = type(error).__name__
    return PosteriorFileError(f"path: expected a whole run, got a damaged one in {str(folder)!r} ({kind})")


@contextmanager
def damage_is_told(folder: Path) -> Iterator[None]:
    """Errors of ours pass ("name: expected ..."), and the system's; any other is told as damage of the run."""
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, ValueError | TypeError) and ": expected " in str(error):
            raise
        raise damaged(folder, error) from error


def stored_labels(tree: xr.DataTree, dims: list[str], labelled: list[bool]) -> tuple[np.ndarray | None, ...]:
    """The labels of every axis that had some."""
    found = tree["posterior"].coords
    return tuple(found[dim].to_numpy() if has else None for dim, has in zip(dims, labelled, strict=True))


def labels_in(folder: Path, attributes: Mapping[str, Any]) -> dict[str, tuple[np.ndarray | None, ...]]:
    """The labels of a run that was looked through, by its views, and nothing else of it."""
    views = _views_in(attributes)
    known: dict[str, np.ndarray] = {}  # views may share an axis
    for one in views.values():
        for dim, has in zip(one["dims"], one["labelled"], strict=True):
            if has and dim not in known:
                known[dim] = _labels_along(folder, dim)
    return {
        view: tuple(
            known[dim] if has else None for dim, has in zip(one["dims"], one["labelled"], strict=True)
        )
        for view, one in views.items()
    }


def _views_in(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """The dimensions of every view, and which have labels; a run of one array has one view, without a name."""
    views = json.loads(attributes.get("views", "null"))
    if views is None:
        views = {"": {name: json.loads(attributes[name]) for name in ("dims", "labelled")}}
    return views


def _labels_along(folder: Path, dim: str) -> np.ndarray:
    array = zarr.open_array(path_below(folder / "posterior", dim), mode="r", zarr_format=3)
    if array.ndim != 1 or array.dtype.kind not in "OTU":
        raise damaged(folder, ValueError("labels that are no texts"))
    labels: Any = array[...]
    _check_lengths_of(labels)
    return labels.astype(object)


def _check_lengths_of(labels: np.ndarray) -> None:
    if labels.dtype.kind in "OTU":
        check_lengths(map(str, labels.ravel().tolist()), "path: expected a run whose labels are")


def read_releases(folder: Path, attributes: Mapping[str, Any]) -> dict[str, PrivateCounts | CombinedReleases]:
    """The releases of a run that was looked through, by their groups, and nothing else of it."""
    found = {}
    groups = [
        group for group in release_groups(attributes) if is_plain_name(group) and (folder / group).is_dir()
    ]
    room = Room(sum(size_on_disk(folder / group) for group in groups))
    for group in groups:
        try:
            packed = xr.open_dataset(folder, group=group, **OPENING)
            found[group] = unpack_release(packed.load(), room)
        except Exception as error:  # whatever zarr or the reader of releases find wrong
            raise PosteriorFileError(
                f"path: expected a whole run, got a damaged release in {str(folder)!r}"
            ) from error
    return found


def places_in(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Where the releases lie that a run refers to, by their groups (``packed_release.release_at``)."""
    found = json.loads(attributes.get("elsewhere", "{}"))
    return {group: found[group] for group in release_groups(attributes) if group in found}


def root_attributes(folder: Path) -> dict[str, Any]:
    """What a run of a known version says of itself, or an error."""
    try:
        found = json.loads((folder / "zarr.json").read_bytes()).get("attributes", {})
        is_ours, is_newer = found.get("format") == FORMAT, found.get("version", 0) > VERSION
    except (ValueError, TypeError, AttributeError) as error:
        raise damaged(folder, error) from error
    if not is_ours:
        raise PosteriorFileError(
            f"path: expected a run of countveil, got another Zarr folder in {str(folder)!r}"
        )
    if is_newer:
        raise PosteriorFileError(
            f"path: expected format version {VERSION} or older, got {found['version']}: update countveil"
        )
    if not _lists_are_plain(found):
        raise damaged(folder, ValueError("lists of other lengths, or with names that come again"))
    return found


def _lists_are_plain(attributes: Mapping[str, Any]) -> bool:
    """Whether what is looked through name by name has every name once, and no more of them than a run has arrays.

    What is no list, or is not there, shows by itself where it is asked for.
    """
    try:
        views = json.loads(attributes.get("views", "{}"))
        lists = [json.loads(attributes[name]) for name in ("fields", "scalars") if name in attributes]
        told = [{name: json.loads(attributes[name]) for name in _OF_AXES if name in attributes}]
        told += views.values() if isinstance(views, dict) else [{}]
        lists += [one["dims"] for one in told if "dims" in one]
        right = all(len({len(one[name]) for name in _OF_AXES if name in one}) < 2 for one in told)
        return (
            right
            and len(told) <= MOST_NODES
            and all(len(set(one)) == len(one) <= MOST_NODES for one in lists)
        )
    except (TypeError, ValueError):
        return False


def _load_tree(folder: Path) -> xr.DataTree:
    found = root_attributes(folder)
    if found.get("complete") != 1:
        return _load_unfinished(folder, found)
    with xr.open_datatree(folder, **OPENING) as lazy:
        tree = lazy.load()
    _check_checksum(folder, found, tree)
    return tree


def check_whole(folder: Path, found: Mapping[str, Any]) -> None:
    """That a complete run of these attributes has the checksum it says, without its draws in memory.

    Whoever makes another run of its files gives that a checksum of its own: damage would go into it unnoticed.
    """
    try:
        with xr.open_datatree(folder, **OPENING) as lazy:
            _check_checksum(folder, found, lazy)
    except (PosteriorFileError, MemoryError):
        raise
    except Exception as error:
        raise damaged(folder, error) from error


def _check_checksum(folder: Path, found: Mapping[str, Any], tree: xr.DataTree) -> None:
    if found["checksum"] != checksum(tree):
        raise PosteriorFileError(
            f"path: expected a whole run, got a damaged one in {str(folder)!r} (its checksum differs)"
        )


def read_running(folder: Path) -> xr.Dataset:
    """The running means at the last checkpoint of a run."""
    checkpoint = read_checkpoint(folder.joinpath(*PLACE))
    assert checkpoint is not None
    return running_of(checkpoint, folder)


def stored_scalar(folder: Path, name: str, n: int) -> np.ndarray:
    """What was monitored, (chain, draw), of the first n draws of a run."""
    found: Any = zarr.open_array(folder / "sample_stats" / name, mode="r", zarr_format=3)
    return np.asarray(found[:, :n])


def mark_of_run(folder: Path, n: int) -> bytes:
    """By which a run is known again that may have become longer since.

    What was monitored at its first n draws, its model, and all names: one seed makes the same draws of the same
    counts under any names.
    """
    attributes = root_attributes(folder)
    scalars = (
        first_values(folder / "sample_stats" / str(name), n) for name in json.loads(attributes["scalars"])
    )
    return _mark(attributes, scalars, partial(_labels_along, folder))


def mark_of_tree(tree: xr.DataTree) -> bytes:
    """The same of a run that was read."""
    found, names = tree["sample_stats"].data_vars, json.loads(tree.attrs["scalars"])
    labels = tree["posterior"].coords
    return _mark(tree.attrs, (found[name].to_numpy() for name in names), lambda dim: labels[dim].to_numpy())


def _mark(
    attributes: Mapping[Any, Any], scalars: Iterable[np.ndarray], labels: Callable[[str], np.ndarray]
) -> bytes:
    found = hashlib.sha256(json.dumps([attributes.get(name) for name in _LASTING]).encode())
    for values in scalars:
        found.update(repr(values.shape).encode() + values.tobytes())
    for dim in _labelled_dims(attributes):
        found.update(json.dumps([dim, list(map(str, labels(dim)))]).encode())
    return found.digest()


def _labelled_dims(attributes: Mapping[Any, Any]) -> list[str]:
    pairs = (zip(one["dims"], one["labelled"], strict=True) for one in _views_in(attributes).values())
    return sorted({dim for each in pairs for dim, has in each if has})


def _load_unfinished(folder: Path, found: dict[str, Any]) -> xr.DataTree:
    """The draws up to the last checkpoint of a run that grows, perhaps at this moment.

    Arrays may be further than others: they are read one by one, as far as the root says.
    """
    settings = stored_settings(json.loads(found["settings"]))
    n, kept = found.get("draws", 0), settings.kept
    checkpoint = None
    if settings.keep != "all":
        checkpoint = read_checkpoint(folder.joinpath(*PLACE))
        n = 0 if checkpoint is None else checkpoint.draws  # those that its running means have counted in
    if not isinstance(n, int) or not n > 0:
        raise PosteriorFileError(
            f"path: expected a run with draws, got an unfinished one in {str(folder)!r} that has none yet"
        )
    groups = {"/": xr.Dataset(attrs=found)}
    for name, group in zarr.open_group(folder, mode="r", zarr_format=3, use_consolidated=False).groups():
        if name != CHECKPOINT_GROUP:
            arrays = {str(key): first_draws(folder / name / key, array, n) for key, array in group.arrays()}
            coordinates = {key: one for key, one in arrays.items() if one.dims == (key,)}
            fields = {key: one for key, one in arrays.items() if key not in coordinates}
            groups[f"/{name}"] = xr.Dataset(fields, coordinates, dict(group.attrs))
    if checkpoint is not None:
        groups[f"/{RUNNING}"] = running_of(checkpoint, folder)
    tree = xr.DataTree.from_dict(groups)
    if root_attributes(folder).get("draws", 0) < n:
        raise PosteriorFileError(
            f"path: expected a run that grows, got one that was resumed just now in {str(folder)!r}: try again"
        )
    warnings.warn(
        f"unfinished: {str(folder)!r} has {n} of {kept} draws per chain so far; cv.resume goes on with it",
        stacklevel=5,
    )
    return tree


def first_values(place: Path, n: int) -> np.ndarray:
    """The first n draws of one array of a run, whatever others have."""
    try:
        return first_draws(place, zarr.open_array(place, mode="r", zarr_format=3), n).to_numpy()
    except Exception as error:
        raise damaged(place, error) from error


def first_draws(place: Path, array: zarr.Array[Any], n: int, complete: bool = False) -> xr.Variable:
    """An array of a run, of its draws the first n; a chunk that is lost is an error, not zeros.

    A complete run may lack chunks of zeros, and its checksum says whether others are lost.
    """
    dims: Any = array.metadata.dimension_names  # type: ignore[union-attr]
    wanted = [
        min(n, length) if dim == "draw" else length for dim, length in zip(dims, array.shape, strict=True)
    ]
    if "draw" in dims and not complete:
        if wanted[dims.index("draw")] < n:
            raise ValueError("fewer draws than the run says")
        for chunk in np.ndindex(
            *(-(-length // size) for length, size in zip(wanted, array.chunks, strict=True))
        ):
            if not place.joinpath("c", *map(str, chunk)).is_file():
                raise ValueError("a chunk is lost")
    attributes = {key: value for key, value in array.attrs.items() if key != "_FillValue"}
    return xr.Variable(dims, np.asarray(array[tuple(map(slice, wanted))]), attributes)


def _as_fitted(tree: xr.DataTree) -> xr.DataTree:
    """The tree as it was before it was saved: what only the file needs goes, and the order comes back."""
    order = {"posterior": json.loads(tree.attrs["fields"]), "sample_stats": json.loads(tree.attrs["scalars"])}
    groups, releases = {"/": tree.to_dataset().drop_attrs()}, release_groups(tree.attrs)
    for node in tree.descendants:
        group = node.path.strip("/")
        if group not in (*releases, CHECKPOINT_GROUP):
            dataset = node.to_dataset(inherit=False).drop_encoding()
            if group in order:
                names = [*order[group], *(v for v in dataset.data_vars if v not in order[group])]
                dataset = xr.Dataset({v: dataset[v] for v in names}, dataset.coords, dataset.attrs)
            if group == "sample_stats":
                dataset = dataset.rename({v: present_name(str(v)) for v in dataset.data_vars})
            texts = {name: c for name, c in dataset.coords.items() if c.dtype.kind in "TU"}
            groups[group] = dataset.assign_coords(
                {name: (c.dims, c.to_numpy().astype(object)) for name, c in texts.items()}
            )
    loaded = xr.DataTree.from_dict(groups)
    loaded.attrs = {k: v for k, v in tree.attrs.items() if k not in _OF_THE_FILE}
    loaded.attrs["scalars"] = json.dumps([present_name(name) for name in order["sample_stats"]])
    return loaded
