"""A release that lies on disk, and is read when somebody asks for its counts: many processes never do."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from countveil.counts.cells.layout import Contents, read_only
from countveil.counts.files.release import check_parquet, read_release
from countveil.counts.files.rows import read_draft, read_rows
from countveil.counts.files.scratch import check_scratch
from countveil.counts.places import Place, place_of, resolved
from countveil.counts.private_counts import PrivateCounts
from countveil.counts.record import Record
from countveil.privacy import Guarantee


class ReleaseOnDisk(PrivateCounts):
    """The release at ``path``, or at an address (``places``); what its header says is known at once.

    ``sha256`` is that of its header, if it must be one that was seen before; ``scratch`` a folder where its cells
    are unpacked, if they are more than memory holds.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     PrivateCounts([[3, -1], [0, 2]], alpha=0.5).save(f"{folder}/r.parquet")
    ...     release = ReleaseOnDisk(f"{folder}/r.parquet")
    ...     release.shape, release.is_unread, release.positive.values.tolist(), release.is_unread
    ((2, 2), True, [3, 2], False)
    """

    __slots__ = ("_draft", "_read", "n_bytes", "path", "scratch", "sha256")
    _draft: Contents
    _read: Contents | None
    path: str
    sha256: str
    scratch: Path | None
    n_bytes: int

    def __init__(
        self,
        path: str | os.PathLike[str] | Place,
        sha256: str | None = None,
        scratch: str | os.PathLike[str] | None = None,
    ) -> None:
        place = resolved(place_of(path))
        folder = None if scratch is None else check_scratch(scratch)
        check_parquet(place)
        header, draft, n_bytes = read_draft(place, sha256)
        for name, value in {
            "path": str(place), "sha256": header.sha256, "scratch": folder, "n_bytes": n_bytes,
            "_draft": draft, "_read": None,
        }.items():  # fmt: skip
            object.__setattr__(self, name, value)

    @property
    def is_unread(self) -> bool:
        """Whether nobody has asked for its counts."""
        return self._read is None

    def read(self) -> ReleaseOnDisk:
        """Itself, with its counts."""
        if self._read is None:
            if self.scratch is None:
                found = read_release(self.path, sha256=self.sha256)
            else:
                found = read_rows(self.path, scratch=self.scratch, sha256=self.sha256)
            self._hold(found)
        return self

    def _hold(self, contents: Contents) -> None:
        read_only(contents)
        object.__setattr__(self, "_read", contents)

    @property
    def _contents(self) -> Contents:  # type: ignore[override]
        self.read()
        assert self._read is not None
        return self._read

    def __reduce__(self) -> tuple:
        """Whoever gets it reads it where it lies."""
        return ReleaseOnDisk, (self.path, self.sha256, self.scratch)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._draft.shape

    @property
    def axes(self) -> tuple[str, ...]:
        return self._draft.axes

    @property
    def labels(self) -> tuple[np.ndarray | None, ...]:
        return self._draft.labels

    @property
    def guarantee(self) -> Guarantee | None:
        return self._draft.guarantee

    @property
    def row_guarantees(self) -> tuple[Guarantee | None, ...] | None:
        return self._draft.row_guarantees

    @property
    def records(self) -> tuple[Record, ...]:
        return self._draft.records

    @property
    def simulated(self) -> bool:
        return self._draft.simulated

    @property
    def rho(self) -> np.ndarray:
        return self._draft.rho

    def __repr__(self) -> str:
        size = " x ".join(str(n) for n in self.shape)
        return f"ReleaseOnDisk({self.path!r}, {size})" if self.is_unread else super().__repr__()
