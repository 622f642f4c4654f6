"""What the pages of a Parquet file unpack to, by their own headers, before any is unpacked.

The sizes are read here from the file itself: Arrow believes the size that a page states, of up to 2 GiB, and ends
the process when it is asked for the sizes in a damaged footer. All is in the compact protocol of Thrift, which two
readers may read in two ways: Arrow's drops the upper bits of numbers that are too wide, also of the numbers of
fields, lets a field that comes again take the place of the first, and passes over one of another kind. So what is
too wide or comes twice is refused here, and a field is known by its number and its kind.
"""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from countveil.counts.bounded.room import ReleaseFileError

# Our writer's groups have 2**20 cells of 8 bytes for each axis.
LARGEST_GROUP = 1 << 28
# Bytes that are read for the header of a page, at first.
HEADER_READ = 256
# Plain, by run length, bit-packed, dictionary: others let a text be made of the one before it, again and again.
_ENCODINGS = {0, 2, 3, 4, 8}
_DEEPEST, _LONGEST_PAGE_HEADER = 12, 1 << 20
# Kinds of values: how many bits whole numbers have, and what else the fields below are.
_BITS = {4: 16, 5: 32, 6: 64}
_INT32, _INT64, _LIST, _STRUCT = 5, 6, 9, 12
_LARGEST_FIELD = 2**15 - 1
# Fields of the format: number and kind.
_SCHEMA, _N_CHILDREN = (2, _LIST), (5, _INT32)
_ROW_GROUPS, _COLUMNS, _META_DATA = (4, _LIST), (1, _LIST), (3, _STRUCT)
_N_VALUES, _COMPRESSED, _DATA_AT, _DICTIONARY_AT = (5, _INT64), (7, _INT64), (9, _INT64), (11, _INT64)
_PAGE_UNPACKED, _PAGE_PACKED = (2, _INT32), (3, _INT32)
# Data, dictionary, data of version 2, and where they say their encoding.
_PAGE_KINDS = {(5, _STRUCT): (2, _INT32), (7, _STRUCT): (2, _INT32), (8, _STRUCT): (4, _INT32)}
_DICTIONARY_PAGE, _N_ENTRIES = (7, _STRUCT), (1, _INT32)
#: The fields of a struct, by number and kind.
_Fields = dict[tuple[int, int], Any]


def check_pages(file: BinaryIO, most: int, *, any_encoding: bool = False) -> int:
    """Refuse groups of rows that unpack to more than ``most`` bytes; what all groups unpack to, together.

    ``any_encoding``: of tables that are not releases, and that other writers have written.
    """
    pages = Pages(file, most, any_encoding=any_encoding)
    total = sum(pages.check(group) for group in range(pages.n_groups))
    file.seek(0)
    return total


class Pages:
    """The pages of a file, to be looked at a group of rows at a time, each group once."""

    def __init__(self, file: BinaryIO, most: int, *, any_encoding: bool = False) -> None:
        self._file, self._most, self._any_encoding = file, most, any_encoding
        self._left = file.seek(0, os.SEEK_END)
        self._groups = _footer(file).get(_ROW_GROUPS, [])
        self.n_groups = len(self._groups)

    def check(self, group: int) -> int:
        """What a group unpacks to; refused if that is too much."""
        size = 0
        for column in self._groups[group][_COLUMNS]:
            unpacked, packed = _sizes(
                self._file, column[_META_DATA], self._most, self._left, self._any_encoding
            )
            size, self._left = size + unpacked, self._left - packed
        if size > self._most:
            raise ReleaseFileError(f"expected groups of rows of at most {self._most:,} bytes")
        return size

    def place(self, group: int) -> tuple[int, int]:
        """Where the pages of a group begin and end in the file."""
        places = [_place(column[_META_DATA]) for column in self._groups[group][_COLUMNS]]
        return min(begin for begin, _ in places), max(end for _, end in places)


def _footer(file: BinaryIO) -> _Fields:
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 8))
    length = int.from_bytes(file.read(4), "little")
    if length > end - 8:
        raise ReleaseFileError("expected the end of a Parquet file")
    file.seek(end - 8 - length)
    fields = _Compact(file.read(length)).struct()
    _check_schema(fields.get(_SCHEMA, []))
    return fields


def check_footer(file: BinaryIO) -> None:
    """Refuse what Arrow would follow until its stack is full. Before any file of others is given to it."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 4))
    if file.read(4) == b"PAR1":  # else Arrow says that it is another file
        try:
            _footer(file)
        except IndexError as error:
            raise ReleaseFileError("expected a footer that is whole") from error
    file.seek(0)


def _check_schema(elements: list[_Fields]) -> None:
    """Columns in columns are listed flat, each with the number of those in it: none deeper than ``_DEEPEST``."""
    left: list[int] = []  # of each column around, how many are still to come in it
    for element in elements:
        while left and not left[-1]:
            left.pop()
        if left:
            left[-1] -= 1
        left.append(max(element.get(_N_CHILDREN, 0), 0) if isinstance(element, dict) else 0)
        if len(left) > _DEEPEST:
            raise ReleaseFileError("expected columns that are not in each other")


def _sizes(file: BinaryIO, column: _Fields, most: int, left: int, any_encoding: bool) -> tuple[int, int]:
    """What the pages of a column unpack to, and their bytes in the file, of which so many are left for pages.

    So no page is counted, or read, for two columns: the work is what the file is long.
    """
    begin, end = _place(column)
    place, size = begin, 0
    while place < end:
        header, length = _page_header(file, place)
        if header[_PAGE_PACKED] < 0 or header[_PAGE_UNPACKED] < 0:
            raise ReleaseFileError("expected pages of at least 0 bytes")
        for kind, encoding in _PAGE_KINDS.items():
            if not any_encoding and kind in header and header[kind][encoding] not in _ENCODINGS:
                raise ReleaseFileError("expected pages in plain or dictionary encoding")
        if header.get(_DICTIONARY_PAGE, {}).get(_N_ENTRIES, 0) > header[_PAGE_UNPACKED]:
            raise ReleaseFileError("expected a dictionary of entries that are there")  # room is made for all
        size += header[_PAGE_UNPACKED]
        if size > most:
            break
        place += length + header[_PAGE_PACKED]
        if place - begin > left:
            raise ReleaseFileError("expected pages that lie apart")
    return size, place - begin


def _place(column: _Fields) -> tuple[int, int]:
    """Where the pages of a column begin and end."""
    place = column[_DATA_AT]
    if 0 < column.get(_DICTIONARY_AT, 0) < place:
        place = column[_DICTIONARY_AT]
    return place, place + (column[_COMPRESSED] if column[_N_VALUES] else 0)  # no pages at all


def _page_header(file: BinaryIO, place: int) -> tuple[_Fields, int]:
    n = HEADER_READ
    while True:
        file.seek(place)
        compact = _Compact(file.read(n))
        try:
            return compact.struct(), compact.place
        except IndexError:
            if n >= _LONGEST_PAGE_HEADER:
                raise
            n *= 16


class _Compact:
    """Reads Thrift's compact protocol: a struct by its fields; IndexError where the bytes end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def struct(self, depth: int = 0) -> _Fields:
        if depth > _DEEPEST:
            raise ReleaseFileError("expected a flatter footer")
        found: _Fields = {}
        numbers = set[int]()
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed(16)
            if field in numbers or not 0 < field <= _LARGEST_FIELD:
                raise ReleaseFileError("expected every field once")
            numbers.add(field)
            kind = head & 15
            found[field, kind] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):
            return self._byte()
        if kind in _BITS:
            return self._signed(_BITS[kind])
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._varint(31))
        if kind in (_LIST, 10):
            head = self._byte()
            n = head >> 4 if head >> 4 < 15 else self._varint(31)
            return [self._value(head & 15, depth + 1) for _ in range(n)]
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ReleaseFileError("expected another footer")  # a map: Parquet has none

    def _byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def _bytes(self, n: int) -> bytes:
        self.place += n
        if self.place > len(self.data):
            raise IndexError("the bytes end early")
        return self.data[self.place - n : self.place]

    def _varint(self, bits: int) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128 and not number >> bits:
                return number
            if byte < 128:
                break
        raise ReleaseFileError(f"expected a whole number of at most {bits} bits")

    def _signed(self, bits: int) -> int:
        number = self._varint(bits)
        return number >> 1 ^ -(number & 1)
