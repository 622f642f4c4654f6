"""A run's folder, looked through before anything in it is opened: it may come from a stranger.

Zarr reads what a folder's metadata ask for. Format 2 can ask for filters that execute code, any format for arrays
of any size out of a few bytes. So only what ``save_run`` and xarray write is let through: format 3, groups and
arrays, few and not deep, plain numbers and texts, the codecs ``bytes``, ``vlen-utf8`` and ``zstd``, plain files
whose names say which chunk they are, and nothing that would take far more memory than the folder takes room.
"""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from countveil.counts.bounded.room import ReleaseFileError
from countveil.counts.bounded.within import size_on_disk
from countveil.kernels.philox import MAX_CHAINS
from countveil.posterior.runs.checks.chunk import NotOpenedError, check_texts, decoded_size, open_plain
from countveil.posterior.runs.run_files import PLACE, is_place_file

#: Of a folder of n bytes this much may be declared: what compresses better is no run.
_LEAST_ROOM, _EXPANSION = 2**24, 1000
#: Metadata of one node; and chunks that may be absent: zarr writes none of zeros alone.
_LARGEST_METADATA, _MOST_ABSENT = 2**26, 1000
#: Ours has some dozens of nodes, at depths 0, 1 and 2. Time grows faster than their number.
MOST_NODES, _DEEPEST, _MOST_DIMENSIONS = 300, 4, 32
#: A text takes this much besides its letters, and a letter at most 4 bytes.
_TEXT, _LETTER = 64, 4
_SIZES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "float16": 2, "float32": 4, "float64": 8, "string": _TEXT,
}  # fmt: skip
#: Attributes by which xarray makes wider numbers of what is stored; of floats it keeps NaN as ``_FillValue``.
_WIDENING = {"scale_factor", "add_offset", "missing_value", "_Unsigned"}
_COPIES = 2  # what is read is held as chunks, too
_SCALARS, _OF_A_SCALAR = "'sample_stats/", 100  # bytes of each number whose ranks and precision are shown
_METADATA, _CHUNKS = "zarr.json", "c"
_FORMAT_2 = (".zarray", ".zgroup", ".zattrs", ".zmetadata")


class _Array(NamedTuple):
    """One array, and the files of its chunks by their places in the grid."""

    where: str
    kind: str
    shape: list[int]
    chunk: list[int]
    files: dict[tuple[int, ...], Path]


def check_folder(folder: Path) -> None:
    """Nothing if all of it may be opened; else an error that names what may not."""
    total, n_nodes, arrays, coming = 0, 0, [], [folder]
    while coming:
        place = coming.pop()
        where, within = _within(place, folder), place.relative_to(folder).parts
        n_nodes += 1
        if n_nodes > MOST_NODES:
            raise NotOpenedError(f"more than {MOST_NODES} groups and arrays")
        if len(within) > _DEEPEST:
            raise NotOpenedError(f"groups deeper than {_DEEPEST}, {where}")
        files, folders = _entries(place, folder)
        total += sum(size for name, size in files.items() if name != _CHUNKS)
        node = _metadata(place, files, where)
        if node.get("node_type") == "array":
            names = {_METADATA, _CHUNKS, *(filter(is_place_file, files) if within == PLACE else ())}
            strange = sorted((files.keys() | set(folders)) - names)
            if strange:
                raise NotOpenedError(f"{strange[0]!r} beside the chunks of an array, {where}")
            array = _array(node, where)
            for key, path, size in _chunk_files(place, files, len(array.shape), folder):
                array.files[key] = path
                total += size
            arrays.append(array)
        elif node.get("node_type") != "group":
            raise NotOpenedError(f"neither group nor array, {where}")
        elif node.get("consolidated_metadata") is not None:
            raise NotOpenedError(f"consolidated metadata, {where}")
        else:
            coming += [place / name for name in folders]
    room = _LEAST_ROOM + _EXPANSION * total
    for array in arrays:
        room -= _COPIES * _declared(array)
        if array.where.startswith(_SCALARS):
            room -= _OF_A_SCALAR * math.prod(array.shape)
        if room < 0:
            raise NotOpenedError(f"arrays far larger than the folder, {array.where}")
    for array in arrays:  # they are decoded, which is safe only now
        if array.kind == "string":
            for path in array.files.values():
                check_texts(path, math.prod(array.chunk), array.where)


def _entries(place: Path, folder: Path) -> tuple[dict[str, int], list[str]]:
    """Plain files with their sizes, and folders; anything else is an error."""
    files, folders = {}, []
    for path in place.iterdir():
        try:
            status = path.lstat()
            size = size_on_disk(path)
        except FileNotFoundError:
            continue  # a file of a run that grows, which has its name by now
        except ReleaseFileError:
            raise NotOpenedError(f"a file that is mostly a hole, {_within(path, folder)}") from None
        if stat.S_ISLNK(status.st_mode):
            raise NotOpenedError(f"a link, {_within(path, folder)}")
        if path.name in _FORMAT_2:
            raise NotOpenedError(f"Zarr format 2, {_within(path, folder)}")
        if stat.S_ISDIR(status.st_mode):
            folders.append(path.name)
        elif stat.S_ISREG(status.st_mode):
            files[path.name] = size
        else:
            raise NotOpenedError(f"no plain file, {_within(path, folder)}")
    return files, folders


def _metadata(place: Path, files: dict[str, int], where: str) -> dict[str, Any]:
    if _METADATA not in files:
        raise NotOpenedError(f"a folder that is neither group nor array, {where}")
    if files[_METADATA] > _LARGEST_METADATA:
        raise NotOpenedError(f"metadata of {files[_METADATA]} bytes, {where}")
    with open_plain(place / _METADATA, where) as file:
        node = json.loads(file.read(_LARGEST_METADATA + 1))
    if not isinstance(node, dict) or node.get("zarr_format") != 3:
        raise NotOpenedError(f"another format than Zarr 3, {where}")
    return node


def _array(node: dict[str, Any], where: str) -> _Array:
    """An array of a kind that we write, or an error."""
    kind, shape = node["data_type"], node["shape"]
    if not isinstance(kind, str) or kind not in _SIZES:
        raise NotOpenedError(f"data of type {kind!r}, {where}")
    if len(shape) > 2 and shape[0] > MAX_CHAINS:
        raise NotOpenedError(f"more than {MAX_CHAINS} chains, {where}")
    codecs = [codec.get("name") for codec in node["codecs"]]
    if codecs != ["vlen-utf8" if kind == "string" else "bytes", "zstd"]:
        raise NotOpenedError(f"codecs {codecs}, {where}")
    if node["codecs"][0].get("configuration", {}).get("endian", "little") != "little":
        raise NotOpenedError(f"numbers in another order of bytes, {where}")
    grid, keys = node["chunk_grid"], node["chunk_key_encoding"]
    chunk = grid["configuration"]["chunk_shape"]
    whole = len(shape) <= _MOST_DIMENSIONS and len(chunk) == len(shape)
    whole = whole and all(isinstance(n, int) and n >= 0 for n in shape)
    if grid["name"] != "regular" or not whole or not all(isinstance(n, int) and n > 0 for n in chunk):
        raise NotOpenedError(f"chunks that are no grid, {where}")
    separator = keys.get("configuration", {}).get("separator", "/")
    if keys["name"] != "default" or separator != "/" or node.get("storage_transformers"):
        raise NotOpenedError(f"chunks kept in another way, {where}")
    if len(shape) > 2 and chunk[0] > 1:  # which would be decoded anew for each of them
        raise NotOpenedError(f"several chains in a chunk, {where}")
    # It stands for every cell of an absent chunk, and a long text would be there as often.
    if node["fill_value"] not in ([""] if kind == "string" else [0, "NaN"]):
        raise NotOpenedError(f"absent cells that stand for something, {where}")
    widening = (
        _WIDENING if kind in ("float16", "float32", "float64", "string") else {*_WIDENING, "_FillValue"}
    )
    if widening & set(node.get("attributes", {})):
        raise NotOpenedError(f"numbers that stand for others, {where}")
    return _Array(where, kind, shape, chunk, {})


def _chunk_files(
    place: Path, files: dict[str, int], n_dimensions: int, folder: Path
) -> Iterator[tuple[tuple[int, ...], Path, int]]:
    """Chunks by their places in the grid: the file ``c/0/12`` has (0, 12), and ``c`` itself has ()."""
    if _CHUNKS in files:
        if n_dimensions:
            raise NotOpenedError(f"a file that is no chunk, {_within(place / _CHUNKS, folder)}")
        yield (), place / _CHUNKS, files[_CHUNKS]
        return
    coming: list[tuple[int, ...]] = [()] if (place / _CHUNKS).exists() else []
    while coming:
        key = coming.pop()
        inner = place.joinpath(_CHUNKS, *map(str, key))
        found, folders = _entries(inner, folder)
        left = n_dimensions - len(key)
        for name in (*found, *folders):
            is_number = name.isascii() and name.isdigit() and name == str(int(name[:20]))
            if not is_number or left < 1 or (name in found) != (left == 1):
                raise NotOpenedError(f"a file that is no chunk, {_within(inner / name, folder)}")
            if left == 1:
                yield (*key, int(name)), inner / name, found[name]
            else:
                coming.append((*key, int(name)))


def _declared(array: _Array) -> int:
    """Bytes that an array takes when it is read, or an error."""
    is_text, cells = array.kind == "string", math.prod(array.chunk)
    grid = [-(-n // c) for n, c in zip(array.shape, array.chunk, strict=True)]
    expected, in_chunks, n_found = _SIZES[array.kind] * cells, 0, 0
    for key, path in array.files.items():
        size = decoded_size(path, array.where)
        if not is_text and size != expected:
            raise NotOpenedError(f"a chunk of {size} bytes where {expected} are declared, {array.where}")
        in_chunks += size
        # A run that was killed has chunks beyond its shape.
        n_found += all(n < most for n, most in zip(key, grid, strict=True))
    if math.prod(grid) - n_found > _MOST_ABSENT:
        raise NotOpenedError(f"{math.prod(grid)} chunks declared, {n_found} there, {array.where}")
    # Numbers of any width are computed with as float64.
    whole = max(_SIZES[array.kind], 8) * math.prod(array.shape)
    if is_text:
        return max(whole, expected) + _LETTER * in_chunks
    return max(whole, in_chunks, expected if math.prod(grid) else 0)


def _within(path: Path, folder: Path) -> str:
    return repr(str(path.relative_to(folder)))
