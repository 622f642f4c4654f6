"""Pieces of a release: some million cells each, with a checksum of its own, which the header lists and signs.

So whoever needs some rows reads and checks the pieces that hold them, and no others. Where the pieces lie (which
groups of a Parquet file) need not be believed: other cells have another checksum. But all groups must be in some
piece: else a stranger's release would have other cells for those who read it in pieces than for those who read it
through. Releases from before there were pieces have to be read through.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from countveil.counts.bounded.room import ReleaseFileError


class Piece(NamedTuple):
    """Groups of rows of one Parquet file, and what is in them."""

    groups: tuple[int, int]  # the first, and the first of the next piece
    cells: tuple[int, int]  # the first position, and the last, in C order
    sha256: str  # of the cells, as ``cells_sha256`` of all

    def has_some_between(self, first: int, end: int) -> bool:
        """Whether positions from ``first`` to before ``end`` may be among its cells.

        >>> piece = Piece((0, 1), (10, 19), "")
        >>> [piece.has_some_between(*cells) for cells in ((0, 10), (0, 11), (19, 30), (20, 30))]
        [False, True, True, False]
        """
        return self.cells[0] < end and self.cells[1] >= first


def describe_pieces(files: list[list[Piece]]) -> list[list[dict[str, Any]]]:
    """For the header: the pieces of every file of cells."""
    return [
        [{"groups": [*one.groups], "cells": [*one.cells], "sha256": one.sha256} for one in pieces]
        for pieces in files
    ]


def read_pieces(told: Any, n_files: int, n_cells: int) -> list[list[Piece]]:
    """What ``describe_pieces`` said; they lie one after the other, in an array of so many cells."""
    if not isinstance(told, list) or len(told) != n_files:
        raise ReleaseFileError(f"expected the pieces of {n_files} files of cells, got others")
    found: list[list[Piece]] = []
    last = -1
    for pieces in told:
        found.append([])
        end = 0
        for one in pieces:
            groups, cells, sha256 = one["groups"], one["cells"], one["sha256"]
            numbers = [*groups, *cells]
            whole = all(type(number) is int and 0 <= number < 2**63 for number in numbers)
            if not whole or len(groups) != 2 or len(cells) != 2 or type(sha256) is not str:
                raise ReleaseFileError("expected pieces with their groups, cells and checksums")
            if not (groups[0] == end < groups[1] and last < cells[0] <= cells[1] < n_cells):
                raise ReleaseFileError("expected pieces one after the other")
            end, last = groups[1], cells[1]
            found[-1].append(Piece((groups[0], groups[1]), (cells[0], cells[1]), sha256))
    return found


def check_all(pieces: list[Piece], n_groups: int) -> None:
    """Refuse a file that has groups of rows in no piece, or pieces that it has not.

    >>> check_all([Piece((0, 2), (0, 9), "")], 2)
    >>> check_all([], 1)
    Traceback (most recent call last):
    ...
    countveil.counts.bounded.room.ReleaseFileError: expected 0 groups of rows, got 1
    """
    expected = pieces[-1].groups[1] if pieces else 0
    if expected != n_groups:
        raise ReleaseFileError(f"expected {expected} groups of rows, got {n_groups}")
