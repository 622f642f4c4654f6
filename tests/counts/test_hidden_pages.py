"""Pages that Arrow would unpack, and that a more careless reader of their headers would not see."""

import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counts.thrift import INT32, INT64, LIST, STRUCT, encoded, field, parsed
from countveil.counts import ReleaseFileError, load_release, privatize
from countveil.counts.bounded.pages import check_footer, check_pages
from countveil.counts.files.release import _is_release_file

N = 2**17  # numbers of 8 bytes, all of them 0, which pack into some hundred bytes
MOST = 10_000


def wide_field(at, page, harmless, column):
    """Arrow reads 16 bits of a field's number: 2**16 + 2 is the size again, and the last one counts."""
    field(page, 2)[2] = 100
    page.append([2**16 + 2, INT32, 8 * N])
    return encoded(page), at, b""


def offset_of_another_kind(at, page, harmless, column):
    """Arrow passes over the place of a dictionary that is not 64 bits wide, and reads what comes after it."""
    column.append([11, INT32, at])
    return encoded(page), at + len(harmless), harmless


def wide_offset(at, page, harmless, column):
    """Of a number of 69 bits Arrow reads 64: here is the dictionary; another reader would look behind it."""
    column.append([11, INT64, 2**67 + at])
    return encoded(page), at, b""


def crafted(path, way):
    """A file of one column whose page is hidden."""
    table = pa.table([np.zeros(10, np.int64)], schema=pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    options = {"use_dictionary": False, "write_statistics": False, "store_schema": False}
    pq.write_table(table, path, compression="zstd", **options)
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer, _ = parsed(data[-8 - length : -8])
    (group,) = field(footer, 4)[2][1]
    column = field(field(group, 1)[2][1][0], 3)[2]
    place = field(column, 9)[2]
    page, _ = parsed(data, place)
    packed = bytes(numcodecs.Zstd().encode(bytes(8 * N)))
    field(page, 3)[2] = len(packed)
    field(field(page, 5)[2], 1)[2] = N
    for one in (field(footer, 3), field(group, 3), field(column, 5)):
        one[2] = N
    # As long as the page, and unpacking to little.
    tame = [[1, INT32, 0], [2, INT32, 100], [3, INT32, 0], [5, 12, field(page, 5)[2]]]
    field(page, 2)[2] = 8 * N
    full = len(encoded(page)) + len(packed)
    field(tame, 3)[2] = full - 40
    harmless = encoded(tame).ljust(full, b"\0")
    field(tame, 3)[2] = full - len(encoded(tame))
    harmless = encoded(tame).ljust(full, b"\0")
    head, data_at, before = way(4, page, harmless, column)
    body = before + head + packed
    if way is wide_offset:
        data_at, body = 4 + full, body + harmless
    field(column, 9)[2], field(column, 7)[2] = data_at, len(head) + len(packed)
    end = encoded(footer)
    path.write_bytes(b"PAR1" + body + end + len(end).to_bytes(4, "little") + b"PAR1")
    return path


@pytest.mark.parametrize("way", [wide_field, offset_of_another_kind, wide_offset])
def test_what_arrow_would_unpack_is_counted_or_refused(way, tmp_path):
    path = crafted(tmp_path / "t.parquet", way)
    assert path.stat().st_size < MOST
    assert pq.read_table(path).nbytes == 8 * N  # so much Arrow would read
    expected = "expected (groups of rows of at most|a whole number of at most)"
    with path.open("rb") as file, pytest.raises(ReleaseFileError, match=expected):
        check_pages(file, MOST)


def test_a_dictionary_of_entries_that_are_not_there_is_refused(tmp_path):
    """Arrow would ask for 32 GiB."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"label": ["a", "b"] * 50}), path, store_schema=False)
    data = path.read_bytes()
    with path.open("rb") as file:
        assert check_pages(file, MOST) > 0
    length = int.from_bytes(data[-8:-4], "little")
    footer, _ = parsed(data[-8 - length : -8])
    column = field(field(field(footer, 4)[2][1][0], 1)[2][1][0], 3)[2]
    page, end = parsed(data, 4)
    field(field(page, 7)[2], 1)[2] = 2**31 - 1
    longer = len(encoded(page)) - (end - 4)
    for number in (7, 9):
        field(column, number)[2] += longer
    last = encoded(footer)
    body = data[end : -8 - length]
    path.write_bytes(b"PAR1" + encoded(page) + body + last + len(last).to_bytes(4, "little") + b"PAR1")
    with path.open("rb") as file, pytest.raises(ReleaseFileError, match="entries that are there"):
        check_pages(file, MOST)


@pytest.mark.parametrize("deep", [50, 30_000])
def test_columns_in_columns_are_not_followed(deep, tmp_path, monkeypatch):
    """Arrow follows them until its stack is full, where it has no limit of its own (before 26)."""
    groups = [[[3, INT32, 0], [4, 8, b"a"], [5, INT32, 1]] for _ in range(deep)]
    leaf = [[1, INT32, 2], [3, INT32, 0], [4, 8, b"x"]]
    root = [[4, 8, b"schema"], [5, INT32, 1]]
    named = [[1, 8, b"countveil"], [2, 8, b"{}"]]
    fields = [
        [1, INT32, 1], [2, LIST, (STRUCT, [root, *groups, leaf])], [3, INT64, 0], [4, LIST, (STRUCT, [])],
        [5, LIST, (STRUCT, [named])],
    ]  # fmt: skip
    footer = encoded(fields)
    path = tmp_path / "deep.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    monkeypatch.setattr(pq, "ParquetFile", None)  # nothing gets there
    with pytest.raises(ReleaseFileError, match="columns that are not in each other"):
        load_release(path)
    with pytest.raises(ValueError, match=r"cannot be read|expected a file"):
        privatize(path, epsilon=1, rows=["a"], columns=["b"])
    assert not _is_release_file(path)


def test_flat_columns_are_as_deep_as_they_are(tmp_path):
    nested = pa.table({f"c{i}": pa.array([[[1]]]) for i in range(50)})
    pq.write_table(nested, tmp_path / "flat.parquet")
    with (tmp_path / "flat.parquet").open("rb") as file:
        check_footer(file)
