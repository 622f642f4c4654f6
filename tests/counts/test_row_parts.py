"""Rows of a release by themselves: cut in memory, or read by one of many processes."""

import errno

import numpy as np
import pytest

import countveil as cv
from countveil.counts import ReleaseFileError, release_on_disk
from countveil.counts.files import cells, folder, release, rows, scratch
from countveil.counts.files.header import read_header, sign_header
from countveil.counts.files.rows import read_draft, read_rows
from countveil.counts.files.scratch import is_mapped
from countveil.counts.private_counts import PrivateCounts
from countveil.counts.release_on_disk import ReleaseOnDisk
from countveil.counts.sources.row_part import row_part
from goodness_of_fit import SEED

RNG = np.random.default_rng(SEED)
NOISY = RNG.integers(-2, 5, (40, 6))
LABELS = ([f"r{i}" for i in range(40)], None)
BY_ROW = np.linspace(0.5, 2.0, 40)
KINDS = {
    "plain release": {"rho": 1.0},
    "missing": {"rho": BY_ROW, "mask": RNG.random(NOISY.shape) < 0.2},
    "mostly missing": {"rho": 1.0, "mask": RNG.random(NOISY.shape) < 0.8},
    "per cell": {"rho": np.linspace(0.5, 2, NOISY.size).reshape(NOISY.shape)},
}
CUTS = [(0, 40), (0, 1), (13, 29), (39, 40)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [False, True], ids=["one file", "a folder"])
def test_rows_that_are_read_are_those_of_the_whole(kind, many, tmp_path, monkeypatch):
    # Several row groups, and as a folder several parts.
    monkeypatch.setattr(cells, "CELLS_PER_GROUP", 20)
    monkeypatch.setattr(folder, "CELLS_PER_PART", 40)
    monkeypatch.setattr(release, "LABELS_IN_ONE_FILE", 10 if many else 1000)
    path, whole = tmp_path / "release", cv.PrivateCounts(NOISY, labels=LABELS, **KINDS[kind])
    whole.save(path)
    assert read_draft(path)[1].shape == (40, 6)
    assert path.is_dir() == many
    for start, stop in CUTS:
        found = PrivateCounts._from_contents(read_rows(path, start, stop))
        assert found == row_part(whole, start, stop)
        assert found.nonpositive.number.tolist() == row_part(whole, start, stop).nonpositive.number.tolist()
        assert found.labels[0].tolist() == LABELS[0][start:stop]
        assert np.array_equal(
            np.ma.filled(found.to_dense(), -9), np.ma.filled(whole.to_dense()[start:stop], -9)
        )


def test_cells_of_several_parts_keep_their_order(tmp_path, monkeypatch):
    """Of the first part some are missing: its room is left when the cells of a later one come."""
    monkeypatch.setattr(cells, "CELLS_PER_GROUP", 20)
    monkeypatch.setattr(folder, "CELLS_PER_PART", 40)
    monkeypatch.setattr(release, "LABELS_IN_ONE_FILE", 10)
    for seed in range(4):
        missing = np.random.default_rng(seed).random(NOISY.shape) < 0.2
        whole, path = cv.PrivateCounts(NOISY, rho=1.0, mask=missing, labels=LABELS), tmp_path / f"{seed}"
        whole.save(path)
        assert cv.load_release(path) == whole


def test_no_flipped_bit_of_the_footer_loses_rows(tmp_path, monkeypatch):
    """Statistics stand there, which nothing signs."""
    monkeypatch.setattr(cells, "CELLS_PER_GROUP", 8)
    path = tmp_path / "release.parquet"
    whole = cv.PrivateCounts(NOISY[:6, :4], rho=1.0)
    whole.save(path)
    content, expected = path.read_bytes(), row_part(whole, 2, 4)
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    told = 0
    for bit in range(8 * begin, 8 * (content.index(b"countveil", begin) - 8), 7):  # one in seven
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            assert PrivateCounts._from_contents(read_rows(path, 2, 4)) == expected, bit
        except ReleaseFileError:
            told += 1
    assert told


def test_a_damaged_part_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "CELLS_PER_GROUP", 20)
    monkeypatch.setattr(folder, "CELLS_PER_PART", 40)
    monkeypatch.setattr(release, "LABELS_IN_ONE_FILE", 10)
    path = tmp_path / "release"
    cv.PrivateCounts(NOISY, rho=1.0, labels=LABELS).save(path)
    part = path / "generation-1" / "cells" / "part-00001.parquet"
    whole = part.read_bytes()
    part.write_bytes(whole[:60] + bytes([whole[60] ^ 255]) + whole[61:])
    with pytest.raises(ReleaseFileError, match="part-00001"):
        read_rows(path, 0, 40)
    part.unlink()
    with pytest.raises(ReleaseFileError, match=r"parts in cells, got no part-00001\.parquet"):
        read_rows(path, 0, 40)


@pytest.fixture
def in_parts(tmp_path, monkeypatch):
    """A folder of several parts, each of two pieces."""
    monkeypatch.setattr(cells, "CELLS_PER_GROUP", 20)
    monkeypatch.setattr(folder, "CELLS_PER_PART", 40)
    monkeypatch.setattr(release, "LABELS_IN_ONE_FILE", 10)
    whole = cv.PrivateCounts(NOISY, rho=1.0, labels=LABELS)
    whole.save(tmp_path / "release")
    return tmp_path / "release", whole


def test_other_parts_are_not_read(in_parts):
    path, whole = in_parts
    *parts, _ = sorted((path / "generation-1" / "cells").iterdir())  # the last has no cells
    assert len(parts) > 2
    for part in parts[1:]:
        part.write_bytes(b"")
    assert PrivateCounts._from_contents(read_rows(path, 0, 5)) == row_part(whole, 0, 5)
    with pytest.raises(ReleaseFileError, match=parts[-1].name):
        read_rows(path, 35, 40)


def test_labels_need_not_be_read(in_parts):
    path, whole = in_parts
    (path / "generation-1" / "rows.parquet").write_bytes(b"")
    found = PrivateCounts._from_contents(read_rows(path, 13, 29, named=False))
    assert found.labels == (None, None)
    assert (found.to_dense() == whole.to_dense()[13:29]).all()


def test_another_release_under_the_same_name_is_noticed(in_parts):
    path, _ = in_parts
    seen = read_draft(path)[0].sha256
    assert read_rows(path, 0, 5, sha256=seen)
    cv.PrivateCounts(NOISY[::-1], rho=1.0, labels=LABELS).save(path, overwrite=True)
    with pytest.raises(ReleaseFileError, match="expected the release that the fit was begun with"):
        read_rows(path, 0, 5, sha256=seen)


def test_a_release_that_is_replaced_while_it_is_read_is_noticed(in_parts, monkeypatch):
    """It was looked at once, and then read."""
    path, _ = in_parts
    seen, read = ReleaseOnDisk(path), release_on_disk.read_release

    def replaced_before(*given, **named):
        cv.PrivateCounts(NOISY[::-1], rho=1.0, labels=LABELS).save(path, overwrite=True)
        return read(*given, **named)

    monkeypatch.setattr(release_on_disk, "read_release", replaced_before)
    with pytest.raises(ReleaseFileError, match="expected the release that the fit was begun with"):
        seen.read()


def changed(path, change):
    """The release says something else of itself, with a right checksum."""
    header = read_header((path / "release.json").read_bytes())
    change(header["pieces"])
    (path / "release.json").write_bytes(sign_header(header))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda pieces: pieces.pop(), "expected the pieces of"),
        (lambda pieces: pieces.reverse(), "one after the other"),
        (lambda pieces: pieces[0].pop(0), "one after the other"),
        (lambda pieces: pieces[0].append({"groups": [2, 3], "cells": [-1, 2], "sha256": ""}), "with their"),
        (lambda pieces: pieces[0][0]["cells"].__setitem__(0, 2), "that its checksum covers"),
        (lambda pieces: pieces[0][0].update(sha256="0" * 64), "that its checksum covers"),
        (
            lambda pieces: pieces[0].__setitem__(slice(None), [{**pieces[0][0], "groups": [0, 9]}]),
            "groups of rows",
        ),
        # Cells that only those would see who read all of it.
        (lambda pieces: pieces[0].pop(), "expected 1 groups of rows, got 2"),
        (lambda pieces: pieces[0].clear(), "expected 0 groups of rows, got 2"),
        (lambda pieces: pieces[-2][-1].update(cells=[240, 241]), "one after the other"),
    ],
)
def test_pieces_that_are_not_those_of_the_release(in_parts, change, what):
    changed(in_parts[0], change)
    with pytest.raises(ReleaseFileError, match=what):
        read_rows(in_parts[0], 0, 40)


def test_releases_from_before_there_were_pieces(in_parts):
    path, whole = in_parts
    header = read_header((path / "release.json").read_bytes())
    header.pop("pieces")
    (path / "release.json").write_bytes(sign_header(header))
    assert PrivateCounts._from_contents(read_rows(path, 13, 29)) == row_part(whole, 13, 29)
    assert cv.load_release(path) == whole
    part = sorted((path / "generation-1" / "cells").iterdir())[-2]
    part.write_bytes(b"")  # all of it is read
    with pytest.raises(ReleaseFileError, match=part.name):
        read_rows(path, 13, 29)


def test_rows_that_are_not_there_are_refused(tmp_path):
    path = tmp_path / "release.parquet"
    cv.PrivateCounts(NOISY, rho=1.0).save(path)
    with pytest.raises(ReleaseFileError, match="expected rows among 40, got 30 to 41"):
        read_rows(path, 30, 41)


def test_parts_of_plain_and_combined_counts():
    both = cv.combine_releases(*(cv.simulate_release(np.abs(NOISY), epsilon=1, seed=s) for s in (0, 1)))
    part = row_part(both, 5, 9)
    assert part.shape == (4, 6)
    assert [
        one == row_part(whole, 5, 9) for one, whole in zip(part.releases, both.releases, strict=True)
    ] == [True] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_on_scratch_files_is_the_same(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "CELLS_PER_READ", 20)
    path, whole = tmp_path / "release.parquet", cv.PrivateCounts(NOISY, labels=LABELS, **KINDS[kind])
    whole.save(path)
    mapped, loaded = cv.load_release(path, scratch=tmp_path), cv.load_release(path)
    assert mapped == loaded
    assert mapped.nonpositive.total.tolist() == loaded.nonpositive.total.tolist()
    assert is_mapped(mapped.positive.columns)
    assert is_mapped(mapped.positive.values)
    assert mapped.missing is None or is_mapped(mapped.missing.columns)
    assert [file.name for file in tmp_path.iterdir()] == ["release.parquet"]  # scratch files have no name


def test_large_values_and_no_values_on_scratch_files(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "CELLS_PER_READ", 2)
    values = np.array([[1, 2, 65535, 65536, 3], [0, 0, 0, 0, 2**40]])
    for name, kept in (("large", values), ("none", 0 * values)):
        cv.PrivateCounts(kept, rho=1.0).save(tmp_path / name)
        assert (cv.load_release(tmp_path / name, scratch=tmp_path).to_dense() == kept).all()


def test_a_scratch_folder_that_will_not_do(tmp_path, monkeypatch):
    path = tmp_path / "release.parquet"
    cv.PrivateCounts(NOISY, rho=1.0).save(path)
    with pytest.raises(NotADirectoryError, match="scratch: expected an existing folder"):
        cv.load_release(path, scratch=tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        cv.load_release(tmp_path / "other", scratch=tmp_path)

    def full(self, numbers):
        raise self._failed(OSError(errno.ENOSPC, "No space left on device"))

    monkeypatch.setattr(scratch.ScratchFile, "add", full)
    with pytest.raises(scratch.ScratchError, match="cannot write scratch files: No space left"):
        cv.load_release(path, scratch=tmp_path)
