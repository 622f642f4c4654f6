"""A file of cells, opened: what its pages unpack to is known before any of them is unpacked.

A file on this machine is looked through at once. One at an address is fetched a group of rows at a time, when
somebody wants its cells: it is held, looked through and unpacked, and the next takes its place. So whoever needs
some pieces fetches these, and the end of the file, which says where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from countveil.counts.bounded.pages import HEADER_READ, LARGEST_GROUP, Pages, check_pages
from countveil.counts.bounded.room import AT_LEAST, PER_BYTE, ReleaseFileError
from countveil.counts.places import Place, bytes_in, open_place
from countveil.counts.remote import RemoteFile


def opened(files: Iterable[Place]) -> Iterator[Any]:
    """One Parquet file after the other."""
    import pyarrow.parquet as pq

    for place in files:
        with open_place(place) as source:
            most = AT_LEAST + PER_BYTE * bytes_in(source)
            pages = None
            if isinstance(source, RemoteFile):
                source.hold_footer()
                pages = Pages(source, LARGEST_GROUP)
            elif check_pages(source, LARGEST_GROUP) > most:
                raise too_many(source)
            # Arrow would read far ahead, most of a file at once.
            with pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False) as file:
                yield file if pages is None else FetchedGroups(file, source, pages, most)


def too_many(source: Any) -> ReleaseFileError:
    """Cells, by what their pages say."""
    return ReleaseFileError(f"expected fewer bytes of cells in a file of {bytes_in(source):,}")


class FetchedGroups:
    """What readers ask of a Parquet file, of one whose groups are fetched when they are wanted, each once."""

    def __init__(self, file: Any, source: Any, pages: Pages, most: int) -> None:
        self._file, self._source, self._pages = file, source, pages
        self._room, self._left = most, source.n_bytes
        self.schema_arrow, self.metadata, self.num_row_groups = (
            file.schema_arrow, file.metadata, file.num_row_groups,
        )  # fmt: skip

    def iter_batches(
        self, batch_size: int, row_groups: list[int] | None = None, *, use_threads: bool
    ) -> Iterator[Any]:
        """The cells of these groups, or of all."""
        for group in range(self.num_row_groups) if row_groups is None else row_groups:
            begin, end = self._pages.place(group)
            self._left -= max(0, end - begin)
            if self._left < 0:  # a stranger's may all be the same bytes, to be fetched again and again
                raise ReleaseFileError("expected pages that lie apart")
            self._source.hold(begin, end + HEADER_READ)
            self._room -= self._pages.check(group)
            if self._room < 0:
                raise too_many(self._source)
            yield from self._file.iter_batches(batch_size, row_groups=[group], use_threads=use_threads)
