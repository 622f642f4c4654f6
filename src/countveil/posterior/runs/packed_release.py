"""The release inside a run: its files as they are, byte by byte, so that its own reader checks them again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import xarray as xr

from countveil.counts import CombinedReleases, PrivateCounts, combine_releases
from countveil.counts.bounded.room import Room
from countveil.counts.bounded.within import size_on_disk as file_size
from countveil.counts.cells.layout import same_arrays
from countveil.counts.files.atomic import private_file, scratch_folder
from countveil.counts.files.names import path_below
from countveil.counts.files.release import read_release

_NAME = "release.parquet"
#: Bytes that a missing cell takes where other cells are missing in another release, as both are compared; and, so
#: that it does not take hours, for each release to compare with.
_COMPARED, _EACH = 56, 16
#: Combined releases lie side by side.
_NAMES = "release{:03}.parquet"


def pack_release(release: PrivateCounts | CombinedReleases) -> xr.Dataset:
    """A release is one file, or a folder of files where it has many labels: one array of bytes for each."""
    with scratch_folder() as folder:
        if isinstance(release, CombinedReleases):
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
    return sum(map(file_size, folder.rglob("*")))
