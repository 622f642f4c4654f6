"""Doubles in JSON without losing a bit: readable where there are few, packed where there are many."""

from __future__ import annotations

import base64
import math
import zlib
from typing import Any

import numpy as np

# Beyond this nobody reads them, and one double per cell takes its room.
READABLE = 100_000


def encode_floats(values: np.ndarray) -> dict[str, Any]:
    """Shape and values: a list of hexadecimal floats, or little-endian doubles through zlib and base64."""
    shape = list(values.shape)
    if values.size <= READABLE:
        return {"shape": shape, "hex": [value.hex() for value in values.ravel().tolist()]}
    packed = zlib.compress(values.astype("<f8").tobytes(), level=6)
    return {"shape": shape, "zlib": base64.b64encode(packed).decode("ascii")}


def decode_floats(given: Any) -> np.ndarray:
    """What ``encode_floats`` encoded; ValueError if it did not."""
    shape = given["shape"]
    if not isinstance(shape, list) or not all(type(n) is int and n > 0 for n in shape):
        raise ValueError("expected a shape of positive whole numbers")
    size = math.prod(shape)
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
