"""The release inside a run: its files as they are, byte by byte, so that its own reader checks them again."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path, PurePosixPath

import numpy as np
import xarray as xr

from countveil.counts import CombinedReleases, PrivateCounts, combine_releases, load_release

_NAME = "release.parquet"
#: Combined releases lie side by side.
_NAMES = "release{:03}.parquet"


def pack_release(release: PrivateCounts | CombinedReleases) -> xr.Dataset:
    """A release is one file, or a folder of files where it has many labels: one array of bytes for each."""
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(release, CombinedReleases):
            for i, one in enumerate(release.releases):
                one.save(Path(folder) / _NAMES.format(i))
        else:
            release.save(Path(folder) / _NAME)
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        arrays = {
            f"file{i}": ((f"byte{i}",), np.frombuffer(path.read_bytes(), dtype=np.uint8))
            for i, path in enumerate(files)
        }
        names = [path.relative_to(folder).as_posix() for path in files]
    return xr.Dataset(arrays, attrs={"files": json.dumps(names)})


def unpack_release(packed: xr.Dataset) -> PrivateCounts | CombinedReleases:
    """The release again."""
    with tempfile.TemporaryDirectory() as folder:
        for i, name in enumerate(json.loads(packed.attrs["files"])):
            # A name from a file must not lead out of the folder.
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise ValueError("files: expected names below the release, got another")
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(packed[f"file{i}"].to_numpy().tobytes())
        if (Path(folder) / _NAME).exists():
            return load_release(Path(folder) / _NAME)
        return combine_releases(*(load_release(path) for path in sorted(Path(folder).iterdir())))
