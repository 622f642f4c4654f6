"""A run's folder, looked through before anything in it is opened: it may come from a stranger.

Zarr reads what a folder's metadata ask for. Format 2 can ask for filters that execute code, any format for arrays
of any size out of a few bytes. So only what ``save_run`` and xarray write is let through: format 3, groups and
arrays, plain numbers and texts, the codecs ``bytes``, ``vlen-utf8`` and ``zstd``, no links, and nothing that would
take far more memory than the folder takes room. Every zstd chunk says its size in its first bytes.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

#: Of a folder of n bytes this much may be declared: what compresses better is no run.
_LEAST_ROOM, _EXPANSION = 2**24, 1000
#: Metadata of one node; and chunks that may be absent, which stand for zeros.
_LARGEST_METADATA, _MOST_ABSENT = 2**26, 1000
_SIZES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float16": 2, "float32": 4, "float64": 8, "string": 16,
}  # fmt: skip
_FORMAT_2 = (".zarray", ".zgroup", ".zattrs", ".zmetadata")
_ZSTD = b"\x28\xb5\x2f\xfd"


class NotOpenedError(ValueError):
    """Something that a run of ours does not have."""


def check_folder(folder: Path) -> None:
    """Nothing if all of it may be opened; else an error that names what may not."""
    total, nodes = 0, []
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place) / name
            if path.is_symlink():
                raise NotOpenedError(f"a link, {_within(path, folder)}")
            if name in _FORMAT_2:
                raise NotOpenedError(f"Zarr format 2, {_within(path, folder)}")
        for name in files:
            path = Path(place) / name
            if not path.is_file():
                raise NotOpenedError(f"no plain file, {_within(path, folder)}")
            total += path.stat().st_size
            if name == "zarr.json":
                nodes.append(path)
    room = _LEAST_ROOM + _EXPANSION * total
    for path in nodes:
        where = _within(path, folder)
        if path.stat().st_size > _LARGEST_METADATA:
            raise NotOpenedError(f"metadata of {path.stat().st_size} bytes, {where}")
        node = json.loads(path.read_bytes())
        if not isinstance(node, dict) or node.get("zarr_format") != 3:
            raise NotOpenedError(f"another format than Zarr 3, {where}")
        if node.get("node_type") == "array":
            room -= _declared(node, path.parent, where)
            if room < 0:
                raise NotOpenedError(f"arrays far larger than the folder, {where}")
        elif node.get("node_type") != "group":
            raise NotOpenedError(f"neither group nor array, {where}")
        elif node.get("consolidated_metadata") is not None:
            raise NotOpenedError(f"consolidated metadata, {where}")


def _declared(node: dict[str, Any], place: Path, where: str) -> int:
    """Bytes that an array takes when it is read, or an error."""
    kind, shape = node["data_type"], node["shape"]
    if not isinstance(kind, str) or kind not in _SIZES:
        raise NotOpenedError(f"data of type {kind!r}, {where}")
    codecs = [codec.get("name") for codec in node["codecs"]]
    if codecs != ["vlen-utf8" if kind == "string" else "bytes", "zstd"]:
        raise NotOpenedError(f"codecs {codecs}, {where}")
    grid, keys = node["chunk_grid"], node["chunk_key_encoding"]
    chunk = grid["configuration"]["chunk_shape"]
    whole = all(isinstance(n, int) and n >= 0 for n in shape) and all(
        isinstance(n, int) and n > 0 for n in chunk
    )
    if grid["name"] != "regular" or not whole or len(chunk) != len(shape):
        raise NotOpenedError(f"chunks that are no grid, {where}")
    if keys["name"] != "default" or node.get("storage_transformers"):
        raise NotOpenedError(f"chunks kept in another way, {where}")
    expected = _SIZES[kind] * math.prod(chunk)
    n_chunks = math.prod(-(-n // c) for n, c in zip(shape, chunk, strict=True))
    n_found, in_chunks = 0, 0
    for inner, _, files in os.walk(place / "c"):
        for name in files:
            n_found += 1
            size = _decoded_size(Path(inner) / name, where)
            if kind != "string" and size != expected:
                raise NotOpenedError(f"a chunk of {size} bytes where {expected} are declared, {where}")
            in_chunks += size
    if n_chunks - n_found > _MOST_ABSENT:
        raise NotOpenedError(f"{n_chunks} chunks declared, {n_found} there, {where}")
    return max(_SIZES[kind] * math.prod(shape), in_chunks, expected if n_chunks else 0)


def _decoded_size(chunk: Path, where: str) -> int:
    """What a zstd frame says about itself (RFC 8878, 3.1.1.1)."""
    with chunk.open("rb") as file:
        head = file.read(18)
    if len(head) < 6 or head[:4] != _ZSTD:
        raise NotOpenedError(f"a chunk that is no zstd frame, {where}")
    flags = head[4]
    single, by_flag, dictionary = bool(flags & 0x20), flags >> 6, (0, 1, 2, 4)[flags & 3]
    start = 5 + (0 if single else 1) + dictionary
    width = (1 if single else 0, 2, 4, 8)[by_flag]
    if width == 0:
        raise NotOpenedError(f"a chunk that does not say its size, {where}")
    return int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)


def _within(path: Path, folder: Path) -> str:
    return repr(str(path.relative_to(folder)))
