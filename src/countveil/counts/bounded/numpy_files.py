"""NumPy's files: what their headers declare is compared with what is there, before any memory is asked for."""

from __future__ import annotations

import math
import zipfile
from typing import IO

import numpy as np

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def check_array(file: IO[bytes], n_bytes: int) -> None:
    """Refuse an array of Python objects, which would be pickles, and one larger than its ``n_bytes``.

    >>> import io
    >>> np.save(saved := io.BytesIO(), np.zeros(1000))
    >>> check_array(io.BytesIO(saved.getvalue()), 8128)
    >>> check_array(io.BytesIO(saved.getvalue()[:200]), 200)
    Traceback (most recent call last):
    ...
    ValueError: an array that is not there
    """
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError("an array of another version")
    shape, _, dtype = _HEADERS[version](file)
    # An empty array may have an axis of any length, and a type of no size any number of items.
    if dtype.hasobject or max(1, dtype.itemsize) * math.prod(max(1, n) for n in shape) > max(1, n_bytes):
        raise ValueError("an array that is not there")


def check_archive(archive: zipfile.ZipFile, most: int) -> None:
    """Refuse a .npz whose arrays unpack to more than ``most`` bytes together, or than they say."""
    members = archive.infolist()
    if len(set(archive.namelist())) < len(members):
        raise ValueError("arrays that share their bytes")
    if sum(member.file_size for member in members) > most:
        raise ValueError("arrays that swell")
    for member in members:
        with archive.open(member) as file:
            check_array(file, member.file_size)
