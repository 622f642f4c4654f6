"""Runs to disk: a Zarr folder in ArviZ's schema, with the release inside, that is complete or not there."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.file_atomic import replacing_folder
from countveil.posterior.checksum import checksum
from countveil.posterior.release_group import pack_release
from countveil.posterior.stoppable_store import StoppableStore

if TYPE_CHECKING:
    from countveil.posterior.posterior import Posterior

#: Draws smaller than this share a chunk: a file for each of ten thousand numbers would take minutes.
SMALLEST_CHUNK = 2**16

#: The bytes of a release are cut into chunks of this size.
LARGEST_CHUNK = 2**26


def save_posterior(posterior: Posterior, path: str | os.PathLike[str]) -> None:
    """Write a run with its release to ``path``."""
    releases = {} if posterior.release is None else {"release": posterior.release}
    save_tree(posterior.tree, releases, path)


def save_tree(
    tree: xr.DataTree, releases: Mapping[str, PrivateCounts | CombinedReleases], path: str | os.PathLike[str]
) -> None:
    """Write to a temporary folder beside ``path`` and rename it: the run is complete or not there.

    ``releases`` go into groups of their names.
    """
    target = Path(path)
    if target.exists():
        raise FileExistsError(f"path: expected a new folder, got {str(target)!r}, which exists")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path: expected a folder to write into, got {str(target.parent)!r}")
    try:
        tree = tree.copy()
        for group, release in releases.items():
            tree[group] = xr.DataTree(pack_release(release))
        tree.attrs = {**tree.attrs, "checksum": checksum(tree), "complete": 1}
        with replacing_folder(target) as folder:
            store = StoppableStore(folder)
            try:
                tree.to_zarr(store, mode="w", consolidated=False, encoding=_encoding(tree, releases))
            except BaseException:
                store.stop()
                raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"path: could not write {str(target)!r} ({reason})") from error


def _encoding(tree: xr.DataTree, releases: Iterable[str]) -> dict[str, Any]:
    """One chunk per draw; small draws share one."""
    chunks = {}
    for name, variable in tree["posterior"].data_vars.items():
        size = variable.dtype.itemsize * math.prod(variable.shape[2:])
        together = min(max(1, SMALLEST_CHUNK // max(size, 1)), variable.shape[1])
        chunks[name] = {"chunks": (1, together, *variable.shape[2:])}
    encoding = {"/posterior": chunks}
    for group in releases:
        files = tree[group].data_vars.items()
        encoding[f"/{group}"] = {name: {"chunks": (min(file.size, LARGEST_CHUNK),)} for name, file in files}
    return encoding
