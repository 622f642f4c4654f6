"""What a release file says about itself: JSON in the Parquet metadata, checked entry by entry when read.

Numbers that must survive exactly are text: epsilon as a rational, rho as hexadecimal floats. ``cells_sha256``
covers the listed cells and ``sha256`` the rest of the header, so that a flipped bit anywhere is noticed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from typing import Any, NamedTuple

import numpy as np

from countveil.counts.bounded.room import NUMBER, ROW, ReleaseFileError, Room
from countveil.counts.cells.layout import Contents, n_plain_rows, without_cells
from countveil.counts.files.pieces import Piece, read_pieces
from countveil.counts.guarantees import distinct, for_rows
from countveil.counts.inputs.labels import read_labels
from countveil.counts.noise_parameter import read_rho
from countveil.counts.record import read_record
from countveil.privacy import Guarantee

KEY = b"countveil"
FORMAT = "countveil release"
VERSION = 3
# Releases without plain rows, or without records, are written so that older readers read them.
WITHOUT_PLAIN_ROWS, WITHOUT_RECORDS = 1, 2
# What a cell that is not listed means. A mostly missing array rather lists its zeros.
NOT_POSITIVE, MISSING = "observed, not positive", "missing"
# Parquet readers refuse metadata beyond 100 MB.
LARGEST_HEADER = 64_000_000
MOST_ROWS = 1 << 27

# Doubles lose no bit in JSON. Beyond this many nobody reads them, and one double per cell takes its room.
READABLE_FLOATS = 100_000


class Header(NamedTuple):
    """What the header says beyond the contents."""

    cells_sha256: str
    negative_kept: bool
    absent: str
    sha256: str  # of the header itself, which signs all else
    pieces: list[list[Piece]] | None  # of every file of cells; None in releases from before there were any


def describe_contents(
    contents: Contents, total: np.ndarray | None, cells_sha256: str, negative_kept: bool, absent: str
) -> dict[str, Any]:
    """All that is to be said about contents whose cells are listed elsewhere."""
    promise = contents.guarantee
    further: dict[str, Any] = {}
    if n_plain_rows(contents):
        # No guarantee holds for all rows, so the unit of those that have one stands by itself.
        units = [g.unit for g in contents.row_guarantees or () if g is not None]
        further = {"version": WITHOUT_RECORDS, "unit": units[0] if units else None}
    if contents.records:
        further |= {"version": VERSION, "records": [record.to_dict() for record in contents.records]}
    return {
        "format": FORMAT,
        "version": WITHOUT_PLAIN_ROWS,
        "absent": absent,
        "shape": list(contents.shape),
        "axes": list(contents.axes),
        "labels": [None if labels is None else labels.tolist() for labels in contents.labels],
        "rho": encode_floats(contents.rho),
        "guarantee": None
        if promise is None
        else {"epsilon": str(promise.epsilon), "precision": str(promise.precision), "unit": promise.unit},
        "row_guarantees": None if contents.row_guarantees is None else _by_row(contents.row_guarantees),
        "simulated": contents.simulated,
        "negative_kept": negative_kept,
        "nonpositive_total": None if total is None else encode_floats(total),
        "cells_sha256": cells_sha256,
        **further,
    }


def _by_row(guarantees: tuple[Guarantee | None, ...]) -> dict[str, Any]:
    """The distinct guarantees, and for every row its place among them; None for a plain row."""
    known = distinct(guarantees)
    places = {g: place for place, g in enumerate(dict.fromkeys(known))}
    of_row = {id(None): None, **{id(g): places[g] for g in known}}
    return {
        "epsilon": [str(g.epsilon) for g in places],
        "precision": [str(g.precision) for g in places],
        "rows": [of_row[id(g)] for g in guarantees],
    }


def sign_header(header: dict[str, Any]) -> bytes:
    """The header as text, with its own checksum."""
    unsigned = {name: value for name, value in header.items() if name != "sha256"}
    return _canonical({**unsigned, "sha256": hashlib.sha256(_canonical(unsigned)).hexdigest()})


def encode_header(header: dict[str, Any]) -> bytes:
    """The header for the metadata of a Parquet file."""
    encoded = sign_header(header)
    if len(encoded) > LARGEST_HEADER:
        raise ValueError(
            f"labels, alpha: expected at most {LARGEST_HEADER:,} bytes in a file, got {len(encoded):,}"
        )
    return encoded


def metadata_header(metadata: dict[bytes, bytes] | None) -> dict[str, Any]:
    """The header in the metadata of a Parquet file."""
    encoded = (metadata or {}).get(KEY)
    if encoded is None:
        raise ReleaseFileError("expected a countveil release, got some other Parquet file")
    return read_header(encoded)


def read_header(encoded: bytes) -> dict[str, Any]:
    """The header, if it is one of ours and whole; its entries are not yet checked."""
    header = json.loads(encoded)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ReleaseFileError(f"expected the format {FORMAT!r}, got another one")
    version = header.get("version")
    if type(version) is not int or not 1 <= version < 10**6:  # a stranger may write thousands of digits
        raise ReleaseFileError("expected a format version of at least 1, got something else")
    if version > VERSION:
        raise ReleaseFileError(
            f"expected format version {VERSION} or older, got {version}; a newer countveil can read it"
        )
    digest = header.pop("sha256", None)
    if digest != hashlib.sha256(_canonical(header)).hexdigest():
        raise ReleaseFileError("the header does not match its checksum")
    return {**header, "sha256": digest}


def without_names(header: dict[str, Any]) -> dict[str, Any]:
    """A header that says nothing of single rows but their noise: all that a fit needs."""
    nothing = [None] * len(header["labels"])
    return {**header, "labels": nothing, "row_guarantees": None, "guarantee": None, "unit": None}


def check_header(header: dict[str, Any], room: Room, n_files: int = 1) -> tuple[Header, Contents]:
    """The header, and contents that still lack their cells, which lie in so many files."""
    if header["absent"] not in (NOT_POSITIVE, MISSING):
        raise ReleaseFileError(f"expected absent cells to be {NOT_POSITIVE!r} or {MISSING!r}")
    shape = _shape(header["shape"], room)
    axes, labels = _labels(header["axes"], header["labels"], shape)
    rho = read_rho(None, decode_floats(header["rho"], room), None, shape)
    promise = _guarantee(header["guarantee"])
    by_rows = rho.ndim and rho.size == shape[0]
    plain = np.isinf(rho).reshape(-1) if by_rows else np.zeros(shape[0], dtype=bool)
    if plain.any() and header["version"] == WITHOUT_PLAIN_ROWS:
        raise ReleaseFileError(f"expected finite noise in format version {WITHOUT_PLAIN_ROWS}")
    unit = header["unit"] if promise is None and plain.any() else promise and promise.unit
    by_row = _row_guarantees(header["row_guarantees"], promise, unit, plain)
    _check_noise(rho, promise, by_row)
    simulated, negative_kept = header["simulated"], header["negative_kept"]
    if type(simulated) is not bool or type(negative_kept) is not bool:
        raise ReleaseFileError("expected simulated and negative_kept to be true or false")
    if simulated and (promise is not None or by_row is not None):
        raise ReleaseFileError("a simulated release cannot have a guarantee")
    total = _total(header["nonpositive_total"], len(np.unique(rho)), room)
    if plain.any() and total is not None and total[-1]:
        raise ReleaseFileError("expected counts of at least 0 in plain rows")
    if simulated and "records" in header:
        raise ReleaseFileError("a simulated release cannot have a record")
    if "records" in header and header["version"] <= WITHOUT_RECORDS:
        raise ReleaseFileError(f"expected no records in format version {WITHOUT_RECORDS}")
    records = tuple(read_record(one, len(shape)) for one in header.get("records", ()))
    if len({record.id for record in records}) < len(records):
        raise ReleaseFileError("expected releases of different ids, got one twice")
    draft = without_cells(shape, axes, labels, rho, promise, by_row)
    draft = draft._replace(
        simulated=simulated, nonpositive=draft.nonpositive._replace(total=total), records=records
    )
    pieces = (
        None if header.get("pieces") is None else read_pieces(header["pieces"], n_files, math.prod(shape))
    )
    return Header(header["cells_sha256"], negative_kept, header["absent"], header["sha256"], pieces), draft


def _shape(given: Any, room: Room) -> tuple[int, ...]:
    whole = (
        isinstance(given, list) and len(given) <= 32 and all(type(n) is int and 0 < n < 2**63 for n in given)
    )
    if not whole or not given or math.prod(given) >= 2**63:
        raise ReleaseFileError("expected a shape of positive whole numbers")
    if given[0] > MOST_ROWS:
        raise ReleaseFileError(f"expected at most {MOST_ROWS:,} rows")
    room.take(given[0], ROW, "rows")
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
    return read_labels(labels, shape, axes)


def _guarantee(given: Any) -> Guarantee | None:
    if given is None:
        return None
    return Guarantee(given["epsilon"], int(given["precision"]), unit=given["unit"])


def _row_guarantees(
    given: Any, promise: Guarantee | None, unit: Any, plain: np.ndarray
) -> tuple[Guarantee | None, ...] | None:
    """One for each row but the plain ones; with plain rows there is none for all rows."""
    if given is None:
        return None
    if (promise is None) != plain.any():
        raise ReleaseFileError("expected a guarantee beside those of the rows, or plain rows")
    pairs = zip(given["epsilon"], given["precision"], strict=True)
    known = [Guarantee(epsilon, int(precision), unit=unit) for epsilon, precision in pairs]
    rows = given["rows"]
    if not isinstance(rows, list) or len(rows) != len(plain):
        raise ReleaseFileError("expected one guarantee for each row")
    for row, is_plain in zip(rows, plain.tolist(), strict=True):
        if (row is None) != is_plain or not (is_plain or (type(row) is int and 0 <= row < len(known))):
            raise ReleaseFileError("expected one guarantee for each row")
    each = for_rows(tuple(None if row is None else known[row] for row in rows))
    if promise is not None and max(g.rate for g in distinct(each)) != promise.rate:
        raise ReleaseFileError("expected the guarantee to be the weakest of the rows")
    return each


def _check_noise(
    rho: np.ndarray, promise: Guarantee | None, each: tuple[Guarantee | None, ...] | None
) -> None:
    """Guarantees of rows may be stated in different numbers and have one noise: 1/5 and 2/10, 0.1 and "0.1"."""
    if promise is None and each is None:
        return
    if each is None:
        promised = np.asarray(promise.rho)  # type: ignore[union-attr]
    else:
        levels = {id(None): np.inf, **{id(g): g.rho for g in distinct(each)}}
        promised = np.array([levels[id(g)] for g in each])
    right_shape = rho.ndim == 0 or (each is not None and rho.size == len(each))
    if not right_shape or not np.allclose(promised, rho.ravel(), rtol=1e-12, atol=0):
        raise ReleaseFileError("the guarantee does not match the noise")


def _total(given: Any, n_levels: int, room: Room) -> np.ndarray | None:
    if given is None:
        return None
    total = decode_floats(given, room)
    whole = np.isfinite(total) & (total >= 0) & (total == np.trunc(total))
    if total.shape != (n_levels,) or not whole.all():
        raise ReleaseFileError("expected one whole sum of the cells x <= 0 for each alpha")
    return total


def _canonical(header: dict[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def encode_floats(values: np.ndarray) -> dict[str, Any]:
    """Shape and values: a list of hexadecimal floats, or little-endian doubles through zlib and base64."""
    shape = list(values.shape)
    if values.size <= READABLE_FLOATS:
        return {"shape": shape, "hex": [value.hex() for value in values.ravel().tolist()]}
    packed = zlib.compress(values.astype("<f8").tobytes(), level=6)
    return {"shape": shape, "zlib": base64.b64encode(packed).decode("ascii")}


def decode_floats(given: Any, room: Room) -> np.ndarray:
    """What ``encode_floats`` encoded; ValueError if it did not."""
    shape = given["shape"]
    if (
        not isinstance(shape, list)
        or len(shape) > 32
        or not all(type(n) is int and 0 < n < 2**63 for n in shape)
    ):
        raise ValueError("expected a shape of positive whole numbers")
    size = math.prod(shape)
    room.take(size, NUMBER, "numbers")
    if "hex" in given:
        values = np.array([float.fromhex(text) for text in given["hex"]], dtype=np.float64)
    else:
        values = np.frombuffer(_unpacked(given["zlib"], 8 * size), dtype="<f8").astype(np.float64)
    if values.size != size:
        raise ValueError(f"expected {size} numbers, got {values.size}")
    return values.reshape(shape)


def _unpacked(text: str, n_bytes: int) -> bytes:
    """Never more than ``n_bytes``, whatever the file says it unpacks to."""
    unpack = zlib.decompressobj()
    try:
        data = unpack.decompress(base64.b64decode(text, validate=True), n_bytes)
    except zlib.error as error:
        raise ValueError(f"packed numbers cannot be unpacked: {error}") from error
    if len(data) != n_bytes:
        raise ValueError(f"expected {n_bytes} bytes of numbers, got {len(data)}")
    return data
