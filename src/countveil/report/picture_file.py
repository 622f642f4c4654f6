"""Where a picture goes: checked before any work, and complete or not there."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def checked_path(path: str | os.PathLike[str]) -> Path:
    """A name that ends in .png, in a folder that exists."""
    target = Path(path)
    if target.suffix.lower() != ".png":
        raise ValueError(f"path: expected a name that ends in .png, got {target.name!r}")
    if target.is_dir():
        raise IsADirectoryError(f"path: expected a file, got the folder {target}")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path: expected an existing folder, got {target.parent}")
    return target


def write_whole(target: Path, content: bytes) -> None:
    """Write under a temporary name, then rename."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
