"""What a release file says about itself: JSON in the Parquet metadata, checked entry by entry when read.

Numbers that must survive exactly are text: epsilon as a rational, rho as hexadecimal floats. ``cells_sha256``
covers the listed cells and ``sha256`` the rest of the header, so that a flipped bit anywhere is noticed.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, NamedTuple

import numpy as np

from countveil.counts.contents import Cells, Contents, NonPositive, Places
from countveil.counts.file_numbers import decode_floats, encode_floats
from countveil.counts.labels import read_labels
from countveil.counts.noise_rate import noise_rate
from countveil.counts.release_file_error import ReleaseFileError
from countveil.privacy import Guarantee

KEY = b"countveil"
FORMAT = "countveil release"
VERSION = 1
# What a cell that is not listed means. A mostly missing array would rather list its zeros: a later version.
ABSENT = "observed, not positive"
# Parquet readers refuse metadata beyond 100 MB.
LARGEST_HEADER = 64_000_000


class Header(NamedTuple):
    """What the header says beyond the contents."""

    cells_sha256: str
    negative_kept: bool


def encode_header(contents: Contents) -> bytes:
    """The header of these contents."""
    promise = contents.guarantee
    total = contents.nonpositive.total
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "absent": ABSENT,
        "shape": list(contents.shape),
        "axes": list(contents.axes),
        "labels": [None if labels is None else labels.tolist() for labels in contents.labels],
        "rho": encode_floats(contents.rho),
        "guarantee": None
        if promise is None
        else {"epsilon": str(promise.epsilon), "precision": str(promise.precision), "unit": promise.unit},
        "simulated": contents.simulated,
        "negative_kept": contents.negative is not None,
        "nonpositive_total": None if total is None else encode_floats(total),
        "cells_sha256": cells_digest(contents.positive, contents.missing, contents.negative),
    }
    header["sha256"] = hashlib.sha256(_canonical(header)).hexdigest()
    encoded = _canonical(header)
    if len(encoded) > LARGEST_HEADER:
        raise ValueError(
            f"labels, alpha: expected at most {LARGEST_HEADER:,} bytes in a file, got {len(encoded):,}"
        )
    return encoded


def decode_header(metadata: dict[bytes, bytes] | None) -> tuple[Header, Contents]:
    """The header, and contents that still lack their cells."""
    encoded = (metadata or {}).get(KEY)
    if encoded is None:
        raise ReleaseFileError("expected a countveil release, got some other Parquet file")
    header = json.loads(encoded)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ReleaseFileError(f"expected the format {FORMAT!r}, got another one")
    version = header.get("version")
    if type(version) is not int or version < 1:
        raise ReleaseFileError("expected a format version of at least 1, got something else")
    if version > VERSION:
        raise ReleaseFileError(
            f"expected format version {VERSION} or older, got {version}; a newer countveil can read it"
        )
    digest = header.pop("sha256", None)
    if digest != hashlib.sha256(_canonical(header)).hexdigest():
        raise ReleaseFileError("the header does not match its checksum")
    return _checked(header)


def _checked(header: dict[str, Any]) -> tuple[Header, Contents]:
    if header["absent"] != ABSENT:
        raise ReleaseFileError(f"expected absent cells to be {ABSENT!r}, got {header['absent']!r}")
    shape = _shape(header["shape"])
    axes, labels = _labels(header["axes"], header["labels"], shape)
    rho = noise_rate(None, decode_floats(header["rho"]), None, shape)
    promise = _guarantee(header["guarantee"], rho)
    simulated, negative_kept = header["simulated"], header["negative_kept"]
    if type(simulated) is not bool or type(negative_kept) is not bool:
        raise ReleaseFileError("expected simulated and negative_kept to be true or false")
    if simulated and promise is not None:
        raise ReleaseFileError("a simulated release cannot have a guarantee")
    total = _total(header["nonpositive_total"], len(np.unique(rho)))
    nothing = np.zeros(0, np.int64)
    draft = Contents(
        shape,
        axes,
        labels,
        rho,
        Cells(nothing, nothing, nothing),
        None,
        NonPositive(nothing, nothing, total),
        None,
        promise,
        simulated,
    )
    return Header(header["cells_sha256"], negative_kept), draft


def _shape(given: Any) -> tuple[int, ...]:
    whole = isinstance(given, list) and all(type(n) is int and n > 0 for n in given)
    if not whole or not given or math.prod(given) >= 2**63:
        raise ReleaseFileError("expected a shape of positive whole numbers")
    return tuple(given)


def _labels(
    axes: Any, labels: Any, shape: tuple[int, ...]
) -> tuple[tuple[str, ...], tuple[np.ndarray | None, ...]]:
    if (
        not isinstance(axes, list)
        or not isinstance(labels, list)
        or not len(axes) == len(labels) == len(shape)
    ):
        raise ReleaseFileError(f"expected names and labels for {len(shape)} axes")
    for entry in labels:
        if entry is not None and not (isinstance(entry, list) and all(type(e) is str for e in entry)):
            raise ReleaseFileError("expected labels that are lists of text")
    return read_labels(dict(zip(axes, labels, strict=True)), shape)


def _guarantee(given: Any, rho: np.ndarray) -> Guarantee | None:
    if given is None:
        return None
    promise = Guarantee(given["epsilon"], int(given["precision"]), unit=given["unit"])
    if rho.ndim or not math.isclose(promise.rho, float(rho), rel_tol=1e-12):
        raise ReleaseFileError("the guarantee does not match the noise")
    return promise


def _total(given: Any, n_levels: int) -> np.ndarray | None:
    if given is None:
        return None
    total = decode_floats(given)
    whole = np.isfinite(total) & (total >= 0) & (total == np.trunc(total))
    if total.shape != (n_levels,) or not whole.all():
        raise ReleaseFileError("expected one whole sum of the cells x <= 0 for each alpha")
    return total


def cells_digest(positive: Cells, missing: Places | None, negative: Cells | None) -> str:
    """SHA-256 of the listed cells, whichever machine computes it."""
    digest = hashlib.sha256()
    for listed in (positive, missing, negative):
        digest.update(b"none" if listed is None else b"list")
        for array in listed or ():
            digest.update(f"{array.dtype.str[1:]} {array.size} ".encode())
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            digest.update(np.ascontiguousarray(little).view(np.uint8).data)
    return digest.hexdigest()


def _canonical(header: dict[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
