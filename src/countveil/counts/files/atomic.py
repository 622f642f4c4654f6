"""Files and folders that are complete or not there: written under a temporary name, then renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing_file(target: Path) -> Iterator[BinaryIO]:
    """A new file beside ``target`` that takes its name once safely on disk, and vanishes on any failure."""
    temporary = _beside(target)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


@contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """The same for a folder. An old one is moved aside first, and comes back if the new one cannot follow."""
    temporary, old = _beside(target), _beside(target)
    try:
        temporary.mkdir()
        yield temporary
        for place in sorted(temporary.rglob("*"), reverse=True):
            _sync_folder(place)  # files and folders alike
        _sync_folder(temporary)
        if target.exists():
            target.rename(old)
        try:
            temporary.rename(target)
        except BaseException:
            if old.exists():
                old.rename(target)
            raise
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where folders can be opened at all (not on Windows)."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
