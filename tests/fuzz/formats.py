"""Changes inside of packed and structured files, so that they reach what lies below a container's own checks; bombs."""

import functools
import gzip
import hashlib
import io
import pickle
import warnings
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import thrift
from fuzz.values import damaged, json_changed, json_lines_changed, renumber, some_number, text_changed

_ZSTD, _CHECKPOINT = numcodecs.Zstd(level=1), b"countveil-checkpoint 1\n"
#: Bytes that bombs unpack to; a bomb in a column of a table has so many rows.
BOMB, BOMB_ROWS = 3 << 29, 1 << 23
#: Deflate makes no more than 1032 bytes of one, which the rule allows for: here only text has objects to make of them.
DEFLATED = 1 << 28
#: How our bombs begin, and what is so large that it may be one: they are not unpacked here.
_BOMB_FRAME, LARGEST = b"\x28\xb5\x2f\xfd\xe0", 10**6


class Boom:
    """Unpickled, it asks for something that a canary sees."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("import os; os.environ['COUNTVEIL_FUZZ_BOOM'] = '1'",))


PICKLE = pickle.dumps(Boom())


def zeros_frame(size: int, tail: bytes = b"") -> bytes:
    """A zstd frame of zeros, 4 bytes for every 128 KiB."""
    n = max(1, size >> 17)
    head = _BOMB_FRAME + (n << 17).to_bytes(8, "little")
    return (
        head
        + b"".join((2**17 << 3 | 2 | (i == n - 1)).to_bytes(3, "little") + b"\0" for i in range(n))
        + tail
    )


@functools.cache
def gzip_zeros() -> bytes:
    """Many small members, which costs the maker little."""
    return gzip.compress(bytes(1 << 24), 9, mtime=0) * (DEFLATED >> 24)


@functools.cache
def zip_zeros(name: str) -> bytes:
    file = io.BytesIO()
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<i8", "fortran_order": False, "shape": (DEFLATED >> 3,)}
    )
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(name, "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(DEFLATED >> 24):
            member.write(bytes(1 << 24))
    return file.getvalue()


def _zstd(data: bytes, rng: Random, donor: bytes) -> bytes:
    if rng.random() < 0.2:
        return zeros_frame(rng.choice((1 << 17, 1 << 28, BOMB)), rng.choice((b"", data, b"\0")))
    content = _ZSTD.decode(data)
    made = numcodecs.Zstd(level=1, checksum=rng.random() < 0.5).encode(
        changed(bytes(content), rng, donor) or b"\0"
    )
    return made + rng.choice((b"", b"", b"", data))


def _gzip(data: bytes, rng: Random, donor: bytes) -> bytes:
    if rng.random() < 0.1:
        return data + gzip_zeros() if rng.random() < 0.5 else gzip_zeros()
    content = gzip.decompress(data)
    return gzip.compress(changed(content, rng, donor), 1, mtime=0)


def _zip(data: bytes, rng: Random, donor: bytes) -> bytes:
    """One member is changed, doubled, lost, renamed or a bomb, under right checksums."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = rng.randrange(len(members))
    name, content = members[at]
    kind = rng.randrange(10)
    if kind == 0:
        return zip_zeros(rng.choice(("arr_0.npy", "data.npy")))
    if kind == 1:
        members.append(members[at])
    elif kind == 2:
        del members[at]
    elif kind == 3:
        members[at] = (rng.choice(("../x", "C:x.npy", "header", "x.npy", name + ".npy", "")), content)
    elif kind == 4:
        members[at] = (name, rng.choice((PICKLE, bytes(1 << 24), donor)))
    else:
        members[at] = (name, changed(content, rng, donor))
    file, packing = io.BytesIO(), rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", packing, compresslevel=1) as archive:
        warnings.simplefilter("ignore", UserWarning)  # of two members of one name
        for one, inside in members:
            info = zipfile.ZipInfo(one)
            info.compress_type = packing
            archive.writestr(info, inside)
    return file.getvalue()


def _npy(data: bytes, rng: Random, donor: bytes) -> bytes:
    """Another header on the same numbers: shape, type (also objects, whose bytes are a pickle), order, version."""
    end = data.find(b"\n") + 1
    if rng.random() < 0.3 or not end:
        return damaged(data, rng, donor)
    head, body = data[10:end].rstrip(), data[end:]
    kind = rng.randrange(5)
    if kind < 2:
        head = renumber(head, rng)
    elif kind == 2:
        for descr in (b"'<i8'", b"'<f8'", b"'|u1'"):
            head = head.replace(
                descr,
                rng.choice(
                    (
                        b"'|O'",
                        b"'<M8[ns]'",
                        b"'|S0'",
                        b"'<U100000000'",
                        b"[('a', '<i8')]",
                        b"'<c16'",
                        b"'|V1000000'",
                    )
                ),
            )
        body = rng.choice((body, PICKLE))
    elif kind == 3:
        shape = ", ".join(str(some_number(rng)) for _ in range(rng.choice((0, 1, 2, 40))))
        head = b"{'descr': '<i8', 'fortran_order': True, 'shape': (" + shape.encode() + b",)}"
    else:
        head = rng.choice(
            (
                b"(" * 5000,
                b"{" + b"'a':{" * 300,
                head + b" " * 70_000,
                b"__import__('os').environ",
                head[:-1] + b", 'x': 1}",
            )
        )
    version = rng.choice((b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\\9\0"))
    size = len(head) + 1
    return (
        b"\x93NUMPY"
        + version
        + (size & 0xFFFF).to_bytes(2, "little")
        + (b"" if version == b"\1\0" else b"\0\0")
        + head
        + b"\n"
        + body
    )


def _checkpoint(data: bytes, rng: Random, donor: bytes) -> bytes:
    """One part is changed, another length is told, or parts change places; the digest is right."""
    body, at, parts = data[:-32], len(_CHECKPOINT), list[bytes]()
    while at < len(body):
        length = int.from_bytes(body[at : at + 8], "little")
        parts.append(body[at + 8 : at + 8 + length])
        at += 8 + length
    if not parts or rng.random() < 0.1:
        return damaged(data, rng, donor)
    place, kind = rng.randrange(len(parts)), rng.randrange(6)
    lie = None
    if kind < 4:
        parts[place] = changed(parts[place], rng, donor)
    elif kind == 4:
        parts.insert(rng.randrange(len(parts)), parts[place])
    else:
        lie = int(some_number(rng)) & 2**64 - 1
    made = _CHECKPOINT
    for i, part in enumerate(parts):
        made += (len(part) if lie is None or i != place else lie).to_bytes(8, "little") + part
    return made + hashlib.sha256(made).digest()


def _parquet(data: bytes, rng: Random, donor: bytes) -> bytes:
    kind = rng.randrange(10)
    if kind < 3:
        return _footer_changed(data, rng)
    if kind < 6 and b"countveil" in data:
        return _header_changed(data, rng)
    if kind == 6:
        return _page_header_changed(data, rng)
    if kind == 7:
        return _rewritten(data, rng)
    if kind == 8 and donor[:4] == b"PAR1":  # the end, with all that it says, of another
        start = len(donor) - 8 - int.from_bytes(donor[-8:-4], "little")
        return data[: len(data) - 8 - int.from_bytes(data[-8:-4], "little")] + donor[start:]
    return damaged(data, rng, donor)


def _footer_changed(data: bytes, rng: Random, text: Callable[[bytes], bytes] | None = None) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    body, footer = data[: -8 - length], data[-8 - length : -8]
    found = thrift.tokens(footer)[0]
    if text is None:
        for _ in range(rng.choice((1, 1, 2))):
            chosen = rng.choice(
                [t for t in found if t.kind == rng.choice(("number", "number", "text", "byte"))] or found
            )
            footer = thrift.changed(footer, chosen, rng)
            found = [t for t in found if t.stop <= chosen.start] or found[:1]
    else:
        ours = [t for t in found if t.kind == "text" and thrift.text_of(footer, t)[:1] == b"{"]
        chosen = rng.choice(ours)
        footer = thrift.changed(footer, chosen, rng, text(thrift.text_of(footer, chosen)))
    return body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _header_changed(data: bytes, rng: Random) -> bytes:
    """Our own header among the file's metadata."""
    return _footer_changed(data, rng, lambda text: json_changed(text, rng))


def _page_header_changed(data: bytes, rng: Random) -> bytes:
    meta = pq.read_metadata(io.BytesIO(data))
    column = meta.row_group(0).column(rng.randrange(meta.num_columns))
    found = thrift.tokens(data, column.dictionary_page_offset or column.data_page_offset)[0]
    return thrift.changed(data, rng.choice(found), rng)


_CODECS = ("none", "snappy", "gzip", "brotli", "zstd", "lz4")


@functools.lru_cache(maxsize=12)
def _column_bomb(names: tuple[str, ...], codec: str, dictionary: bool, texts: bool) -> bytes:
    """A table whose columns are one value again and again."""
    array = pa.repeat(pa.scalar("x" * 1000 if texts else 0), 1 << 17 if texts else BOMB_ROWS)
    file = io.BytesIO()
    pq.write_table(
        pa.table(dict.fromkeys(names, array)),
        file,
        compression=codec,
        use_dictionary=dictionary,
        row_group_size=BOMB_ROWS,
        data_page_size=1 << 30,
    )
    return file.getvalue()


def _rewritten(data: bytes, rng: Random) -> bytes:
    """The same table, packed otherwise, with a column of another type or name, or as a bomb."""
    table = pq.read_table(io.BytesIO(data), use_threads=False)
    names, kind, codec = table.column_names, rng.randrange(6), rng.choice(_CODECS)
    if kind == 0:
        bomb = _column_bomb(tuple(names), codec, rng.random() < 0.5, rng.random() < 0.3)
        if not table.schema.metadata:
            return bomb
        table = pq.read_table(io.BytesIO(bomb), use_threads=False).replace_schema_metadata(
            table.schema.metadata
        )
    at = rng.randrange(len(names))
    if kind == 1:
        types = [
            pa.string(),
            pa.float64(),
            pa.uint64(),
            pa.bool_(),
            pa.binary(),
            pa.decimal128(30, 2),
            pa.timestamp("ns"),
            pa.int8(),
        ]
        table = table.set_column(at, names[at], table.column(at).cast(rng.choice(types), safe=False))
    elif kind == 2:
        table = table.rename_columns(
            [
                rng.choice(("value", "row", "label", "\0", "x" * 1000)) if i == at else n
                for i, n in enumerate(names)
            ]
        )
    elif kind == 3:
        table = (
            table.drop_columns(names[at])
            if rng.random() < 0.5
            else table.append_column("more", table.column(at))
        )
    elif kind == 4:
        lists = pa.array([[1]] * len(table)) if rng.random() < 0.5 else pa.array([{"a": 1}] * len(table))
        table = table.set_column(at, names[at], lists)
    elif kind == 5:
        table = (
            pa.concat_tables([table] * rng.choice((0, 2, 300))) if rng.random() < 0.8 else table.slice(0, 0)
        )
    file = io.BytesIO()
    pq.write_table(
        table, file, compression=codec, use_dictionary=rng.random() < 0.5, data_page_version=rng.choice(("1.0", "2.0")),
        row_group_size=rng.choice((1, 7, BOMB_ROWS)) if len(table) < 10**4 else BOMB_ROWS, store_schema=rng.random() < 0.5,
    )  # fmt: skip
    return file.getvalue()


_BY_MAGIC: list[tuple[bytes, Callable[[bytes, Random, bytes], bytes]]] = [
    (b"PAR1", _parquet), (b"\x28\xb5\x2f\xfd", _zstd), (b"PK\x03\x04", _zip), (b"\x1f\x8b", _gzip), (b"\x93NUMPY", _npy),
    (_CHECKPOINT, _checkpoint),
    (b'{"what"', lambda data, rng, _: json_lines_changed(data, rng)),
    (b"{", lambda data, rng, _: json_changed(data, rng)),
]  # fmt: skip


def changed(data: bytes, rng: Random, donor: bytes = b"") -> bytes:
    """The bytes after a change that fits what they are, or after plain damage."""
    if not data or len(data) > LARGEST or data.startswith(_BOMB_FRAME) or rng.random() < 0.15:
        return damaged(data, rng, donor)
    for magic, change in _BY_MAGIC:
        if data.startswith(magic):
            try:
                return change(data, rng, donor)
            except Exception:  # it was damaged by a change before this one, and cannot be taken apart
                return damaged(data, rng, donor)
    if data[:2000].isascii() and b"\0" not in data[:2000]:
        return text_changed(data, rng)
    return damaged(data, rng, donor)
