"""Runs to disk: a Zarr folder in ArviZ's schema, with the release inside, that is complete or not there."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import xarray as xr
from zarr.storage import LocalStore

from countveil.counts import CombinedReleases, PrivateCounts
from countveil.counts.files.atomic import new_folder, private_file
from countveil.counts.files.names import path_below
from countveil.counts.places import local_path
from countveil.posterior.runs.checks.chunk import NotOpenedError
from countveil.posterior.runs.checks.folder import check_folder
from countveil.posterior.runs.packed_release import add_releases
from countveil.posterior.runs.schema import LARGEST_CHUNK, SMALLEST_CHUNK, checksum


def save_run(
    tree: xr.DataTree, releases: Mapping[str, PrivateCounts | CombinedReleases], path: str | os.PathLike[str]
) -> None:
    """Write to a hidden folder beside ``path`` and rename it: the run is complete or not there.

    ``releases`` go into groups of their names. What has the name already, or takes it meanwhile, is left alone.
    """
    target = local_path(path)
    if os.path.lexists(target):
        raise _taken(target)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path: expected a folder to write into, got {str(target.parent)!r}")
    try:
        tree = tree.copy()
        packed = add_releases(tree, releases)
        tree.attrs = {**tree.attrs, "checksum": checksum(tree), "complete": 1}
        with new_folder(target) as folder:
            write_tree(tree, folder, _encoding(tree, packed))
    except FileExistsError as error:
        raise _taken(target) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"path: could not write {str(target)!r} ({reason})") from error


def write_tree(tree: xr.DataTree, folder: Path, encoding: Mapping[str, Any], name: str = "path") -> None:
    """All of a tree, in files that only their owner can read; after a failure nothing more is written.

    What ``load_posterior`` would not open is refused here, before it has its name: before the first sweep of a
    fit with a store, and while the draws of others are still in memory.
    """
    store = StoppableStore(folder)
    try:
        tree.to_zarr(store, mode="w", consolidated=False, encoding=encoding)
    except BaseException:
        store.stop()
        raise
    try:
        check_folder(folder)
    except NotOpenedError as error:
        raise ValueError(
            f"{name}: expected a run that can be loaded again, it would have {error}: fewer or shorter labels help"
        ) from error


def _taken(target: Path) -> FileExistsError:
    return FileExistsError(f"path: expected a new folder, got {str(target)!r}, which exists")


def _encoding(tree: xr.DataTree, releases: Iterable[str]) -> dict[str, Any]:
    """One chunk per draw; small draws share one."""
    chunks = {}
    for name, variable in tree["posterior"].data_vars.items():
        size = variable.dtype.itemsize * math.prod(variable.shape[2:])
        together = min(max(1, SMALLEST_CHUNK // max(size, 1)), variable.shape[1])
        chunks[name] = {"chunks": (1, together, *variable.shape[2:])}
    encoding = {"/posterior": chunks}
    if "running" in tree.children:  # a chunk for each chain, as readers want them
        means = tree["running"].data_vars.items()
        encoding["/running"] = {name: {"chunks": (1, *(max(1, n) for n in v.shape[1:]))} for name, v in means}
    for group in releases:
        files = tree[group].data_vars.items()
        encoding[f"/{group}"] = {name: {"chunks": (min(file.size, LARGEST_CHUNK),)} for name, file in files}
    return encoding


class StoppableStore(LocalStore):
    """A Zarr folder that can be told to stop: writes one file after the other, none after a failure or ``stop()``.

    After one write has failed, or on Ctrl-C, zarr goes on with the others in the background: they would fill a
    folder that is just being removed.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._lock, self._stopped = threading.Lock(), False

    def stop(self) -> None:
        """Returns once nothing is being written any more; nothing will be."""
        with self._lock:
            self._stopped = True

    async def set(self, key: str, value: Any, **options: Any) -> None:
        """Write one file."""
        with self._lock:
            if self._stopped:
                raise OSError("stopped")
            try:
                self._write(path_below(self.root, key), value.to_bytes())
            except BaseException:
                self._stopped = True
                raise

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        """Write one file if there is none."""
        if not (self.root / key).exists():
            await self.set(key, value)

    def _write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # zarr writes metadata more than once
        with private_file(path) as file:
            file.write(content)
