"""The release inside a run: its files as they are, byte by byte, so that its own reader checks them again.

A large one that lies on disk is not copied: the run says where it is, and by the checksum of its header which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import xarray as xr

from countveil.counts import CombinedReleases, PrivateCounts, combine_releases
from countveil.counts.bounded.room import ReleaseFileError, Room
from countveil.counts.bounded.within import size_on_disk as file_size
from countveil.counts.cells.layout import same_arrays
from countveil.counts.files.atomic import private_file, scratch_folder
from countveil.counts.files.folder import files_of
from countveil.counts.files.names import path_below
from countveil.counts.files.release import read_release
from countveil.counts.files.rows import read_draft
from countveil.counts.places import check_address, names_bucket_alone, open_place, place_of, scheme_of
from countveil.counts.release_on_disk import ReleaseOnDisk

_NAME = "release.parquet"
#: Bytes of a release on disk beyond which a run refers to it.
LARGEST_PACKED = 2**26
_BLOCK = 2**22
#: Bytes that a missing cell takes where other cells are missing in another release, as both are compared; and, so
#: that it does not take hours, for each release to compare with.
_COMPARED, _EACH = 56, 16
#: Combined releases lie side by side.
_NAMES = "release{:03}.parquet"


def pack_release(release: PrivateCounts | CombinedReleases) -> xr.Dataset:
    """A release is one file, or a folder of files where it has many labels: one array of bytes for each."""
    with scratch_folder() as folder:
        if isinstance(release, ReleaseOnDisk):
            _copy_files(release, folder / _NAME)
        elif isinstance(release, CombinedReleases):
            for i, one in enumerate(release.releases):
                one.save(folder / _NAMES.format(i))
        else:
            release.save(folder / _NAME)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        arrays = {
            f"file{i}": ((f"byte{i}",), np.frombuffer(path.read_bytes(), dtype=np.uint8))
            for i, path in enumerate(files)
        }
        names = [path.relative_to(folder).as_posix() for path in files]
    return xr.Dataset(arrays, attrs={"files": json.dumps(names)})


def add_releases(tree: xr.DataTree, releases: Mapping[str, PrivateCounts | CombinedReleases]) -> list[str]:
    """Put releases into the tree of a run, by the names of their groups: which of them are in it.

    Of large ones that lie on disk its attribute ``elsewhere`` says where and which they are.
    """
    elsewhere = {
        group: {"path": one.path, "sha256": one.sha256}
        for group, one in releases.items()
        if isinstance(one, ReleaseOnDisk) and one.n_bytes > LARGEST_PACKED
    }
    if elsewhere:
        tree.attrs["elsewhere"] = json.dumps(elsewhere)
    packed = [group for group in releases if group not in elsewhere]
    for group in packed:
        tree[group] = xr.DataTree(pack_release(releases[group]))
    return packed


def release_at(place: Mapping[str, Any], run: Path, given: Any = None, scratch: Any = None) -> ReleaseOnDisk:
    """The release that a run refers to: where it was, beside the run, or where it is said to be now."""
    path, sha256 = place["path"], place["sha256"]
    if not isinstance(path, str) or not isinstance(sha256, str):
        raise TypeError("a path and a checksum")
    if given is None:
        # A share of another machine, by any of the slashes that Windows takes.
        away = path.startswith(("\\\\", "//")) or PureWindowsPath(path).drive.startswith("\\\\")
        if scheme_of(path) is not None:
            check_address(path)
            away = not names_bucket_alone(path)
        if away:  # to look there is to tell another machine who we are
            raise ValueError(
                f"data: expected the release of this run, which lies on another machine ({path!r}): give "
                "its address again, if you trust it"
            )
    there = place_of(path if given is None else given)
    tried = [there, run.parent / there.name] if given is None else [there]
    for one in tried:
        if one.exists():
            return ReleaseOnDisk(one, sha256, scratch)
    raise FileNotFoundError(f"data: expected the release of this run at {str(tried[0])!r}, got nothing there")


def _copy_files(release: ReleaseOnDisk, target: Path) -> None:
    """The files that its reader reads, as they are: nobody need unpack them.

    Nothing else: what a stranger has put beside them, links to the user's own files say, is no part of a release.
    """
    source, left = place_of(release.path), LARGEST_PACKED
    for name, one in files_of(source) if source.is_dir() else [("", source)]:
        copy = path_below(target, name) if name else target
        copy.parent.mkdir(parents=True, exist_ok=True)
        with open_place(one) as file, private_file(copy) as written:
            while block := file.read(min(_BLOCK, left + 1)):
                left -= len(block)
                if left < 0:  # it has grown meanwhile, or has holes
                    raise ReleaseFileError(f"{source}: expected at most {LARGEST_PACKED:,} bytes, got more")
                written.write(block)
    read_draft(target, release.sha256)  # not another that has taken its name


def unpack_release(packed: xr.Dataset, room: Room) -> PrivateCounts | CombinedReleases:
    """The release again, within the ``room`` that all releases of its run may take."""
    with scratch_folder() as folder:
        for i, name in enumerate(json.loads(packed.attrs["files"])):
            path = path_below(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with private_file(path) as file:
                file.write(packed[f"file{i}"].to_numpy().tobytes())
        if (folder / _NAME).exists():
            return _loaded(folder / _NAME, room)
        releases = [_loaded(path, room) for path in sorted(folder.iterdir())]
    if any(not same_arrays(one.missing, releases[0].missing) for one in releases):
        room.take(sum(one.n_missing for one in releases), _COMPARED + _EACH * len(releases), "missing cells")
    return combine_releases(*releases)


def _loaded(path: Path, room: Room) -> PrivateCounts:
    return PrivateCounts._from_contents(read_release(path, room))


def size_on_disk(folder: Path) -> int:
    """Of all files in a folder."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # it grows, and what is not yet complete has other names
            total += file_size(path)
    return total
