"""The ledger: which releases were made of which data, what they cost together, and a budget that ends them.

A text file beside the data, one JSON object per line, that is only ever added to. A release is entered, and the
entry is on disk, before any of its noise is drawn; it stays charged whatever becomes of it, because who runs
``privatize`` again has looked twice. Every line names the SHA-256 of all bytes before it, so that a line that was
changed or lost is noticed, if others follow. A last line that was cut off belongs to a release whose noise was
never drawn. What releases cost together is in ``accounts``.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from countveil.counts.bounded.within import has_hole
from countveil.counts.files.atomic import lock_file, sync_folder, unlock_file
from countveil.counts.inputs.spellings import coarse_key
from countveil.counts.ledger.accounts import (
    Account,
    accounts_of,
    accounts_table,
    digest_of,
    packed_labels,
    spent_by,
)
from countveil.counts.noise_parameter import check_guarantee
from countveil.privacy import Guarantee
from countveil.privacy.guarantee import shown
from countveil.version import __version__

FORMAT = "countveil ledger"


class LedgerError(ValueError):
    """The ledger is damaged, or what was asked for would exceed its budget: nothing was released.

    >>> issubclass(LedgerError, ValueError)
    True
    """


class Charge(NamedTuple):
    """What a release costs whom: as it is entered before its noise is drawn."""

    dataset: str
    guarantee: Guarantee  # of the row with the largest epsilon/precision
    release: str  # its id
    axes: tuple[str, ...]
    labels: tuple[np.ndarray | None, ...]  # of every axis
    path: Path | None


class Ledger:
    """The ledger in a file, which need not exist yet.

    >>> import tempfile, pathlib
    >>> import countveil as cv
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = cv.Ledger(pathlib.Path(folder) / "study.ledger")
    ...     ledger.set_budget("letters", cv.Guarantee(epsilon=3))
    ...     release = cv.privatize([[3, 0], [1, 2]], epsilon=2, ledger=ledger, dataset="letters")
    ...     print(ledger.accounts()[0].spent, "of", ledger.accounts()[0].budget)
    ...     try:
    ...         cv.privatize([[3, 0], [1, 2]], epsilon=2, ledger=ledger, dataset="letters")
    ...     except cv.LedgerError as error:
    ...         print(error)
    2 of 3
    ledger: expected at most 1 more per count of 'letters' (budget 3, spent 2), got 2; nothing was released
    """

    def __init__(self, path: str | os.PathLike[str] | Ledger) -> None:
        self.path: Path = path.path if isinstance(path, Ledger) else Path(path).absolute()

    def entries(self) -> list[dict[str, Any]]:
        """All entries in their order, checked."""
        _check_link(self.path)
        if not self.path.exists():
            return []
        if not self.path.is_file():
            raise LedgerError(f"ledger: expected a file, got {self.path}, which is something else")
        with self.path.open("rb") as file:
            return list(_entries(_content(file, self.path), self.path))

    def accounts(self) -> list[Account]:
        """What was spent, for every dataset and unit, in the order in which they first appear."""
        return self._accounts(self.entries())

    def _accounts(self, entries: list[dict[str, Any]]) -> list[Account]:
        try:
            return accounts_of(entries)
        except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError) as error:
            raise LedgerError(f"ledger: {self.path} cannot be understood: {error}") from error

    def set_budget(self, dataset: str, guarantee: Guarantee, *, raise_it: bool = False) -> None:
        """From now on refuse what would make all releases together tell more than one with ``guarantee`` would.

        A larger budget than the present one takes ``raise_it=True``; like all else it stays in the file.
        """
        dataset = _name_of(dataset)
        check_guarantee(guarantee)
        with self._opened() as file:
            account = self._account(file, dataset)
            if account is not None and account.spent > guarantee.rate:
                raise LedgerError(
                    f"budget: expected at least what is spent, {account.spent} per count, got {guarantee.rate}"
                )
            if account and account.budget is not None and guarantee.rate > account.budget and not raise_it:
                raise LedgerError(
                    f"budget: expected at most the present one of {account.budget} per count, got "
                    f"{guarantee.rate}; raise_it=True raises it"
                )
            file.append({"what": "budget", "time": _now(), "dataset": dataset, **_numbers(guarantee)})

    def charge(self, charge: Charge) -> None:
        """Enter a release whose noise has not been drawn, or refuse it; on return the entry is on disk."""
        promise, dataset = charge.guarantee, _name_of(charge.dataset)
        with self._opened() as file:
            entry: dict[str, Any] = {
                "what": "release",
                "time": _now(),
                "dataset": dataset,
                **_numbers(promise),
                "release": charge.release,
                "path": None if charge.path is None else str(charge.path.absolute()),
                "countveil": __version__,
                "python": platform.python_version(),
                "columns": digest_of(charge.axes, charge.labels),
                "rows": packed_labels(charge.labels[0]),
            }
            account = self._account(file, dataset)
            after = spent_by((*(account.releases if account else ()), entry))
            budget = account.budget if account else None
            if account and budget is not None and after > budget:
                raise LedgerError(
                    f"ledger: expected at most {budget - account.spent} more per count of {dataset!r} (budget "
                    f"{budget}, spent {account.spent}), got {promise.rate}; nothing was released"
                )
            rows = entry.pop("rows")
            file.append({**entry, "spent": str(after), "rows": rows})

    def close(self, release: str, what: str, replaces: Sequence[str] = ()) -> None:
        """Enter what became of a release: "finished" (and which ones its file replaced) or "aborted"."""
        with self._opened() as file:
            if not any(e["what"] == "release" and e.get("release") == release for e in file.entries):
                raise LedgerError(f"ledger: {self.path} has lost the entry of release {release}")
            replaced = {"replaces": list(replaces)} if replaces else {}
            file.append({"what": what, "time": _now(), "release": release, **replaced})

    def _account(self, file: _Book, dataset: str) -> Account | None:
        key = coarse_key(dataset)
        return next((a for a in self._accounts(file.entries) if coarse_key(a.dataset) == key), None)

    @contextmanager
    def _opened(self) -> Iterator[_Book]:
        """The file, for this process alone."""
        while True:
            with _open(self.path) as file:
                if lock_file(file.fileno(), wait=True) is None:
                    warnings.warn(
                        f"ledger: {self.path} lies where files cannot be locked: let one process at a time release",
                        stacklevel=6,
                    )
                try:
                    if not _is_at(file, self.path):
                        continue  # replaced by another while this one waited: wait for that one
                    book = _Book(file, self.path)
                    yield book
                    if book.has_grown and not _is_at(file, self.path):
                        raise LedgerError(f"ledger: {self.path} was replaced meanwhile; nothing was released")
                    return
                finally:
                    unlock_file(file.fileno())

    def to_dict(self) -> dict[str, Any]:
        """All accounts with their releases, for JSON: numbers are exact, as text."""
        return {
            "format": FORMAT,
            "accounts": [
                {
                    "dataset": account.dataset,
                    "spent": str(account.spent),
                    "budget": None if account.budget is None else str(account.budget),
                    "releases": [
                        {k: v for k, v in one.items() if k not in ("rows", "columns", "key")}
                        | {"n_rows": one["rows"]["number"]}
                        for one in account.releases
                    ],
                }
                for account in self.accounts()
            ],
        }

    def __str__(self) -> str:
        return accounts_table(self.accounts())

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"


#: The first line of every ledger.
HEAD = json.dumps({"what": FORMAT, "version": 1, "before": hashlib.sha256(b"").hexdigest()}).encode() + b"\n"


class _Book:
    """The opened and locked file, and what it says, checked."""

    def __init__(self, file: Any, path: Path) -> None:
        self._file, self._path, self.has_grown = file, path, False
        self._content = _content(file, path)
        if HEAD.startswith(self._content) and self._content != HEAD:  # new, or a crash cut off its first line
            self._write(HEAD[len(self._content) :])
            sync_folder(path.parent)
        self.entries = list(_entries(self._content, path))

    def append(self, entry: dict[str, Any]) -> None:
        """Write one line; on return it is on disk."""
        whole = self._content.rfind(b"\n") + 1
        if _entry(self._content[whole:], hashlib.sha256(self._content[:whole]).hexdigest()) is not None:
            self._write(b"\n")  # which an editor took
        elif whole < len(self._content):  # what a crash cut off was never charged: no noise came of it
            self._file.truncate(whole)
            self._content = self._content[:whole]
        signed = {**entry, "before": hashlib.sha256(self._content).hexdigest()}
        self._write(json.dumps(signed).encode() + b"\n")
        self.has_grown = True

    def _write(self, line: bytes) -> None:
        done = 0
        try:
            while done < len(line):
                done += self._file.write(line[done:])
            os.fsync(self._file.fileno())
        except OSError as error:
            reason = f"ledger: expected to write an entry, got: {error.strerror or error}"
            raise OSError(error.errno, reason, str(self._path)) from error
        self._content += line


def _content(file: Any, path: Path) -> bytes:
    """All of it. A crash may leave a hole at its end, but none that reading would fill memory with."""
    if has_hole(file.fileno()):
        raise LedgerError(f"ledger: expected a ledger, got {path}, which is mostly a hole")
    return file.read()


def _check_link(path: Path) -> None:
    """A link to nothing is no new ledger: what was spent stands in one that cannot be reached now."""
    if path.is_symlink() and not path.exists():
        raise LedgerError(
            f"ledger: expected a ledger behind the link {path}, got nothing (a disk not mounted?)"
        )


def _open(path: Path) -> Any:
    _check_link(path)
    try:
        # Nobody waits for a pipe.
        flags = (
            os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
        )
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise OSError(error.errno, f"ledger: {error.strerror}", str(path)) from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise LedgerError(f"ledger: expected a file, got {path}, which is something else")
    if _is_anybodys(found):
        os.close(descriptor)
        raise LedgerError(f"ledger: expected a file that not everyone may change, got {path} of another user")
    return os.fdopen(descriptor, "r+b", buffering=0)


def _is_anybodys(found: os.stat_result) -> bool:
    """Whether another user has laid it there for everyone to write, as in a folder that all share."""
    return (
        hasattr(os, "geteuid")
        and found.st_uid not in (0, os.geteuid())
        and bool(found.st_mode & stat.S_IWOTH)
    )


def _is_at(file: Any, path: Path) -> bool:
    """Whether the opened file is the one of this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False


@contextmanager
def charged(ledger: Any, charge: Charge | None, replaces: Sequence[str] = ()) -> Iterator[None]:
    """Enter ``charge`` before the noise is drawn inside, and what became of it after; without a ledger nothing."""
    if ledger is None or charge is None:
        yield
        return
    book = Ledger(ledger)
    book.charge(charge)
    try:
        yield
    except BaseException:
        with suppress(OSError, LedgerError):  # it stays charged in any case
            book.close(charge.release, "aborted")
        raise
    try:
        book.close(charge.release, "finished", replaces)
    except (OSError, LedgerError) as error:
        # The release exists and is paid for: it must not be lost over a note.
        warnings.warn(
            f"ledger: the release is made and charged, but that could not be noted: {error}", stacklevel=3
        )


def check_ledger(ledger: Any, dataset: Any) -> None:
    """Both or none."""
    if ledger is None and dataset is not None:
        raise ValueError("dataset: expected ledger=... beside it, got none")
    if ledger is not None:
        if not isinstance(ledger, str | os.PathLike | Ledger):
            raise TypeError(f"ledger: expected the name of a file, got {type(ledger).__name__}")
        _name_of(dataset)


def _name_of(dataset: Any) -> str:
    """The name of an account; spaces around and within do not make another."""
    if not isinstance(dataset, str) or not dataset.strip():
        raise ValueError(
            "dataset: expected a name for the data whose releases add up, such as 'letters of 2025', "
            f"got {shown(dataset)}"
        )
    return " ".join(dataset.split())


def _numbers(guarantee: Guarantee) -> dict[str, str]:
    return {
        "unit": guarantee.unit,
        "epsilon": str(guarantee.epsilon),
        "precision": str(guarantee.precision),
        "slope": str(guarantee.rate),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _entries(content: bytes, path: Path) -> Iterator[dict[str, Any]]:
    """All entries; what is changed, lost or foreign is refused. A last line that was cut off is passed over."""
    if not content.startswith(HEAD):
        if HEAD.startswith(content):
            return  # cut off before anything was entered
        raise LedgerError(f"ledger: expected a ledger of this version of countveil, got {path}")
    digest = hashlib.sha256(HEAD)
    for number, line in enumerate(content[len(HEAD) :].splitlines(keepends=True), 2):
        entry = _entry(line, digest.hexdigest())
        if entry is None:
            if not line.endswith(b"\n"):
                return
            raise LedgerError(
                f"ledger: {path} was changed, in line {number} or before: a copy may still be whole"
            )
        yield entry
        digest.update(line)


def _entry(line: bytes, before: str) -> dict[str, Any] | None:
    """The entry in a line, if it is one that was written after bytes of this hash."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("what"), str):
        return None
    return entry if entry.get("before") == before else None
